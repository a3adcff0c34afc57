"""Pages made of what strangers wrote, and forms that strangers send: nothing runs, and nothing changes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Dialog, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import Desk, desk
from tests.browser.test_every_page import pages
from tests.support.processes import Home, Server

PAYLOADS: Final = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<img/src/onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    '" autofocus onfocus=alert(1) x="',
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href='javascript:alert(1)'><text y=9>x</text></a></svg>",
    "<math><mtext><img src=x onerror=alert(1)></mtext></math>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<form action=//evil.example/><button autofocus>x",
    "<details open ontoggle=alert(1)>",
    "{{ settings.SECRET_KEY }}{% debug %}",
    "${alert(1)}#{alert(1)}{{constructor.constructor('alert(1)')()}}",
    "\u202e\u2066<b>gnp.exe\u2069 \u200b\ufeff",
    "&lt;script&gt;alert(1)&lt;/script&gt;&#x3c;img src=x onerror=alert(1)&#x3e;",
)

# A record of every kind for each of them, past all checks: whatever gets into the database, by whatever way.
STORING: Final = """
import json, secrets, sys
from django.utils import timezone
from tools_app.models import Agent, ApiKey, AuditEntry, Call, Connection, Definition, ErrorGroup, ErrorLog, ErrorNote
from tools_app.models import Process, Stop, Tag, ToolRecord, Toolset

payloads = json.loads(sys.stdin.read())
now = timezone.now()
kept = []

def keep(model, number, **given):
    # Every text of a record, but those that the hub itself chooses from a list of its own.
    for field in model._meta.concrete_fields:
        if field.primary_key or field.is_relation or field.choices or field.name in given:
            continue
        if field.get_internal_type() == "TextField":
            given[field.name] = "\\n".join(payloads[number:] + payloads[:number])
        elif field.get_internal_type() == "CharField":
            given[field.name] = f"{number} {payloads[number]}"[: field.max_length]
    kept.append(model(**given))
    return kept[-1]

process = Process.objects.first()
for number, payload in enumerate(payloads):
    data = {"a": payload, payload: [payload, {"deep": payload}]}
    call = keep(Call, number, id=secrets.token_hex(16), status="failed", door="mcp", started_at=now, finished_at=now,
        duration_ms=1, arguments=data, result=data)
    group = keep(ErrorGroup, number, fingerprint=secrets.token_hex(16), count=1, first_seen_at=now, last_seen_at=now,
        last_call_id=call.id)
    keep(ErrorLog, number, id=secrets.token_hex(16), group=group, call_id=call.id, created_at=now)
    keep(ErrorNote, number, group=group, at=now)
    keep(AuditEntry, number, changes={"reason": [payload, payload], payload: [None, data]})
    keep(Agent, number, id=secrets.token_hex(16), process=process, since=now, seen_at=now)
    keep(Tag, number)
    keep(Toolset, number, packs=[payload], names=[payload], tags=[payload], overrides={})
    keep(ApiKey, number, scopes=["tools:list"], previous_prefix="", previous_hash="")
    keep(Connection, number, pack="n8n", healthy=False, checked_at=now, sealed=b"x")
    record = keep(ToolRecord, number, source_kind="file")
    keep(Definition, number, tool=record, body={"name": payload, "description": payload, "inputSchema": data})
keep(Stop, 0, kind="pack")
for one in kept:
    one.save(force_insert=True)
