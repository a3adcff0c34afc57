"""What arguments could be, with the SDK's own client."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Completion, PromptReference, ResourceTemplateReference

from tests.mcp_server.test_prompts import offer
from tests.mcp_server.test_server import connected, era
from tests.support.tools import Hub, Programmable, eventually
from tools_app import governance
from tools_app.base import database
from tools_app.models import Call, ErrorLog
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offer import Completes
from tools_app.sdk.prompt import prompt
from tools_app.sdk.reach import Reach
from tools_app.sdk.resource import resource

pytestmark = pytest.mark.anyio
__all__ = ["era"]  # a fixture


async def asked(client: Client, name: str, argument: str, typed: str = "", **known: str) -> Completion:
    ref: Any = ResourceTemplateReference(uri=name) if "://" in name else PromptReference(name=name)
    result = await client.complete(ref, {"name": argument, "value": typed}, context_arguments=known or None)
    return result.completion


def projects(value: str) -> list[str]:
    if value == "break":
        raise RuntimeError("secret")
    return [f"project-{number}" for number in range(250)]


async def issues(ctx: Context, value: str, arguments: dict[str, str]) -> list[str]:
    return [f"{arguments.get('project', 'none')}-{ctx.caller.name}"]


def wrong(text: str) -> list[str]:
    return [text]


@prompt()
def report(
    project: Annotated[str, Completes(projects)],
    issue: Annotated[str, Completes(issues)] = "",
    kind: Literal["bug", "feature", "big"] = "bug",
    level: Literal[1, 2] = 1,
    draft: bool = False,
    tool: Annotated[str, Completes("toolhub://tools/{name}")] = "",
    shelf: Annotated[str, Completes("mine://{shelf}/{book}")] = "",
    lost: Annotated[str | None, Completes("mine://nothing/{lost}")] = None,
    free: str = "",
) -> str:
    """Write a report."""
    return project


@resource("mine://{shelf}/{book}")
def book(shelf: Literal["upper", "lower"], book: str) -> str:
    """A book."""
    return book


async def test_come_from_types_functions_and_other_templates(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, report, book)
    async with connected(era, alice) as client:
        for argument, typed, values in (
            ("kind", "", ["bug", "feature", "big"]),
            ("kind", "B", ["bug", "big"]),
            ("kind", "u", ["bug", "feature"]),
            ("level", "2", ["2"]),
            ("draft", "t", ["true"]),
            ("tool", "ec", ["echo"]),
            ("shelf", "low", ["lower"]),
            ("project", "t-24", ["project-24", *(f"project-24{last}" for last in range(10))]),
            ("issue", "", ["none-alice"]),
            ("lost", "", []),
            ("free", "x", []),
            ("project", "x" * 2_000, []),
        ):
            assert (await asked(client, "report", argument, typed)).values == values, (argument, typed)
        assert (await asked(client, "report", "issue", project="p1")).values == ["p1-alice"]
        assert (await asked(client, "mine://{shelf}/{book}", "shelf", "u")).values == ["upper"]
        assert (await asked(client, "mine://{shelf}/{book}", "book")).values == []


async def test_are_a_hundred_at_most_and_say_how_many_there_are(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, report)
    async with connected(era, alice) as client:
        found = await asked(client, "report", "project")
        assert (len(found.values), found.total, found.has_more) == (100, 250, True)
        found = await asked(client, "report", "project", "project-2")
        assert (len(found.values), found.total, found.has_more) == (61, 61, False)


async def test_of_the_hubs_own_tell_only_what_the_caller_can_see(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    await database.run(governance.create_toolset, "one", actor=governance.trusted("test"), names=["echo"])
    async with connected(era, alice) as client:
        names = await asked(client, "toolhub://tools/{name}", "name")
        assert names.values == ["calculate", "echo", "programmable", "read_result"]
        called = await client.call_tool("echo", {"message": "hi"})
        assert called.meta is not None
        call_id = called.meta["toolhub/callId"]
        assert (await asked(client, "toolhub://calls/{id}", "id", call_id[:6])).values == [call_id]
    narrow = replace(alice, id="key:2", reach=Reach(frozenset({"one"})))
    async with connected(era, narrow) as client:
        assert (await asked(client, "toolhub://tools/{name}/calls", "name")).values == ["echo", "read_result"]
        assert (await asked(client, "toolhub://calls/{id}", "id")).values == []


async def test_of_what_is_not_there_are_refused(hub: Hub, alice: Caller, charlie: Caller, era: str) -> None:
    await offer(hub, report)
    async with connected(era, alice) as client:
        for name, argument, words in (
            ("nope", "x", "Unknown prompt: nope"),
            ("toolhub://nope/{x}", "x", "Unknown resource template: toolhub://nope"),
            ("toolhub://tools", "x", "Unknown argument: x; known arguments: none"),
            ("report", "nope" * 1000, "Unknown argument: nopenope"),
            ("toolhub://tools/{name}", "id", "Unknown argument: id; known arguments: name"),
        ):
            with pytest.raises(MCPError, match=words) as caught:
                await asked(client, name, argument)
            assert caught.value.code == INVALID_PARAMS
            assert len(caught.value.message) < 400
    async with connected(era, charlie) as client:
        with pytest.raises(MCPError, match="requires scope tools:list"):
            await asked(client, "report", "project")
    async with connected(era, replace(alice, scopes=frozenset({"tools:list"}))) as client:
        assert (await asked(client, "report", "kind", "bu")).values == ["bug"]
        with pytest.raises(MCPError, match="requires scope tools:execute"):
            await asked(client, "report", "project")


async def test_one_that_breaks_is_in_the_error_log_and_nowhere_else(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, report)
    async with connected(era, alice) as client:
        assert (await asked(client, "report", "project", "break")).values == []
        await asked(client, "report", "project")
    logged = await database.run(lambda: eventually(ErrorLog.objects.filter(tool_name="prompt:report:project").exists))
    assert logged
    assert not await database.run(Call.objects.exists)


def test_what_completes_takes_what_was_typed() -> None:
    with pytest.raises(DefinitionError, match="the completion of x must take `value`"):

        @prompt()
        def one(x: Annotated[str, Completes(wrong)]) -> str:
            """Be wrong."""
            return x
