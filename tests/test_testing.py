"""The kit for authors: calls as the hub calls, fails as the hub fails, and finds what an agent would stumble over."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from pydantic import BaseModel

import toolhub
from toolhub import (
    ConnectionKind,
    Context,
    Example,
    Hints,
    InvalidArgumentsError,
    Message,
    NotFoundError,
    Pack,
    Tool,
    prompt,
    resource,
    testing,
    tool,
)
from tools_app.sdk.decorator import SchemaTool
from tools_app.sdk.errors import ConfigurationError, ToolError, ToolExecutionError, ToolTimeoutError
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.schemas import Schema

ROOT = Path(__file__).parent.parent


@dataclasses.dataclass
class Forecast:
    city: str
    day: datetime.date
    wind: float | None = None


@tool(category="weather", tags=["test"], hints=Hints(read_only=True))
def get_forecast(
    city: Annotated[str, "Where"], day: Annotated[datetime.date, "When"] = datetime.date(2024, 1, 1)
) -> Forecast:
    """Tell the weather."""
    return Forecast(city, day)


@tool
async def about(ctx: Context, seconds: float = 0) -> dict[str, Any]:
    """Tell of the call."""
    await asyncio.sleep(seconds)
    ctx.log.info("called")
    left = ctx.remaining()
    return {"tool": ctx.tool, "caller": str(ctx.caller), "may": ctx.caller.may("tools:execute"), "left": left}


@tool
def where_am_i() -> str:
    """Tell the thread."""
    return threading.current_thread().name


@prompt(title="Plan")
async def plan(city: Annotated[str, "Where"], days: int = 1) -> list[Message]:
    """Plan a trip."""
    return [Message(f"{days} days in {city}"), Message("Where else?", role="assistant")]


@resource("trips://{city}", title="A trip")
def trip(city: str) -> str:
    """A trip."""
    return city


class TestCall:
    def test_checks_completes_converts_runs_and_answers_in_json(self) -> None:
        assert testing.call(get_forecast, city="Kyoto") == {"city": "Kyoto", "day": "2024-01-01", "wind": None}
        assert testing.call(get_forecast, city="Nara", day="2024-02-29")["day"] == "2024-02-29"

    def test_gives_a_context_of_the_local_user_with_30_seconds(self) -> None:
        answer = testing.call(about)
        assert 29 < answer.pop("left") <= 30
        assert answer == {"tool": "about", "caller": "local:test", "may": True}

    def test_runs_a_blocking_tool_in_this_thread(self) -> None:
        assert testing.call(where_am_i) == threading.current_thread().name

    def test_takes_parameters_of_any_name(self) -> None:
        @tool
        def odd(tool: str, arguments: str) -> str:
            """Odd."""
            return tool + arguments

        assert testing.call(odd, tool="a", arguments="b") == "ab"

    def test_works_for_classes_and_bare_schemas(self) -> None:
        class Arguments(BaseModel):
            n: int

        class Double(Tool):
            """Double it."""

            name = "double"

            async def run(self, ctx: Context, arguments: Arguments) -> int:
                return arguments.n * 2

        Double.Arguments = Arguments
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        bare = SchemaTool(lambda arguments: arguments["n"] * 2, schema, name="bare", description="Double it.")
        assert testing.call(Double(), n=4) == testing.call(bare, n=4) == 8

    def test_gives_the_short_answer_unless_raw(self) -> None:
        @tool(minimal=lambda full: {"id": full["id"]}, done="Found", guidance="Go on")
        def find() -> dict[str, int]:
            """Find."""
            return {"id": 1, "size": 2}

        assert testing.call(find) == {"id": 1}
        assert testing.call(find, raw=True) == {"id": 1, "size": 2}


class TestFailing:
    def test_arguments_are_refused_as_the_hub_refuses_them(self) -> None:
        with pytest.raises(InvalidArgumentsError) as caught:
            testing.call(get_forecast, day=5, wehn="x")
        assert [problem.message for problem in caught.value.problems] == [
            "Required parameter missing: city",
            "Invalid type for parameter day: expected string",
            "Unknown parameter: wehn",
        ]
        with pytest.raises(InvalidArgumentsError, match=r"^Invalid value for parameter day: "):
            testing.call(get_forecast, city="x", day="2023-02-29")

    def test_a_typed_error_comes_as_it_is(self) -> None:
        @tool
        def fail() -> None:
            """Fail."""
            raise NotFoundError("Workflow 'x' not found")

        with pytest.raises(NotFoundError, match=r"^Workflow 'x' not found$"):
            testing.call(fail)

    @pytest.mark.parametrize("outcome", [ValueError("boom"), TimeoutError("its own"), RecursionError("deep")])
    def test_anything_else_is_an_execution_error_with_its_cause(self, outcome: Exception) -> None:
        @tool
        def fail() -> None:
            """Fail."""
            raise outcome

        with pytest.raises(ToolExecutionError) as caught:
            testing.call(fail)
        assert caught.value.message == f"Tool execution failed: fail: {type(outcome).__name__}: {outcome}"
        assert caught.value.__cause__ is outcome

    def test_an_answer_that_is_no_json_or_does_not_fit_is_an_execution_error(self) -> None:
        @tool
        def strange() -> Any:
            """Answer strangely."""
            return object()

        @tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
        def unfit() -> Any:
            """Answer wrongly."""
            return {}

        with pytest.raises(ToolExecutionError, match="Unable to serialize"):
            testing.call(strange)
        with pytest.raises(ToolExecutionError, match="does not fit the output schema: Required parameter missing: n"):
            testing.call(unfit)

    def test_what_takes_too_long_is_a_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(testing, "SECONDS", 0.05)
        begun = time.perf_counter()
        with pytest.raises(ToolTimeoutError, match=r"^Execution timeout after 50ms$") as caught:
            testing.call(about, seconds=10)
        assert time.perf_counter() - begun < 5
        assert "outcome is unknown" in caught.value.next_step
        assert isinstance(caught.value, ToolError)


@pytest.mark.anyio
async def test_acall_does_the_same_and_keeps_blocking_tools_off_the_loop() -> None:
    assert (await testing.acall(get_forecast, city="Kyoto"))["city"] == "Kyoto"
    assert await testing.acall(where_am_i) != threading.current_thread().name
    with pytest.raises(InvalidArgumentsError):
        await testing.acall(get_forecast)


def do_nothing() -> None: ...


class TestFindings:
    def test_of_a_good_tool_are_none(self) -> None:
        assert testing.findings(get_forecast) == []

    def test_of_a_tool_within_all_bounds_are_none(self) -> None:
        full = "1\n2\n3\n" + "x" * (1_024 - 6)
        assert testing.findings(tool(description=full, category="x", tags=["x"])(do_nothing)) == []

    def test_of_a_careless_tool_are_all_of_them(self) -> None:
        class Point(BaseModel):
            either: int | str

        def list_things(
            a: str, b: Annotated[int | str, "Which"], c: Annotated[str, "1\n2\n3\n4\n5"], p: Any = None
        ) -> None: ...

        list_things.__annotations__["p"] = Annotated[list[Point], "Points"]
        careless = tool(description="1\n2\n3\n4\n5 " + "x" * 1_020)(list_things)
        assert testing.findings(careless) == [
            "the description has more than 4 lines",
            "the description has more than 1,024 characters",
            "the description of parameter c has more than 4 lines",
            "has no category",
            "has no tags",
            "is called list_things, but has no hints that say read_only=True",
            "parameter a has no description",
            "parameter b is of one type or another, which many agents cannot read",
            "parameter p[].either is of one type or another, which many agents cannot read",
        ]

    @pytest.mark.parametrize(
        "name", ["get_x", "list-x", "show_x", "search", "search_x", "find_x", "read_x", "count_x", "check", "fetch_x"]
    )
    def test_a_name_that_sounds_like_reading_needs_hints(self, name: str) -> None:
        def named(**declared: Any) -> list[str]:
            return testing.findings(
                tool(name=name, description="x", category="x", tags=["x"], **declared)(lambda: None)
            )

        assert named() == [f"is called {name}, but has no hints that say read_only=True"]
        assert named(hints=Hints(read_only=True)) == []

    @pytest.mark.parametrize("name", ["create_x", "getter", "listen", "update_list", "readme", "forget_x"])
    def test_other_names_do_not(self, name: str) -> None:
        assert testing.findings(tool(name=name, description="x", category="x", tags=["x"])(lambda: None)) == []

    def test_hints_must_not_contradict_each_other(self) -> None:
        both = Hints(read_only=True, destructive=True)
        assert testing.findings(
            tool(name="x", description="x", category="x", tags=["x"], hints=both)(lambda: None)
        ) == ["says that it only reads, and that it destroys"]

    @pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\U000e0041", "\x1b[8m", "\x00"], ids=ascii)
    def test_text_that_people_do_not_see_makes_no_tool(self, hidden: str) -> None:
        def one(a: str) -> None: ...

        for title, description, what in ((f"T{hidden}", "x", "x"), ("x", f"D{hidden}", "x"), ("x", "x", f"W{hidden}")):
            one.__annotations__["a"] = Annotated[str, what]
            with pytest.raises(DefinitionError, match="has invisible characters"):
                tool(title=title, description=description)(one)

    def test_text_in_any_language_is_fine(self) -> None:
        assert testing.findings(tool(description="天気を教える 👩‍👧\nنعم", category="x", tags=["x"])(do_nothing)) == []

    def test_unions_are_found_however_they_are_written(self) -> None:
        unions: list[Schema] = [{"type": ["string", "null"]}, {"oneOf": [{}]}, {"items": {"anyOf": [{}]}}]
        for part in unions:
            schema = {"type": "object", "properties": {"p": {"description": "x", **part}}}
            one = SchemaTool(lambda _: None, schema, name="x", description="x", category="x", tags=["x"])
            (finding,) = testing.findings(one)
            assert "is of one type or another" in finding


def test_the_kit_needs_neither_a_database_nor_settings() -> None:
    code = """
