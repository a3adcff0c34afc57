"""Changes that other processes make, and how soon those who wait learn of them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tools_app import governance
from tools_app.base import database, news
from tools_app.base.news import ACCESS, APPROVALS, TOOLS, News
from tools_app.models import Approval, triggers
from tools_app.sdk import heavy
from tools_app.sources import sync

pytestmark = pytest.mark.anyio
OPERATOR = governance.trusted("test")
only_postgres = pytest.mark.skipif(connection.vendor != "postgresql", reason="about PostgreSQL's notifications")


async def told_after(one: News, topic: str, change: Callable[[], Any]) -> bool:
    """Whether a task that waits for this topic is woken by the change."""
    seen = one.told([topic])
    waiting = asyncio.create_task(one.wait(30, seen, [topic]))
    await database.run(change)
    await waiting
    return one.told([topic]) > seen


async def listening(one: News) -> None:
    """Until it listens: it then tells of everything, since it may have missed something."""
    await one.wait(30, one.told())
    assert one.told() == len(news.TOPICS)


def listeners() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN toolhub' AND pid <> pg_backend_pid()")
        return [pid for (pid,) in cursor.fetchall()]


@pytest.fixture
async def one(transactional_db: None, anyio_backend: str) -> Any:
    made = News()
    await database.run(sync.sync)
    await database.run(triggers.create_triggers, connection)
    yield made
    await made.aclose()


async def test_who_waits_is_woken_by_news_of_its_topics_only_and_by_time(one: News) -> None:
    seen = one.told([TOOLS])
    early = asyncio.create_task(one.wait(30, seen, [TOOLS]))
    other = asyncio.create_task(one.wait(30, one.told([APPROVALS]), [APPROVALS]))
    await asyncio.sleep(0)
    one.tell(TOOLS)
    await early
    await one.wait(30, seen, [TOOLS])  # What was told before is not missed.
    await one.wait(0.01, one.told([ACCESS]), [ACCESS])
    if connection.vendor != "postgresql":
        assert not other.done()
    other.cancel()


@only_postgres
async def test_changes_of_others_wake_who_waits_at_their_commit(one: News) -> None:
    await listening(one)
    key, _ = await database.run(governance.create_key, "agent", actor=OPERATOR)
    changes: list[tuple[str, Callable[[], Any]]] = [
        (TOOLS, lambda: governance.set_enabled(["echo"], enabled=False, actor=OPERATOR)),
        (ACCESS, lambda: governance.revoke_key(key, actor=OPERATOR)),
        (APPROVALS, lambda: Approval.objects.filter(pk="none").delete()),
    ]
    for topic, change in changes:
        assert await told_after(one, topic, change)


@only_postgres
async def test_a_listener_whose_connection_ends_listens_again(
    one: News, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "RECONNECT_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, "tools_app.news")
    charged: list[object] = []

    def note(_: logging.LogRecord) -> bool:
        charged.append(heavy.charged.get())
        return True

    monkeypatch.setattr(caplog.handler, "filters", [note])
    heavy.charged.set(print)
    await listening(one)
    (pid,) = await database.run(listeners)

    def terminate() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    assert await told_after(one, TOOLS, terminate), "it may have missed something"
    assert len(caplog.records) == 1
    assert "looks for changes itself" in caplog.text
    assert charged == [None], "nothing of who waited first is in its context"
    await told_after(one, TOOLS, lambda: governance.set_enabled(["echo"], enabled=False, actor=OPERATOR))
    (again,) = await database.run(listeners)
    assert again != pid
    await one.aclose()
    assert await eventually_none(listeners)


async def test_without_a_driver_that_notifies_it_says_so_once_and_who_waits_polls(
    one: News, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "RECONNECT_SECONDS", 0.0)
    monkeypatch.setattr(database, "reads_now", lambda: False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for _ in range(3):
        await one.wait(0.01, one.told())
    assert [record.levelname for record in caplog.records if record.name == "tools_app.news"] == ["WARNING"]


async def eventually_none(read: Callable[[], list[int]]) -> bool:
    for _ in range(3_000):
        if not await database.run(read):
            return True
        await asyncio.sleep(0.01)
    return False