"""


class Stranger:
    """A site of somebody else, on another origin, that shows whatever it is given."""

    def __init__(self) -> None:
        self.page = ""
        stranger = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = stranger.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://localhost:{self._server.server_port}/"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    one = Stranger()
    yield one
    one.close()


@pytest.fixture(scope="module")
def stuffed(home: Home, server: Server) -> None:
    """Payloads stand in every place where data can stand."""
    done = home.run("shell", "-c", STORING, stdin=json.dumps(PAYLOADS))
    assert done.returncode == 0, done.stderr[-2_000:]


def no_dialogs(one: Desk) -> None:
    def opened(dialog: Dialog) -> None:
        one.troubles.append(f"{one.page.url}: a dialog says {dialog.message}")
        dialog.dismiss()

    one.page.on("dialog", opened)


def injected(one: Desk) -> list[str]:
    """Elements of a page that no template of ours makes."""
    found: list[str] = one.page.evaluate(
        """() => [...document.querySelectorAll('*')].filter(one =>
            (one.tagName === 'SCRIPT' && !(one.src && new URL(one.src).origin === location.origin)) ||
            ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'MATH'].includes(one.tagName) ||
            (one.tagName === 'META' && one.httpEquiv) ||
            [...one.attributes].some(a => /^on/i.test(a.name) || /^\\s*(javascript|data:text)/i.test(a.value) &&
                ['href', 'src', 'action', 'formaction', 'xlink:href'].includes(a.name))
        ).map(one => one.outerHTML.slice(0, 200))"""
    )
    return found


@pytest.mark.usefixtures("stuffed")
def test_nothing_that_strangers_wrote_runs_on_any_page(sit_down: SitDown) -> None:
    one = sit_down()
    no_dialogs(one)
    wrong: dict[str, list[str]] = {}
    for address in pages(one):
        if found := injected(one):
            wrong[address] = found
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.usefixtures("stuffed")
@pytest.mark.parametrize(
    "place", ["toolrecord", "call", "errorlog", "errorgroup", "auditentry", "agent", "toolset", "apikey"]
)
def test_every_payload_stands_on_its_pages_as_text(sit_down: SitDown, place: str) -> None:
    one = sit_down()
    no_dialogs(one)
    # Audit entries are found by how they begin, and stand there newest first.
    page = one.open(f"/admin/tools_app/{place}/{'' if place == 'auditentry' else '?q=alert(1)'}")
    assert injected(one) == []
    rows = page.locator("#result_list tr", has_text="alert(1)").evaluate_all(
        "(them, place) => them.map(one => one.querySelector(`a[href*='/${place}/'][href*='/change/']`).href)", place
    )
    assert len(rows) > 10
    for address in rows[:4]:
        one.open(address)
        assert injected(one) == []
        expect(page.locator("main")).to_contain_text("alert(1)")


def test_nothing_that_a_tool_answers_runs_in_the_console(sit_down: SitDown) -> None:
    one = sit_down()
    no_dialogs(one)
    page = one.open("/admin/tools_app/toolrecord/named/?name=repeat")
    page.get_by_role("link", name="Test tool").click()
    for mode in ("\n".join(PAYLOADS), *PAYLOADS[:3]):
        page.locator("[name=argument-text]").fill(mode)
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("heading", name="Succeeded")).to_be_focused()
        assert injected(one) == []
    one.open("/admin/tools_app/toolrecord/named/?name=break_down")
    page.get_by_role("link", name="Test tool").click()
    page.locator("[name=argument-with_words]").fill("\n".join(PAYLOADS))
    page.keyboard.press("Control+Enter")
    expect(page.locator("#outcome-title .hub-bad")).to_be_visible()
    assert injected(one) == []


# ---- what strangers send


def test_a_form_of_another_site_changes_nothing(sit_down: SitDown, stranger: Stranger, home: Home) -> None:
    one = sit_down()
    page = one.page
    one.open("/admin/tools_app/toolrecord/?q=leave_line")
    address = page.get_by_role("switch", name="leave_line").get_attribute("formaction")
    marker = secrets.token_hex(4)
    call = json.dumps({"name": "leave_line", "parameters": {"line": marker}})
    for target, kind, name, value in (
        (f"{one.url}{address}", "application/x-www-form-urlencoded", "on", "0"),
        (f"{one.url}/v1/tools/call", "text/plain", call[:-1] + ', "x": "', '"}'),
        (f"{one.url}/mcp", "text/plain", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "x": "', '"}'),
        (f"{one.url}/admin/tools_app/stop/switch/", "application/x-www-form-urlencoded", "kind", "hub"),
    ):
        stranger.page = (
            f"<form method=post enctype='{kind}' action='{target}'>"
            f"<textarea name='{name.replace(chr(39), '&#39;')}'>{value}</textarea><button>Win</button></form>"
        )
        page.goto(stranger.url)
        with page.expect_response(target) as refused:
            page.get_by_role("button", name="Win").click()
        assert refused.value.status in {400, 401, 403, 415}, (target, refused.value.status)
    one.open("/admin/tools_app/toolrecord/?q=leave_line")
    expect(page.get_by_role("switch", name="leave_line")).to_have_attribute("aria-checked", "true")
    expect(page.get_by_text("The hub is stopped.")).to_have_count(0)
    lines = home.path / "lines.txt"
    assert not lines.exists() or marker not in lines.read_text()
    one.troubles.clear()


def test_no_address_does_anything_when_it_is_only_opened(sit_down: SitDown, home: Home) -> None:
    one = sit_down()
    page = one.page
    one.open("/admin/tools_app/toolrecord/?q=leave_line")
    address = page.get_by_role("switch", name="leave_line").get_attribute("formaction")
    marker = secrets.token_hex(4)
    for target in (
        f"{address}&on=0" if "?" in str(address) else f"{address}?on=0",
        "/admin/tools_app/stop/switch/?kind=hub&name=&wanted=stop&confirmed=1&reason=x",
        "/admin/logout/",
        f"/v1/tools/leave_line/call?line={marker}",
    ):
        answer = one.context.request.get(one.url + target, max_redirects=0)
        assert answer.status >= 400, (target, answer.status)
    one.open("/admin/tools_app/toolrecord/named/?name=leave_line")
    page.get_by_role("link", name="Test tool").click()
    page.goto(f"{page.url.partition('?')[0]}?arguments=" + json.dumps({"line": marker}) + "&action=run")
    one.open("/admin/tools_app/toolrecord/?q=leave_line")
    expect(page.get_by_role("switch", name="leave_line")).to_have_attribute("aria-checked", "true")
    lines = home.path / "lines.txt"
    assert not lines.exists() or marker not in lines.read_text()


def test_no_page_is_shown_within_another(browser: Browser, server: Server, stranger: Stranger) -> None:
    with desk(browser, server.url) as one:
        addresses = ("/admin/login/", "/health", "/v1/docs")
        stranger.page = "".join(f"<iframe src='{server.url}{address}'></iframe>" for address in addresses)
        one.page.goto(stranger.url)
        frames = [frame for frame in one.page.frames if frame != one.page.main_frame]
        assert len(frames) == len(addresses)
        for frame in frames:
            assert frame.url == "chrome-error://chromewebdata/" or "login" not in frame.content()
            assert frame.locator("input, h1").count() == 0 or frame.url.startswith("chrome-error")
