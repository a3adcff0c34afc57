# Everything there is to do here has a name; `make` alone lists the names.
# Needed are make, a POSIX shell and Python 3.11 or newer. More on PYTHON and UV: scripts/install.sh.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

BIN := .venv/bin
ARGS :=
COMPILE_LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(ARGS)

.PHONY: help
help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup:  ## install what ToolHub needs into .venv, from requirements.lock
	@scripts/install.sh run

.PHONY: dev
dev:  ## the same with the tools for developing, from requirements-dev.lock
	@scripts/install.sh dev

.PHONY: run
run: setup  ## start ToolHub; ARGS="…" goes to `toolhub serve`
	@exec $(BIN)/python -m toolhub serve $(ARGS)

.PHONY: demo
demo: setup  ## serve a hub with two weeks of invented calls; ARGS="--port 3000"
	@exec $(BIN)/python -m toolhub demo $(ARGS)

.PHONY: screenshots
screenshots: setup-browser  ## take the pictures of docs/screenshots from the demo
	@$(BIN)/python scripts/screenshots.py $(ARGS)

.PHONY: test
test: dev  ## run the tests on every database there is, and hold coverage of core and formatters at 90 %; ARGS="-k name" runs some
	@scripts/test.sh $(ARGS)

.PHONY: test-e2e
test-e2e: dev  ## start hubs as people do, also in a project of others, and go in by all doors: commands, REST, MCP
	@scripts/pytest.sh -q -m e2e -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal tests/e2e tests/embedding tests/upstream/children tests/upgrade tests/soak tests/test_release.py $(ARGS)

.PHONY: test-soak-sources
test-soak-sources: dev  ## start and kill child processes, hubs and supervisors, hundreds of times; nothing may be left (ten minutes)
	@TOOLHUB_TEST_SOAK=5 $(BIN)/python -m pytest -m e2e -q tests/upstream/children/test_soak.py $(ARGS)

.PHONY: test-crash
test-crash: dev  ## kill hubs in the middle of their work, over and over, and compare what they did with what they say
	@scripts/test.sh -m crash tests/faults $(ARGS)

.PHONY: test-faults
test-faults: dev  ## take databases and memory away from running hubs, and give them back
	@scripts/test.sh -m faults tests/faults $(ARGS)

.PHONY: test-upgrade
test-upgrade: dev  ## upgrade a hub of an earlier version (tests/upgrade/BASE) with 100,000 calls; five minutes a database
	@scripts/test.sh -m upgrade tests/upgrade $(ARGS)

.PHONY: test-soak
test-soak: dev  ## upgrade, back up, prune, kill and rotate keys under load; MINUTES=30 for each database
	@TOOLHUB_TEST_SOAK_MINUTES=$${MINUTES:-30} scripts/test.sh -m soak tests/soak $(ARGS)

.PHONY: test-real-redmine
test-real-redmine: dev  ## install, fill and start a real Redmine (Debian, as root), and run its tools on it
	@TOOLHUB_TEST_REDMINE=$$(tests/real/redmine/up.sh | tail -1) $(BIN)/python -m pytest -q tests/real/redmine $(ARGS); \
		status=$$?; tests/real/redmine/down.sh; exit $$status

.PHONY: test-api
test-api: dev  ## let schemathesis ask a real server all that docs/openapi.json allows, and much that it does not
	@TOOLHUB_TEST_API_SECONDS=$${SECONDS_EACH:-600} $(BIN)/python -m pytest -q -s tests/api/test_cases.py $(ARGS)

.PHONY: test-openapi-calls
test-openapi-calls: dev  ## 10,000 generated calls to a service made from an OpenAPI document (two minutes)
	@TOOLHUB_TEST_OPENAPI_CALLS=$${CALLS:-10000} $(BIN)/python -m pytest -q -s tests/upstream/openapi/test_turned_round.py $(ARGS)

.PHONY: test-real-web
test-real-web: dev  ## search with the SearXNG at TOOLHUB_TEST_SEARXNG_URL; says so where none is set
	@$(BIN)/python -m pytest -q -m real_web tests/packs/websearch/test_world.py $(ARGS)

.PHONY: test-live-web
test-live-web: dev  ## search and read on the Internet; says that it was skipped where there is none
	@$(BIN)/python -m pytest -q -m live_web tests/packs/websearch/test_world.py $(ARGS)

.PHONY: test-real-n8n
test-real-n8n: dev  ## try the n8n pack on real ones, of both lines: needs npm, a C++ compiler, 4 GB in TOOLHUB_TEST_N8N_HOME; or on yours: N8N_URL, N8N_API_KEY
	@$(BIN)/python -m pytest -q -m real $(if $(N8N_URL),tests/real/n8n/test_yours.py,tests/real/n8n) $(ARGS)

