"""Answers that deviate from what documents declare: what operators are told, and that nothing else changes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.faultd import Faultd, Wire
from tests.support.tools import Hub, eventually
from tools_app import engine, governance, sources
from tools_app.models import AnswerFinding, Call, Definition, SourceDocument, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sources.documents import declared_answers
from tools_app.upstream.openapi import findings

SHELL = governance.trusted("command:ann")
THING = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "owner": {"$ref": "#/components/schemas/Owner"},
        "notes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "kind": {"enum": ["big", "small"]},
        "strict": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
}
GOOD: dict[str, Any] = {"id": 1, "name": "tea", "unknown": ["is", "fine"]}


def answers(*codes: str, schema: Any = None, kind: str = "application/json") -> dict[str, Any]:
    return {code: {"description": "", "content": {kind: {"schema": schema or THING}}} for code in codes}


def operation(name: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"operationId": name, "responses": responses}}


def document(**paths: dict[str, Any]) -> dict[str, Any]:
    paths = paths or {
        "look": answers("200"),
        "sentinel": answers("200", schema={"type": "string"}),
        "range": answers("2XX"),
        "default": answers("201") | answers("default", schema={"type": "string"}),
        "empty": {"204": {"description": ""}},
        "text": answers("200", kind="text/plain"),
        "either": {
            "200": {"description": "", "content": {"application/json": {"schema": THING}, "text/csv": {}}},
        },
        "pattern": answers("200", schema={"type": "string", "pattern": "(?<=a)b"}),
        "silent": {},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {f"/{name}": operation(name, responses) for name, responses in paths.items()},
        "components": {"schemas": {"Owner": {"type": "object", "properties": {"mail": {"type": "string"}}}}},
    }


class Service:
    """A source of a document, all of whose operations are approved, and its service."""

    def __init__(self, server: Faultd, caller: Caller) -> None:
        self.server, self.caller = server, caller
        self.content: Any = GOOD
        self.status, self.kind = "200 OK", "application/json"
        for name in ("look", "sentinel", "range", "default", "empty", "text", "either", "pattern", "silent"):
            server.answer(name, self._answer)
        governance.import_document(
            "shop", text=json.dumps(document()).encode(), location=server.url, internal=True, actor=SHELL
        )
        self.describe()
        waiting = Definition.objects.open().filter(tool__pack="shop")
        governance.approve_definitions([one.pk for one in waiting], actor=SHELL)
        governance.set_enabled(list(ToolRecord.objects.values_list("name", flat=True)), True, actor=SHELL)

    def describe(self) -> None:
        governance.change_source("shop", enabled=True, actor=SHELL)
        sources.current().describe("shop", actor="test")

    async def _answer(self, wire: Wire) -> None:
        is_bytes = isinstance(self.content, bytes)
        await wire.answer(
            self.content if is_bytes else json.dumps(self.content).encode(), status=self.status, kind=self.kind
        )

    def call(self, name: str, content: Any = GOOD, *, status: str = "200 OK", kind: str = "application/json") -> Any:
        self.content, self.status, self.kind = content, status, kind
        return engine.call_sync(f"shop_{name}", {}, self.caller, door="code").answer.value

    def compared(self) -> None:
        """All answers until now are compared: they are in turn."""
        AnswerFinding.objects.filter(operation="GET /sentinel").delete()
        self.call("sentinel", 4711)
        assert eventually(lambda: of("sentinel") is not None)


def of(name: str) -> AnswerFinding | None:
    return AnswerFinding.objects.filter(operation=f"GET /{name}").first()


@pytest.fixture
def service(hub: Hub, alice: Caller, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(findings, "WRITE_SECONDS", 0.0)
    with Faultd() as server:
        yield Service(server, alice)


def difference(service: Service, name: str, content: Any, **answer: str) -> str:
    """What is found about one answer; empty: nothing."""
    service.call(name, content, **answer)
    service.compared()
    finding = of(name)
    return "" if finding is None else finding.difference


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": "secret-value"}, "/id: string instead of integer"),
        ({"id": 1.5}, "/id: number instead of integer"),
        ({"name": None}, "/name: null instead of string"),
        ({"name": "secret-value"}, "/name: string that violates maxLength"),
        ({"tags": ["a", 4711]}, "/tags/*: integer instead of string"),
        ({"owner": {"mail": ["secret-value"]}}, "/owner/mail: array instead of string"),
        ({"notes": {"secret-value": True}}, "/notes/*: boolean instead of integer"),
        ({"kind": "secret-value"}, "/kind: string that violates enum"),
        ({"strict": {"secret-value": 1}}, "/strict: a property that is not declared"),
        ({"size": "secret-value"}, "/size: string that does not match exactly one of the alternatives"),
    ],
)
def test_a_difference_is_told_by_place_and_type_and_has_no_value(
    service: Service, change: dict[str, Any], expected: str
) -> None:
    content = GOOD | change
    assert service.call("look", content) == content
    assert difference(service, "look", content) == expected
    assert Call.objects.filter(tool_name="shop_look", status=Call.Status.FAILED).count() == 0


def test_a_missing_property_is_told(service: Service) -> None:
    assert difference(service, "look", {"id": 1}) == "/: the property name is missing"


def test_what_is_as_declared_is_no_finding(service: Service) -> None:
    assert difference(service, "look", GOOD) == ""
    assert difference(service, "range", GOOD, status="202 Accepted") == ""
    assert difference(service, "default", "text", status="202 Accepted") == ""
    assert difference(service, "empty", b"", status="204 No Content") == ""
    assert difference(service, "text", "text", kind="text/plain") == ""
    assert difference(service, "either", b"a,b", kind="text/csv") == ""


def test_what_cannot_be_checked_or_is_not_declared_is_no_finding(service: Service) -> None:
    assert difference(service, "pattern", 4711) == ""
    assert difference(service, "silent", GOOD, status="202 Accepted") == ""


def test_the_exact_status_comes_first(service: Service) -> None:
    assert difference(service, "default", "text", status="201 Created") == "/: string instead of object"


def test_a_status_that_is_not_declared_is_a_finding(service: Service) -> None:
    assert difference(service, "look", GOOD, status="202 Accepted") == "HTTP 202 is not declared"
    finding = of("look")
    assert finding is not None
    assert finding.status == 202


def test_an_error_is_none(service: Service) -> None:
    with pytest.raises(Exception, match="did not find it|refused"):
        service.call("look", {"message": "no"}, status="404 Not Found")
    service.compared()
    assert of("look") is None


def test_another_media_type_is_a_finding_if_only_json_is_declared(service: Service) -> None:
    assert difference(service, "look", b"tea", kind="text/plain") == "text/plain instead of JSON"
    assert difference(service, "look", b"", status="200 OK") == "no content instead of JSON"
    assert difference(service, "look", b"\1\2", kind="x secret-value") == "another media type instead of JSON"


def test_a_large_answer_is_not_compared(service: Service) -> None:
    large = {"id": "x" * findings.MOST_BYTES}
    assert difference(service, "look", large) == ""


def test_answers_are_counted_by_operation_with_the_latest_difference(service: Service) -> None:
    service.call("look", {"id": 1})
    service.call("look", GOOD | {"id": None})
    service.compared()
    finding = of("look")
    assert finding is not None
    assert (finding.count, finding.difference) == (2, "/id: null instead of integer")
    assert finding.first_at < finding.last_at


def test_a_finding_is_written_at_once_and_then_rarely(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "WRITE_SECONDS", 3600.0)
    for _ in range(3):
        service.call("look", {"id": 1})
    service.compared()
    finding = of("look")
    assert finding is not None
    assert finding.count == 1
    asyncio.run(engine.close(2))
    finding.refresh_from_db()
    assert finding.count == 3


def test_the_number_of_findings_of_a_source_is_limited(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_FINDINGS", 1)
    service.call("range", {"id": 1})
    assert eventually(AnswerFinding.objects.exists)
    service.call("look", {"id": 1})
    service.call("range", {"id": 2})
    assert eventually(lambda: AnswerFinding.objects.get().count == 2)
    assert of("look") is None


def test_a_changed_document_or_selection_clears_findings_and_an_unchanged_one_does_not(service: Service) -> None:
    assert difference(service, "look", {"id": 1}) != ""
    service.describe()
    assert of("look") is not None
    governance.select_operations("shop", ["GET /look", "GET /sentinel"], actor=SHELL)
    service.describe()
    assert of("look") is None
    assert difference(service, "look", {"id": 1}) != ""
    other = document(look=answers("200", schema={"type": "object"}), sentinel=answers("200", schema={"type": "string"}))
    governance.replace_document("shop", text=json.dumps(other).encode(), actor=SHELL)
    service.describe()
    assert of("look") is None


def test_what_was_declared_before_is_no_finding_of_the_new_document(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert difference(service, "look", {"id": 1}) != ""
    SourceDocument.objects.update(answers_of="another")
    AnswerFinding.objects.all().delete()
    assert difference(service, "look", {"id": 1}) != ""
    assert AnswerFinding.objects.filter(operation="GET /look").values_list("count", flat=True)[0] == 1


def test_reconnecting_clears_findings(service: Service) -> None:
    assert difference(service, "look", {"id": 1}) != ""
    governance.reconnect_source("shop", actor=SHELL)
    assert not AnswerFinding.objects.exists()


def test_a_removed_source_leaves_none(service: Service) -> None:
    assert difference(service, "look", {"id": 1}) != ""
    governance.remove_source("shop", actor=SHELL)
    assert not AnswerFinding.objects.exists()


def test_declared_answers_are_no_part_of_definitions_and_of_what_every_process_has(service: Service) -> None:
    record = ToolRecord.objects.get(name="shop_range")
    assert record.definition is not None
    stored = json.dumps([record.runtime, record.definition.body])
    assert "maxLength" not in stored
    packed = SourceDocument.objects.get().answers
    assert packed is not None
    declared = declared_answers(bytes(packed), "GET /range")
    assert declared is not None
    assert declared["2XX"]["schema"]["properties"]["name"] == {"type": "string", "maxLength": 5}
    assert declared_answers(bytes(packed), "GET /elsewhere") is None


def test_a_call_does_not_wait_for_the_comparison(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any) -> Any:
        released.wait(30)
        return read(*args)

    released, read = threading.Event(), findings._read
    monkeypatch.setattr(findings, "_read", slow)
    begun = time.monotonic()
    assert service.call("look", {"id": 1}) == {"id": 1}
    assert time.monotonic() - begun < 20
    released.set()
    assert eventually(lambda: of("look") is not None)
