"""Which account a call of a source outside uses: none, the only one, the one that it names; and who may use none."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connections.conftest import called, caller
from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import governance, sources
from tools_app.catalog import available, catalog, offers
from tools_app.governance import probes
from tools_app.governance.connections import unbind
from tools_app.models import AuditEntry, Call, Connection, Definition, ErrorLog, Source, SourceStatus, ToolRecord
from tools_app.sdk.accounts import parameter_of
from tools_app.sdk.errors import AuthorizationError, InvalidArgumentsError, ToolError
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.spec import Kind

ACTOR = governance.trusted("test")
Schema = dict[str, Any]
OWN = mcp_upstream.tool("own", properties={"connection": {"type": "string"}})
OWN["inputSchema"]["required"] = ["connection"]


@pytest.fixture
def server(hub: Hub) -> Iterator[McpUpstream]:
    """A server whose source is described, approved and on."""
    tools = [mcp_upstream.tool("look"), mcp_upstream.tool("write"), OWN]
    with mcp_upstream.running(tools) as upstream:
        upstream.resources = [{"uri": "page://one", "name": "page"}]
        row = Source.objects.create(name="acme", prefix="acme", kind="mcp_http", location=upstream.url, internal=True)
        SourceStatus.objects.create(source=row)
        sources.current().describe("acme", actor="test")
        waiting = Definition.objects.open().filter(tool__pack="acme")
        governance.approve_definitions([one.pk for one in waiting], actor=ACTOR)
        ToolRecord.everything.filter(pack="acme").update(enabled=True)
        # Those of strangers are taken for tools that write.
        ToolRecord.everything.filter(original_name__in=["look", "own"]).update(hint_read_only=True)
        rebuild_catalog()
        upstream.requests.clear()
        yield upstream


def connect(*names: str) -> None:
    for name in names:
        secret = {"X-Key": f"key-of-{name}"}
        governance.create_connection(name, "acme", form="header", secret=secret, actor=ACTOR)


def keys(server: McpUpstream) -> set[str | None]:
    """What was sent as X-Key since the last time."""
    sent = {headers.get("x-key") for _, headers in server.requests}
    server.requests.clear()
    return sent


def why_not(tool: str, by: Any) -> str:
    """Why a call is refused."""
    with pytest.raises(ToolError) as refused:
        called(tool, by=by)
    return f"{refused.value.message}: {refused.value.context.get('reason')}"


def refusal(tool: str, by: Any) -> Refusal:
    entry = catalog.current().seen_by(by).find(tool)
    assert entry is not None
    assert entry.refusal is not None
    return entry.refusal


def test_without_any_connection_it_is_called_without_credentials(server: McpUpstream) -> None:
    called("acme_look", {"text": "x"}, by=caller())
    assert server.calls == [("look", {"text": "x"})]
    assert keys(server) == {None}
    assert Call.objects.get().connection == ""


def test_the_only_connection_is_used_by_those_who_may_and_others_are_refused(server: McpUpstream) -> None:
    connect("ann")
    called("acme_look", by=caller("ann"))
    called("acme_look", by=caller(everything=True))
    assert keys(server) == {"key-of-ann"}
    assert set(Call.objects.values_list("connection", flat=True)) == {"ann"}
    for other in (caller(), caller("bob"), caller("environment", "bob")):
        assert "you may not use any connection to acme" in why_not("acme_look", other)
    assert len(server.calls) == 2
    assert keys(server) == set()


def test_of_several_the_call_names_one(server: McpUpstream) -> None:
    connect("ann", "bob", "eve")
    both = caller("ann", "bob")
    entry = catalog.current().seen_by(both).entries["acme_look"]
    assert entry.input_schema["properties"]["connection"]["enum"] == ["ann", "bob"]
    with pytest.raises(InvalidArgumentsError):
        called("acme_look", by=both)
    with pytest.raises(AuthorizationError):
        called("acme_look", {"connection": "eve"}, by=both)
    assert keys(server) == set()
    for name in ("bob", "ann", "bob"):
        called("acme_look", {"connection": name, "text": name}, by=both)
        assert keys(server) == {f"key-of-{name}"}
    assert server.calls == [("look", {"text": name}) for name in ("bob", "ann", "bob")]


def test_a_tool_keeps_its_own_parameter_of_that_name(server: McpUpstream) -> None:
    (own,) = catalog.current().entries["acme_own"].spec.input_schema["properties"]
    called("acme_own", {own: "its own"}, by=caller())
    connect("ann")
    called("acme_own", {own: "its own"}, by=caller("ann"))
    connect("bob")
    both = caller("ann", "bob")
    schema = catalog.current().seen_by(both).entries["acme_own"].input_schema
    (of_hub,) = schema["properties"].keys() - {own}
    assert schema["required"] == [own, of_hub]
    called("acme_own", {own: "its own", of_hub: "ann"}, by=both)
    with pytest.raises(InvalidArgumentsError) as refused:
        called("acme_own", {own: "ann"}, by=both)
    assert [problem.path for problem in refused.value.details] == [f"/{of_hub}"]
    assert server.calls == [("own", {"connection": "its own"})] * 3


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({}, "connection"),
        ({"properties": {"text": {"properties": {"connection": {}}}}}, "connection"),
        ({"properties": {"connection": {}}}, "hub_connection"),
        ({"required": ["connection"]}, "hub_connection"),
        ({"properties": {"connection": {}, "hub_connection": {}}}, "hub_connection1"),
        ({"anyOf": [{}, {"properties": {"connection": {}}}]}, "hub_connection"),
        ({"if": {}, "then": {"properties": {"connection": {}}}}, "hub_connection"),
        ({"dependentSchemas": {"a": {"properties": {"connection": {}}}}}, "hub_connection"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"properties": {"connection": {}}}}}, "hub_connection"),
        ({"$ref": "#", "allOf": [{"$ref": "#/allOf/0"}]}, "connection"),
        ({"$ref": "https://elsewhere.example/x", "properties": None, "allOf": 5, "required": [3]}, "connection"),
    ],
)
def test_the_parameter_of_the_hub_takes_no_name_of_the_tool(schema: Schema, name: str) -> None:
    assert parameter_of(schema) == name


def test_a_connection_that_cannot_be_used_is_no_reason_to_send_none(server: McpUpstream) -> None:
    connect("ann")
    for change, words in (
        (lambda: governance.change_connection("ann", enabled=False, actor=ACTOR), "the connection ann is disabled"),
        (lambda: governance.change_connection("ann", enabled=True, actor=ACTOR), ""),
        (lambda: governance.stop("connection", "ann", actor=ACTOR), "stopped by an operator"),
        (lambda: governance.resume("connection", "ann", actor=ACTOR), ""),
        (lambda: unbind("acme"), "its secret was deleted: set it again"),
    ):
        change()
        if not words:
            called("acme_look", by=caller("ann"))
            assert keys(server) == {"key-of-ann"}
            continue
        assert words in why_not("acme_look", caller("ann"))
        assert words in refusal("acme_look", caller("ann")).reason
        assert keys(server) == set()


def test_a_secret_does_not_follow_the_address_of_its_source(server: McpUpstream) -> None:
    connect("ann")
    called("acme_look", by=caller("ann"))
    with mcp_upstream.running([mcp_upstream.tool("look")]) as other:
        Source.objects.filter(name="acme").update(location=other.url)
        rebuild_catalog()
        assert "another address of its source" in why_not("acme_look", caller("ann"))
        assert other.requests == []


def test_a_read_only_connection_refuses_what_writes(server: McpUpstream) -> None:
    connect("ann")
    governance.change_connection("ann", read_only=True, actor=ACTOR)
    called("acme_look", by=caller("ann"))
    assert "the connection ann is read-only" in why_not("acme_write", caller("ann"))


def test_a_rotated_secret_is_used_by_the_next_call(server: McpUpstream, tmp_path: Path, settings: Any) -> None:
    settings.TOOLHUB_SECRETS_DIR = tmp_path
    secret = {"X-Key": "v1 ${file:acme}"}
    governance.create_connection("ann", "acme", form="header", secret=secret, actor=ACTOR)
    missing = "the connection ann cannot be used: file:acme cannot be read in TOOLHUB_SECRETS_DIR"
    assert missing in why_not("acme_look", caller("ann"))
    for value in ("canary-one", "canary-two"):
        (tmp_path / "acme").write_text(f"{value}\n")
        for _ in range(2):
            called("acme_look", by=caller("ann"))
            assert keys(server) == {f"v1 {value}"}
    (tmp_path / "acme").unlink()
    assert missing in why_not("acme_look", caller("ann"))
    assert keys(server) == set()


def test_what_the_server_repeats_of_a_secret_is_masked(
    server: McpUpstream, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.TOOLHUB_PAYLOADS = "full"
    governance.create_connection("ann", "acme", form="bearer", secret="canary-T5nQ8xYz", actor=ACTOR)
    for behaviour in ({"result": mcp_upstream.text("canary-T5nQ8xYz")}, {"error": (-32603, "no canary-T5nQ8xYz")}):
        server.behave("look", **behaviour)
        try:
            told = str(called("acme_look", by=caller("ann")))
        except ToolError as error:
            told = str(error.as_dict())
        assert "canary" not in told
    kept = [*Call.objects.values(), *ErrorLog.objects.values(), *AuditEntry.objects.values()]
    assert "canary" not in str(kept) + caplog.text


@pytest.mark.parametrize(
    ("form", "secret"),
    [
        ("header", {"X-Key": "canary-T5nQ8xYz"}),
        ("bearer", "canary-T5nQ8xYz"),
        ("basic", {"user": "ann", "password": "canary-T5nQ8xYz"}),
        ("query", {"key": "canary-T5nQ8xYz"}),
    ],
)
def test_no_form_shows_a_value_anywhere(
    server: McpUpstream, caplog: pytest.LogCaptureFixture, settings: Any, form: str, secret: Any
) -> None:
    settings.TOOLHUB_PAYLOADS = "full"
    caplog.set_level(logging.DEBUG)
    governance.create_connection("ann", "acme", form=form, secret=secret, actor=ACTOR)
    called("acme_look", by=caller("ann"))
    told = []
    faults: tuple[dict[str, Any], ...] = (
        {"status": 500, "body": b"canary-T5nQ8xYz"}, {"status": 401}, {"status": 302}, {"cut_answer": 10},
    )  # fmt: skip
    for fault in faults:
        server.fail(times=0, **fault)
        told.append(why_not("acme_look", caller("ann")))
        told.append(str(probes.test_sync("ann", actor=ACTOR)))
    server.heal()
    Source.objects.filter(name="acme").update(location=server.url.replace(str(server.port), "1"))
    Connection.objects.update(url=Source.objects.get(name="acme").location)
    rebuild_catalog()
    told += [why_not("acme_look", caller("ann")), str(probes.test_sync("ann", actor=ACTOR))]
    rows = (
        *Call.objects.values(),
        *ErrorLog.objects.values(),
        *AuditEntry.objects.values(),
        *Connection.objects.values(),
    )
    everything = "\n".join([*told, *map(str, rows), caplog.text])
    for value in ("canary-T5nQ8xYz", base64.b64encode(b"ann:canary-T5nQ8xYz").decode()):
        assert value not in everything


def test_a_resource_uses_the_only_connection_or_that_of_its_source(server: McpUpstream) -> None:
    def accounts(*names: str) -> list[str] | None:
        view = catalog.current().seen_by(caller(*names))
        (address,) = {entry.spec.address for entry in view.offers.values() if entry.pack == "acme"}
        entry = available.find(view, Kind.RESOURCE, address)
        return None if entry is None else [account.name for account in entry.accounts]

    assert accounts() == []
    connect("ann", "bob")
    rebuild_catalog()
    assert [accounts(), accounts("ann"), accounts("ann", "bob")] == [None, ["ann"], None]
    Source.objects.filter(name="acme").update(connection=Connection.objects.get(name="bob"))
    rebuild_catalog()
    assert [accounts(), accounts("ann"), accounts("ann", "bob")] == [None, ["ann"], ["bob"]]


def test_a_source_with_resources_only_asks_for_a_connection_too(server: McpUpstream) -> None:
    connect("ann")
    ToolRecord.everything.filter(pack="acme", kind=Kind.TOOL).update(retired_at="2026-01-01T00:00:00Z")
    rebuild_catalog()
    for name, number in (("ann", 1), ("bob", 0)):
        entries = offers.of(catalog.current().seen_by(caller(name))).resources.values()
        assert len([entry for entry in entries if entry.pack == "acme"]) == number


def test_testing_it_describes_the_source_through_it(server: McpUpstream) -> None:
    connect("ann")
    result = probes.test_sync("ann", actor=ACTOR)
    assert result.healthy
    assert result.words.startswith("acme listed 3 tools after ")
    assert keys(server) == {"key-of-ann"}
    assert Connection.objects.get().healthy is True
    server.fail(status=401, body=b'{"error": "wrong key key-of-ann"}', times=0)
    result = probes.test_sync("ann", actor=ACTOR)
    assert result.words.startswith("acme cannot be described: ")
    assert "key-of-ann" not in str(result) + Connection.objects.get().health
    server.requests.clear()
    unbind("acme")
    assert "its secret was deleted" in probes.test_sync("ann", actor=ACTOR).words
    assert keys(server) == set()


def test_a_source_is_described_through_its_connection(server: McpUpstream) -> None:
    connect("ann", "bob")
    Source.objects.filter(name="acme").update(connection=Connection.objects.get(name="bob"))
    sources.current().describe("acme", actor="test")
    assert keys(server) == {"key-of-bob"}


def test_a_server_does_not_test_them_at_its_start(server: McpUpstream) -> None:
    connect("ann")
    probes.probe_all()
    assert keys(server) == set()
