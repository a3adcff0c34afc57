"""Search mode: agents are listed a few tools, find the others, and call them as if they had been listed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.mcp_server.test_server import connected, texts
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub, Programmable
from toolhub import testing
from tools_app import engine, governance
from tools_app.access import access
from tools_app.base import database
from tools_app.catalog import catalog, listed, search
from tools_app.catalog.entry import FINDERS
from tools_app.catalog.search.finding import MOST_DESCRIPTION, MOST_PARAMETERS, signature
from tools_app.engine import Options
from tools_app.mcp_server.listing import Listings
from tools_app.models import Approval, AuditEntry, Call, ToolRecord
from tools_app.packs.finding import pack
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.errors import (
    InvalidArgumentsError,
    ToolDisabledError,
    ToolError,
    ToolNotFoundError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.prompt import prompt
from tools_app.sdk.reach import Reach

MODERN = "2026-07-28"
ARGUMENTS: dict[str, dict[str, Any]] = {"find_page": {}, "echo": {"message": "hi"}}
BY_SEARCHING = ["call_many", "call_tool", "call_writing_tool", "describe_tool", "read_result", "search_tools"]


@pytest.fixture
def finding(
    settings: Any, transactional_db: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Hub:
    """A hub that has the tools which find others, and some to be found: few, and yet too many to list."""
    monkeypatch.setattr(listed, "SHORT", 0)
    settings.TOOLHUB_PACKS = ("tests.support.packs.small", "tools_app.packs.finding")
    hub: Hub = request.getfixturevalue("hub")
    hub.add(
        Programmable("find_page", category="pages/wiki", tags=("wiki",)).tool,
        Programmable("write_page", category="pages", tags=("wiki",), hints=Hints(destructive=False)).tool,
    )
    return hub


def local(*toolsets: str, **reach: Any) -> Caller:
    return access.caller_of_process(Reach(frozenset(toolsets) if toolsets else None, **reach))


def declared(name: str, description: str) -> FunctionTool:
    def run(page_id: str = "") -> None: ...

    return tool(name=name, description=description, hints=Hints(read_only=True))(run)


def shown(caller: Caller) -> list[str]:
    page = Listings().of(catalog.current().seen_by(caller), MODERN).page(None)
    return [tool["name"] for tool in page["tools"]]


def call(tool: str, caller: Caller | None = None, /, **arguments: Any) -> Any:
    return asyncio.run(engine.call(tool, arguments, caller or local(), door="mcp"))


def refused(tool: str, caller: Caller | None = None, /, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(tool, caller, **arguments)
    return caught.value


# ---- what is listed


def test_lists_everything_but_the_finders_by_default(finding: Hub) -> None:
    assert shown(local()) == ["calculate", "echo", "find_page", "read_result", "write_page"]


def test_lists_the_finders_alone_in_search_mode(finding: Hub, settings: Any) -> None:
    assert shown(local(mode="search")) == BY_SEARCHING
    settings.TOOLHUB_LIST_MODE = "search"
    rebuild_catalog()
    assert shown(local()) == BY_SEARCHING
    assert "echo" in shown(local(mode="direct"))


def test_a_short_list_is_shown_also_in_search_mode(finding: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching would cost more than listing."""
    everything = shown(local(mode="direct"))
    cost = listed.cost_of_list(catalog.current().seen_by(local(mode="direct")))
    for most, names in ((cost, everything), (cost - 1, BY_SEARCHING)):
        monkeypatch.setattr(listed, "SHORT", most)
        rebuild_catalog()
        assert shown(local(mode="search")) == names, most
    assert call("search_tools", local(mode="search"), query="echo").answer.value["tools"], "can be called all the same"


