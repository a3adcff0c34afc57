"""Which agents are notified of which change, and when."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import LazySettings
from mcp.shared.exceptions import MCPError
from mcp_types import NotificationParams, SubscriptionFilter, SubscriptionsListenRequestParams

from tests.support.tools import Hub
from tools_app import governance
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server.changes import CAN_NOTIFY, Changes, always
from tools_app.models import ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, RateLimitError
from tools_app.sdk.hub_errors import OverloadedError, StorageBusyError
from tools_app.sdk.reach import Reach

pytestmark = pytest.mark.anyio

EVERYTHING = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(tools_list_changed=True))


class Client:
    """One of the handshake era, as the SDK shows it to a server."""

    def __init__(self, tell: Callable[[], Awaitable[None]] | None = None) -> None:
        self.told = 0
        self._news = asyncio.Event()
        self.connection = SimpleNamespace(exit_stack=AsyncExitStack(), state={}, notify=self._notify)
        self._tell = tell or self._send
        self.context: Any = SimpleNamespace(session=SimpleNamespace(_connection=self.connection))

    async def _notify(self, method: str, params: Any) -> None:
        # Of the others, this client is told when it could not be seen what there was before.
        if method == "notifications/tools/list_changed":
            await self._tell()

    async def _send(self) -> None:
        self.told += 1
        self._news.set()

    async def join(self, changes: Changes) -> None:
        await changes.join(self.context, NotificationParams())

    async def leave(self) -> None:
        await self.connection.exit_stack.aclose()

    async def news(self) -> None:
        async with asyncio.timeout(5):
            await self._news.wait()
        self._news.clear()


@pytest.fixture(autouse=True)
def hasty(settings: LazySettings) -> None:
    settings.TOOLHUB_WATCH_SECONDS = 0.02


@asynccontextmanager
async def telling(changes: Changes) -> AsyncIterator[None]:
    task = asyncio.create_task(changes.tell())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def switch(*names: str, on: bool) -> None:
    await database.run(governance.set_enabled, list(names), on, actor=governance.trusted("test"))


async def a_while() -> None:
    await asyncio.sleep(0.3)


async def test_each_visible_change_is_notified_once(hub: Hub, alice: Caller) -> None:
    changes, client = Changes(always(alice)), Client()
    async with telling(changes):
        await client.join(changes)
        await client.join(changes)
        await a_while()
        assert client.told == 0
        await switch("echo", "calculate", on=False)
        await client.news()
        await database.run(governance.set_policy, "echo", {"timeout_ms": 700}, actor=governance.trusted("test"))
        await a_while()
        assert client.told == 1
        await client.leave()
        await switch("echo", on=True)
        await a_while()
        assert client.told == 1


async def test_a_change_that_a_call_noticed_first_is_notified_too(hub: Hub, alice: Caller) -> None:
    changes, client = Changes(always(alice)), Client()
    await client.join(changes)
    await database.run(ToolRecord.objects.filter(name="echo").update, enabled=False)
    assert (await catalog.fresh()).find("echo") is not None, "the snapshot is the new one already"
    async with telling(changes):
        await client.news()


async def test_agents_are_notified_of_tools_within_their_reach(hub: Hub, alice: Caller) -> None:
    await database.run(governance.create_toolset, "one", actor=governance.trusted("test"), names=["echo"])
    reach = {"now": Reach(frozenset({"one"}))}

    async def asked() -> Caller:
        return Caller("key", "key:9", "narrow", alice.scopes, reach["now"])

    narrow, wide = Client(), Client()
    changes = Changes(lambda context: asked if context is narrow.context else always(alice)(context))
    async with telling(changes):
        await narrow.join(changes)
        await wide.join(changes)
        await switch("calculate", on=False)
        await wide.news()
        await a_while()
        assert narrow.told == 0
        await database.run(governance.change_toolset, "one", actor=governance.trusted("test"), names=["calculate"])
        await narrow.news()
        await a_while()
        assert wide.told == 1
        reach["now"] = Reach()
        await switch("calculate", on=True)
        await narrow.news()


async def test_a_client_that_does_not_read_blocks_no_other(hub: Hub, alice: Caller) -> None:
    tried = 0

    async def stuck() -> None:
        nonlocal tried
        tried += 1
        await asyncio.sleep(60)

    async def broken() -> None:
        raise OSError("the pipe is gone")

    changes, client = Changes(always(alice)), Client()
    async with telling(changes):
        await Client(stuck).join(changes)
        await Client(broken).join(changes)
        await client.join(changes)
        for on in (False, True, False):
            await switch("echo", on=on)
            await client.news()
    assert tried == 1


async def test_a_client_that_reads_again_is_notified_of_what_it_missed(
    hub: Hub, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools_app.mcp_server.changes.PATIENCE_SECONDS", 0.05)
    reads = asyncio.Event()
    told = 0

    async def tell() -> None:
        nonlocal told
        await reads.wait()
        told += 1

    changes, client = Changes(always(alice)), Client(tell)
    async with telling(changes):
        await client.join(changes)
        await switch("echo", on=False)
        await a_while()
        assert told == 0
        reads.set()
        await a_while()
        assert told == 1


async def test_a_client_that_cannot_be_reached_is_notified_later(hub: Hub, alice: Caller) -> None:
    """Over HTTP, before it opens its stream."""
    is_open = False
    changes, client = Changes(always(alice)), Client()
    client.connection.state[CAN_NOTIFY] = lambda: is_open
    async with telling(changes):
        await client.join(changes)
        await switch("echo", on=False)
        await a_while()
        assert client.told == 0
        is_open = True
        await client.news()
        assert client.told == 1


async def test_a_client_that_leaves_while_it_joins_is_not_kept(
    hub: Hub, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()

    async def current_caller() -> Caller:
        await client.leave()
        return alice

    changes = Changes(lambda _: current_caller)
    with pytest.raises(MCPError, match="Connection closed"):
        await client.join(changes)
    assert not changes._listeners


async def test_survives_a_database_that_cannot_be_read(
    hub: Hub, alice: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = True
    read = catalog.fresh

    async def fresh() -> Snapshot:
        if away:
            raise StorageBusyError(detail="away")
        return await read()

    monkeypatch.setattr(catalog, "fresh", fresh)
    changes, client = Changes(always(alice)), Client()
    with caplog.at_level(logging.WARNING, "tools_app.mcp"):
        async with telling(changes):
            await client.join(changes)
            await a_while()
            away = False
            await client.news()
    assert [record.message for record in caplog.records if "look for changes" in record.message] == [
        "cannot look for changes: away"
    ]


async def test_a_revoked_key_gets_no_more_notifications(hub: Hub, alice: Caller) -> None:
    holds = True

    async def asked() -> Caller:
        if holds:
            return alice
        raise AuthenticationError

    changes, client = Changes(lambda _: asked), Client()
    async with telling(changes):
        await client.join(changes)
        holds = False
        await switch("echo", on=False)
        await a_while()
        assert client.told == 0


async def test_one_caller_cannot_take_all_subscriptions(hub: Hub, alice: Caller) -> None:
    async def send(*_: Any, **__: Any) -> None:
        """What is sent is of no interest here."""

    current = alice

    async def asked() -> Caller:
        return current

    context: Any = SimpleNamespace(request_id=1, session=SimpleNamespace(send_notification=send))
    changes = Changes(lambda _: asked, most_of_one=2)
    listening = [asyncio.create_task(changes.listen(context, EVERYTHING)) for _ in range(2)]
    await a_while()
    with pytest.raises(RateLimitError, match="a caller can have at most 2 open") as refused:
        await changes.listen(context, EVERYTHING)
    assert refused.value.context == {"limit": 2}
    current = replace(alice, id="key:2")
    listening.append(asyncio.create_task(changes.listen(context, EVERYTHING)))
    await a_while()
    assert not listening[-1].done()
    changes.close()
    await asyncio.gather(*listening)


async def test_listeners_are_limited_and_can_all_be_closed(hub: Hub, alice: Caller) -> None:
    async def send(*_: Any, **__: Any) -> None:
        """What is sent is of no interest here."""

    context: Any = SimpleNamespace(request_id=1, session=SimpleNamespace(send_notification=send))
    changes = Changes(always(alice), most_listening=2)
    open_streams = [asyncio.create_task(changes.listen(context, EVERYTHING)) for _ in range(2)]
    await a_while()
    with pytest.raises(OverloadedError, match="Too many subscriptions: the hub can have at most 2 open"):
        await changes.listen(context, EVERYTHING)
    changes.close()
    async with asyncio.timeout(5):
        assert len(await asyncio.gather(*open_streams)) == 2
        again = asyncio.create_task(changes.listen(context, EVERYTHING))
        await a_while()
        changes.close()
        await again
