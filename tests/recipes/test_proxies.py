"""The proxies of docs/operate.md in front of a hub: nginx, HAProxy and Caddy, as Debian ships them."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.recipes.proxies import (
    BEHIND,
    CLIENT,
    NAME,
    PROXIES,
    URL,
    Held,
    Proxy,
    certificate,
    missing,
    recipe,
    running,
)
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import answer
from tests.support.processes import CHECKOUT, Home, key_in
from tests.support.shop import document
from tests.support.tools import eventually
from tools_app.models.tools import MAX_TIMEOUT_MS

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
CHANGED = "notifications/tools/list_changed"
PASSWORD = "a-password-for-the-recipes"
TOOLS = '''
import asyncio
from pathlib import Path
from typing import Any

from toolhub import Context, Hints, tool

@tool(hints=Hints(read_only=True))
async def wait_for(ctx: Context, path: str) -> str:
    """Report progress, then wait until there is such a file."""
    ctx.progress(1, 2)
    while not Path(path).exists():
        await asyncio.sleep(0.02)
    return "there"
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder: Path = tmp_path_factory.mktemp("recipes")
    (folder / "tools").mkdir()
    (folder / "tools" / "waiting.py").write_text(TOOLS)
    made = Home(
        folder / "home",
        {
            **BEHIND,
            "TOOLHUB_TOOLS_DIR": str(folder / "tools"),
            "TOOLHUB_ADMIN_PASSWORD": PASSWORD,
            "TOOLHUB_RATE_CALLS": "0",
            "TOOLHUB_KEY_RATE_CALLS": "0",
            "TOOLHUB_ANONYMOUS_RATE_CALLS": "0",
        },
    )
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return key_in(home.run("addkey", "root", "--scope", "admin:*").stdout)


@pytest.fixture(scope="module")
def hub(home: Home) -> Iterator[Held]:
    held = Held(home)
    yield held
    held.close()


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, hub: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    if reason := missing(request.param, "openssl"):
        pytest.skip(reason)
    with running(request.param, hub.port, certificate(tmp_path_factory.mktemp("tls"))) as started:
        yield started


@pytest.fixture
def impatient(proxy: Proxy, hub: Held) -> Iterator[Proxy]:
    """The same proxy, if it ended what is silent for 20 s."""
    with running(proxy.name, hub.port, proxy.certificate, **{" 150s": " 20s"}) as started:
        yield started


@pytest.fixture
def rest(proxy: Proxy, key: str) -> Iterator[httpx.Client]:
    with proxy.client(headers={"X-API-Key": key}) as client:
        yield client


# ---- streams


@ERAS
def test_events_arrive_before_the_call_ends(proxy: Proxy, key: str, era: str, tmp_path: Path) -> None:
    awaited = tmp_path / "file"
    with proxy.agent(key, era) as agent:
        agent.connect()
        arguments = {"path": str(awaited)}
        call = agent.message(
            "tools/call", {"name": "wait_for", "arguments": arguments, "_meta": {"progressToken": "p"}}
        )
        with agent.stream(call) as messages:
            assert next(messages)["method"] == "notifications/progress"
            awaited.touch()
            assert next(messages)["result"]["content"][0]["text"] == "there"


def test_quiet_streams_outlive_the_timeout_of_the_proxy(impatient: Proxy, key: str, home: Home) -> None:
    """Two pings, 15 s after each other, show that a stream is older than the timeout."""
    with contextlib.ExitStack() as stack:
        streams = []
        for era in (LEGACY, MODERN):
            agent = stack.enter_context(impatient.agent(key, era))
            agent.connect()
            listening = {"notifications": {"toolsListChanged": True}}
            message = agent.message("subscriptions/listen", listening) if era == MODERN else None
            method, body = ("POST", json.dumps(message)) if message else ("GET", None)
            headers = agent.headers(message or {})
            response = stack.enter_context(agent.http.stream(method, "/mcp", content=body, headers=headers))
            assert response.status_code == 200
            streams.append(response.iter_lines())
        for lines in streams:
            for _ in range(2):
                assert next(line for line in lines if line.startswith(":")).startswith(": ping")
        switched = home.python(
            "import django; django.setup()\n"
            "from tools_app.models import ToolRecord\n"
            "one = ToolRecord.objects.get(name='instant_answer')\n"
            "ToolRecord.objects.filter(pk=one.pk).update(enabled=not one.enabled)"
        )
        assert switched.returncode == 0, switched.stderr
        for lines in streams:
            assert CHANGED in next(line for line in lines if line.startswith("data:") and CHANGED in line)


@ERAS
def test_a_restart_of_the_hub_fails_no_request(proxy: Proxy, key: str, era: str, hub: Held) -> None:
    """Systemd holds the socket: requests wait meanwhile. Sessions of the handshake era have to be opened again."""
    failures: list[str] = []
    number = 0
    stop = threading.Event()

    def call() -> None:
        nonlocal number
        with proxy.client(headers={"X-API-Key": key}) as client:
            while not stop.is_set():
                body = {"name": "calculate", "parameters": {"operation": "add", "a": 2, "b": 3}}
                called = client.post("/v1/tools/call", json=body)
                number += 1
                if called.status_code != 200:
                    failures.append(called.text)

    with proxy.agent(key, era) as agent:
        agent.connect()
        caller = threading.Thread(target=call)
        caller.start()
        try:
            hub.restart()
            if era == LEGACY:
                gone = agent.send(agent.message("tools/list"))
                assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
                agent.session = None
                agent.connect()
            assert "calculate" in agent.names()
        finally:
            stop.set()
            caller.join(60)
    assert number
    assert failures == []


# ---- addresses


FORGED = {
    "X-Forwarded-For": "6.6.6.6, 127.0.0.1",
    "X-Real-IP": "6.6.6.6",
    "Forwarded": "for=6.6.6.6;proto=http",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example.org",
}


def test_the_address_of_a_client_is_its_own_whatever_it_claims(proxy: Proxy, rest: httpx.Client) -> None:
    made = rest.post("/v1/keys", json={"name": f"of-{proxy.name}"}, headers=FORGED)
    assert made.status_code == 201, made.text
    (entry,) = rest.get("/v1/audit", params={"action": "key.create", "limit": 1}).json()["entries"]
    assert (entry["subject"], entry["address"]) == (f"key:of-{proxy.name}", CLIENT)
    prefix = f"Wrong{proxy.name[:3]}"
    with proxy.client() as stranger:
        refused = stranger.get("/v1/tools", headers={**FORGED, "X-API-Key": f"thub_{prefix}_of_a_stranger"})
    assert refused.status_code == 401

    def recorded() -> list[tuple[str, str]]:
        calls = rest.get("/v1/calls", params={"code": "AUTHENTICATION_ERROR"}).json()["calls"]
        return [(call["keyPrefix"], call["address"]) for call in calls if call["keyPrefix"] == prefix]

    assert eventually(lambda: recorded() == [(prefix, CLIENT)])


@ERAS
def test_calls_are_recorded_with_the_address_of_the_client(proxy: Proxy, home: Home, key: str, era: str) -> None:
    name = f"caller-{proxy.name}-{era}"
    own = key_in(home.run("addkey", name).stdout)
    with proxy.agent(own, era) as agent, proxy.client(headers={"X-API-Key": own, **FORGED}) as rest:
        agent.http.headers.update(FORGED)
        agent.connect()
        agent.call("echo", message="hi")
        assert rest.post("/v1/tools/echo/call", json={"message": "hi"}).status_code == 200
        calls = rest.get("/v1/calls").json()["calls"]
    assert sorted((call["door"], call["address"]) for call in calls) == [("mcp", CLIENT), ("rest", CLIENT)]


def test_the_runbook_refuses_an_address_in_the_proxy(proxy: Proxy, hub: Held) -> None:
    runbook = (CHECKOUT / "docs/runbook.md").read_text()
    (lines,) = re.findall(rf"^  ```{proxy.name}\n(.*?)^  ```$", runbook, re.DOTALL | re.MULTILINE)
    before = {
        "nginx": "    # The hub refuses",
        "haproxy": "    default_backend",
        "caddy": "\t# The hub refuses",
    }[proxy.name]
    added = {before: f"{lines.replace('203.0.113.9', CLIENT)}\n{before}"}
    with running(proxy.name, hub.port, proxy.certificate, **added) as refusing, refusing.client() as client:
        assert client.get("/health").status_code == 403
    with proxy.client() as client:
        assert client.get("/health").status_code == 200


def test_clients_come_over_https_only(proxy: Proxy) -> None:
    with proxy.client() as client:
        health = client.get("/health")
        assert health.status_code == 200
        assert health.headers["strict-transport-security"].startswith("max-age=31536000")
    if proxy.plain_port is not None:  # Caddy redirects by itself where it may listen on port 80.
        plain = httpx.get(f"http://127.0.0.1:{proxy.plain_port}/admin/", headers={"Host": NAME}, trust_env=False)
        assert (plain.status_code, plain.headers["location"]) == (301, f"{URL}/admin/")


# ---- sizes


def test_uploads_arrive_up_to_the_limit_and_are_refused_beyond_with_the_reason(rest: httpx.Client) -> None:
    def preview(size: int) -> httpx.Response:
        described = json.dumps(document(**{"x-filler": "a" * size}))
        return rest.post("/v1/sources/preview", json={"document": described, "name": "shop"})

    accepted = preview(7_000_000)
    assert accepted.status_code == 200, accepted.text
    refused = preview(9_000_000)
    assert (refused.status_code, refused.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert "at most 8,388,608 bytes" in refused.json()["error"]
    beyond = preview(17_000_000)
    assert (beyond.status_code, beyond.json()["code"]) == (413, "BODY_TOO_LARGE")


@ERAS
def test_large_messages_arrive_and_too_large_ones_are_refused(proxy: Proxy, key: str, era: str) -> None:
    with proxy.agent(key, era) as agent:
        agent.connect()

        def call(size: int) -> httpx.Response:
            return agent.send(agent.message("tools/call", {"name": "nothing", "arguments": {"text": "a" * size}}))

        assert "Unknown tool: nothing" in answer(call(3_500_000))["error"]["message"]
        assert call(4_500_000).status_code == 413


def test_an_upload_without_a_length_is_limited_too(rest: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 50_000

    sent = rest.post("/v1/tools/search", content=chunks(), headers={"Content-Type": "application/json"})
    assert (sent.status_code, sent.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_large_and_compressed_answers_arrive_whole(proxy: Proxy, rest: httpx.Client, hub: Held, key: str) -> None:
    own: dict[str, Any] = {"Host": NAME, "X-Forwarded-Proto": "https", "X-API-Key": key}
    path = "/v1/openapi.json"
    direct = httpx.get(f"{hub.server.url}{path}", headers=own, trust_env=False, timeout=60)
    assert len(direct.content) > 200_000
    assert rest.get(path).content == direct.content
    with proxy.client() as browser:
        page = browser.get("/admin/login/", headers={"Accept-Encoding": "identity"}).text
        (sheet,) = re.findall(r'href="(/static/[^"]+/unfold/css/styles\.css)"', page)
        whole = browser.get(sheet, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in whole.headers
        with browser.stream("GET", sheet, headers={"Accept-Encoding": "gzip"}) as response:
            packed = b"".join(response.iter_raw())
            assert response.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed) == whole.content


# ---- pages


def signed_in(client: httpx.Client) -> str:
    """Sign in; returns the CSRF token."""
    page = client.get("/admin/login/").text
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[0]
    form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token, "next": "/admin/"}
    entered = client.post("/admin/login/", data=form, headers={"Origin": URL, "Referer": f"{URL}/admin/login/"})
    assert entered.status_code == 302, entered.text
    assert {"__Host-toolhub_session", "__Host-toolhub_csrf"} <= set(client.cookies)
    return client.cookies["__Host-toolhub_csrf"]


def test_the_admin_works_and_refuses_forged_requests(proxy: Proxy) -> None:
    with proxy.client() as browser:
        token = signed_in(browser)
        tools = browser.get("/admin/tools_app/toolrecord/")
        assert tools.status_code == 200
        stop = "/v1/stops"
        body = {"kind": "pack", "name": "n8n", "reason": "for the test"}
        for headers in ({"Origin": URL}, {"Origin": "https://evil.example.org", "X-CSRFToken": token}):
            assert browser.post(stop, json=body, headers=headers).status_code == 403
        own = {"Origin": URL, "X-CSRFToken": token}
        made = browser.post(stop, json=body, headers=own)
        assert made.status_code == 200, made.text
        assert [one["name"] for one in made.json()["stops"]] == ["n8n"]
        assert browser.post(f"{stop}/resume", json=body, headers=own).json() == {"stops": []}
        exported = browser.get("/admin/tools_app/auditentry/export/", params={"format": "json"})
        assert exported.json()["rows"][0]["address"] == CLIENT


def test_clients_may_speak_http_2(proxy: Proxy, key: str) -> None:
    if reason := missing("curl"):
        pytest.skip(reason)
    done = subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--http2", "--noproxy", "*", "--interface", CLIENT),
            *("--cacert", str(proxy.certificate.certificate), "--connect-to", f"{NAME}:443:127.0.0.1:{proxy.port}"),
            *("--header", f"X-API-Key: {key}", "--write-out", "\n%{http_version} %{http_code}", f"{URL}/v1/tools"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "2 200"


def test_the_timeouts_of_the_recipes_are_longer_than_any_call() -> None:
    """REST has no pings: a proxy with a shorter timeout would end calls that the hub still runs."""
    timeouts = {
        "nginx.conf": r"proxy_(?:read|send)_timeout (\d+)s;",
        "haproxy.cfg": r"timeout (?:client|server) (\d+)s",
        "Caddyfile": r"read_timeout (\d+)s",
    }
    for name, pattern in timeouts.items():
        found = re.findall(pattern, recipe(name))
        assert found, name
        assert all(int(seconds) * 1000 > MAX_TIMEOUT_MS for seconds in found), name
