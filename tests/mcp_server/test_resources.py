"""Resources of the hub and of packs, with the SDK's own client, for every caller and protocol era."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ResourceListChangedNotification,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextResourceContents,
)

from tests.mcp_server.test_prompts import offer
from tests.mcp_server.test_server import connected, era
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.base import database
from tools_app.mcp_server.listing import Listing
from tools_app.models import Call, ErrorLog
from tools_app.sdk.budgets import Budget
from tools_app.sdk.content import EmbeddedResource
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError, UpstreamUnavailableError
from tools_app.sdk.offer import Completes
from tools_app.sdk.pack import Pack
from tools_app.sdk.reach import Reach
from tools_app.sdk.resource import resource

# Its client finds it wrong to speak as the older era does.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]
__all__ = ["era"]  # a fixture


async def text(client: Client, uri: str) -> str:
    contents = (await client.read_resource(uri)).contents
    assert len(contents) == 1
    assert isinstance(contents[0], TextResourceContents)
    assert contents[0].uri == uri
    return contents[0].text


async def missing(client: Client, uri: str, era: str) -> bool:
    with pytest.raises(MCPError, match="Resource not found") as caught:
        await client.read_resource(uri)
    assert caught.value.code == (-32002 if era == "legacy" else INVALID_PARAMS)
    assert caught.value.data["uri"][:100] == uri[:100]
    assert len(caught.value.message) < 300
    return True


@resource("mine://note", mime_type="text/x-note", title="A note", size=4)
def note() -> str:
    """Something written down."""
    return "note"


@resource("mine://items/{id}/data/{part}.json", max_age=5)
async def item(id: int, part: str) -> dict[str, Any]:
    """An item."""
    return {"id": id, "part": part}


def shelves(value: str) -> list[str]:
    return ["upper", "lower"]


def boxes(value: str) -> list[str]:
    return ["red", "blue"]


async def test_are_listed_apart_from_templates(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, note, item)
    async with connected(era, alice) as client:
        listed = await client.list_resources()
        assert [one.uri for one in listed.resources] == ["mine://note", "toolhub://budgets", "toolhub://tools"]
        mine = listed.resources[0]
        assert (mine.name, mine.title, mine.description) == ("note", "A note", "Something written down.")
        assert (mine.mime_type, mine.size) == ("text/x-note", 4)
        templates = await client.list_resource_templates()
        assert [one.uri_template for one in templates.resource_templates] == [
            "mine://items/{id}/data/{part}.json",
            "toolhub://calls/{id}",
            "toolhub://tools/{name}",
            "toolhub://tools/{name}/calls",
        ]
        if era != "legacy":
            assert {(one.ttl_ms, one.cache_scope) for one in (listed, templates)} == {(1000, "private")}


async def test_are_read_as_what_they_are(hub: Hub, alice: Caller, era: str) -> None:
    @resource("mine://bytes", mime_type="image/png")
    def raw() -> bytes:
        """Bytes."""
        return b"\x89PNG\x00"

    @resource("mine://two")
    def two() -> list[EmbeddedResource]:
        """Two files."""
        return [EmbeddedResource("mine://two/a", "a", "text/plain"), EmbeddedResource("mine://two/b", b"b")]

    @resource("mine://long")
    def long() -> str:
        """More than an agent would be given as an answer."""
        return "long " * 60_000

    await offer(hub, note, item, raw, two, long)
    async with connected(era, alice) as client:
        assert await text(client, "mine://note") == "note"
        assert await text(client, "mine://items/7/data/a%20b.json") == '{"id":7,"part":"a b"}'
        blob = (await client.read_resource("mine://bytes")).contents[0]
        assert isinstance(blob, BlobResourceContents)
        assert (blob.mime_type, base64.b64decode(blob.blob)) == ("image/png", b"\x89PNG\x00")
        assert len(await text(client, "mine://long")) == 300_000
        both = await client.read_resource("mine://two")
        assert [one.uri for one in both.contents] == ["mine://two/a", "mine://two/b"]
        if era != "legacy":
            kept = await client.read_resource("mine://items/7/data/x.json")
            assert (kept.ttl_ms, kept.cache_scope) == (5000, "private")
            assert both.ttl_ms == 0
    calls = Call.objects.filter(tool_name="resource:item").order_by("started_at").values_list("status", "arguments")
    assert await database.run(lambda: calls[0]) == ("succeeded", '{"id":7,"part":"a b"}')


@pytest.mark.parametrize(
    "uri",
    [
        "mine://nothing",
        "mine://items/7/data/x",
        "mine://items//data/x.json",
        "mine://items/7/data/%2e%2e%2Fsecret.json",
        "mine://items/7/data/..%5Csecret.json",
        "mine://items/7/data/%00.json",
        "mine://items/7/data/%ff.json",
        "mine://items/7/data/a/b.json",
        "mine://items/7/data/a?b.json",
        "mine://items/" + "-" * 100_000,
        "toolhub://tools/",
        "toolhub://tools/nope",
        "toolhub://tools/{name}",
        "toolhub://calls/nope",
        "toolhub://calls/" + "0" * 32,
        "toolhub://calls/%00",
        "TOOLHUB://tools",
        "file:///etc/passwd",
        "not a uri",
        "",
    ],
)
async def test_what_is_not_there_is_not_found(hub: Hub, alice: Caller, era: str, uri: str) -> None:
    await offer(hub, note, item)
    async with connected(era, alice) as client:
        assert await missing(client, uri, era)


async def test_two_of_one_name_are_told_apart_by_their_uris(hub: Hub, alice: Caller, era: str) -> None:
    @resource("mine://shelf", name="stock")
    def shelf() -> str:
        """What is on the shelf."""
        return "shelf"

    @resource("mine://box", name="stock")
    def box() -> str:
        """What is in the box."""
        return "box"

    @resource("mine://shelves/{name}", name="stock")
    def by_shelf(name: Annotated[str, Completes(shelves)]) -> str:
        """What is on a shelf."""
        return f"on {name}"

    @resource("mine://boxes/{name}", name="stock")
    def by_box(name: Annotated[str, Completes(boxes)]) -> str:
        """What is in a box."""
        return f"in {name}"

    await offer(hub, shelf, box, by_shelf, by_box)
    texts = {"mine://shelf": "shelf", "mine://box": "box", "mine://shelves/1": "on 1", "mine://boxes/1": "in 1"}
    async with connected(era, alice) as client:
        for _ in range(2):
            assert await asyncio.gather(*(text(client, uri) for uri in texts)) == list(texts.values())
        for uri, values in (("mine://shelves/{name}", ["upper", "lower"]), ("mine://boxes/{name}", ["red", "blue"])):
            result = await client.complete(ResourceTemplateReference(uri=uri), {"name": "name", "value": ""})
            assert result.completion.values == values
    names = await database.run(lambda: set(Call.objects.values_list("tool_name", flat=True)))
    assert names == {"resource:stock"}


async def test_a_value_that_does_not_fit_its_template_is_reported(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, item)
    async with connected(era, alice) as client:
        with pytest.raises(MCPError, match="Invalid type for parameter id: expected number") as caught:
            await client.read_resource("mine://items/seven/data/x.json")
        assert caught.value.code == INVALID_PARAMS


async def test_what_one_broke_on_stays_inside(hub: Hub, alice: Caller, era: str, settings: Any) -> None:
    settings.TOOLHUB_MAX_ANSWER_BYTES = 1_000
    outcomes: dict[str, Any] = {
        "broken": RuntimeError("secret"),
        "away": UpstreamUnavailableError("The upstream is away", detail="secret"),
        "gone": NotFoundError("No such thing", context={"operation": "x", "resourceType": "y", "resourceId": "z"}),
        "none": None,
        "large": "x" * 1_001,
        "odd": object(),
    }

    @resource("mine://outcomes/{how}")
    def outcome(how: str) -> Any:
        """Whatever is wanted."""
        found = outcomes[how]
        if isinstance(found, BaseException):
            raise found
        return found

    await offer(hub, outcome)
    async with connected(era, alice) as client:
        for how in ("gone", "none"):
            assert await missing(client, f"mine://outcomes/{how}", era)
        for how, words in {
            "broken": "Tool execution failed: resource:outcome",
            "odd": "Tool execution failed: resource:outcome",
            "large": "Tool execution failed: resource:outcome: the answer has",
            "away": "The upstream is away",
        }.items():
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"mine://outcomes/{how}")
            assert caught.value.message.startswith(words)
            assert "secret" not in str(caught.value.data)
            assert await database.run(ErrorLog.objects.filter(pk=caught.value.data["errorId"]).exists)


async def test_calls_of_others_are_not_there(programmable: Programmable, alice: Caller, era: str) -> None:
    bob = Caller("key", "key:2", "bob", alice.scopes | {"admin:*"})
    async with connected(era, alice) as client:
        result = await client.call_tool("programmable", {"text": "```\n# not a heading"})
        assert result.meta is not None
        uri = f"toolhub://calls/{result.meta['toolhub/callId']}"
        page = await text(client, uri)
        assert "- Status: succeeded" in page
        assert "````json" in page
        assert uri in await text(client, "toolhub://tools/programmable/calls")
    async with connected(era, bob) as client:
        assert await missing(client, uri, era)
        assert "No calls yet." in await text(client, "toolhub://tools/programmable/calls")


async def test_tools_are_explained_within_the_reach_of_the_caller(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    await database.run(governance.create_toolset, "one", actor=governance.trusted("test"), names=["calculate"])
    await database.run(governance.set_enabled, ["programmable"], False, actor=governance.trusted("test"))
    await database.run(governance.set_policy, "calculate", {"timeout_ms": 700}, actor=governance.trusted("test"))
    async with connected(era, alice) as client:
        overview = await text(client, "toolhub://tools")
        assert "- `echo` – Echo back the message that was sent." in overview
        assert "- `programmable` – switched off by an operator" in overview
        page = await text(client, "toolhub://tools/calculate")
        for words in (
            "# Calculate",
            '| `operation` | string | yes | What to do with the two numbers; one of `"add"`, `"subtract"`',
            "| `a` | number | yes | The first number |",
            '"operation": "add"',
            "Read-only: it changes nothing.",
            "Timeout: 0.7 seconds.",
            "- Pack: builtin",
        ):
            assert words in page
        assert "cannot be called now: switched off" in await text(client, "toolhub://tools/programmable")
    async with connected(era, replace(alice, reach=Reach(frozenset({"one"})))) as client:
        assert "echo" not in await text(client, "toolhub://tools")
        assert await missing(client, "toolhub://tools/echo", era)


async def test_scopes_decide_who_can_list_and_read(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, note)
    async with connected(era, replace(alice, scopes=frozenset({"tools:list"}))) as client:
        await client.list_resources()
        for uri, scope in {"toolhub://tools": "tools:read", "mine://note": "tools:execute"}.items():
            with pytest.raises(MCPError, match=f"requires scope {scope}"):
                await client.read_resource(uri)
    async with connected(era, replace(alice, scopes=frozenset({"tools:read"}))) as client:
        assert "# Tools" in await text(client, "toolhub://tools")
        for ask in (client.list_resources(), client.list_resource_templates()):
            with pytest.raises(MCPError, match="requires scope tools:list"):
                await ask


async def test_those_of_a_pack_share_its_limits_and_wait_for_its_settings(
    hub: Hub, alice: Caller, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools_app.sdk.policies import Rate

    pack = Pack("mine", requires=["MINE_KEY"], rate=Rate(2, 60))

    @pack.resource("mine://limited")
    def limited() -> str:
        """A little of something."""
        return "some"

    await offer(hub, limited)
    monkeypatch.setenv("MINE_KEY", "")
    async with connected(era, alice) as client:
        assert await missing(client, "mine://limited", era)
    monkeypatch.setenv("MINE_KEY", "there")
    rebuild_catalog()
    async with connected(era, alice) as client:
        for _ in range(2):
            await text(client, "mine://limited")
        with pytest.raises(MCPError, match="Rate limit exceeded"):
            await client.read_resource("mine://limited")


def test_lists_are_cut_into_pages() -> None:
    listing = Listing([{"uri": f"mine://{number}"} for number in range(5)], "resources", "uri")
    cursor, found = None, []
    while True:
        page = listing.page(cursor, 2)
        found += [one["uri"] for one in page["resources"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        assert "mine" not in cursor
    assert found == [f"mine://{number}" for number in range(5)]


# ---- subscriptions


class Subscribed:
    """A client of either era that has subscribed to resources, and what it has been told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def hears(self, uri: str) -> None:
        assert await self.told.get() == uri