def test_each_toolset_counts_towards_a_short_list(finding: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("find_page", "write_page"):
        governance.create_toolset(name, actor=governance.trusted("test"), names=[name], mode="search")
    one, both = local("find_page"), local("find_page", "write_page")
    cost = sum(listed.costs(catalog.current())[name] for name in ("find_page", "read_result"))
    monkeypatch.setattr(listed, "SHORT", cost)
    rebuild_catalog()
    assert shown(one) == ["find_page", "read_result"]
    assert shown(both) == BY_SEARCHING, "each of them is short, and together they are not"


def test_what_is_not_listed_can_be_called_by_its_name(finding: Hub) -> None:
    assert call("echo", local(mode="search"), message="hi").answer.value == {"message": "hi"}


def test_auto_searches_where_the_list_is_long(finding: Hub, settings: Any) -> None:
    cost = listed.cost_of_list(catalog.current())
    settings.TOOLHUB_LIST_TOKENS = cost
    assert "echo" in shown(local(mode="auto"))
    rebuild_catalog()
    settings.TOOLHUB_LIST_TOKENS = cost // 2
    assert shown(local(mode="auto")) == BY_SEARCHING


def test_each_toolset_is_shown_in_its_own_way(finding: Hub) -> None:
    governance.create_toolset("pages", actor=governance.trusted("test"), tags=["wiki"], mode="search")
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    assert shown(local("pages")) == BY_SEARCHING
    assert shown(local("sums")) == ["calculate", "read_result"]
    assert shown(local("pages", "sums")) == sorted(["calculate", *BY_SEARCHING])
    assert catalog.current().seen_by(local("sums")).find("search_tools") is None


def test_auto_goes_by_all_of_the_list_and_not_by_each_toolset(finding: Hub, settings: Any) -> None:
    for name in ("find_page", "write_page", "echo"):
        governance.create_toolset(name, actor=governance.trusted("test"), names=[name], mode="auto")
    one, all_ = local("find_page"), local("find_page", "write_page", "echo")
    settings.TOOLHUB_LIST_TOKENS = listed.cost_of_list(catalog.current().seen_by(one))
    rebuild_catalog()
    assert shown(one) == ["find_page", "read_result"]
    assert shown(all_) == BY_SEARCHING, "each of them is short, and together they are not"
    governance.change_toolset("echo", actor=governance.trusted("test"), mode="direct")
    assert shown(all_) == sorted(["echo", *BY_SEARCHING])


def test_a_toolset_that_only_reads_brings_nothing_that_writes(finding: Hub) -> None:
    governance.create_toolset(
        "safe", actor=governance.trusted("test"), packs=["builtin"], tags=["wiki"], read_only=True, mode="search"
    )
    assert shown(local("safe")) == [name for name in BY_SEARCHING if name != "call_writing_tool"]
    assert refused("call_writing_tool", local("safe"), name="echo").code == "TOOL_NOT_FOUND"


def test_lists_everything_where_nothing_could_find_it(finding: Hub) -> None:
    governance.set_enabled(["search_tools"], False, actor=governance.trusted("test"))
    assert shown(local(mode="search")) == ["calculate", "echo", "find_page", "read_result", "write_page"]


def test_a_read_only_caller_is_not_listed_writing_tools(finding: Hub) -> None:
    assert "call_writing_tool" not in shown(local(mode="search", writes=False, destroys=False))


def test_agents_are_notified_when_the_mode_changes(finding: Hub) -> None:
    governance.create_toolset("pages", actor=governance.trusted("test"), tags=["wiki"])
    before = listed.digest(catalog.current().seen_by(local("pages")))
    governance.change_toolset("pages", actor=governance.trusted("test"), mode="search")
    assert listed.digest(catalog.current().seen_by(local("pages"))) != before
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    told = listed.digest(catalog.current().seen_by(local("pages")))
    governance.set_enabled(["find_page"], False, actor=governance.trusted("test"))
    assert listed.digest(catalog.current().seen_by(local("pages"))) == told, "what is not listed changes no list"


# ---- finding


def test_finds_what_can_be_called_and_says_how(finding: Hub) -> None:
    told = call("search_tools", query="wiki page").answer.value
    assert [(tool["name"], tool["effect"]) for tool in told["tools"][:2]] == [
        ("find_page", "reads"), ("write_page", "writes"),
    ]  # fmt: skip
    assert (told["total"], told["hasMore"]) == (len(told["tools"]), False)
    assert call("search_tools", query="add numbers").answer.value["tools"][0]["parameters"] == (
        'operation*: "add" | "subtract" | "multiply" | "divide", a*: number, b*: number'
    )
    assert call("search_tools", query="page", category="pages/wiki").answer.value["total"] == 1
    page = call("search_tools", query="wiki page", limit=1, offset=1).answer.value
    assert ([tool["name"] for tool in page["tools"]], page["hasMore"]) == (["write_page"], True)
    nothing = call("search_tools", query="zzzzzz").answer.value
    assert (nothing["tools"], nothing["categories"]) == ([], ["pages", "pages/wiki", "utility"])


def test_answers_are_short_and_name_the_likeliest_sources(finding: Hub) -> None:
    finding.add(declared("odd_thing", "<Purpose>\nIt does an uncommon thing with a rutabaga."))
    assert "rutabaga" in call("search_tools", query="rutabaga").answer.value["tools"][0]["description"]
    parameters = {f"option_{number}": {"type": "string"} for number in range(30)}
    schema = {"type": "object", "properties": {**parameters, "page_id": {"type": "string"}}, "required": ["page_id"]}
    finding.add(
        declared("copy_page", "Copy a page to another space. " + "Afterwards, both exist. " * 20),
        declared("long_page", "One sentence about a page " + "that does not end " * 20),
    )
    told = call("search_tools", query="copy page").answer.value
    copied = told["tools"][0]
    assert (copied["name"], copied["description"]) == ("copy_page", "Copy a page to another space.")
    assert all(len(one["description"]) <= MOST_DESCRIPTION for one in told["tools"])
    told = call("search_tools", query="afterwards exist").answer.value
    assert "sources" not in told, "all tools that match are of one source"
    told = call("search_tools", query="page calculate").answer.value
    abouts = {one["name"]: one["about"] for one in told["sources"]}
    assert list(abouts) == [finding.entry("calculate").source_name, "code"], "one tool is named exactly"
    assert abouts["code"] == "5 tools: page, long, odd, thing"
    later = call("search_tools", query="page calculate", offset=1).answer.value
    assert later["tools"]
    assert "sources" not in later, "they are on the first page"
    shown_parameters = signature(schema, most=MOST_PARAMETERS)
    assert shown_parameters.endswith("page_id*: string, +23"), "what is required is always shown"
    assert "+" not in signature(schema)


def test_a_source_that_is_named_narrows_the_search(finding: Hub) -> None:
    source = finding.entry("calculate").source_name
    told = call("search_tools", query="page calculate", source=source.upper()).answer.value
    assert {tool["name"] for tool in told["tools"]} == {"calculate", "read_result"}
    assert "sources" not in told
    nothing = call("search_tools", query="wiki", source=source).answer.value
    assert (nothing["tools"], nothing["total"]) == ([], 0)
    assert nothing["names"] == ["calculate", "echo", "read_result"]
    assert [one["name"] for one in nothing["sources"]] == ["code"], "where there is something"
    unknown = call("search_tools", query="wiki", source="no_such").answer.value
    assert unknown["hint"] == "There is no such source. Omit it, or name one of `sources`."
    assert [one["name"] for one in unknown["sources"]] == ["code"]


def test_a_source_reveals_no_tools_outside_a_toolset(finding: Hub) -> None:
    governance.create_toolset("pages", actor=governance.trusted("test"), names=["find_page"], mode="search")
    for source in (finding.entry("calculate").source_name, "code"):
        told = call("search_tools", local("pages"), query="page echo calculate", source=source).answer.value
        assert "calculate" not in str(told)
        assert "write" not in str(told)
    told = call("search_tools", local("pages"), query="zzzz", source="code").answer.value
    assert told["names"] == ["find_page"]


def test_finds_only_what_exists_for_the_caller(finding: Hub) -> None:
    governance.create_toolset("pages", actor=governance.trusted("test"), names=["find_page"], mode="search")
    told = call("search_tools", local("pages"), query="page echo calculate").answer.value
    assert {tool["name"] for tool in told["tools"]} <= {"find_page", "read_result"}
    assert isinstance(refused("describe_tool", local("pages"), name="echo"), ToolNotFoundError)
    nobody = Caller("key", "key:9", "nobody", frozenset({"tools:execute"}))
    assert refused("search_tools", nobody, query="echo").code == "AUTHORIZATION_ERROR"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"type": "string"}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "integer | string"),
        ({"oneOf": [{"type": "integer"}, {"enum": ["all"]}]}, 'integer | "all"'),
        ({"type": ["integer", "null"]}, "integer | null"),
        ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"const": "x"}]}}, '(integer | "x")[]'),
        ({"enum": list(range(9))}, "0 | 1 | 2 | 3 | 4 | 5 | …"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_parameters_are_summarised(part: Any, told: str) -> None:
    assert signature({"required": ["a"], "properties": {"a": part, "b": part}}) == f"a*: {told}, b: {told}"


def test_nothing_tells_of_a_tool_that_does_not_exist_for_the_caller(finding: Hub) -> None:
    """Neither what is found, its score, what is like it, nor why something else cannot be called."""
    hidden = Programmable("secret_vault", tags=("hush", "shared"), category="hidden", aliases=("strongroom",))
    finding.add(hidden.tool, Programmable("open_thing", tags=("shared",), dependencies=("secret_vault",)).tool)
    finding.add(Programmable("open_more", tags=("shared",), dependencies=("open_thing", "no_such_thing?")).tool)
    governance.create_toolset(
        "mine", actor=governance.trusted("test"), names=["open_thing", "open_more"], mode="search"
    )
    caller = local("mine")

    def all_answers() -> str:
        queries = ("secret_vault", "vaul", "strongroom", "hush", "hidden", "open thing", "zzzz")
        told: list[Any] = [call("search_tools", caller, query=query).answer.value for query in queries]
        told += [refused("describe_tool", caller, name=name).next_step for name in ("secret_vault", "strongroms")]
        told += [refused("call_tool", caller, name=name).context for name in ("secret_vault", "secret_vaul")]
        told += [call("describe_tool", caller, name=name).answer.value for name in ("open_thing", "open_more")]
        view = catalog.current().seen_by(caller)
        told += [search.tags(view.all), search.related(view.all, ["shared"]), search.categories(view.all)]
        told += [str(need) for entry in view.all for need in view.needs(entry)]
        return str(told + [entry.refusal for entry in view.all])

    words = ("vault", "strongroom", "hush", "hidden", "no_such_thing")
    assert not [word for word in words if word in all_answers()]
    governance.set_enabled(["secret_vault"], False, actor=governance.trusted("test"))
    assert not [word for word in words if word in all_answers()]
    assert refused("open_more", caller).context["reason"] == "it needs a tool that cannot be called"
    assert "secret_vault" in refused("open_thing").context["reason"], "who may know of it is told"


def test_parts_of_an_answer_are_selected_through_another_tool(finding: Hub) -> None:
    sums = {"name": "calculate", "arguments": {"operation": "add", "a": 2, "b": 3}}
    inner = {**sums, "arguments": {**sums["arguments"], "_fields": "result"}}  # type: ignore[dict-item]
    for arguments in ({**sums, "_fields": ["result"]}, inner):
        assert call("call_tool", **{**arguments, "name": "calculate"}).answer.value == {"result": 5}


def test_describes_a_tool_as_it_would_be_listed(finding: Hub) -> None:
    told = call("describe_tool", name="calculate").answer.value
    entry = finding.entry("calculate")
    assert told["inputSchema"] == listed.as_listed(entry)["inputSchema"]
    assert (told["effect"], told["callWith"]) == ("reads", "call_tool")
    assert call("describe_tool", name="write-page").answer.value["callWith"] == "call_writing_tool"


# ---- calling


def test_a_call_through_another_tool_is_one_call_of_the_tool_that_is_named(finding: Hub) -> None:
    done = call("call_tool", name="echo", arguments={"message": "hi"})
    assert done.answer.value == {"message": "hi"}
    rows = list(Call.objects.values_list("tool_name", "via", "status"))
    assert rows == [("echo", "call_tool", "succeeded")]


def test_what_writes_is_called_by_the_tool_that_writes(finding: Hub) -> None:
    error = refused("call_tool", name="write_page")
    assert isinstance(error, InvalidArgumentsError)
    assert (error.message, error.details[0].path) == (
        "write_page changes something: call it with call_writing_tool", "/name",
    )  # fmt: skip
    assert call("call_writing_tool", name="write_page").answer.value == {"value": 0}
    assert call("call_writing_tool", name="find_page").answer.value == {"value": 0}
    hints = {name: finding.entry(name).hints for name in FINDERS}
    assert [name for name, said in sorted(hints.items()) if said.writes] == ["call_writing_tool"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("calculate", {"operation": "power", "a": "1"}),
        ("find_page", {"no_such": 1}),
    ],
)
def test_errors_are_those_of_a_call_of_ones_own(finding: Hub, name: str, arguments: dict[str, Any]) -> None:
    assert refused("call_tool", name=name, arguments=arguments).as_dict() == refused(name, **arguments).as_dict()


