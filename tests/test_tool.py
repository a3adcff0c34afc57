"""What a tool is: how one is written, what is refused with its place, and what others see of it."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.db import transaction
from pydantic import BaseModel, Field

from tests.support.tools import Hub
from tools_app import engine
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.decorator import FunctionTool, SchemaTool, tool
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError, check_name, folded
from tools_app.sdk.pack import Pack, TextForm
from tools_app.sdk.parameters import ToolParameter
from tools_app.sdk.places import shown_path
from tools_app.sdk.schemas import Schema
from tools_app.sdk.signatures import OrDigits, OrNumber, Says
from tools_app.sdk.tool import Tool

HERE = "tests/test_tool.py"


def made(**declared: Any) -> FunctionTool:
    def echo(message: str, times: int = 1) -> str:
        """Say it again."""
        return message * times

    return tool(**declared)(echo)


GOOD_NAMES = ["test", "fetch-data", "get_execution", "a", "a1", "web_search", "a-b_c-9", "x" * 64]
BAD_NAMES = [
    "A",
    "1a",
    "-a",
    "_a",
    "a.b",
    "a b",
    "a\n",
    "\na",
    "get_Execution",
    "\uff41",
    "\xe9",
    "a/b",
    "a\x00",
    "x" * 65,
]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_taken(name: str) -> None:
    check_name(name)
    assert made(name=name).name == name


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_bad_name_is_refused_in_the_documents_words(name: str) -> None:
    words = (
        "Tool name must start with lowercase letter and contain only lowercase letters, numbers, hyphens, "
        "and underscores (at most 64 characters)"
    )
    for attempt in (lambda: check_name(name), lambda: made(name=name), lambda: made(aliases=[name])):
        with pytest.raises(DefinitionError) as caught:
            attempt()
        assert str(caught.value) == words


@pytest.mark.parametrize("name", ["", " ", "\n", "\t "], ids=ascii)
def test_a_blank_name_is_refused_in_the_documents_words(name: str) -> None:
    with pytest.raises(DefinitionError, match=r"^Tool name is required$"):
        check_name(name)
    with pytest.raises(DefinitionError, match=r"^Tool name is required$"):
        SchemaTool(lambda arguments: None, {"type": "object"}, name=name, description="x")


@pytest.mark.parametrize("description", ["", " ", "\n\t"], ids=ascii)
def test_a_blank_description_is_refused_in_the_documents_words(description: str) -> None:
    with pytest.raises(DefinitionError, match=r"^Tool description is required$"):
        SchemaTool(lambda arguments: None, {"type": "object"}, name="x", description=description)


def test_hyphens_and_underscores_make_no_difference() -> None:
    assert folded("a-b_c") == folded("a_b-c") == "a_b_c"
    assert made(name="get-it").spec.folded_name == "get_it"


class TestFunctions:
    def test_become_tools_by_their_name_docstring_and_signature(self) -> None:
        @tool
        async def weather(city: Annotated[str, "Where"], days: int = 3) -> str:
            """Tell the weather.

            In one line.
            """
            return f"{city} {days}"

        assert (weather.name, weather.description) == ("weather", "Tell the weather.\n\nIn one line.")
        assert weather.input_schema == {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where"},
                "days": {"type": "integer", "default": 3},
            },
            "required": ["city"],
            "additionalProperties": False,
        }
        assert not weather.blocking

    def test_can_still_be_called_as_functions(self) -> None:
        assert made()("ab", 2) == made()("ab", times=2) == "abab"

    def test_are_run_with_their_context_where_they_ask_for_one(self) -> None:
        @tool
        def who(about: Context, greeting: str) -> str:
            """Greet."""
            return f"{greeting} {about.caller.name}"

        assert list(who.input_schema["properties"]) == ["greeting"]
        assert who.run(a_context(), {"greeting": "Hello"}) == "Hello Ann"

    def test_are_distinguished_from_coroutines(self) -> None:
        async def sleeps() -> None:
            """Sleep."""

        assert made().blocking
        assert not tool(sleeps).blocking

    def test_know_their_source_location(self) -> None:
        line = inspect.getsourcelines(made)[1] + 1
        assert made().place == f"{HERE}:{line}"
        assert repr(made()) == f"<Tool echo at {HERE}:{line}>"

    @pytest.mark.parametrize(
        ("declared", "reason"),
        [
            ({"tags": "n8n"}, "echo: tags must be a list of names"),
            ({"tags": ["a", ""]}, "echo: tags must be a list of names"),
            ({"aliases": "echoo"}, "echo: aliases must be a list of names"),
            ({"dependencies": [1]}, "echo: dependencies must be a list of names"),
            ({"output_schema": {"type": "string"}}, 'echo: output schema: the root must be "type": "object"'),
            ({"examples": [Example("Bad", {"message": 1})]}, "echo: example 'Bad': Invalid type for parameter message"),
            ({"examples": [Example("Bad", {})]}, "echo: example 'Bad': Required parameter missing: message"),
            ({"examples": [Example("Bad", {"message": "x"}, object())]}, "echo: its definition cannot be expressed"),
            ({"description": "\ud800"}, "echo: its definition cannot be expressed as JSON"),
        ],
    )
    def test_declared_wrongly_are_refused_with_their_place(self, declared: dict[str, Any], reason: str) -> None:
        with pytest.raises(DefinitionError) as caught:
            made(**declared)
        assert str(caught.value).startswith(reason)
        assert caught.value.place.startswith(f"{HERE}:")

    def test_that_yield_are_refused(self) -> None:
        def one() -> Iterator[int]:
            """Yield."""
            yield 1

        async def other() -> AsyncIterator[int]:
            """Yield."""
            yield 1

        for function in (one, other):
            with pytest.raises(DefinitionError, match="it must return its answer, not yield it"):
                tool(function)

    def test_whose_annotations_cannot_be_expressed_are_refused_with_their_place(self) -> None:
        def bad(thing: Iterator[Any] | Context) -> None:
            """Bad."""

        with pytest.raises(DefinitionError, match=r"^bad: cannot be expressed as JSON Schema") as caught:
            tool(bad)
        assert caught.value.place == f"{HERE}:{bad.__code__.co_firstlineno}"

    def test_with_a_default_that_does_not_fit_are_refused(self) -> None:
        def bad(n: Annotated[int, Field(ge=1)] = 0) -> None:
            """Bad."""

        with pytest.raises(DefinitionError, match=r"^bad: input schema: n: the default is not valid$"):
            tool(bad)

    def test_take_only_declarations_there_are(self) -> None:
        with pytest.raises(TypeError, match=r"tool\(\) has no option nmae"):
            tool(nmae="x")  # type: ignore[call-overload]

    def test_can_declare_tags_as_any_iterable(self) -> None:
        one = made(tags=(name for name in ("b", "a")))
        assert one.tags == ("b", "a")
        assert one.definition()["tags"] == one.definition()["tags"] == ["a", "b"]


class TestShortAnswers:
    def test_add_a_parameter_raw(self) -> None:
        one = made(minimal=len)
        assert one.input_schema["properties"]["raw"]["type"] == "boolean"
        assert one.spec.checker.with_defaults({"message": "x"})["raw"] is False
        assert one.spec.checker.problems({"message": "x", "raw": True}) == []
        assert "raw" not in made().input_schema["properties"]

    def test_take_raw_out_of_the_arguments(self) -> None:
        assert made(minimal=len).checked({"message": "x", "raw": True}) == {"message": "x"}

    def test_need_the_name_for_themselves(self) -> None:
        def tool_with_raw(raw: bool = False) -> str:
            """Bad."""
            return ""

        with pytest.raises(DefinitionError, match="a tool with minimal= may not have a parameter `raw`"):
            tool(minimal=len)(tool_with_raw)
        assert tool(tool_with_raw).checked({"raw": True}) == {"raw": True}

    def test_work_for_tools_described_by_a_bare_schema(self) -> None:
        one = SchemaTool(lambda arguments: None, {"type": "object"}, name="x", description="x", minimal=len)
        assert list(one.input_schema["properties"]) == ["raw"]


class Answer(BaseModel):
    value: int


class TestOutputSchemas:
    def test_come_from_the_return_annotation(self) -> None:
        def count() -> Answer:
            """Count."""
            return Answer(value=1)

        schema = tool(count).output_schema
        assert schema is not None
        assert schema["required"] == ["value"]

    @pytest.mark.parametrize("declared", [{"minimal": dict}, {"done": "Counted"}, {"guidance": "Count on"}])
    def test_are_not_claimed_where_the_answer_is_reshaped(self, declared: dict[str, Any]) -> None:
        def count() -> Answer:
            """Count."""
            return Answer(value=1)

        class Count(Tool):
            """Count."""

            name = "count"
            Arguments = Empty

            def run(self, ctx: Context, arguments: Empty) -> Answer:
                return Answer(value=1)

        for key, value in declared.items():
            setattr(Count, key, staticmethod(value) if callable(value) else value)
        assert tool(**declared)(count).output_schema is None
        assert Count().output_schema is None

    def test_that_are_declared_win(self) -> None:
        own: Schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        one = made(output_schema=own, done="Done")
        assert one.spec.output_checker is not None
        assert not one.spec.output_checker.accepts({"x": 1})


class Empty(BaseModel):
    pass


class Greeting(BaseModel):
    name: Annotated[str, Says("Whom?")]


class Greet(Tool):
    """Greet somebody."""

    name = "greet"
    tags = ("polite",)
    Arguments = Greeting

    async def run(self, ctx: Context, arguments: Greeting) -> str:
        return f"Hello {arguments.name}"


class TestClasses:
    def test_become_tools_like_functions(self) -> None:
        greet = Greet()
        assert (greet.name, greet.description, greet.tags) == ("greet", "Greet somebody.", ("polite",))
        assert not greet.blocking
        assert greet.checked({"name": "Ann"}) == Greeting(name="Ann")
        assert [problem.message for problem in greet.spec.checker.problems({})] == ["Whom?"]
        assert greet.place == f"{HERE}:{inspect.getsourcelines(Greet)[1]}"

    def test_that_lack_something_say_what(self) -> None:
        class Bare(Tool):
            """Bare."""

            name = "bare"

        class Idle(Tool):
            """Idle."""

            name = "idle"
            Arguments = Empty

        class Nameless(Tool):
            """Nameless."""

            Arguments = Empty

            def run(self, ctx: Context, arguments: Empty) -> None: ...

        for kind, reason in (
            (Bare, "Bare has no Arguments"),
            (Idle, "Idle has no run()"),
            (Nameless, "Tool name is required"),
        ):
            with pytest.raises(DefinitionError) as caught:
                kind()
            assert str(caught.value) == reason
            assert caught.value.place.startswith(f"{HERE}:")

    def test_whose_arguments_cannot_be_expressed_are_refused_with_their_place(self) -> None:
        class Odd(Tool):
            """Odd."""

            name = "odd"
            Arguments = Callable[[int], int]

            def run(self, ctx: Context, arguments: Any) -> None: ...

        with pytest.raises(DefinitionError, match=r"^odd: cannot be expressed as JSON Schema: ") as caught:
            Odd()
        assert caught.value.place.startswith(f"{HERE}:")

    def test_can_have_an_unreadable_return_annotation(self) -> None:
        class Strange(Tool):
            """Strange."""

            name = "strange"
            Arguments = Empty

            def run(self, ctx: Context, arguments: Empty) -> Nowhere: ...  # type: ignore[name-defined] # noqa: F821

        assert Strange().output_schema is None


class TestBareSchemas:
    def test_become_tools_whose_function_takes_a_dict(self) -> None:
        schema: Schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
        one = SchemaTool(lambda arguments: arguments["a"] * 2, schema, name="double", description="Double it.")
        assert one.run(a_context(), one.checked({"a": 2})) == 4
        assert one.blocking

    def test_are_copied(self) -> None:
        schema: Schema = {"type": "object", "properties": {}}
        one = SchemaTool(lambda arguments: None, schema, name="x", description="x")
        schema["properties"]["late"] = {}
        assert one.input_schema["properties"] == {}

    @pytest.mark.parametrize("schema", [None, [], "x", {"type": "array"}, {"type": "object", "$ref": "http://x.test"}])
    def test_that_must_not_be_published_are_refused(self, schema: Any) -> None:
        with pytest.raises(DefinitionError, match=r"^x: input schema: "):
            SchemaTool(lambda arguments: None, schema, name="x", description="x")

    def test_nested_without_end_are_refused_at_once(self) -> None:
        deep: Schema = {"type": "object"}
        for _ in range(1_000):
            deep = {"type": "object", "properties": {"x": deep}}
        begun = time.process_time()
        with pytest.raises(DefinitionError, match="nested deeper than 64 levels"):
            SchemaTool(lambda arguments: None, deep, name="x", description="x")
        assert time.process_time() - begun < 2


def test_wrong_arguments_are_refused_with_everything_that_is_wrong() -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        made().checked({"times": "2", "tiems": 3})
    assert [problem.message for problem in caught.value.problems] == [
        "Required parameter missing: message",
        "Invalid type for parameter times: expected number",
        "Unknown parameter: tiems",
    ]


class TestPacks:
    def test_hold_their_tools_and_give_them_a_version(self) -> None:
        pack = Pack("weather", version="2.1.0")

        @pack.tool
        def one() -> None:
            """One."""

        @pack.tool(version="3.0.0", name="two")
        def another() -> None:
            """Two."""

        assert pack.tools == [one, another]
        assert (one.pack, one.effective_version, another.effective_version) == (pack, "2.1.0", "3.0.0")

    def test_hold_classes_too(self) -> None:
        pack = Pack("polite", version="1.2.3")

        @pack.add
        class Bow(Greet):
            name = "bow"
            description = "Bow."

        (bow,) = pack.tools
        assert isinstance(bow, Bow)
        assert (bow.pack, bow.effective_version) == (pack, "1.2.3")
        assert Greet.pack is None

    def test_keep_going_when_a_tool_cannot_be_used(self) -> None:
        pack = Pack("mixed")

        @pack.tool
        def undocumented() -> None: ...

        @pack.add
        class Broken(Tool):
            name = "broken"

        @pack.tool
        def fine() -> None:
            """Fine."""

        assert [tool.name for tool in pack.tools] == ["fine"]
        assert [str(error) for error in pack.broken] == ["Tool description is required", "Broken has no Arguments"]
        assert all(error.place.startswith(f"{HERE}:") for error in pack.broken)

    def test_read_the_variables_that_they_require(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        pack = Pack("weather", requires=["WEATHER_KEY"])
        with pytest.raises(ConfigurationError, match="^WEATHER_KEY is not set$"):
            pack.value("WEATHER_KEY")
        file = tmp_path / "key"
        file.write_text("from a file\n")
        monkeypatch.setenv("WEATHER_KEY_FILE", str(file))
        assert pack.value("WEATHER_KEY") == "from a file"
        file.unlink()
        with pytest.raises(
            ConfigurationError, match="^WEATHER_KEY_FILE: the file has no text or cannot be read$"
        ) as away:
            pack.value("WEATHER_KEY")
        assert str(tmp_path) not in str(away.value.as_dict())
        monkeypatch.setenv("WEATHER_KEY", " direct ")
        with pytest.raises(ConfigurationError, match="not both"):
            pack.value("WEATHER_KEY")
        monkeypatch.delenv("WEATHER_KEY_FILE")
        assert pack.value("WEATHER_KEY") == "direct"

    def test_read_no_other_variable(self) -> None:
        with pytest.raises(ValueError, match="PATH is not in the `requires` of the pack weather"):
            Pack("weather", requires=["WEATHER_KEY"]).value("PATH")

    @pytest.mark.parametrize("name", ["", "A", "a b", "a\n"], ids=ascii)
    def test_are_named_like_tools(self, name: str) -> None:
        with pytest.raises(DefinitionError, match="must have the form of a tool name"):
            Pack(name)


def test_a_tool_alone_has_version_1() -> None:
    assert made().effective_version == "1.0.0"


class TestDefinitions:
    def test_hold_what_others_see(self) -> None:
        one = made(
            title="Echo",
            category="utility",
            tags=["b", "a", "b"],
            author="Ann",
            version="1.1.0",
            hints=Hints(read_only=True),
            examples=[Example("Say hello", {"message": "Hello"}, "Hello"), Example("Nothing more", {"message": ""})],
            aliases=["say"],
            dependencies=["other"],
        )
        assert one.definition() == {
            "name": "echo",
            "title": "Echo",
            "description": "Say it again.",
            "version": "1.1.0",
            "category": "utility",
            "tags": ["a", "b"],
            "author": "Ann",
            "inputSchema": one.input_schema,
            "outputSchema": None,
            "annotations": Hints(read_only=True).as_dict(),
            "examples": [
                {"description": "Say hello", "parameters": {"message": "Hello"}, "expectedResult": "Hello"},
                {"description": "Nothing more", "parameters": {"message": ""}},
            ],
            "aliases": ["say"],
            "dependencies": ["other"],
        }

    def test_have_a_fingerprint_that_changes_with_everything_in_them(self) -> None:
        changes: list[dict[str, Any]] = [
            {},
            {"name": "echo2"},
            {"title": "x"},
            {"description": "x"},
            {"version": "2.0.0"},
            {"category": "x"},
            {"tags": ["x"]},
            {"author": "x"},
            {"hints": Hints(read_only=True)},
            {"examples": [Example("x", {"message": "x"})]},
            {"aliases": ["x"]},
            {"dependencies": ["x"]},
            {"minimal": len},
            {"output_schema": {"type": "object"}},
        ]
        fingerprints = [made(**change).spec.hash for change in changes]
        assert len(set(fingerprints)) == len(changes)
        assert fingerprints[0] == made().spec.hash == made(version="1.0.0").spec.hash

    def test_do_not_reveal_the_location_of_a_tool(self) -> None:
        assert HERE not in json.dumps(made().definition())


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (Hints(), (False, True, False, True)),
        (Hints(read_only=True), (True, False, True, True)),
        (Hints(read_only=True, open_world=False), (True, False, True, False)),
        (Hints(destructive=False), (False, False, False, True)),
        (Hints(idempotent=True), (False, True, True, True)),
        (Hints(read_only=True, idempotent=False), (True, False, False, True)),
    ],
)
def test_hints_assume_the_worst_by_default(hints: Hints, expected: tuple[bool, ...]) -> None:
    assert tuple(hints.as_dict().values()) == expected
    assert list(hints.as_dict()) == ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]


@pytest.mark.parametrize(
    ("hints", "writes", "repeatable"),
    [(Hints(), True, False), (Hints(idempotent=True), True, True), (Hints(read_only=True), False, True)],
)
def test_hints_say_which_calls_are_repeatable(hints: Hints, writes: bool, repeatable: bool) -> None:
    assert (hints.writes, hints.repeatable) == (writes, repeatable)


def test_scopes_decide_what_a_caller_can_do_and_an_administrator_can_do_all() -> None:
    ann = Caller("key", "key:1", "Ann", frozenset({"tools:list"}))
    assert (ann.may("tools:list"), ann.may("tools:execute")) == (True, False)
    assert Caller("user", "user:1", "root", frozenset({"admin:*"})).may("tools:execute")
    assert str(ann) == "key:Ann"


def test_a_context_knows_how_much_time_is_left() -> None:
    assert 0 < a_context(seconds=5).remaining() <= 5
    assert a_context(seconds=-1).remaining() == 0


class TestParameters:
    def test_are_a_flat_view_of_the_schema(self) -> None:
        def search(
            query: Annotated[str, Field(pattern="^a"), "What for"],
            limit: Annotated[int, Field(ge=1, le=100)] = 10,
            kind: Annotated[str, Field(json_schema_extra={"enum": ["a", "b"]})] = "a",
            either: int | str = 5,
        ) -> None:
            """Search."""

        assert [parameter.as_dict() for parameter in ToolParameter.all_of(tool(search).input_schema)] == [
            {"name": "query", "type": "string", "description": "What for", "required": True, "pattern": "^a"},
            {
                "name": "limit",
                "type": "number",
                "description": "",
                "required": False,
                "default": 10,
                "minimum": 1,
                "maximum": 100,
            },
            {
                "name": "kind",
                "type": "string",
                "description": "",
                "required": False,
                "default": "a",
                "enum": ["a", "b"],
            },
            {"name": "either", "type": "object", "description": "", "required": False, "default": 5},
        ]

    def test_become_the_schema_they_describe(self) -> None:
        parameter = ToolParameter("n", "number", "How many", default=0, enum=(0, 1), minimum=0, maximum=1)
        assert parameter.as_schema() == {
            "type": "number",
            "description": "How many",
            "default": 0,
            "enum": [0, 1],
            "minimum": 0,
            "maximum": 1,
        }
        assert ToolParameter("s", "string").as_schema() == {"type": "string"}

    def test_with_a_default_of_false_keep_it(self) -> None:
        assert ToolParameter("b", "boolean", default=False).as_schema()["default"] is False
        assert ToolParameter("b", "boolean", default=False).as_dict()["default"] is False

    def test_of_a_boolean_schema_are_objects(self) -> None:
        (parameter,) = ToolParameter.all_of({"type": "object", "properties": {"any": True}})
        assert (parameter.name, parameter.type) == ("any", "object")


@pytest.mark.parametrize(
    ("path", "module", "shown"),
    [
        ("/opt/x/site-packages/pack/tools.py", "pack.tools", "pack/tools.py"),
        ("/opt/x/site-packages/pack/__init__.py", "pack", "pack/__init__.py"),
        ("/opt/tools/weather.py", "toolhub_tools.weather", "/opt/tools/weather.py"),
    ],
)
def test_places_are_the_same_on_every_machine(path: str, module: str, shown: str) -> None:
    assert shown_path(path, module) == shown


def test_the_place_of_a_decorated_function_is_its_own() -> None:
    @tool
    @transaction.atomic
    def lend() -> None:
        """Lend something."""

    assert lend.place.startswith("tests/test_tool.py:")


def a_context(seconds: float = 30) -> Context:
    caller = Caller("key", "key:1", "Ann")
    return Context("call", "tool", caller, Deadline(seconds), logging.getLogger("test"))


class TestTheFormOfTheText:
    @staticmethod
    def made(**declared: Any) -> Pack:
        pack = Pack("forms", text_form=TextForm("shout", lambda data: str(data["said"]).upper()))

        @pack.tool(hints=Hints(read_only=True), **declared)
        def say(words: str) -> dict[str, str]:
            """Say something."""
            return {"said": words}

        return pack

    def test_is_a_parameter_that_the_function_does_not_see(self) -> None:
        (say,) = self.made().tools
        assert say.input_schema["properties"]["format"]["enum"] == ["shout", "json"]
        assert say.spec.checker.with_defaults({"words": "a"})["format"] == "shout"
        assert say.checked({"words": "a", "format": "shout"}) == {"words": "a"}
        assert say.spec.checker.problems({"words": "a", "format": "xml"})

    @pytest.mark.parametrize(("given", "text"), [({}, "AB"), ({"format": "json"}, '{"said":"ab"}')])
    def test_is_made_of_what_is_left_after_cleaning(
        self, hub: Hub, alice: Caller, given: dict[str, str], text: str
    ) -> None:
        (say,) = self.made().tools
        hub.add(say)
        result = engine.call_sync("say", {"words": "a\u200bb", **given}, alice, door="code", options=engine.Options())
        assert (result.answer.text, result.answer.value) == (text, {"said": "ab"})

    def test_takes_the_name_of_its_parameter(self) -> None:
        pack = Pack("forms", text_form=TextForm("shout", str))

        @pack.tool
        def say(format: str) -> str:
            """Say something."""
            return format

        assert [str(error) for error in pack.broken] == [
            "say: a tool whose pack has text_form= may not have a parameter `format`"
        ]

    def test_is_not_that_of_prompts(self) -> None:
        pack = self.made()

        @pack.prompt(title="Greet")
        def greet() -> str:
            """Greet."""
            return "Hello"

        assert "format" not in pack.offers[0].tool.input_schema["properties"]


class Link(BaseModel):
    number: Annotated[int, OrDigits()]
    name: Annotated[str, OrNumber()]


@tool
def linked(
    number: Annotated[int, Field(ge=1), OrDigits()],
    names: list[Annotated[str, OrNumber()]],
    links: list[Link],
    assignee: Annotated[str, Says("Whom?")] = "me",
) -> str:
    """Link."""
    return ""


class TestIds:
    """Agents send a number for a text and a text for a number."""

    def checked(self, **arguments: Any) -> Any:
        return linked.checked(linked.spec.checker.with_defaults(arguments))

    def test_are_accepted_in_both_forms_at_any_depth(self) -> None:
        given = {"number": "645", "names": [7, "x"], "links": [{"number": "0", "name": 3}]}
        taken = self.checked(**given)
        assert (taken["number"], taken["names"]) == (645, ["7", "x"])
        assert taken["links"] == [Link(number=0, name="3")]
        assert given == {"number": "645", "names": [7, "x"], "links": [{"number": "0", "name": 3}]}

    @pytest.mark.parametrize("wrong", ["", "-1", "1.0", " 1", "007", "٣", "1" * 16, True, None, ["1"]])
    def test_are_refused_where_they_are_neither(self, wrong: Any) -> None:
        with pytest.raises(InvalidArgumentsError, match="expected number"):
            self.checked(number=wrong, names=[], links=[])

    def test_have_one_type_in_the_schema(self) -> None:
        assert linked.input_schema["properties"]["number"] == {"minimum": 1, "type": "integer"}
        assert "x-or" not in json.dumps(linked.input_schema)

    def test_null_gets_the_words_for_a_missing_value(self) -> None:
        with pytest.raises(InvalidArgumentsError, match=r"^Whom\?$"):
            self.checked(number=1, names=[], links=[], assignee=None)
