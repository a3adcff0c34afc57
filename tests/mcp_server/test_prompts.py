"""Prompts of packs, with the SDK's own client: who is offered them, what they say, and what goes wrong."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitResult,
    EmbeddedResource,
    GetPromptResult,
    PromptListChangedNotification,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from tests.mcp_server.test_server import connected, era
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.base import database
from tools_app.models import Call, ErrorLog
from tools_app.sdk import content
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.prompt import Included, Message, Prompt, prompt
from tools_app.sdk.reach import Reach
from tools_app.sdk.resource import resource

pytestmark = pytest.mark.anyio
__all__ = ["era"]  # a fixture


async def offer(hub: Hub, *offers: Offer) -> None:
    await database.run(hub.offer, *offers)


def said(result: GetPromptResult) -> list[tuple[str, str]]:
    return [
        (message.role, message.content.text if isinstance(message.content, TextContent) else message.content.type)
        for message in result.messages
    ]


@prompt(title="Plan", category="travel", tags=["plans"])
def plan(
    city: Annotated[str, Field(min_length=2), "Where to"],
    days: Annotated[int, Field(ge=1, le=9)] = 1,
    mood: Annotated[Literal["lazy", "busy"], "How"] = "lazy",
    alone: bool = False,
) -> str:
    """Plan a trip."""
    return f"{city!r} {days!r} {mood!r} {alone!r}"


async def test_are_listed_with_what_people_need_to_fill_them_in(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, plan)
    async with connected(era, alice) as client:
        listed = await client.list_prompts()
        assert [one.name for one in listed.prompts] == ["diagnose_failures", "plan"]
        mine = listed.prompts[1]
        assert (mine.title, mine.description) == ("Plan", "Plan a trip.")
        assert mine.arguments is not None
        assert [(one.name, one.required, one.description) for one in mine.arguments] == [
            ("city", True, "Where to"),
            ("days", False, "Default: 1."),
            ("mood", False, "How One of lazy, busy. Default: lazy."),
            ("alone", False, "One of true, false. Default: false."),
        ]
        if era != "legacy":
            assert (listed.ttl_ms, listed.cache_scope) == (1000, "private")
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_prompts(cursor="?")


async def test_arguments_arrive_as_what_they_are(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, plan)
    async with connected(era, alice) as client:
        given = {"city": "12", "days": "3", "mood": "busy", "alone": "True"}
        assert said(await client.get_prompt("plan", given)) == [("user", "'12' 3 'busy' True")]
        # Clients send what people left empty.
        blank = {"city": "Rome", "days": "", "mood": ""}
        result = await client.get_prompt("plan", blank)
        assert said(result) == [("user", "'Rome' 1 'lazy' False")]
        assert result.meta is not None
        call = await database.run(Call.objects.get, pk=result.meta["toolhub/callId"])
        assert (call.tool_name, call.status, call.caller_id) == ("prompt:plan", "succeeded", alice.id)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Required parameter missing: city"),
        ({"city": ""}, "Invalid value for parameter city: expected at least 2 characters"),
        ({"city": "Rome", "days": "many"}, "Invalid type for parameter days: expected number"),
        ({"city": "Rome", "days": "[" * 5000}, "Invalid type for parameter days: expected number"),
        ({"city": "Rome", "days": "NaN"}, "Invalid type for parameter days: expected number"),
        ({"city": "Rome", "mood": "sad"}, "Invalid value for parameter mood: expected one of lazy, busy"),
        ({"city": "Rome", "who": "me"}, "Unknown parameter: who"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_in_words(
    hub: Hub, alice: Caller, era: str, given: dict[str, str], words: str
) -> None:
    await offer(hub, plan)
    async with connected(era, alice) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("plan", given)
        assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, words)
        assert caught.value.data["code"] == "VALIDATION_ERROR"


async def test_an_unknown_one_gets_a_short_error(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        for name in ("nope\n", "x" * 100_000, "prompt:plan", "echo", "", "\N{RIGHT-TO-LEFT OVERRIDE}"):
            with pytest.raises(MCPError, match="Unknown prompt") as caught:
                await client.get_prompt(name)
            assert caught.value.code == INVALID_PARAMS
            assert len(caught.value.message) < 300
            assert "\n" not in caught.value.message


async def test_say_more_than_text_and_more_than_once(hub: Hub, alice: Caller, era: str) -> None:
    @prompt()
    async def everything(ctx: Context) -> list[Message | str]:
        """Say all there is."""
        return [
            ctx.caller.name,
            Message(content.Image(b"\x89PNG"), role="assistant"),
            Message(content.Audio(b"RIFF")),
            Message(content.EmbeddedResource("x://y", b"\x00")),
            Message(content.ResourceLink("x://y", "y")),
            Message(Included("toolhub://tools/echo")),
            Message(Included("x://nothing")),
        ]

    await offer(hub, everything)
    async with connected(era, alice) as client:
        result = await client.get_prompt("everything")
        assert said(result) == [
            ("user", "alice"),
            ("assistant", "image"),
            ("user", "audio"),
            ("user", "resource"),
            ("user", "resource_link"),
            ("user", "resource"),
            ("user", "(There is nothing at x://nothing for you.)"),
        ]
        included = result.messages[5].content
        assert isinstance(included, EmbeddedResource)
        assert included.resource.uri == "toolhub://tools/echo"


async def test_are_for_callers_with_access_to_their_tools(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any, era: str
) -> None:
    settings.TOOLHUB_WATCH_SECONDS = 0.02
    told = asyncio.Event()

    async def note(message: object) -> None:
        if isinstance(message, PromptListChangedNotification):
            told.set()

    @prompt(tools=["programmable", "echo"])
    def use() -> str:
        """Use two tools."""
        return "use them"

    await offer(hub, use)
    async with connected(era, alice, message_handler=note) as client:
        assert len((await client.list_prompts()).prompts) == 2

        async def switch() -> None:
            await database.run(governance.set_enabled, ["programmable"], False, actor=governance.trusted("test"))

        if era == "legacy":
            await switch()
            await told.wait()
        else:
            async with client.listen(prompts_list_changed=True) as changes:
                await switch()
                await anext(changes)
        assert [one.name for one in (await client.list_prompts()).prompts] == ["diagnose_failures"]
        with pytest.raises(MCPError, match="Unknown prompt: use"):
            await client.get_prompt("use")


async def test_toolsets_choose_those_without_tools_by_pack_category_and_tag(hub: Hub, alice: Caller) -> None:
    await database.run(governance.create_toolset, "trips", actor=governance.trusted("test"), tags=["plans"])
    await database.run(governance.create_toolset, "echo", actor=governance.trusted("test"), names=["echo", "plan"])

    @prompt(tools=["echo"])
    def say() -> str:
        """Say it."""
        return "say"

    await offer(hub, plan, say)
    found = {}
    for toolset in ("trips", "echo"):
        narrow = replace(alice, reach=Reach(frozenset({toolset})))
        async with connected("2026-07-28", narrow) as client:
            found[toolset] = [one.name for one in (await client.list_prompts()).prompts]
    assert found == {"trips": ["plan"], "echo": ["plan", "say"]}


async def test_what_one_broke_on_stays_inside(hub: Hub, alice: Caller, era: str) -> None:
    @prompt()
    def broken(how: str = "") -> Any:
        """Break."""
        if how == "politely":
            raise NotFoundError("No such city", context={"operation": "x", "resourceType": "City", "resourceId": "1"})
        if how == "empty":
            return []
        if how == "wrong":
            return {"role": "user"}
        raise RuntimeError("secret")

    await offer(hub, broken)
    async with connected(era, alice) as client:
        for how in ("", "empty", "wrong"):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt("broken", {"how": how})
            assert caught.value.message == "Tool execution failed: prompt:broken"
            assert "secret" not in str(caught.value.data)
            error = await database.run(ErrorLog.objects.get, pk=caught.value.data["errorId"])
            assert error.tool_name == "prompt:broken"
        with pytest.raises(MCPError, match="No such city"):
            await client.get_prompt("broken", {"how": "politely"})


async def test_a_blocking_one_delays_no_other_and_has_a_deadline(hub: Hub, alice: Caller, era: str) -> None:
    release = threading.Event()

    @prompt(timeout=0.2)
    def slow() -> str:
        """Take long."""
        release.wait(5)
        return "late"

    await offer(hub, slow)
    try:
        async with connected(era, alice) as client:
            waiting = asyncio.create_task(client.get_prompt("slow"))
            await client.list_prompts()
            with pytest.raises(MCPError, match="Execution timeout after 200ms"):
                await waiting
    finally:
        release.set()


async def test_one_can_ask_before_it_speaks(hub: Hub, alice: Caller, era: str) -> None:
    class Mood(BaseModel):
        mood: str

    @prompt()
    async def moody(ctx: Context) -> str:
        """Ask how somebody is."""
        reply = await ctx.elicit("How are you?", Mood)
        return f"Somebody is {reply.data.mood}." if reply.accepted else "Nobody knows."

    @resource("mine://asks/{what}")
    async def asks(ctx: Context, what: str) -> str:
        """Ask what to read."""
        reply = await ctx.elicit("What else?", Mood)
        return f"{what} {reply.data.mood}"

    async def answer(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"mood": "well"})

    await offer(hub, moody, asks)
    async with connected(era, alice, elicitation_callback=answer) as client:
        assert said(await client.get_prompt("moody")) == [("user", "Somebody is well.")]
        read = (await client.read_resource("mine://asks/this")).contents[0]
        assert isinstance(read, TextResourceContents)
        assert read.text == "this well"
    async with connected(era, alice) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("moody")
        assert caught.value.code == (INVALID_REQUEST if era == "legacy" else MISSING_REQUIRED_CLIENT_CAPABILITY)


async def test_a_caller_without_execute_scope_gets_none(hub: Hub, charlie: Caller, era: str) -> None:
    async with connected(era, charlie) as client:
        with pytest.raises(MCPError, match="requires scope tools:list"):
            await client.list_prompts()
        with pytest.raises(MCPError, match="requires scope tools:execute"):
            await client.get_prompt("diagnose_failures", {"tool": "echo"})


async def test_the_builtin_one_brings_what_is_known_of_the_failures(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    programmable.outcomes += [RuntimeError("secret")]
    async with connected(era, alice) as client:
        failed = await client.call_tool("programmable", {})
        assert failed.meta is not None
        result = await client.get_prompt("diagnose_failures", {"tool": "programmable"})
        task, page, calls = (message.content for message in result.messages)
        assert isinstance(task, TextContent)
        assert "the tool `programmable` fail" in task.text
        assert isinstance(page, EmbeddedResource)
        assert "Does what a test tells it." in page.resource.model_dump_json()
        assert isinstance(calls, EmbeddedResource)
        text = calls.resource.model_dump_json()
        assert failed.meta["toolhub/callId"] in text
        assert "TOOL_EXECUTION_ERROR" in text
        assert "secret" not in text
        one = await client.get_prompt(
            "diagnose_failures", {"tool": "programmable", "call": failed.meta["toolhub/callId"]}
        )
        assert failed.meta["toolhub/error"]["errorId"] in one.messages[2].model_dump_json()
        hostile = await client.get_prompt("diagnose_failures", {"tool": "../../x\n{}", "call": "%2e%2e"})
        assert said(hostile)[1][1].startswith("(There is nothing at toolhub://tools/..%2F")


def test_a_broken_one_takes_only_itself_away() -> None:
    pack = Pack("mine")

    @pack.prompt()
    def undocumented() -> str:
        return ""

    @pack.prompt(tools="echo")
    def stringy() -> str:
        """Name a text instead of tools."""
        return ""

    @pack.prompt(title=5)
    def numbered() -> str:
        """Have a number for a title."""
        return ""

    @pack.prompt()
    def untyped(city) -> str:
        """Have an argument without a type."""
        return ""

    @pack.prompt()
    def oddly_described(city: Annotated[str, Field(description=5)]) -> str:
        """Describe an argument with a number."""
        return ""

    @pack.prompt()
    def good() -> str:
        """Be good."""
        return "good"

    assert [one.name for one in pack.offers] == ["good"]
    assert isinstance(good, Prompt)
    assert good() == "good"
    reasons = [str(error) for error in pack.broken]
    assert [reason.partition(":")[0] for reason in reasons] == [
        "prompt undocumented",
        "prompt stringy",
        "prompt numbered",
        "prompt untyped",
        "prompt oddly_described",
    ]
    assert all(error.place.startswith("tests/mcp_server/test_prompts.py:") for error in pack.broken)
    with pytest.raises(TypeError, match="has no option hints"):
        pack.prompt(hints=1)(good.function)
