#!/bin/sh
# Everything that judges the code without running a test, quickest first; stops at the first that objects.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

# Settings are loaded below: a home of its own and a database of its own keep the operator's out of it.
TOOLHUB_HOME=$(mktemp -d)
trap 'rm -rf "$TOOLHUB_HOME"' EXIT
DATABASE_URL=sqlite:///$TOOLHUB_HOME/lint.sqlite3
export PATH TOOLHUB_HOME DATABASE_URL

step() { echo "lint: $1"; shift; "$@"; }

step "format" ruff format --quiet --check
step "ruff" ruff check --quiet
step "templates" find templates tools_app -name '*.html' -exec djade --target-version 5.2 --check {} +
step "house rules" python scripts/house_rules.py
step "rooms" lint-imports --no-logo
step "budgets" python scripts/budgets.py
step "types" mypy --no-error-summary
step "migrations" python manage.py makemigrations --check --dry-run
step "system checks" python manage.py check --fail-level WARNING
