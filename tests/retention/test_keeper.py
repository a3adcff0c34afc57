"""Pruning runs in one process at a time and blocks no calls."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from tests.retention.rows import call, many_calls
from tests.support.processes import CHECKOUT, Home
from tests.support.tools import database_url, eventually
from tools_app.journal.retention.keeper import CHORE, EVERY, Keeper, claim, release
from tools_app.mcp_server import stdio
from tools_app.models import Call, Chore

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = timedelta(days=91)

IMPORT = """
import django, sys
django.setup()
from tools_app.mcp_server import stdio
print("tools_app.journal.retention" in sys.modules)
"""
CLAIM = """
import django, sys
django.setup()
from django.utils import timezone
from tools_app.journal.retention.keeper import claim
print("ready", flush=True)
sys.stdin.readline()
print(claim(timezone.now()))
"""


@contextmanager
def keeping(**times: float) -> Iterator[Keeper]:
    keeper = Keeper(**times)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "toolhub-keeper"]


def test_it_is_time_once_an_hour() -> None:
    now = timezone.now()
    assert claim(now)
    assert not claim(now)
    assert not claim(now + EVERY)
    assert claim(now + EVERY + timedelta(microseconds=1))


def test_a_time_far_ahead_does_not_prevent_pruning() -> None:
    now = timezone.now()
    assert claim(now + timedelta(days=300))
    assert claim(now)


def test_unfinished_work_can_be_continued_at_once() -> None:
    now = timezone.now()
    assert claim(now)
    release()
    assert claim(now)


def test_of_several_processes_one_prunes(tmp_path: Path) -> None:
    extra = {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "DATABASE_URL": database_url()}
    environment = Home(tmp_path, extra).environment
    command = [sys.executable, "-c", CLAIM]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes) for _ in range(4)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=30)[0].strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert sorted(said) == ["False", "False", "False", "True"]


def test_prunes_and_says_so_and_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    opened: list[Any] = []

    def remember(connection: Any, **_: Any) -> None:
        if threading.current_thread().name == "toolhub-keeper":
            opened.append(connection)

    connection_created.connect(remember)
    call(timezone.now() - LONG_AGO)
    try:
        with caplog.at_level(logging.INFO, "tools_app.journal.retention"), keeping(first_seconds=0):
            assert eventually(lambda: "deleted expired records" in caplog.text, 10)
            assert eventually(lambda: all(one.connection is None for one in opened), 10)
    finally:
        connection_created.disconnect(remember)
    assert opened
    assert [record.getMessage() for record in caplog.records] == ["deleted expired records: 1 calls"]
    assert not Call.objects.exists()
    assert not claim(timezone.now())


def test_says_nothing_when_nothing_is_old(caplog: pytest.LogCaptureFixture) -> None:
    call(timezone.now())
    with caplog.at_level(logging.INFO, "tools_app.journal.retention"), keeping(first_seconds=0):
        assert eventually(lambda: Chore.objects.filter(name="payloads").exists(), 10)
    assert not caplog.records
    assert Call.objects.count() == 1


def test_does_not_look_at_once_and_ends_at_once() -> None:
    call(timezone.now() - LONG_AGO)
    begun = time.monotonic()
    with keeping():
        assert keepers()
    assert time.monotonic() - begun < 30
    assert not keepers()
    assert not Chore.objects.exists()


def test_ends_in_the_middle_and_leaves_the_rest_to_the_next() -> None:
    many_calls(20_000, timezone.now() - LONG_AGO)
    with keeping(first_seconds=0):
        assert eventually(lambda: Call.objects.count() < 20_000, 20)
    assert not keepers()
    assert 0 < Call.objects.count() < 20_000
    with keeping(first_seconds=0):
        assert eventually(lambda: not Call.objects.exists(), 60)


def test_survives_a_database_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    call(timezone.now() - LONG_AGO)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tools_app_chore RENAME TO tools_app_away")
    try:
        with caplog.at_level(logging.INFO, "tools_app.journal.retention"), keeping(first_seconds=0, again_seconds=0.05):
            # The last of its tasks: the table must not be back between two of them.
            assert eventually(lambda: "cannot seal the audit trail" in caplog.text, 10)
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE tools_app_away RENAME TO tools_app_chore")
            assert eventually(lambda: "deleted expired records" in caplog.text, 10)
    finally:
        if "tools_app_away" in connection.introspection.table_names():
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE tools_app_away RENAME TO tools_app_chore")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert "cannot delete expired records" in caplog.text
    assert Chore.objects.filter(name=CHORE).exists()


def test_lives_as_long_as_the_server() -> None:
    from toolhub.asgi import application

    alive: list[bool] = []

    async def story() -> None:
        messages: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        for kind in ("startup", "shutdown"):
            messages.put_nowait({"type": f"lifespan.{kind}"})

        async def send(message: dict[str, str]) -> None:
            alive.append(bool(keepers()))

        await application({"type": "lifespan"}, messages.get, send)

    asyncio.run(story())
    assert alive == [True, False]


def test_comes_to_an_agent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LATER_SECONDS", 0.05)
    call(timezone.now() - LONG_AGO)

    async def story() -> None:
        task = asyncio.create_task(stdio._prune())
        assert not keepers()
        assert await asyncio.to_thread(eventually, lambda: bool(keepers()), 10)
        assert await asyncio.to_thread(eventually, _no_calls, 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert not keepers()


def _no_calls() -> bool:
    try:
        return not Call.objects.exists()
    finally:
        connection.close()


def test_an_agent_does_not_wait_for_its_import(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT),
        "DJANGO_SETTINGS_MODULE": "toolhub.settings",
        "TOOLHUB_HOME": str(tmp_path),
        "TOOLHUB_ENV_FILE": os.devnull,
    }
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