@pytest.mark.parametrize(
    "given",
    [
        {"name": "echo", "message": "hi"},
        {"name": "echo", "arguments": '{"message": "hi"}'},
        {"arguments": {"message": "hi"}},
    ],
)
def test_who_misses_its_form_is_shown_it(finding: Hub, given: dict[str, Any]) -> None:
    error = refused("call_tool", **given)
    assert isinstance(error, InvalidArgumentsError)
    assert error.next_step.endswith('{"name": "…", "arguments": {…}}.')


def test_what_is_switched_off_is_refused_in_the_same_words(finding: Hub) -> None:
    governance.set_enabled(["find_page"], False, actor=governance.trusted("test"))
    error = refused("call_tool", name="find_page")
    assert isinstance(error, ToolDisabledError)
    assert error.as_dict() == refused("find_page").as_dict()
    assert set(Call.objects.values_list("tool_name", "via")) == {("find_page", "call_tool"), ("find_page", "")}


def test_permissions_are_those_of_a_call_of_ones_own(finding: Hub) -> None:
    reader = local(writes=False, destroys=False)
    assert refused("call_tool", reader, name="write_page").as_dict() == refused("write_page", reader).as_dict()
    assert refused("call_writing_tool", reader, name="find_page").code == "AUTHORIZATION_ERROR"


