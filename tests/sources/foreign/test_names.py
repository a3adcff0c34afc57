"""Names that every client takes, given once."""

from __future__ import annotations

import random
import re

import pytest

from tests.sources.foreign.skeletons import ORIGIN, describe, one, tool
from tools_app.sdk.names import folded
from tools_app.sdk.outside import Listing, Origin
from tools_app.sources.foreign import described

DIGEST = r"[0-9a-f]{8}"


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("find_issues", "tracker_find_issues"),
        ("API-post-page", "tracker_api-post-page"),
        ("tracker_find", "tracker_tracker_find"),
        ("42", "tracker_42"),
        ("issues.find", f"tracker_issues_find_{DIGEST}"),
        ("issues/find", f"tracker_issues_find_{DIGEST}"),
        ("find issues!", f"tracker_find_issues_{DIGEST}"),
        ("課題を探す", f"tracker_{DIGEST}"),
        ("_private", f"tracker_private_{DIGEST}"),
        ("f" * 42, "tracker_" + "f" * 42),
        ("f" * 43, f"tracker_{'f' * 33}_{DIGEST}"),
    ],
)
def test_a_name_is_the_prefix_and_what_is_left_of_the_original(original: str, name: str) -> None:
    spec = one(tool(original)).spec
    assert re.fullmatch(name, spec.name)
    assert len(spec.name) <= 50
    assert spec.key == original


def test_the_longest_prefix_leaves_room() -> None:
    origin = Origin("p" * 16, "mcp_http", 1)
    tools, _ = described(origin, Listing([tool("x" * 200), tool("あ" * 100)]), {}, pin_defaults=True)
    assert [len(made.spec.name) for made in tools] == [50, 25]


def test_two_that_agents_would_confuse_get_different_names() -> None:
    tools, problems = describe(tool("find-issues"), tool("find_issues"), tool("Find_Issues"))
    names = [made.spec.name for made in tools]
    assert problems == []
    assert names[0] == "tracker_find-issues"
    assert re.fullmatch(f"tracker_find_issues_{DIGEST}", names[1])
    assert len({folded(name) for name in names}) == 3


def test_a_name_is_kept_whatever_else_comes() -> None:
    stored = {("tool", "find_issues"): "tracker_find_issues"}
    tools, _ = describe(tool("find-issues"), tool("find_issues"), stored=stored)
    assert re.fullmatch(f"tracker_find-issues_{DIGEST}", tools[0].spec.name)
    assert tools[1].spec.name == "tracker_find_issues"
    # Also of a tool that is not listed now.
    assert one(tool("find-issues"), stored=stored).spec.name == tools[0].spec.name


def test_a_thousand_strange_names_are_unique_and_do_not_depend_on_their_order() -> None:
    chance = random.Random(7)
    originals = {"".join(chance.choices("abAB-_. /あ", k=chance.randint(1, 70))).strip() for _ in range(1_000)} - {""}
    tools = [tool(name) for name in sorted(originals)]
    made, problems = describe(*tools)
    assert problems == []
    assert len({folded(one.spec.name) for one in made}) == len(originals)
    assert all(re.fullmatch(r"tracker_[a-z0-9_-]{1,42}", one.spec.name) for one in made)
    stored = {("tool", one.spec.key): one.spec.name for one in made}
    again, _ = describe(*reversed(tools), stored=stored)
    assert {one.spec.key: one.spec.name for one in again} == {one.spec.key: one.spec.name for one in made}


def test_a_prompt_may_have_the_name_of_a_tool() -> None:
    made, problems = describe(tool("review"), prompts=[{"name": "review"}])
    assert problems == []
    assert [one.spec.label for one in made] == ["tracker_review", "prompt:tracker_review"]


def test_resources_get_uris_of_this_hub() -> None:
    resource = {"uri": "file:///srv/ä b?x=1#y", "name": "Notes"}
    template = {"uriTemplate": "db://{table}/rows/{id}", "name": "Row"}
    (fixed, rows), problems = describe(resources=[resource], templates=[template])
    assert problems == []
    assert fixed.spec.shown_key == "toolhub://tracker/file%3A%2F%2F%2Fsrv%2F%C3%A4%20b%3Fx%3D1%23y"
    assert fixed.spec.key == resource["uri"]
    assert rows.spec.shown_key == "toolhub://tracker/db%3A%2F%2F{table}%2Frows%2F{id}"
    assert rows.spec.input_schema["required"] == ["table", "id"]
    assert fixed.spec.address == f"resource:{fixed.spec.shown_key}"


def test_two_sources_with_the_same_uri_do_not_meet() -> None:
    listing = Listing([], resources=[{"uri": "file:///a", "name": "a"}])
    (mine,), _ = described(ORIGIN, listing, {}, pin_defaults=True)
    (theirs,), _ = described(Origin("wiki", "mcp_http", 1), listing, {}, pin_defaults=True)
    assert mine.spec.address != theirs.spec.address
    assert mine.spec.key == theirs.spec.key


@pytest.mark.parametrize("template", ["file:///{+path}", "x://{a}{b}", "x://{?q}", "x://fixed", "x://{a}/{a}"])
def test_a_template_that_cannot_be_matched_is_a_problem(template: str) -> None:
    tools, problems = describe(templates=[{"uriTemplate": template, "name": "a"}])
    assert tools == []
    assert "its URI template" in problems[0].reason
