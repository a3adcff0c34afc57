"""What models get wrong in arguments of the shipped tools: each mistake is accepted, or its refusal says what is right.

`data/argument_mistakes.json`: what is sent, and what would have been right (`fixed`). Without a `path`, it is accepted;
with one, the refusal names this place and has the words in `right`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.test_contract import shipped
from tools_app.mcp_server.results import error_result
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.tool import Tool

MISTAKES: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "argument_mistakes.json").read_text()
)
TOOLS: Final = {tool.name: tool for tool in shipped()}


def checked(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a call has them before its digest is taken, its approval asked for and its row written."""
    complete = tool.spec.checker.with_defaults(arguments)
    tool.checked(complete)
    return complete


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one['tool']}: {one['kind']}")
def test_a_mistake_is_accepted_or_can_be_corrected_from_the_refusal(mistake: dict[str, Any]) -> None:
    tool, sent, fixed = TOOLS[mistake["tool"]], mistake["arguments"], mistake["fixed"]
    right = checked(tool, fixed)
    if "path" not in mistake:
        assert checked(tool, sent) == right or mistake["fixed"] == sent
        return
    with pytest.raises(InvalidArgumentsError) as refused:
        checked(tool, sent)
    assert mistake["path"] in {one.path for one in refused.value.details}
    # All that the model reads; a place is named as a path or as steps with dots between them.
    said = "\n".join(piece["text"] for piece in error_result(refused.value)["content"])
    assert mistake["right"] in said
    assert mistake["path"] in said or mistake["path"].lstrip("/").replace("/", ".") in said


def test_the_corpus_has_all_kinds_of_mistakes_and_most_tools() -> None:
    assert len(MISTAKES) >= 150
    assert len({json.dumps([one["tool"], one["arguments"]], sort_keys=True) for one in MISTAKES}) == len(MISTAKES)
    kinds = Counter(one["kind"] for one in MISTAKES)
    for kind in ("number as text", "id as number", "name for id", "camelCase", "snake_case", "extra key", "missing"):
        assert kinds[kind] >= 8, kind
    for kind in ("null for what is optional", "case of an enumeration", "date", "nested: style of a name"):
        assert kinds[kind] >= 3, kind
    assert len({one["tool"] for one in MISTAKES}) >= 30


def test_ids_of_n8n_and_redmine_can_be_sent_as_numbers_and_as_text() -> None:
    accepted = Counter(one["kind"] for one in MISTAKES if "path" not in one)
    refused = [one for one in MISTAKES if one["kind"] in ("id as number", "number as text") and "path" in one]
    assert accepted["id as number"] + accepted["number as text"] >= 20
    for one in refused:
        name = one["path"].lstrip("/")
        assert not name.lower().endswith("id"), f"{one['tool']}: {name}"


def test_other_numbers_and_texts_are_never_converted() -> None:
    calculate = TOOLS["calculate"]
    with pytest.raises(InvalidArgumentsError, match="expected number"):
        checked(calculate, {"operation": "add", "a": "2", "b": 3})
    with pytest.raises(InvalidArgumentsError, match="expected string"):
        checked(TOOLS["echo"], {"message": 5})