def test_a_caller_without_destructive_access_writes_through_it_and_destroys_nothing(finding: Hub) -> None:
    finding.add(Programmable("drop_page", hints=Hints(destructive=True)).tool)
    careful = local(destroys=False, mode="search")
    assert shown(careful) == BY_SEARCHING
    assert call("call_writing_tool", careful, name="write_page").answer.value == {"value": 0}
    error = refused("call_writing_tool", careful, name="drop_page")
    assert error.as_dict() == refused("drop_page", careful).as_dict()
    assert error.code == "AUTHORIZATION_ERROR"


def test_what_an_operator_decides_about_calling_through_it_holds_for_every_call_through_it(finding: Hub) -> None:
    governance.set_ask("call_writing_tool", True, actor=governance.trusted("test"))
    assert refused("call_writing_tool", name="write_page").code == "APPROVAL_REQUIRED"
    assert call("write_page").answer.value == {"value": 0}, "and for no other"
    policy = {"rate_calls": 1, "rate_seconds": 60, "timeout_ms": 700, "answer_tokens": 2_000}
    governance.change_tool("call_tool", enabled=None, policy=policy, actor=governance.trusted("test"))
    dry = asyncio.run(
        engine.call("call_tool", {"name": "find_page"}, local(), door="mcp", options=engine.Options(dry_run=True))
    )
    assert (dry.answer.value["timeoutMs"], dry.answer.value["policy"]["answerTokens"]) == (700, 2_000)

    async def twice() -> ToolError:
        for name in ("find_page", "echo"):
            try:
                await engine.call("call_tool", {"name": name, "arguments": ARGUMENTS[name]}, local(), door="mcp")
            except ToolError as error:
                return error
        raise AssertionError("the second call was not refused")

    error = asyncio.run(twice())
    assert (error.code, error.message) == (
        "RATE_LIMIT_EXCEEDED", "Rate limit exceeded: at most 1 calls of call_tool in 60 seconds",
    )  # fmt: skip