import sys
from typing import Annotated, Literal
from toolhub import tool, testing

@tool(category="test", tags=["x"])
def greet(name: Annotated[str, "Whom"], how: Annotated[Literal["Hi", "Bye"], "How"] = "Hi") -> str:
    'Greet.'
    return f"{how} {name}"

assert testing.call(greet, name="Ann") == "Hi Ann"
assert testing.findings(greet) == []
print("django" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_everything_that_authors_need_is_there_by_one_import() -> None:
    for name in toolhub.__all__:
        assert getattr(toolhub, name).__module__.startswith("tools_app.") or name == "Number"
    assert set(toolhub._HOME_OF) == set(toolhub.__all__)
    with pytest.raises(AttributeError, match="module 'toolhub' has no attribute 'nothing'"):
        toolhub.nothing  # noqa: B018


def test_prompts_and_resources_are_called_and_judged_like_tools() -> None:
    assert testing.call(plan, city="Rome", days=2) == [
        {"role": "user", "content": {"type": "text", "text": "2 days in Rome"}},
        {"role": "assistant", "content": {"type": "text", "text": "Where else?"}},
    ]
    assert testing.call(trip, city="Rome")[0]["resource"]["text"] == "Rome"
    with pytest.raises(InvalidArgumentsError, match="Required parameter missing: city"):
        testing.call(plan)
    assert testing.findings(plan) == ["has no category", "has no tags", "parameter days has no description"]


class TestContract:
    def test_holds_where_all_examples_do(self) -> None:
        testing.assert_contract(weather(Example("Rome", {"city": "Rome"}, {"city": "Rome", "wind": "<any>"})))

    def test_says_everything_that_is_broken(self) -> None:
        one = weather(Example("Rome", {"city": "Rome"}, {"city": "Oslo"}), Example("None", {"city": "nowhere"}))
        one.category = ""
        with pytest.raises(AssertionError) as raised:
            testing.assert_contract(one)
        assert str(raised.value).splitlines() == [
            "weather: has no category",
            'weather: example \'Rome\': result.city: expected "Oslo", got "Rome"',
            "weather: example 'None': NOT_FOUND: City 'nowhere' not found",
        ]

    def test_needs_an_example(self) -> None:
        with pytest.raises(AssertionError, match="weather: has no example"):
            testing.assert_contract(weather())


def weather(*examples: Example) -> Tool:
    @tool(category="weather", tags=["test"], hints=Hints(read_only=True), examples=examples)
    def weather(city: Annotated[str, "Where"]) -> dict[str, Any]:
        """Tell the weather."""
        if city == "nowhere":
            raise NotFoundError("City 'nowhere' not found")
        return {"city": city, "wind": 3}

    return weather


SKY = Pack("sky", connection=ConnectionKind("Sky", url_variable="SKY_URL", secret_variable="SKY_KEY", header="X-Key"))


@SKY.tool(hints=Hints(read_only=True))
async def stars(ctx: Context, place: str) -> Any:
    """Count the stars."""
    return await ctx.http.get("stars", place, operation="count stars", params={"bright": "1"})


class TestFakeUpstream:
    def test_replaces_the_upstream_of_a_pack(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SKY_URL", "https://sky.test")
        monkeypatch.delenv("SKY_KEY", raising=False)
        with testing.fake_upstream({"GET /stars/kyoto": {"stars": 7}}, pack=SKY) as upstream:
            assert testing.call(stars, place="kyoto") == {"stars": 7}
        (seen,) = upstream.requests
        assert (str(seen), seen.query) == ("GET /stars/kyoto", {"bright": "1"})
        assert seen.headers["x-key"] == testing.upstream.SECRET
        assert (os.environ["SKY_URL"], os.environ.get("SKY_KEY")) == ("https://sky.test", None)

    def test_answers_in_order_and_fails_on_request(self) -> None:
        busy = testing.Reply(503, {"message": "busy"}, {"Retry-After": "3"})
        with testing.fake_upstream({"GET /stars/rome": [busy, {"stars": 1}, {"stars": 2}]}, pack=SKY):
            with pytest.raises(ToolError):
                testing.call(stars, place="rome")
            assert [testing.call(stars, place="rome")["stars"] for _ in range(3)] == [1, 2, 2]

    def test_records_its_requests(self) -> None:
        kept: dict[str, Any] = {}

        def put(seen: testing.ReceivedRequest) -> testing.Reply:
            kept.update(seen.data)
            return testing.Reply(201, kept)

        with testing.fake_upstream({"PUT /kept": put}) as upstream:
            upstream.on("GET /kept", lambda seen: kept)
            httpx.put(f"{upstream.url}/kept", json={"a": 1})
            assert httpx.get(f"{upstream.url}/kept").json() == {"a": 1}

    def test_says_what_it_has_no_answer_for(self) -> None:
        with testing.fake_upstream({}, pack=SKY) as upstream:
            with pytest.raises(ToolError):
                testing.call(stars, place="oslo")
            assert [str(seen) for seen in upstream.unanswered_requests] == ["GET /stars/oslo"]

    def test_old_names_work_and_are_deprecated(self) -> None:
        with testing.fake_upstream({}) as upstream:
            httpx.get(f"{upstream.url}/a")
            with pytest.deprecated_call(match="use requests"):
                assert upstream.seen is upstream.requests
            with pytest.deprecated_call(match="use unanswered_requests"):
                assert upstream.unanswered == upstream.requests
        with pytest.deprecated_call(match="use ReceivedRequest"):
            assert testing.Seen is testing.ReceivedRequest
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = testing.nothing

    def test_a_tool_without_one_says_how_to_have_one(self) -> None:
        with pytest.raises(ConfigurationError) as raised:
            testing.call(stars, place="oslo")
        told = (
            "In a test: `with testing.fake_upstream({…}, pack=…)`, or set SKY_URL and SKY_KEY to those of an account."
        )
        assert raised.value.__notes__ == [told]
        alone = Example("Oslo", {"place": "oslo"})
        with pytest.raises(AssertionError, match="or set SKY_URL and SKY_KEY"):
            testing.assert_contract(with_example(alone))


def with_example(example: Example) -> Tool:
    @SKY.tool(hints=Hints(read_only=True), category="sky", tags=["test"], examples=[example])
    async def look(ctx: Context, place: Annotated[str, "Where"]) -> Any:
        """Look."""
        return await ctx.http.get("stars", place, operation="look")

    return look
