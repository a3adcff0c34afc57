"""Calls that must not happen twice."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from datetime import timedelta
from typing import Annotated, Any

import pytest
from django.utils import timezone

from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine
from tools_app.base import secrets
from tools_app.engine import Options, Result
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk.context import Caller
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    Problem,
    RateLimitError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    ValidationError,
    restored,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import (
    IdempotencyInProgressError,
    IdempotencyMismatchError,
    OutcomeUnknownError,
    ReplyGoneError,
)
from tools_app.sdk.signatures import OrDigits, OrNumber

KEY = "order-17"


@pytest.fixture
def writing(hub: Hub) -> Programmable:
    """A tool that writes, and must not be run twice."""
    made = Programmable("writing", hints=Hints(read_only=False, idempotent=False))
    hub.add(made.tool)
    return made


def call(name: str, caller: Caller, key: str | None = KEY, **arguments: Any) -> Result:
    return engine.call_sync(name, arguments, caller, door="code", options=Options(idempotency_key=key))


def test_the_second_call_gets_the_answer_of_the_first(writing: Programmable, alice: Caller) -> None:
    first = call("writing", alice, value=4)
    second = call("writing", alice, value=4)
    assert len(writing.calls) == 1
    assert second.answer == first.answer
    assert (second.call_id, second.duration_ms) == (first.call_id, first.duration_ms)
    assert (first.answered_by, second.answered_by) == ("", "replay")
    assert sorted(Call.objects.values_list("status", "answered_by", "attempts")) == [
        ("succeeded", "", 1),
        ("succeeded", "replay", 0),
    ]


def test_the_order_of_arguments_makes_no_difference_and_defaults_none(writing: Programmable, alice: Caller) -> None:
    call("writing", alice, value=4, text="")
    call("writing", alice, text="", value=4)
    call("writing", alice, value=4)
    assert len(writing.calls) == 1


def test_an_id_counts_as_the_same_whether_it_is_sent_as_a_number_or_as_text(hub: Hub, alice: Caller) -> None:
    ran: list[tuple[int, str]] = []

    @tool(name="moved", hints=Hints(read_only=False, idempotent=False))
    def moved(id: Annotated[int, OrDigits()], version_id: Annotated[str, OrNumber()]) -> str:
        """Move an issue."""
        ran.append((id, version_id))
        return "moved"

    hub.add(moved)
    first = call("moved", alice, id="12", version_id=7)
    second = call("moved", alice, id=12, version_id="7")
    assert ran == [(12, "7")]
    assert (first.answered_by, second.answered_by) == ("", "replay")
    recorded = [json.loads(text) for text in Call.objects.values_list("arguments", flat=True) if text]
    assert all(arguments == {"id": 12, "version_id": "7"} for arguments in recorded)


def test_another_request_with_the_key_is_refused(writing: Programmable, alice: Caller) -> None:
    call("writing", alice, value=4)
    with pytest.raises(IdempotencyMismatchError):
        call("writing", alice, value=5)
    assert len(writing.calls) == 1


def test_keys_belong_to_their_callers(writing: Programmable, alice: Caller) -> None:
    call("writing", alice)
    call("writing", Caller("key", "key:2", "bob", alice.scopes))
    assert len(writing.calls) == 2


def test_an_error_is_given_again_as_it_was(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = [ApiError("Failed to update", context={"operation": "update", "statusCode": 409})]
    with pytest.raises(ApiError) as first:
        call("writing", alice)
    with pytest.raises(ApiError) as second:
        call("writing", alice)
    assert len(writing.calls) == 1
    assert second.value.as_dict() == first.value.as_dict()
    assert (second.value.call_id, second.value.replayed, first.value.replayed) == (first.value.call_id, True, False)
    assert sorted(Call.objects.values_list("status", "answered_by")) == [("failed", ""), ("failed", "replay")]


def test_a_stack_is_not_kept_with_the_error(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = [ValueError("password=hunter2")]
    with pytest.raises(ToolExecutionError):
        call("writing", alice)
    with pytest.raises(ToolExecutionError) as again:
        call("writing", alice)
    assert again.value.detail is None


def test_a_timeout_of_a_tool_that_writes_stays_one(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = [lambda: asyncio.sleep(5)]
    options = Options(idempotency_key=KEY, timeout_ms=100)
    for _ in range(2):
        with pytest.raises(ToolTimeoutError, match="Execution timeout after 100ms"):
            engine.call_sync("writing", {}, alice, door="code", options=options)
    assert len(writing.calls) == 1


def test_what_may_pass_can_be_tried_again_where_that_does_no_harm(programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = [ApiError("busy", context={"operation": "read", "statusCode": 503})]
    with pytest.raises(ApiError):
        call("programmable", alice)
    assert call("programmable", alice).answered_by == ""
    assert len(programmable.calls) == 2


@pytest.mark.parametrize("failure", [lambda: busy(503), lambda: busy(429), lambda: RateLimitError("slower")])
def test_a_change_that_was_not_made_and_may_be_tried_again_gives_the_key_back(
    writing: Programmable, alice: Caller, failure: Any
) -> None:
    writing.outcomes = [failure()]
    with pytest.raises(ToolError) as told:
        call("writing", alice)
    assert told.value.retryable
    assert not told.value.outcome_unknown
    assert call("writing", alice).answered_by == ""
    assert call("writing", alice).answered_by == "replay"
    assert len(writing.calls) == 2


@pytest.mark.parametrize("status", [408, 500, 502, 504])
def test_a_change_that_may_have_been_made_keeps_the_key(writing: Programmable, alice: Caller, status: int) -> None:
    writing.outcomes = [busy(status)]
    for _ in range(2):
        with pytest.raises(ApiError) as told:
            call("writing", alice)
        assert not told.value.retryable
    assert len(writing.calls) == 1


def busy(status: int) -> ApiError:
    return ApiError("Failed to update", context={"operation": "update", "statusCode": status})


def test_what_was_refused_does_not_use_up_the_key(writing: Programmable, alice: Caller) -> None:
    with pytest.raises(ValidationError):
        call("writing", alice, value="four")
    assert not IdempotencyKey.objects.exists()
    call("writing", alice, value=4)


def test_of_fifty_at_once_one_runs(writing: Programmable, alice: Caller) -> None:
    async def wait() -> str:
        await asyncio.sleep(0.05)
        return "done"

    writing.outcomes = [wait]

    async def story() -> list[Result | BaseException]:
        options = Options(idempotency_key=KEY)
        calls = (engine.call("writing", {}, alice, door="code", options=options) for _ in range(50))
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(story())
    assert len(writing.calls) == 1
    told = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    assert {one.answer.value for one in told} == {"done"}
    assert {type(one) for one in outcomes if isinstance(one, BaseException)} <= {IdempotencyInProgressError}


def test_a_call_that_was_cut_off_is_not_run_again(writing: Programmable, alice: Caller) -> None:
    first = call("writing", alice)
    IdempotencyKey.objects.update(reply=None)
    Call.objects.filter(pk=first.call_id).update(status="interrupted")
    with pytest.raises(OutcomeUnknownError) as told:
        call("writing", alice)
    assert told.value.context == {"callId": first.call_id}
    assert len(writing.calls) == 1


def test_a_call_that_was_cut_off_is_run_again_where_that_does_no_harm(
    programmable: Programmable, alice: Caller
) -> None:
    first = call("programmable", alice)
    IdempotencyKey.objects.update(reply=None)
    Call.objects.filter(pk=first.call_id).update(status="interrupted")
    assert call("programmable", alice).answered_by == ""
    assert len(programmable.calls) == 2
    assert call("programmable", alice).answered_by == "replay"


def test_a_call_that_was_cancelled_leaves_its_outcome_unknown(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = [lambda: asyncio.sleep(5)]

    async def story() -> None:
        options = Options(idempotency_key=KEY)
        task = asyncio.create_task(engine.call("writing", {}, alice, door="code", options=options))
        await asyncio.to_thread(eventually, lambda: bool(writing.calls))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert eventually(lambda: Call.objects.filter(status="cancelled").exists())
    with pytest.raises(OutcomeUnknownError):
        call("writing", alice)
    assert len(writing.calls) == 1


def test_after_a_day_the_key_is_free(writing: Programmable, alice: Caller) -> None:
    call("writing", alice)
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    assert call("writing", alice, value=9).answered_by == ""
    assert len(writing.calls) == 2


def test_neither_key_nor_answer_can_be_read_from_the_database(writing: Programmable, alice: Caller) -> None:
    writing.outcomes = ["a confidential answer"]
    call("writing", alice, key="a-key-with-a-name-in-it")
    row = IdempotencyKey.objects.get()
    assert row.reply is not None
    stored = f"{row.key_hash} {row.request_hash} {bytes(row.reply)!r}"
    assert "a-key" not in stored
    assert "confidential" not in stored


def test_an_answer_under_a_lost_encryption_key_is_an_unknown_outcome(
    writing: Programmable, alice: Caller, settings: Any
) -> None:
    call("writing", alice)
    settings.TOOLHUB_ENCRYPTION_KEY = "another key"
    with pytest.raises(OutcomeUnknownError):
        call("writing", alice)
    assert len(writing.calls) == 1


def test_an_earlier_encryption_key_still_opens(settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = "old"
    kept = secrets.encrypted(b"plain")
    settings.TOOLHUB_ENCRYPTION_KEY = "new, old"
    assert secrets.decrypted(kept) == b"plain"
    settings.TOOLHUB_ENCRYPTION_KEY = "new"
    assert secrets.decrypted(kept) is None


def held(caller: Caller) -> int:
    return sum(len(bytes(key.reply or b"")) for key in IdempotencyKey.objects.filter(caller_id=caller.id))


def noise(seed: int, size: int = 4_000) -> str:
    """Text that does not compress, so that what it takes is known."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def test_the_oldest_replies_of_a_caller_go_when_its_quota_is_full(
    writing: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_REPLIES_CALLER_BYTES = 100_000
    writing.outcomes = [noise(number) for number in range(40)]
    first, *_, last = [call("writing", alice, key=f"order-{number}") for number in range(40)]
    assert 50_000 < held(alice) <= 100_000
    assert IdempotencyKey.objects.count() == 40
    assert call("writing", alice, key="order-39").answer == last.answer
    with pytest.raises(ReplyGoneError) as told:
        call("writing", alice, key="order-0")
    assert told.value.context == {"callId": first.call_id, "status": "succeeded"}
    assert len(writing.calls) == 40


