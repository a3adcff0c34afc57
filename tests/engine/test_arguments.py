"""Arguments are completed, measured, written and redacted once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tools import Hub
from tools_app import engine
from tools_app.catalog import catalog
from tools_app.engine.arguments import Arguments
from tools_app.journal.journal import Journal
from tools_app.journal.notes import CallNotes
from tools_app.models import Call, Source, SourceStatus, ToolRecord
from tools_app.sdk import heavy
from tools_app.sdk.checker import SMALL
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.hints import Hints
from tools_app.text import json_text
from tools_app.text.budget import written


async def takes(text: str = "", options: dict[str, Any] = {}, rows: list[Any] = []) -> str:  # noqa: B006
    """Take anything."""
    return "taken"


TAKES = tool(hints=Hints(read_only=True, open_world=False))(takes)
DEEPEST = json_text.MAX_DEPTH - 1  # beside the arguments themselves


def received(arguments: object) -> Arguments:
    return asyncio.run(Arguments.received("key:1", TAKES.spec, arguments))


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


class Observed(dict[str, Any]):
    """An object that counts which module iterates over it."""

    readers: Counter[str] = Counter()

    def items(self) -> Any:
        self.readers[sys._getframe(1).f_globals["__name__"].removeprefix("tools_app.")] += 1
        return super().items()

    keys = values = items


def test_walks_the_values_once_and_writes_them_once(hub: Hub, alice: Caller) -> None:
    hub.add(TAKES)
    Observed.readers.clear()
    engine.call_sync("takes", {"options": Observed(deep=True)}, alice, door="code")
    # The last one is pydantic's conversion to the types of the function.
    assert Observed.readers == {"sdk.heavy": 1, "json.encoder": 1, "sdk.signatures": 1}


def test_knows_defaults_size_and_payload() -> None:
    arguments = received({"text": "grün"})
    assert arguments.values == {"text": "grün", "options": {}, "rows": []}
    assert arguments.payload == '{"text":"grün","options":{},"rows":[]}'
    assert arguments.size == len(arguments.payload.encode())
    assert not arguments.extent.is_large(SMALL)


@pytest.mark.parametrize("rows", [[], [0] * (SMALL + 1)], ids=["small", "large"])
def test_refuses_what_is_nested_too_deep(rows: list[Any]) -> None:
    assert received({"rows": [*rows, nested(DEEPEST - 1)]}).size
    with pytest.raises(InvalidArgumentsError, match="nested deeper than 64 levels"):
        received({"rows": [*rows, nested(DEEPEST)]})


def test_refuses_what_contains_itself_at_once() -> None:
    line: list[Any] = []
    line.append(line)
    tree: list[Any] = []
    tree += [tree, tree, *range(SMALL)]
    for rows, reason in ((line, "nested deeper than 64 levels"), (tree, "at most 64 levels")):
        with pytest.raises(InvalidArgumentsError, match=reason):
            received({"rows": rows})


@pytest.mark.parametrize("odd", [date(2026, 1, 31), float("nan"), "\ud800", b"x"])
def test_what_is_not_json_is_found_by_the_check(odd: Any) -> None:
    arguments = received({"options": {"at": odd}})
    assert arguments.size == 0
    with pytest.raises(InvalidArgumentsError, match="options"):
        asyncio.run(arguments.check(TAKES.spec))


def test_lists_all_problems_of_a_long_text_and_the_first_of_many_values() -> None:
    for text, rows, number in (("x" * heavy.LARGE_BYTES * 2, [], 2), ("", [0] * SMALL, 1)):
        arguments = received({"text": text, "rows": rows, "a": 1, "b": 1})
        assert arguments.extent.is_large(SMALL)
        with pytest.raises(InvalidArgumentsError) as caught:
            asyncio.run(arguments.check(TAKES.spec))
        assert len(caught.value.problems) == number


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"[]{}\\,ä'), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a[{"', max_size=3), inner, max_size=4),
)


@given(json_values)
def test_the_walk_and_the_text_tell_the_same_depth(value: Any) -> None:
    assert heavy.measured(value, 10_000).depth == json_text.depth(written(value).encode())


def test_names_the_source_of_tools_from_outside(hub: Hub, alice: Caller) -> None:
    hub.add(TAKES)
    engine.call_sync("takes", {}, alice, door="code")
    call = Call.objects.get()
    assert (call.source, call.source_epoch) == ("", 0)
    source = Source.objects.create(name="wiki", prefix="wiki", kind="mcp_http", epoch=3)
    SourceStatus.objects.create(source=source)
    ToolRecord.objects.filter(name="takes").update(source=source)
    entry = catalog.current().find("takes")
    assert entry is not None
    assert entry.source_epoch == 3
    notes = CallNotes(Journal(), "takes", alice, "code", quiet=False)
    notes.resolved(entry)
    assert (notes.call.source, notes.call.source_epoch) == ("wiki", 3)
