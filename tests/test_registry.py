"""Tools by name: one name is one tool in any spelling; a conflict names both places."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tools_app.models.sources import LoadProblem
from tools_app.sdk.decorator import SchemaTool
from tools_app.sdk.pack import Pack
from tools_app.sdk.prompt import prompt
from tools_app.sdk.spec import Kind
from tools_app.sources import registry as registry_module
from tools_app.sources.registry import RegistrationError, Registry


def a_tool(name: str = "echo", place: str = "here.py:1", **declared: Any) -> SchemaTool:
    made = SchemaTool(lambda arguments: arguments, {"type": "object"}, name=name, description="A tool.", **declared)
    made.place = place
    return made


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_gets_what_was_added(registry: Registry) -> None:
    echo = a_tool(pack=Pack("builtin"))
    registry.add(echo)
    loaded = registry.get("echo")
    assert loaded is not None
    assert (loaded.declared, loaded.pack) == (echo, "builtin")
    assert "echo" in registry
    assert len(registry) == 1


def test_getting_what_is_not_there_is_no_error(registry: Registry) -> None:
    assert registry.get("nope") is None
    assert "nope" not in registry
    assert 5 not in registry


def test_a_tool_without_a_pack_belongs_where_it_was_found(registry: Registry) -> None:
    registry.add(a_tool("one"), pack="weather")
    registry.add(a_tool("two", pack=Pack("own")), pack="weather")
    assert {loaded.spec.name: loaded.pack for loaded in registry} == {"one": "weather", "two": "own"}


def test_lists_in_the_order_of_names(registry: Registry) -> None:
    for name in ("b", "a-b", "a", "a_c", "z1"):
        registry.add(a_tool(name))
    assert [loaded.spec.name for loaded in registry] == ["a", "a-b", "a_c", "b", "z1"]


def test_a_second_tool_of_a_name_is_refused_with_both_places(registry: Registry) -> None:
    registry.add(a_tool(place="first.py:10"))
    with pytest.raises(RegistrationError) as caught:
        registry.add(a_tool(place="second.py:20"))
    assert str(caught.value) == 'Tool "echo" is already registered'
    assert caught.value.place == "second.py:20"
    assert caught.value.__notes__ == ["The other one is at first.py:10"]
    assert registry.get("echo").declared.place == "first.py:10"  # type: ignore[union-attr]


def test_without_a_place_the_words_are_exactly_the_documents(registry: Registry) -> None:
    registry.add(a_tool(place=""))
    with pytest.raises(RegistrationError, match=r'^Tool "echo" is already registered$'):
        registry.add(a_tool())


@pytest.mark.parametrize(("first", "second"), [("a_b", "a-b"), ("a-b", "a_b"), ("a-b_c", "a_b-c")])
def test_hyphens_and_underscores_make_no_other_name(registry: Registry, first: str, second: str) -> None:
    registry.add(a_tool(first))
    with pytest.raises(RegistrationError, match=f'^Tool "{second}" is already registered'):
        registry.add(a_tool(second))
    assert registry.get(second) is registry.get(first)


class TestAliases:
    def test_find_the_tool_and_are_not_listed(self, registry: Registry) -> None:
        registry.add(a_tool("get_issue", aliases=["show_issue"]))
        assert registry.get("show-issue") is registry.get("get_issue")
        assert [loaded.spec.name for loaded in registry] == ["get_issue"]
        assert len(registry) == 1

    @pytest.mark.parametrize(
        ("name", "aliases", "taken"),
        [
            ("other", ["get-issue"], "get-issue"),
            ("other", ["show_issue"], "show_issue"),
            ("show-issue", [], "show-issue"),
            ("other", ["fine", "show_issue"], "show_issue"),
        ],
    )
    def test_and_names_keep_each_other_out(self, registry: Registry, name: str, aliases: list[str], taken: str) -> None:
        registry.add(a_tool("get_issue", aliases=["show_issue"]))
        with pytest.raises(RegistrationError) as caught:
            registry.add(a_tool(name, aliases=aliases))
        assert str(caught.value) == f'Tool "{taken}" is already registered'
        assert len(registry) == 1
        assert registry.get("fine") is None

    def test_that_say_the_name_again_change_nothing(self, registry: Registry) -> None:
        registry.add(a_tool("a_b", aliases=["a-b", "x", "x"]))
        assert registry.get("x") is registry.get("a_b")

    def test_go_with_their_tool(self, registry: Registry) -> None:
        registry.add(a_tool("get_issue", aliases=["show_issue"]))
        assert registry.remove("get-issue")
        assert registry.get("show_issue") is None
        registry.add(a_tool("show_issue"))


class TestOverwriting:
    def test_replaces_a_tool_of_that_name_with_its_aliases(self, registry: Registry) -> None:
        registry.add(a_tool("get_issue", aliases=["show_issue"]))
        new = a_tool("get-issue", aliases=["find_issue"])
        registry.add(new, overwrite=True)
        assert [loaded.declared for loaded in registry] == [new]
        assert registry.get("show_issue") is None
        assert registry.get("find_issue") is registry.get("get_issue")

    def test_adds_where_there_is_nothing(self, registry: Registry) -> None:
        registry.add(a_tool(), overwrite=True)
        assert len(registry) == 1

    def test_does_not_take_anothers_alias(self, registry: Registry) -> None:
        registry.add(a_tool("get_issue", aliases=["show_issue"]))
        with pytest.raises(RegistrationError, match=r'^Tool "show_issue" is already registered'):
            registry.add(a_tool("show_issue"), overwrite=True)
        assert registry.get("show_issue").spec.name == "get_issue"  # type: ignore[union-attr]

    def test_that_fails_leaves_everything_as_it_was(self, registry: Registry) -> None:
        registry.add(a_tool("one", aliases=["uno"]))
        registry.add(a_tool("two"))
        with pytest.raises(RegistrationError):
            registry.add(a_tool("one", aliases=["two"]), overwrite=True)
        assert registry.get("uno").spec.name == "one"  # type: ignore[union-attr]
        assert len(registry) == 2


def test_removing_says_whether_there_was_something(registry: Registry) -> None:
    registry.add(a_tool())
    assert registry.remove("echo")
    assert not registry.remove("echo")
    assert registry.get("echo") is None


def test_has_room_for_a_known_number_of_tools(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "MAX_TOOLS", 2)
    registry.add(a_tool("one"))
    registry.add(a_tool("two"))
    with pytest.raises(RegistrationError, match=r"^More than 2 tools$"):
        registry.add(a_tool("three"))


def test_can_be_read_while_it_is_changed(registry: Registry) -> None:
    broken: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            names = [loaded.spec.name for loaded in registry]
            if names != sorted(names):
                broken.append("order")
            if (loaded := registry.get("alias_1")) is not None and loaded.spec.name != "tool_1":
                broken.append("alias")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        for number in range(20):
            registry.add(a_tool(f"tool_{number}", aliases=[f"alias_{number}"]))
        for number in range(20):
            registry.remove(f"tool_{number}")
    done.set()
    for reader in readers:
        reader.join()
    assert broken == []


def test_prompts_have_one_name_whatever_the_spelling(registry: Registry) -> None:
    def ask() -> str:
        """Ask something."""
        return "?"

    registry.offer(prompt(name="a_b")(ask))
    with pytest.raises(RegistrationError, match='^Prompt "a-b" is already registered'):
        registry.offer(prompt(name="a-b")(ask))
    assert registry.find(Kind.PROMPT, "a-b") is None
    assert registry.find(Kind.PROMPT, "a_b") is not None


def test_remembers_what_could_not_be_loaded(registry: Registry) -> None:
    problem = LoadProblem("pack/tools.py:3", "SyntaxError: invalid syntax", "echo")
    registry.report(problem)
    registry.problems.clear()
    assert registry.problems == [problem]
    assert str(problem) == "pack/tools.py:3: SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("problem", "kept_out"),
    [
        (LoadProblem("x.py:1", "taken", tool="echo"), True),
        (LoadProblem("x.py:1", "taken", tool="other"), False),
        (LoadProblem("pack/tools.py:3", "SyntaxError"), True),
        (LoadProblem("pack/tools.py", "gone"), True),
        (LoadProblem("pack/__init__.py:9", "ImportError"), True),
        (LoadProblem("pack", "ModuleNotFoundError"), True),
        (LoadProblem("pack.tools", "ModuleNotFoundError"), True),
        (LoadProblem("pack.tool", "ModuleNotFoundError"), False),
        (LoadProblem("pack/other.py:3", "SyntaxError"), False),
        (LoadProblem("pac", "ModuleNotFoundError"), False),
    ],
    ids=str,
)
def test_knows_which_problem_keeps_a_tool_out(problem: LoadProblem, kept_out: bool) -> None:
    assert problem.keeps_out("echo", "pack/tools.py:20") is kept_out