@asynccontextmanager
async def subscribed(era: str, caller: Caller, *uris: str) -> AsyncIterator[Subscribed]:
    made: list[Subscribed] = []

    async def note_it(message: object) -> None:
        if era != "legacy":
            return
        if isinstance(message, ResourceUpdatedNotification):
            made[0].told.put_nowait(message.params.uri)
        if isinstance(message, ResourceListChangedNotification):
            made[0].told.put_nowait("list")

    async with connected(era, caller, message_handler=note_it) as client:
        made.append(Subscribed(client))
        if era == "legacy":
            for uri in uris:
                await client.session.subscribe_resource(uri)
            yield made[0]
            return

        async def read() -> None:
            async for event in changes:
                made[0].told.put_nowait(getattr(event, "uri", "list"))

        async with (
            client.listen(resource_subscriptions=list(uris), resources_list_changed=True) as changes,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(read)
            yield made[0]
            tasks.cancel_scope.cancel()


async def test_subscribers_are_notified_of_changes_within_their_reach(
    hub: Hub, programmable: Programmable, alice: Caller, era: str, settings: Any
) -> None:
    settings.TOOLHUB_WATCH_SECONDS = 0.02

    @resource("mine://used", tools=["programmable"])
    def used() -> str:
        """Goes with a tool."""
        return ""

    await offer(hub, note, item, used)
    uris = ("toolhub://tools/echo", "mine://note", "mine://items/1/data/x.json", "mine://used")
    async with subscribed(era, alice, *uris) as agent:
        await database.run(governance.set_policy, "calculate", {"timeout_ms": 900}, actor=governance.trusted("test"))
        await database.run(governance.set_policy, "echo", {"timeout_ms": 900}, actor=governance.trusted("test"))
        await agent.hears("toolhub://tools/echo")
        await asyncio.to_thread(item.changed, id=2, part="x")
        await asyncio.to_thread(item.changed, id=1, part="x")
        await agent.hears("mine://items/1/data/x.json")
        note.changed()
        await agent.hears("mine://note")
        await database.run(governance.set_enabled, ["programmable"], False, actor=governance.trusted("test"))
        assert {await agent.told.get(), await agent.told.get()} == {"list", "mine://used"}
        used.changed()
        note.changed()
        await agent.hears("mine://note")
        if era == "legacy":
            await agent.client.session.unsubscribe_resource("mine://note")
            note.changed()
            item.changed(id=1, part="x")
            await agent.hears("mine://items/1/data/x.json")


async def test_only_what_can_be_read_and_can_change_is_subscribed_to(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, note)
    nothing = ["mine://x", "toolhub://tools/nope", "toolhub://calls/1", "toolhub://tools/echo/calls", "x" * 5000]
    if era == "legacy":
        async with connected(era, alice) as client:
            for uri in nothing:
                with pytest.raises(MCPError, match="Resource not found") as caught:
                    await client.session.subscribe_resource(uri)
                assert caught.value.code == -32002
        return
    async with (
        connected(era, alice) as client,
        client.listen(resource_subscriptions=[*nothing, "mine://note"]) as changes,
    ):
        assert changes.honored.resource_subscriptions == ["mine://note"]


async def test_the_number_of_subscriptions_is_limited(hub: Hub, alice: Caller, era: str) -> None:
    await offer(hub, item)
    uris = [f"mine://items/{number}/data/x.json" for number in range(257)]
    async with connected(era, alice) as client:

        async def subscribe() -> None:
            if era != "legacy":
                async with client.listen(resource_subscriptions=uris):
                    return
            for uri in uris:
                await client.session.subscribe_resource(uri)

        with pytest.raises(MCPError, match="At most 256 resources"):
            await subscribe()


def test_one_that_cannot_be_addressed_takes_only_itself_away() -> None:
    pack = Pack("mine")
    for uri in (
        "no-scheme",
        "Upper://x",
        "toolhub://mine",
        "x://{+path}",
        "x://{a}{id}",
        "x://{id}/{id}",
        "x://{other}",
        "x://fixed",
        "x://a b/{id}",
        "x://" + "a" * 2000 + "/{id}",
    ):

        @pack.resource(uri)
        def one(id: str) -> str:
            """Have an id."""
            return id

    @pack.resource("x://{id}", mime_type="text")
    def untyped(id: str) -> str:
        """Have no media type."""
        return id

    @pack.resource("x://{id}")
    def optional(id: str = "") -> str:
        """Need nothing."""
        return id

    assert pack.offers == []
    assert len(pack.broken) == 12
    assert all(error.place.startswith("tests/mcp_server/test_resources.py:") for error in pack.broken)
    with pytest.raises(ValueError, match="needs id, part"):
        item.changed(id=1)


async def test_the_budgets_of_a_caller_and_what_is_used_of_them(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        assert "Your calls have no budget." in await text(client, "toolhub://budgets")
    limited = replace(alice, budget=Budget(calls_a_day=4, tokens_a_month=9_000))
    async with connected(era, limited) as client:
        await client.call_tool("echo", {"message": "hi"})
        told = await text(client, "toolhub://budgets")
        assert "| your key | calls a day | 4 | 1 | 25 % |" in told
        assert "| your key | tokens a month | 9,000 |" in told
