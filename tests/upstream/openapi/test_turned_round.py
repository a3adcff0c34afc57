"""A service made from a document gets only what the document allows, and exactly what the caller meant.

Arguments are generated from the input schemas of the tools. `TOOLHUB_TEST_OPENAPI_CALLS` is their number
(`make test-openapi-calls`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema_rs import Draft202012
from schemathesis.generation.jsonschema.builder import build

from tests.support.faultd import Faultd
from tests.upstream.openapi.conftest import CALLER, Service
from tests.upstream.openapi.document import DOCUMENT
from tests.upstream.openapi.strict import Strict
from tools_app.models import Source
from tools_app.sdk.context import Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.operation import Operation
from tools_app.sdk.outside import Origin
from tools_app.sdk.spec import ToolSpec
from tools_app.sources.foreign import described
from tools_app.sources.openapi import listing, read
from tools_app.upstream.upstreams import Upstreams

CALLS = int(os.environ.get("TOOLHUB_TEST_OPENAPI_CALLS", "300"))
ORIGIN = Origin("all", Source.Kind.OPENAPI, 1, location="http://127.0.0.1", internal=True)


def specs() -> Mapping[str, ToolSpec]:
    tools, problems = described(ORIGIN, listing(read(json.dumps(DOCUMENT).encode())), {}, pin_defaults=True)
    assert not problems
    return {tool.spec.name.removeprefix("all_"): tool.spec for tool in tools}


SPECS = specs()
EACH = max(1, CALLS // len(SPECS))
ABSENT = object()


def test_the_document_has_an_operation_of_each_kind() -> None:
    assert len(SPECS) == sum(len(item) for item in DOCUMENT["paths"].values())


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize("name", SPECS)
def test_a_service_gets_only_what_its_document_allows(name: str, faultd: Faultd, loop: asyncio.Runner) -> None:
    spec = SPECS[name]
    operation = Operation.read(spec.runtime["operation"])
    strict = Strict(DOCUMENT, "/no-content")
    origin = Origin("all", Source.Kind.OPENAPI, 1, location=f"{faultd.url}/no-content", internal=True)
    upstreams = Upstreams()
    service = Service(upstreams, origin, faultd)
    counted: Counter[str] = Counter()

    @settings(max_examples=EACH, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(build(dict(spec.input_schema), draft=Draft202012, formats={}))
    def call(generated: Any) -> None:
        arguments = with_files(operation, generated)
        if spec.checker.problems(arguments):
            counted["refused by the schema"] += 1
            return
        faultd.requests.clear()
        try:
            loop.run(run(service, spec, arguments))
        except InvalidArgumentsError:
            counted["refused"] += 1
            assert not faultd.requests
            return
        counted["sent"] += 1
        (seen,) = faultd.requests
        operation_id, received = strict.arguments(seen)
        meant = by_place(operation, arguments)
        assert operation_id == name
        strict.check(name, meant)
        expected = {place: on_the_wire(operation, place, value) for place, value in meant.items()}
        assert received == {place: value for place, value in expected.items() if value is not ABSENT}

    try:
        call()
    finally:
        loop.run(upstreams.aclose())
    print(f"{name}: {dict(counted)}")
    # Refused are values that no request can have.
    assert counted["sent"] > 0.5 * counted.total(), counted


async def run(service: Service, spec: ToolSpec, arguments: Mapping[str, Any]) -> None:
    context = Context("id", spec.name, CALLER, Deadline(30), logging.getLogger("test"))
    runner = service.upstreams.runner(service.origin, spec)

    async def in_thread(work: Any) -> Any:
        return work()

    await runner.run(context, runner.prepared(arguments), in_thread)


def with_files(operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Any text is a file, once it is base64."""
    body = operation.body
    if body is None or body.argument not in arguments:
        return arguments
    value = arguments[body.argument]
    if body.encoding == "binary":
        return {**arguments, body.argument: as_file(value)}
    files = {name for name, part in body.parts.items() if part.get("file")}
    if not files or not isinstance(value, dict):
        return arguments
    changed = {
        name: [as_file(each) for each in one] if isinstance(one, list) else as_file(one)
        for name, one in value.items()
        if name in files
    }
    return {**arguments, body.argument: {**value, **changed}}


def as_file(value: Mapping[str, Any]) -> dict[str, str]:
    text = str(value.get("base64", value.get("path", "")))
    return {"base64": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}


def by_place(operation: Operation, arguments: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    places = {one.argument: (one.place, one.name) for one in operation.parameters} | {"body": ("body", "")}
    if operation.body is None:
        places = {one.argument: (one.place, one.name) for one in operation.parameters}
    return {places[name]: value for name, value in arguments.items()}


def on_the_wire(operation: Operation, place: tuple[str, str], value: Any) -> Any:
    """What a request can express of a value; `ABSENT`, if it can express nothing of it."""
    where, name = place
    if where == "body" and operation.body is not None and operation.body.encoding in ("form", "multipart"):
        # Objects are JSON there, and files have content only.
        fields = {field: one if isinstance(one, dict) else textual(one) for field, one in value.items()}
        return {field: one for field, one in fields.items() if one is not ABSENT}
    is_json = any(one.name == name and one.place == where and one.media_type for one in operation.parameters)
    return value if where == "body" or is_json else textual(value)


def textual(value: Any) -> Any:
    """Only texts, without empty lists and objects."""
    if isinstance(value, list):
        return [one if isinstance(one, dict) else textual(one) for one in value] or ABSENT
    if isinstance(value, dict):
        parts = {name: one for name, part in value.items() if (one := textual(part)) is not ABSENT}
        return parts or ABSENT
    return value if isinstance(value, str) else json.dumps(value)
