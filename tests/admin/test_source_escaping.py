"""What a hostile server says of itself, on every page of its source: a browser sees it as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from tests.admin.outside import make_source
from tests.admin.pages import page, sent
from tests.admin.test_console_attacks import HOSTILE
from tests.admin.test_escaping import harmless
from tests.admin.test_escaping_decisions import handlers
from tests.admin.test_source_tests import home, root
from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tools_app import governance
from tools_app.models import Definition, Source, SourceStatus, ToolRecord
from tools_app.sources import outside, sync

pytestmark = pytest.mark.django_db(transaction=True)

SOURCES = "/admin/tools_app/source/"
__all__ = ["home", "root"]


@pytest.fixture
def server() -> Iterator[McpUpstream]:
    with mcp_upstream.running() as running:
        running.name, running.version = "<xss-probe>", '"><script>probe()</script>'
        running.instructions = "\n".join(HOSTILE)
        running.tools = [poisoned(number, payload) for number, payload in enumerate(HOSTILE)]
        running.prompts = [
            {"name": f"{number} {payload}", "description": payload} for number, payload in enumerate(HOSTILE)
        ]
        running.resources = [{"uri": f"file:///{payload}", "name": payload, "title": payload} for payload in HOSTILE]
        yield running


def poisoned(number: int, payload: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {payload: {"type": "string", "description": payload, "enum": [payload]}}}
    annotations = {"title": payload, "readOnlyHint": payload}
    named = {"name": f"{number} {payload}", "title": payload, "description": payload}
    return {**named, "inputSchema": schema, "annotations": annotations}


def described(source: Source) -> None:
    provider = outside.provider(source.name)
    assert provider is not None
    sync.describe(provider, actor="test")


def check(browser: Client, address: str) -> str:
    shown = harmless(page(browser, address))
    assert not handlers(shown), address
    return shown.text


def test_no_page_of_a_source_turns_what_its_server_says_into_markup(root: Client, server: McpUpstream) -> None:
    source = make_source(location=server.url, internal=True, status={"described_at": None})
    shown = harmless(sent(root, f"{SOURCES}{source.pk}/test/"))
    assert "probe" in shown.text
    assert not handlers(shown)
    described(source)
    own = f"{SOURCES}{source.pk}/change/"
    assert ToolRecord.everything.filter(source=source).count() > 2 * len(HOSTILE)
    for tab in ("", "?tools=waiting", "?tools=all", "?tools=%22%3E%3Cxss-probe%3E"):
        assert "xss-probe" in check(root, f"{own}{tab}"), tab
    check(root, SOURCES)
    check(root, f"{SOURCES}{source.pk}/origin/")
    check(root, f"{SOURCES}{source.pk}/remove/")
    # A change of all of them, so that there is something to compare.
    governance.approve_tools(
        source.name, definitions=Definition.objects.values_list("pk", flat=True), actor=governance.trusted("root")
    )
    server.tools = [{**tool, "description": f"{tool['description']} {tool['title']}"} for tool in server.tools]
    described(source)
    check(root, own)
    for definition in Definition.objects.filter(tool__source=source, approved_at=None)[:40]:
        assert "probe" in check(root, f"/admin/tools_app/definition/{definition.pk}/change/")
    for record in ToolRecord.objects.filter(source=source)[:40]:
        check(root, f"/admin/tools_app/toolrecord/{record.pk}/change/")
    check(root, "/admin/tools_app/definition/")
    check(root, "/admin/")


def test_no_page_turns_what_a_program_writes_into_markup(root: Client, home: object) -> None:
    command = mcp_upstream.command(tools=[mcp_upstream.tool("read")])
    written = "\n".join([*HOSTILE, "\x1b[31m\x1b]0;title\x07 probe \x00\x08"])
    command[2] = f"import sys; sys.stderr.write({written!r} + '\\n'); sys.stderr.flush(); " + command[2]
    source = make_source(command=command, enabled=True)
    harmless(sent(root, f"{SOURCES}{source.pk}/test/"))
    text = check(root, f"{SOURCES}{source.pk}/change/")
    assert "<xss-probe>" in text
    assert not {"\x1b", "\x00", "\x08", "\x07"} & set(text)


def test_no_page_turns_the_reason_of_a_failure_into_markup(root: Client, server: McpUpstream) -> None:
    source = make_source(location=server.url, internal=True, status={"described_at": None})
    server.fail(
        "*", body=b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "\\u001b[31m<xss-probe onfocus=x>"}}'
    )
    shown = harmless(sent(root, f"{SOURCES}{source.pk}/test/"))
    assert not handlers(shown)
    check(root, f"{SOURCES}{source.pk}/change/")
    check(root, SOURCES)
    # Commands write it to a terminal.
    assert "\x1b" not in SourceStatus.objects.get(source=source).error