def test_a_name_that_is_none_is_answered_with_names_that_are(finding: Hub) -> None:
    error = refused("call_tool", name="find_pages")
    assert (error.code, error.message) == ("TOOL_NOT_FOUND", "Tool not found: find_pages")
    assert error.context["similar"] == ["find_page", "write_page"]
    assert refused("call_tool", name="ecko").context["similar"] == ["echo"]
    assert refused("call_tool", name="wiki_text").context["similar"] == [], "that has to do with it, and is not like it"
    assert "find_page" in error.next_step


def test_what_an_operator_has_to_approve_asks_for_the_tool_that_is_named(finding: Hub) -> None:
    governance.set_ask("write_page", True, actor=governance.trusted("test"))
    through, direct = refused("call_writing_tool", name="write_page"), refused("write_page")
    assert through.as_dict() == direct.as_dict()
    assert list(Approval.objects.values_list("tool_name", flat=True)) == ["write_page"]


def test_one_idempotency_key_holds_however_it_is_called(finding: Hub) -> None:
    once = engine.Options(idempotency_key="k1")

    def keyed(tool: str, arguments: dict[str, Any]) -> engine.Result:
        return asyncio.run(engine.call(tool, arguments, local(), door="mcp", options=once))

    first = keyed("call_writing_tool", {"name": "write_page", "arguments": {"value": 3}})
    again = keyed("write_page", {"value": 3})
    assert (again.answered_by, again.call_id) == ("replay", first.call_id)


