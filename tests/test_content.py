"""Answers that are more than data."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.tools import Hub, Programmable
from tools_app import engine
from tools_app.sdk.content import Audio, EmbeddedResource, Image, ResourceLink
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import ToolExecutionError
from tools_app.sdk.hints import Hints

DOT = b"\x89PNG dot"
ENCODED = base64.b64encode(DOT).decode()


def answered(hub: Hub, caller: Caller, returned: Any) -> engine.Result:
    held = Programmable("held")
    held.outcomes.append(returned)
    hub.add(held.tool)
    return engine.call_sync("held", {}, caller, door="code")


@pytest.mark.parametrize(
    ("piece", "wire", "words"),
    [
        (Image(DOT), {"type": "image", "data": ENCODED, "mimeType": "image/png"}, "[image/png, 8 bytes]"),
        (Audio(DOT), {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"}, "[audio/wav, 8 bytes]"),
        (
            EmbeddedResource("file:///a.txt", "all of it", "text/plain"),
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "all of it"}},
            "all of it",
        ),
        (
            EmbeddedResource("file:///a.bin", DOT),
            {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": ENCODED}},
            "[file:///a.bin, bytes, 8 bytes]",
        ),
        (
            ResourceLink("https://example.org/a", "a", title="The A", mime_type="text/html", size=0),
            {
                "type": "resource_link",
                "uri": "https://example.org/a",
                "name": "a",
                "title": "The A",
                "mimeType": "text/html",
                "size": 0,
            },
            "[The A: https://example.org/a]",
        ),
    ],
)
def test_is_sent_as_mcp_defines_it_and_described_in_text(
    hub: Hub, alice: Caller, piece: Any, wire: dict[str, Any], words: str
) -> None:
    answer = answered(hub, alice, piece).answer
    assert (answer.value, answer.content, answer.text) == ([wire], [wire], words)
    assert answer.structured is None
    assert answer.size == len(json.dumps([wire], separators=(",", ":")))


def test_can_be_mixed_with_texts(hub: Hub, alice: Caller) -> None:
    answer = answered(hub, alice, ["Look:", Image(DOT)]).answer
    assert [piece["type"] for piece in answer.value] == ["text", "image"]
    assert answer.text == "Look:\n[image/png, 8 bytes]"


def test_hides_nothing_from_people(hub: Hub, alice: Caller) -> None:
    hidden = "seen\u200b\U000e0041"
    given = [hidden, EmbeddedResource("x:y", hidden), EmbeddedResource("x:y", DOT), ResourceLink("x:y", hidden)]
    answer = answered(hub, alice, given).answer
    assert "\u200b" not in json.dumps(answer.value, ensure_ascii=False)
    assert answer.value[2]["resource"]["blob"] == ENCODED
    assert "\U000e0041" not in answer.text


@pytest.mark.parametrize("returned", [[Image(DOT), {"and": "data"}], [1, Image(DOT)], (None, Image(DOT))])
def test_cannot_be_mixed_with_data(hub: Hub, alice: Caller, returned: Any) -> None:
    with pytest.raises(ToolExecutionError, match="held"):
        answered(hub, alice, returned)


def test_is_no_answer_where_another_was_promised(hub: Hub, alice: Caller) -> None:
    promising = Programmable("promising", output_schema={"type": "object", "properties": {"a": {"type": "string"}}})
    promising.outcomes.append(Image(DOT))
    hub.add(promising.tool)
    with pytest.raises(ToolExecutionError):
        engine.call_sync("promising", {}, alice, door="code")


def test_a_tool_that_says_so_promises_no_structured_answer() -> None:
    @tool(hints=Hints(read_only=True))
    def picture() -> Image:
        """Draw."""
        return Image(DOT)

    @tool(hints=Hints(read_only=True))
    def pictures() -> list[Image | str]:
        """Draw more."""
        return [Image(DOT)]

    assert picture.output_schema is None
    assert pictures.output_schema is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Image(b""),
        lambda: Image(DOT, "text/html"),
        lambda: Image(DOT, "image/png\r\nX: y"),
        lambda: Audio(DOT, "image/png"),
        lambda: EmbeddedResource("no scheme", "x"),
        lambda: EmbeddedResource("file:///a b", "x"),
        lambda: EmbeddedResource("file:///a", "x", "text"),
        lambda: ResourceLink("https://example.org", ""),
    ],
)
def test_what_no_client_could_read_is_not_made(wrong: Any) -> None:
    with pytest.raises(ValueError, match="."):
        wrong()
