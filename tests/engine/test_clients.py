"""One client for each account, and what becomes of those whose account has changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.support.desk import Desk
from tests.support.packs.desk import DESK
from tests.support.tools import Hub
from tools_app.catalog import clients as module
from tools_app.catalog.clients import Clients
from tools_app.sdk.accounts import Account

pytestmark = pytest.mark.anyio


def account(desk: Desk, secret: str, name: str = "ann") -> Account:
    return Account(name=name, pack="desk", kind=DESK, base=desk.url, secret=secret)


async def test_calls_of_one_account_share_a_client(hub: Hub) -> None:
    with Desk() as desk:
        clients = Clients()
        first = await clients.of(account(desk, "key-1"), None)
        assert await clients.of(account(desk, "key-1"), None) is first
        assert await clients.of(account(desk, "key-2"), None) is not first
        assert await clients.of(account(desk, "key-1"), None) is not first, "it has gone with the change"
        await clients.close()


async def test_an_account_may_change_while_the_client_before_is_closed(hub: Hub) -> None:
    with Desk() as desk:
        clients = Clients()
        first = account(desk, "key-of-ann-1")
        await (await clients.of(first, None)).get(
            "notes", operation="list notes"
        )  # It has a socket that takes time to close.
        second, third = replace(first, secret="key-of-ann-2"), replace(first, secret="key-of-ann-3")
        made = await asyncio.gather(clients.of(second, None), clients.of(third, None))
        assert await clients.of(third, None) is made[1]
        await clients.close()


async def test_the_one_that_was_used_longest_ago_makes_room(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 2)
    with Desk() as desk:
        clients = Clients()
        one, two, three = (account(desk, "key", name) for name in ("one", "two", "three"))
        first, second = await clients.of(one, None), await clients.of(two, None)
        assert await clients.of(one, None) is first
        await clients.of(three, None)
        assert await clients.of(one, None) is first
        assert await clients.of(two, None) is not second
        await clients.close()