def test_a_caller_without_list_scope_learns_no_names(finding: Hub) -> None:
    caller = Caller("key", "key:9", "calls", frozenset({"tools:execute"}))
    error = refused("call_tool", caller, name="find_pages")
    assert error.context["similar"] == []
    assert "find_page?" not in error.next_step


def test_a_refusal_is_on_record_as_one_of_a_call_of_ones_own(finding: Hub) -> None:
    governance.set_enabled(["find_page"], False, actor=governance.trusted("test"))
    refused("call_tool", name="find_page", arguments={"value": 1})
    refused("find_page", value=1)
    kept = Call.objects.values_list("tool_name", "tool_version", "definition_hash", "arguments", "argument_bytes")
    assert len(set(kept)) == 1


@pytest.mark.parametrize("inner", ["call_tool", "call_writing_tool"])
def test_does_not_call_itself(finding: Hub, inner: str) -> None:
    error = refused("call_writing_tool", name=inner, arguments={"name": "echo"})
    assert error.details[0].path == "/name"


# ---- other names


def test_a_tool_goes_by_another_name_and_is_journaled_under_its_own(finding: Hub) -> None:
    other = {"find_page": {"name": "look_up", "description": "Look a page up."}, "echo": {"description": "Say it."}}
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["find_page", "echo"], overrides=other)
    caller = local("mine")
    page = Listings().of(catalog.current().seen_by(caller), MODERN).page(None)["tools"]
    assert [(tool["name"], tool["description"][:15]) for tool in page] == [
        ("echo", "Say it."), ("look_up", "Look a page up."), ("read_result", "Read part of an"),
    ]  # fmt: skip
    assert call("look_up", caller).answer.value == {"value": 0}
    assert call("find_page", caller).answer.value == {"value": 0}
    assert list(Call.objects.values_list("tool_name", flat=True)) == ["find_page", "find_page"]
    assert shown(local()) == ["calculate", "echo", "find_page", "read_result", "write_page"]
    found = call("search_tools", local("mine", mode="search"), query="look up").answer.value["tools"]
    assert found[0]["name"] == "look_up"


