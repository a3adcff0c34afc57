"""When a call must have ended, and when that waits."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tools_app.sdk.deadline import Deadline

pytestmark = pytest.mark.anyio


def test_says_how_much_time_is_left() -> None:
    assert 0 < Deadline(5).remaining() <= 5
    assert Deadline(-1).remaining() == 0


async def test_ends_what_it_is_put_around() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(0.01).enforced():
            await asyncio.Event().wait()


async def test_is_paused_while_a_person_is_asked() -> None:
    deadline = Deadline(0.05)
    async with deadline.enforced():
        with deadline.standing_still():
            before = deadline.remaining()
            with deadline.standing_still():
                await asyncio.sleep(0.1)
            assert deadline.remaining() == before
        assert deadline.remaining() <= before


async def test_resumes_after_the_answer() -> None:
    deadline = Deadline(0.02)
    enforced = deadline.enforced()
    with pytest.raises(TimeoutError):
        await asked_and_then_for_ever(deadline, enforced)
    assert enforced.expired()


async def asked_and_then_for_ever(deadline: Deadline, enforced: asyncio.Timeout) -> None:
    async with enforced:
        with deadline.standing_still():
            await asyncio.sleep(0.05)
        await asyncio.Event().wait()


async def test_a_question_after_the_end_moves_nothing() -> None:
    deadline = Deadline(0.01)
    with contextlib.suppress(TimeoutError):
        async with deadline.enforced():
            await asyncio.Event().wait()
    with deadline.standing_still():
        pass
    assert deadline.remaining() == 0