.PHONY: setup-sources
setup-sources: dev  ## install the MCP servers of tests/real/servers, outside the checkout; needs npm
	@$(BIN)/python scripts/mcp_servers.py

.PHONY: test-sources
test-sources: setup-sources setup-node  ## put them behind a hub: add, approve, call, kill, restart; and run the conformance suite
	@$(BIN)/python -m pytest -q -m real_sources tests/real/servers $(ARGS)

.PHONY: setup-openapi
setup-openapi: dev  ## install OpenAPI documents of others, outside the checkout: 800 MB; needs npm
	@$(BIN)/python scripts/openapi_documents.py

.PHONY: test-openapi
test-openapi: setup-openapi  ## read all of them: each operation is a tool that clients accept, or has a reason (ten minutes)
	@$(BIN)/python -m pytest -q -s -m real_openapi tests/real/openapi $(ARGS)

.PHONY: setup-node
setup-node:  ## fetch the MCP clients that others wrote, and a Node.js that runs them, into tests/node; needs npm
	@scripts/node.sh

.PHONY: test-mcp
test-mcp: dev  ## let them meet a hub: conformance suite, Inspector, SDKs; and very much nonsense
	@scripts/pytest.sh -m mcp -o console_output_style=count -v tests/clients tests/e2e $(ARGS)

.PHONY: setup-browser
setup-browser: setup-node  ## fetch what drives a browser; needs Chromium (Debian: chromium, installed where we are root)
	@scripts/browser.sh

.PHONY: test-browser
test-browser: setup-browser  ## go through the admin with Chromium: every page, every journey, by mouse and by keyboard
	@scripts/pytest.sh -q -m browser tests/browser $(ARGS)

.PHONY: test-recipes
test-recipes: dev  ## run the files of docs/recipes with nginx, HAProxy, Caddy, Prometheus, systemd and logrotate (two minutes)
	@scripts/recipes.sh
	@scripts/pytest.sh -q -m recipes -n $$(($$(getconf _NPROCESSORS_ONLN) + 2)) --dist worksteal tests/recipes $(ARGS)

.PHONY: mutants
mutants: dev  ## break policies, errors, redaction, argument checks and egress a little, and see that the tests notice
	@$(BIN)/python scripts/mutants.py

.PHONY: lint
lint: dev  ## everything of `make check` that runs no test
	@scripts/lint.sh

.PHONY: check
check: lint test  ## what CI runs: lint, then test

.PHONY: fix
fix: dev  ## format, and apply the fixes that change no meaning
	@$(BIN)/ruff check --quiet --fix --exit-zero
	@$(BIN)/ruff format --quiet
	@find templates tools_app -name '*.html' -exec $(BIN)/djade --target-version 5.2 {} + || true
	@$(BIN)/ruff check --quiet

.PHONY: openapi
openapi: dev  ## write docs/openapi.json anew
	@$(BIN)/python manage.py showopenapi >docs/openapi.json.new && mv docs/openapi.json.new docs/openapi.json

.PHONY: settings
settings: dev  ## write .env.example and the tables of docs/settings.md from the table of settings
	@$(BIN)/python scripts/setting_docs.py

.PHONY: messages
messages: dev  ## collect what the admin says into tools_app/locale, compile it, and name what is not translated
	@$(BIN)/python scripts/messages.py

.PHONY: dist
dist: dev  ## build a release into dist/: wheel, source archive, SBOM (CycloneDX), checksums
	@$(BIN)/python scripts/release.py

.PHONY: image
image: dist  ## build the container image `toolhub` with podman, docker or buildah; ARGS="--build-arg BASE=python:3.12-slim"
	@scripts/image.sh $(ARGS)

.PHONY: test-image
test-image: dev  ## build the image with buildah on a Debian made by debootstrap, and start it (root on Debian; ten minutes)
	@$(BIN)/python -m pytest -q -m image tests/recipes/test_image.py $(ARGS)

.PHONY: lock
lock: dev  ## write the lock files from pyproject.toml; ARGS=--upgrade takes newer versions
	@$(COMPILE_LOCK) --extra postgres --extra redis --output-file requirements.lock
	@$(COMPILE_LOCK) --extra postgres --extra redis --extra traces --group dev --constraint requirements.lock --output-file requirements-dev.lock
	@$(COMPILE_LOCK) --extra postgres --extra redis --extra traces --group dev --group browser --constraint requirements-dev.lock --output-file requirements-browser.lock

.PHONY: clean
clean:  ## remove what make and the tools made; never var/, which is the operator's data
	@rm -rf .venv build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache mutants tests/node/node_modules
	@find . -name var -prune -o -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