def test_a_tool_is_found_by_the_name_that_it_goes_by(finding: Hub) -> None:
    other = {"write_page": {"name": "jot"}}
    governance.create_toolset(
        "mine", actor=governance.trusted("test"), names=["find_page", "write_page"], mode="search", overrides=other
    )
    for query in ("jot", "write_page"):
        found = call("search_tools", local("mine"), query=query).answer.value["tools"]
        assert found[0]["name"] == "jot", query
    assert refused("call_tool", local("mine"), name="jut").context["similar"] == []
    assert refused("call_tool", local("mine"), name="jott").context["similar"] == ["jot"]
    view = catalog.current().seen_by(local("mine"))
    for query in ("jot", "write_page"):
        assert [hit.entry.shown_name for hit in search.ranked(view.all, query, match_type="exact")] == ["jot"]
        assert [entry.shown_name for entry in view.matching(query)] == ["jot"]
    assert search.ranked(catalog.current().all, "jot") == [], "elsewhere it has no such name"
    governance.set_enabled(["write_page"], False, actor=governance.trusted("test"))
    assert refused("jot", local("mine")).message.startswith("Tool is disabled: jot")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], "must be an object"),
        ({"Echo": {"name": "say"}}, "must be by names of tools"),
        ({"echo": "say"}, "holds a name"),
        ({"echo": {"title": "say"}}, "holds a name"),
        ({"echo": {"name": 7}}, "must be text"),
        ({"echo": {"name": "Say"}}, "must look like a tool's"),
        ({"echo": {"name": "find-page"}}, "name of another tool"),
        ({"echo": {"name": "say"}, "find_page": {"name": "say"}}, "is called already"),
        ({"echo": {"name": "search_tools"}}, "the hub's own"),
        ({"echo": {"description": "x" * 1025}}, "at most 1,024"),
        ({"echo": {"description": "a\u200bb"}}, "do not see"),
    ],
)
def test_refuses_other_names_that_would_mislead(finding: Hub, overrides: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        governance.create_toolset(
            "mine", actor=governance.trusted("test"), names=["echo", "find_page"], overrides=overrides
        )
    assert not AuditEntry.objects.filter(action="toolset.create").exists()


def test_refuses_a_mode_that_is_none(finding: Hub) -> None:
    with pytest.raises(ValidationError, match="mode"):
        governance.create_toolset("mine", actor=governance.trusted("test"), mode="lazy")


def test_a_tool_that_comes_later_keeps_its_name(finding: Hub) -> None:
    governance.create_toolset(
        "mine", actor=governance.trusted("test"), tags=["wiki"], overrides={"find_page": {"name": "page"}}
    )
    finding.add(Programmable("page", tags=("wiki",)).tool)
    view = catalog.current().seen_by(local("mine"))
    assert [entry.shown_name for entry in view.all if entry.tags == ("wiki",)] == ["find_page", "page", "write_page"]
    found = view.find("page")
    assert found is not None
    assert found.name == "page"


# ---- over MCP


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_an_agent_searches_and_calls(finding: Hub, era: str) -> None:
    async with connected(era, local(mode="search")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == BY_SEARCHING
        found = await client.call_tool("search_tools", {"query": "send a message back"})
        assert '"name":"echo"' in texts(found)[0]
        done = await client.call_tool("call_tool", {"name": "echo", "arguments": {"message": "hi"}})
        assert (texts(done), done.is_error, done.structured_content) == (['{"message":"hi"}'], False, None)
        wrong = await client.call_tool("call_tool", {"name": "calculate", "arguments": {"operation": "add", "a": 1}})
        direct = await client.call_tool("calculate", {"operation": "add", "a": 1})
        assert wrong.is_error
        assert texts(wrong) == texts(direct)
        unknown = await client.call_tool("call_tool", {"name": "ecko"})
        assert unknown.is_error, "a model is told, not the protocol"
        assert texts(unknown)[0] == "Tool not found: ecko"
    rows = await database.run(lambda: list(Call.objects.order_by("started_at").values_list("tool_name", "via")))
    assert rows[:3] == [("search_tools", ""), ("echo", "call_tool"), ("calculate", "call_tool")]


@pytest.mark.anyio
async def test_a_prompt_says_how_to_call_what_it_names_by_other_names_or_unlisted(finding: Hub) -> None:
    @prompt(tools=["find_page"])
    def tidy() -> str:
        """Tidy up."""
        return "Look with `find_page`, again with `find_page`, change with `write_page`, and say `hello_world`."

    await database.run(finding.offer, tidy)
    other = {"find_page": {"name": "look_up"}}

    def chosen() -> None:
        tools = ["find_page", "write_page"]
        governance.create_toolset("plain", actor=governance.trusted("test"), names=tools, mode="direct")
        governance.create_toolset("mine", actor=governance.trusted("test"), names=tools, mode="direct", overrides=other)
        governance.create_toolset(
            "found", actor=governance.trusted("test"), names=tools, mode="search", overrides=other
        )

    await database.run(chosen)
    told = {}
    for name in ("plain", "mine", "found"):
        async with connected(MODERN, local(name)) as client:
            messages = (await client.get_prompt("tidy")).messages
            told[name] = [getattr(message.content, "text", "") for message in messages][:-1]
    assert told == {
        "plain": [],
        "mine": ["`find_page` is called `look_up` here."],
        "found": [
            "`find_page` is called `look_up` here.\n"
            "Not in your list, call it with `call_tool`: `look_up`.\n"
            "Not in your list, call it with `call_writing_tool`: `write_page`."
        ],
    }


def test_in_maintenance_a_call_through_another_tool_is_judged_by_what_it_calls(finding: Hub) -> None:
    governance.stop("writes", actor=governance.trusted("test"))
    error = refused("call_writing_tool", local(mode="search"), name="write_page", arguments={})
    assert (error.code, error.retry_after) == ("MAINTENANCE", 60)
    call("call_writing_tool", local(mode="search"), name="find_page", arguments={})
    call("call_tool", local(mode="search"), name="find_page", arguments={})


# ---- many at once


def many(*calls: dict[str, Any], caller: Caller | None = None, options: Options = Options()) -> list[dict[str, Any]]:  # noqa: B008 – frozen
    done = asyncio.run(engine.call("call_many", {"calls": list(calls)}, caller or local(), door="mcp", options=options))
    results: list[dict[str, Any]] = done.answer.value["results"]
    return results


def echo(text: str) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"message": text}}