def test_a_call_whose_reply_is_gone_is_not_run_again_although_it_could_be(
    programmable: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_REPLIES_CALLER_BYTES = 0
    call("programmable", alice)
    with pytest.raises(ReplyGoneError):
        call("programmable", alice)
    assert len(programmable.calls) == 1


def test_one_callers_replies_do_not_push_out_those_of_others(
    writing: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_REPLIES_CALLER_BYTES = 50_000
    bob = Caller("key", "key:2", "bob", alice.scopes)
    call("writing", bob)
    writing.outcomes = [noise(number) for number in range(20)]
    for number in range(20):
        call("writing", alice, key=f"order-{number}")
    assert held(alice) <= 50_000
    assert call("writing", bob).answered_by == "replay"


def test_all_replies_together_have_a_quota(writing: Programmable, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_REPLIES_BYTES = 100_000
    callers = [Caller("key", f"key:{number}", f"caller {number}", alice.scopes) for number in range(40)]
    writing.outcomes = [noise(number) for number in range(40)]
    for caller in callers:
        call("writing", caller)
    assert 50_000 < sum(map(held, callers)) <= 100_000
    assert call("writing", callers[-1]).answered_by == "replay"
    with pytest.raises(ReplyGoneError):
        call("writing", callers[0])


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("value", [noise(1), {"text": noise(1)}, [noise(1)], None, 0, ""])
def test_a_reply_is_stored_once_and_comes_back_whole(hub: Hub, alice: Caller, value: Any, wrapped: bool) -> None:
    writing = Programmable("writing", hints=Hints(read_only=False), done="Done" if wrapped else "")
    hub.add(writing.tool)
    writing.outcomes = [value]
    first = call("writing", alice)
    assert call("writing", alice).answer == first.answer
    # Encryption writes it in base64, which is a third more.
    assert held(alice) < 8_000


@pytest.mark.parametrize("key", ["", "x" * 256, "line\nbreak", "schlüssel", 7])
def test_a_key_that_is_none_is_refused(writing: Programmable, alice: Caller, key: Any) -> None:
    with pytest.raises(ValidationError, match="Idempotency-Key must be"):
        call("writing", alice, key=key)
    assert not writing.calls


def test_every_error_survives_being_kept() -> None:
    for error in (
        InvalidArgumentsError(problems=[Problem("/a", "wrong", "right"), Problem("", "other")]),
        RateLimitError("slow down", retry_after=2.5, context={"limit": 3}),
        ApiError("no", context={"operation": "x", "statusCode": 429}, next_step="wait"),
    ):
        error.error_id, error.call_id, error.duration_ms = "e", "c", 5
        again: ToolError = restored(error.kept())
        assert again.as_dict() == error.as_dict()
        assert (again.status, again.retryable, again.call_id) == (error.status, error.retryable, "c")
