"""Parts of an answer, each in its place, by paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.answers import SelectionError, selected
from tools_app.answers.filters import chosen

ISSUES = {
    "total": 2,
    "issues": [
        {"id": 1, "subject": "A", "author": {"name": "Ann", "id": 5}, "tags": ["x", "y"]},
        {"id": 2, "subject": "B", "author": None},
    ],
    "by/name": {"a": {"n": 1}, "b": {"n": 2}},
}


@pytest.mark.parametrize(
    ("paths", "part"),
    [
        (["total"], {"total": 2}),
        (["/total"], {"total": 2}),
        (["/issues/*/subject"], {"issues": [{"subject": "A"}, {"subject": "B"}]}),
        (["/issues/*/id", "/issues/*/author/name"], {"issues": [{"id": 1, "author": {"name": "Ann"}}, {"id": 2}]}),
        (["/issues/1/subject", "total"], {"issues": [{"subject": "B"}], "total": 2}),
        (["/issues/*/tags/0"], {"issues": [{"tags": ["x"]}, {}]}),
        (["/by~1name/*/n"], {"by/name": {"a": {"n": 1}, "b": {"n": 2}}}),
        (["/by~1name/b"], {"by/name": {"b": {"n": 2}}}),
        (["/issues", "/issues/*/id"], {"issues": ISSUES["issues"]}),
        ([""], {}),
    ],
)
def test_what_is_selected_stays_in_its_place(paths: list[str], part: dict[str, Any]) -> None:
    chosen_part, missing = selected(ISSUES, paths)
    assert chosen_part == part
    assert [one.path for one in missing] == ([""] if paths == [""] else [])


@pytest.mark.parametrize(
    ("path", "reached", "name", "names"),
    [
        ("/isues/*/id", "", "isues", ["total", "issues", "by/name"]),
        ("/issues/*/title", "/issues/*", "title", ["id", "subject", "author", "tags"]),
        ("/issues/subject", "/issues", "subject", ["*"]),
        ("/issues/9", "/issues", "9", ["*"]),
        ("/total/x", "/total", "x", []),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_leads(path: str, reached: str, name: str, names: list[str]) -> None:
    _, (missing,) = selected(ISSUES, [path])
    assert (missing.path, missing.reached, missing.name) == (path, reached, name)
    assert list(missing.names) == names


@pytest.mark.parametrize("path", ["/items/*/id", "/items/*/a/*/b"])
def test_an_empty_list_and_null_have_nothing_to_say_about_their_members(path: str) -> None:
    assert selected({"items": []}, [path]) == ({"items": []}, [])
    assert selected({"items": None}, [path]) == ({}, [])


@pytest.mark.parametrize("paths", [[], ["/a~2"], ["/" + "x" * 2_000], ["a"] * 33])
def test_what_is_no_path_is_refused(paths: list[str]) -> None:
    with pytest.raises(SelectionError):
        selected({}, paths)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab*/~0"), inner, max_size=4),
    max_leaves=20,
)
steps = st.lists(st.sampled_from(["a", "b", "*", "0", "1", "~0", "~1"]), min_size=1, max_size=4)


@given(json_values, st.lists(steps.map(lambda one: "/" + "/".join(one)), min_size=1, max_size=5))
def test_a_part_is_never_larger_and_every_path_is_found_or_reported(value: Any, paths: list[str]) -> None:
    part, missing = selected(value, paths)
    assert len(json.dumps(part)) <= max(len(json.dumps(value)), 2)
    assert {one.path for one in missing} <= set(paths)


def test_pages_read_the_same_paths() -> None:
    item = {"fields": [{"name": "x"}, {"other": 1}, {"name": "y"}], "by": {"a": {"n": 1}}}
    assert chosen(item, ["/fields/*/name", "/by/*/n", "/fields/*", "/none/*/x"]) == {
        "/fields/*/name": ["x", "y"],
        "/by/*/n": [1],
        "/fields/*": item["fields"],
    }