def test_many_calls_end_in_order_each_with_a_row_and_an_error_of_its_own(finding: Hub) -> None:
    wrong = {"name": "calculate", "arguments": {"operation": "add", "a": 1}}
    results = many(echo("a"), wrong, {"name": "no_such_tool"}, echo("b"))
    assert [one.get("result") for one in results] == [{"message": "a"}, None, None, {"message": "b"}]
    assert results[1]["error"]["details"][0]["message"] == "Required parameter missing: b"
    assert results[2]["error"]["code"] == "TOOL_NOT_FOUND"
    rows = Counter(Call.objects.values_list("tool_name", "status"))
    assert rows[("echo", "succeeded")] == 2
    assert rows[("call_many", "succeeded")] == 1


def test_many_calls_run_at_the_same_time(finding: Hub) -> None:
    waiting = Programmable("waiting")
    finding.add(waiting.tool)
    running = 0
    met: list[int] = []

    async def meet() -> dict[str, int]:
        nonlocal running
        running += 1
        for _ in range(200):
            if running == 8:
                break
            await asyncio.sleep(0.05)
        met.append(running)
        return {"value": 1}

    waiting.outcomes += [meet] * 8
    assert len(many(*({"name": "waiting", "arguments": {"value": number}} for number in range(8)))) == 8
    assert met == [8] * 8


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("write_page", "write_page changes something: call it by itself"),
        ("call_many", "call_many cannot be called through another tool: call it directly"),
        ("call_writing_tool", "call_writing_tool cannot be called through another tool: call it directly"),
        ("search_tools", "search_tools cannot be called through another tool: call it directly"),
    ],
)
def test_only_tools_that_read_are_called_with_others(finding: Hub, name: str, said: str) -> None:
    (one, other) = many({"name": name, "arguments": {}}, echo("a"))
    assert one["error"]["error"] == said
    assert other["result"] == {"message": "a"}


def test_what_an_operator_says_about_a_tool_counts_and_not_what_it_claims(finding: Hub) -> None:
    ToolRecord.objects.filter(name="find_page").update(hint_read_only=False)
    rebuild_catalog()
    (one,) = many({"name": "find_page"})
    assert one["error"]["error"] == "find_page changes something: call it by itself"


def test_each_of_many_calls_has_its_rate_and_its_permission(finding: Hub) -> None:
    governance.set_policy("echo", {"rate_calls": 2, "rate_seconds": 60}, actor=governance.trusted("test"))
    rebuild_catalog()
    codes = [one.get("error", {}).get("code") for one in many(*map(echo, "abc"))]
    # They run at once: which of them is too many is not decided by their order.
    assert sorted(codes, key=str) == [None, None, "RATE_LIMIT_EXCEEDED"]
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["calculate"], mode="search")
    rebuild_catalog()
    (hidden,) = many(echo("a"), caller=local("mine"))
    assert hidden["error"]["code"] == "TOOL_NOT_FOUND"


def test_many_answers_fit_one_budget_and_parts_can_be_selected(finding: Hub) -> None:
    large = Programmable("large")
    finding.add(large.tool)
    answer = {"items": [{"id": number, "text": "x" * 50} for number in range(300)]}
    large.outcomes += [answer] * 4
    calls = ({"name": "large", "arguments": {"value": number}} for number in range(3))
    results = many(*calls, options=Options(answer_tokens=6_000))
    assert all("outline" in one["result"] for one in results)
    (part,) = many({"name": "large", "arguments": {"value": 9, "_fields": ["/items/*/id"]}})
    assert part["result"] == {"items": [{"id": number} for number in range(300)]}


def test_calling_many_is_listed_for_searching_and_where_a_toolset_names_it(finding: Hub) -> None:
    for name, names in (("some", ["echo"]), ("batch", ["echo", "call_many"])):
        governance.create_toolset(name, actor=governance.trusted("test"), names=names)
    rebuild_catalog()
    assert shown(local("some")) == ["echo", "read_result"]
    assert shown(local("batch")) == ["call_many", "echo", "read_result"]
    assert "call_many" not in shown(local())
    assert "call_many" in shown(local(mode="search"))


def test_without_a_hub_nothing_can_be_called_through_them() -> None:
    """Authors try tools outside of a hub; there, no other tools exist."""
    tools = {tool.name: tool for tool in pack.tools}
    with pytest.raises(ToolNotFoundError, match="echo"):
        testing.call(tools["call_many"], calls=[{"name": "echo"}])
    with pytest.raises(ToolNotFoundError, match="echo"):
        testing.call(tools["call_tool"], name="echo")
