"""Which tools need which others, and what becomes of those whose needs are not met."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tools import Hub
from tools_app import governance
from tools_app.catalog import catalog
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.dependencies import Dependency, cycles
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError


def made(name: str, *needs: str, **declared: Any) -> FunctionTool:
    def run() -> str:
        """Do something."""
        return name

    return tool(name=name, dependencies=needs, hints=Hints(read_only=True), **declared)(run)


@pytest.mark.parametrize(
    ("needed", "accepted", "refused"),
    [
        ("a", ["0.0.1", "9.9.9", "", "next"], []),
        ("a ^1.2", ["1.2.0", "1.2", "1.10.0", "1.99.99"], ["1.1.9", "2.0.0", "0.9", "", "next"]),
        ("a ^1.9.0", ["1.10.0"], ["1.8.9"]),
        ("a ^1", ["1.0.0", "1.5"], ["2.0.0", "0.9.9"]),
        ("a ^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0", "1.0.0"]),
        ("a ^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("a ~1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.1"]),
        ("a ~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
        ("a ~1", ["1.9"], ["2.0"]),
        ("a >=1.2", ["1.2", "7.0"], ["1.1.9"]),
        ("a 1.2.3", ["1.2.3", "v1.2.3"], ["1.2.4", "1.2.3.4"]),
        ("a =1.2", ["1.2.0"], ["1.2.1"]),
        ("a? ^2", ["2.1"], ["1.0"]),
    ],
)
def test_ranges_take_these_versions_and_no_others(needed: str, accepted: list[str], refused: list[str]) -> None:
    dependency = Dependency.read(needed)
    assert [version for version in accepted if not dependency.accepts(version)] == []
    assert [version for version in refused if dependency.accepts(version)] == []


@pytest.mark.parametrize("text", ["", "A", "a^1", "a ^", "a ^1.2.3.4", "a ^x", "a  ^1", "a <2", "a ^1 || ^2", "a\n"])
def test_what_is_none_is_refused_where_the_tool_is_made(text: str) -> None:
    with pytest.raises(DefinitionError):
        made("one", text)


@pytest.mark.parametrize(
    ("needs", "found"),
    [
        ({}, []),
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, []),
        ({"a": ["a"]}, [["a", "a"]]),
        ({"a": ["b"], "b": ["a"]}, [["a", "b", "a"]]),
        ({"x": ["b"], "b": ["c"], "c": ["b"]}, [["b", "c", "b"]]),
        ({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}, [["a", "b", "a"], ["c", "d", "c"]]),
    ],
)
def test_circles_are_found(needs: dict[str, list[str]], found: list[list[str]]) -> None:
    assert cycles(needs) == found


def test_a_long_chain_is_no_circle_and_takes_no_recursion() -> None:
    chain = {f"t{number}": [f"t{number + 1}"] for number in range(20_000)}
    assert cycles(chain) == []
    assert len(cycles(chain | {"t20000": ["t0"]})) == 1


@pytest.mark.django_db(transaction=True)
class TestInTheCatalog:
    def reason(self, hub: Hub, name: str) -> str:
        refusal = hub.entry(name).refusal
        return refusal.reason if refusal else ""

    def test_a_tool_whose_need_is_not_there_cannot_be_called(self, hub: Hub) -> None:
        hub.add(made("user", "base ^1.1"), made("careless", "base?"))
        assert self.reason(hub, "user") == "it needs base ^1.1, which does not exist"
        assert self.reason(hub, "careless") == ""
        base = made("base", version="1.0.9")
        hub.add(base)
        assert self.reason(hub, "user") == "it needs base ^1.1, and base has version 1.0.9"

    def test_switching_one_off_takes_those_with_it_that_need_it_and_says_so(self, hub: Hub) -> None:
        hub.add(made("base"), made("middle", "base"), made("top", "middle"), made("aside", "base?"))
        assert governance.consequences(["base"], catalog.current()) == ["middle cannot be called without base"]
        governance.set_enabled(["base"], False, actor=governance.trusted("test"))
        assert self.reason(hub, "middle") == "it needs base: switched off by an operator"
        assert self.reason(hub, "top").startswith("it needs middle: it needs base: switched off")
        assert self.reason(hub, "aside") == ""
        governance.set_enabled(["base"], True, actor=governance.trusted("test"))
        assert [entry.name for entry in catalog.current().callable if entry.source == "code"] == [
            "aside",
            "base",
            "middle",
            "top",
        ]

    def test_tools_that_need_each_other_cannot_be_called(self, hub: Hub) -> None:
        hub.add(made("first", "second"), made("second", "first"), made("third", "second"))
        assert self.reason(hub, "first") == "Circular dependency detected: first → second → first"
        assert self.reason(hub, "third").startswith("it needs second: Circular")

    def test_an_alias_and_the_other_spelling_will_do(self, hub: Hub) -> None:
        hub.add(made("base_tool", aliases=["old"]), made("one", "base-tool"), made("two", "old"))
        assert (self.reason(hub, "one"), self.reason(hub, "two")) == ("", "")
        assert catalog.current().needing(["base_tool"]) == {"base_tool": ["one", "two"]}

    def test_what_is_deprecated_says_so_to_agents(self, hub: Hub) -> None:
        hub.add(made("old", deprecated="use new_one"))
        entry = hub.entry("old")
        assert entry.description == "Do something.\nDeprecated: use new_one"
        assert entry.spec.body["deprecated"] == "use new_one"
