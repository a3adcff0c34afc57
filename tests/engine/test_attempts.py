"""Trying again, waiting in turn, and keeping upstreams apart: through whole calls."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from tests.support.tools import Hub, Programmable, blocking_tool, eventually
from tools_app import engine, governance
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    ApiError,
    RateLimitError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    UpstreamUnavailableError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import CircuitOpenError, OverloadedError
from tools_app.sdk.pack import Pack
from tools_app.sdk.policies import Rate

QUICK = {"retry_delay_ms": 100}


def call(name: str, caller: Caller, **options: Any) -> engine.Result:
    return engine.call_sync(name, {}, caller, door="code", options=engine.Options(**options))


def down() -> UpstreamUnavailableError:
    return UpstreamUnavailableError("The upstream cannot be reached")


def test_tries_again_when_asked_to_and_counts_the_attempts(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = [down(), down(), {"value": "third time"}]
    result = call("programmable", alice, retries=2, **QUICK)
    assert result.answer.value == {"value": "third time"}
    assert Call.objects.get().attempts == 3


def test_does_not_try_again_unless_somebody_wants_it(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = [down()]
    with pytest.raises(UpstreamUnavailableError):
        call("programmable", alice)
    assert Call.objects.get().attempts == 1


def test_an_operator_can_want_it(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    governance.set_policy("programmable", {"retries": 1, "retry_delay_ms": 100}, actor=governance.trusted("test"))
    programmable.outcomes = [down(), {"value": 2}]
    assert call("programmable", alice).answer.value == {"value": 2}


def test_a_caller_can_only_ask_for_less_than_an_operator_allows(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    limits = {"timeout_ms": 1000, "retries": 1, "retry_delay_ms": 500}
    governance.set_policy("programmable", limits, actor=governance.trusted("test"))

    def outlook(**options: Any) -> Any:
        return call("programmable", alice, dry_run=True, **options).answer.value

    assert outlook(timeout_ms=60_000, retries=3)["timeoutMs"] == 1000
    assert outlook(timeout_ms=60_000, retries=3)["retries"] == 1
    assert outlook(timeout_ms=300, retries=0)["timeoutMs"] == 300
    assert outlook(timeout_ms=300, retries=0)["retries"] == 0
    programmable.outcomes = [down(), {"value": 2}]
    began = time.monotonic()
    call("programmable", alice, retry_delay_ms=100)
    assert time.monotonic() - began > 0.3, "it waited as long as the operator says"


def test_a_caller_can_have_more_than_the_default_where_no_operator_has_set_a_limit(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_TIMEOUT_MS = 200
    programmable.outcomes = [lambda: asyncio.sleep(0.4)]
    call("programmable", alice, timeout_ms=20_000)


def test_the_error_says_whose_limit_it_was(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    governance.set_policy("programmable", {"timeout_ms": 200}, actor=governance.trusted("test"))
    programmable.outcomes = [lambda: asyncio.sleep(60), lambda: asyncio.sleep(60)]
    with pytest.raises(ToolTimeoutError, match="^Execution timeout after 200ms$") as limited:
        call("programmable", alice, timeout_ms=60_000)
    assert limited.value.next_step == "Call again with less to do: an operator allows at most 200 ms."
    with pytest.raises(ToolTimeoutError, match="^Execution timeout after 100ms$") as hurried:
        call("programmable", alice, timeout_ms=100)
    assert hurried.value.next_step == "Call again, if needed with a longer timeout."


def test_callers_in_a_hurry_do_not_make_an_upstream_look_broken(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    programmable.outcomes = [lambda: asyncio.sleep(60) for _ in range(6)]
    for _ in range(6):
        with pytest.raises(ToolTimeoutError):
            call("programmable", alice, timeout_ms=100)
    assert call("programmable", alice).answer.value == {"value": 0}


def test_gives_up_after_the_last_attempt(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = [down(), down(), down()]
    with pytest.raises(UpstreamUnavailableError):
        call("programmable", alice, retries=1, **QUICK)
    assert len(programmable.calls) == 2
    row = Call.objects.get()
    assert (row.status, row.attempts) == ("failed", 2)


@pytest.mark.parametrize(
    "outcome", [ToolError("no"), KeyError("a bug"), ValidationError("wrong", context={"field": "x"})]
)
def test_does_not_repeat_what_would_fail_again(
    hub: Hub, programmable: Programmable, alice: Caller, outcome: Exception
) -> None:
    programmable.outcomes = [outcome]
    with pytest.raises(ToolError):
        call("programmable", alice, retries=3, **QUICK)
    assert len(programmable.calls) == 1


def test_never_repeats_a_tool_that_writes_unless_it_is_idempotent(hub: Hub, alice: Caller) -> None:
    once, often = Programmable("once", hints=Hints()), Programmable("often", hints=Hints(idempotent=True))
    hub.add(once.tool, often.tool)
    once.outcomes, often.outcomes = [down()], [down(), {"value": 2}]
    with pytest.raises(UpstreamUnavailableError):
        call("once", alice, retries=3, **QUICK)
    assert len(once.calls) == 1
    assert call("often", alice, retries=3, **QUICK).answer.value == {"value": 2}
    assert Call.objects.get(tool_name="often").attempts == 2


@pytest.mark.parametrize(
    ("hints", "failure", "retryable"),
    [
        (Hints(), UpstreamUnavailableError("cut"), False),
        (Hints(), ToolTimeoutError("slow"), False),
        (Hints(), ApiError("busy", context={"operation": "x", "statusCode": 504}), False),
        (Hints(), ApiError("busy", context={"operation": "x", "statusCode": 429}), True),
        (Hints(), RateLimitError("later"), True),
        (Hints(idempotent=True), UpstreamUnavailableError("cut"), True),
        (Hints(read_only=True), ToolTimeoutError("slow"), True),
    ],
)
def test_what_a_tool_raises_itself_is_not_to_be_repeated_where_it_may_have_changed_something(
    hub: Hub, alice: Caller, hints: Hints, failure: ToolError, retryable: bool
) -> None:
    raising = Programmable("raising", hints=hints)
    hub.add(raising.tool)
    raising.outcomes = [failure]
    with pytest.raises(ToolError) as caught:
        call("raising", alice)
    assert (caught.value.retryable, caught.value.outcome_unknown) == (retryable, not retryable)


class CodedError(Exception):
    code = "ECONNRESET"


def library_error(module: str, name: str, parent: str = "") -> Exception:
    """As a library would have it that is not imported here."""
    base: type[Exception] = type(parent, (Exception,), {"__module__": module}) if parent else Exception
    kind: type[Exception] = type(name, (base,), {"__module__": module})
    return kind("the network failed")


def wrapped(cause: BaseException, how: str) -> Exception:
    try:
        try:
            raise cause
        except BaseException as error:
            if how == "cause":
                raise ValueError("wrapped") from error
            if how == "hidden":
                raise ValueError("said otherwise") from None
            raise ValueError("wrapped")  # noqa: B904 - its context is what this is about
    except ValueError as error:
        return error


NETWORK = [
    *(ConnectionResetError(), ConnectionRefusedError(), ConnectionAbortedError(), BrokenPipeError(), TimeoutError()),
    *(OSError(number, "") for number in (errno.ETIMEDOUT, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH)),
    *(CodedError(), httpx.ConnectError(""), httpx.ReadTimeout(""), httpx.RemoteProtocolError("")),
    *(socket.gaierror(socket.EAI_AGAIN, "later"), ExceptionGroup("several", [KeyError(), ConnectionResetError()])),
    *(library_error("httpx2", "ConnectError"), library_error("httpx2._exceptions", "ReadError")),
    library_error("httpx2", "OddTimeout", "ReadTimeout"),
    *(wrapped(ConnectionResetError(), "cause"), wrapped(httpx.ReadError(""), "context")),
]


@pytest.mark.parametrize("failure", NETWORK, ids=lambda failure: type(failure).__name__)
def test_a_failing_network_is_tried_again_whoever_raises_it(hub: Hub, alice: Caller, failure: Exception) -> None:
    reading, writing = Programmable("reading"), Programmable("writing", hints=Hints())
    hub.add(reading.tool, writing.tool)
    reading.outcomes, writing.outcomes = [failure, failure, {"value": 3}], [failure]
    assert call("reading", alice, retries=2, **QUICK).answer.value == {"value": 3}
    with pytest.raises(ToolExecutionError, match="^Tool execution failed: writing$") as caught:
        call("writing", alice, retries=2, **QUICK)
    assert len(writing.calls) == 1
    assert (caught.value.retryable, caught.value.outcome_unknown) == (False, True)


NO_NETWORK = [
    *(ValueError(), OSError(errno.ENOENT, ""), FileNotFoundError(), socket.gaierror(socket.EAI_NONAME, "no such name")),
    *(library_error("somewhere", "ConnectError"), library_error("httpx2", "InvalidURL")),
    wrapped(ConnectionResetError(), "hidden"),
]


@pytest.mark.parametrize("failure", NO_NETWORK, ids=lambda failure: type(failure).__name__)
def test_what_is_no_failure_of_the_network_is_not_tried_again(
    hub: Hub, programmable: Programmable, alice: Caller, failure: Exception
) -> None:
    programmable.outcomes = [failure]
    with pytest.raises(ToolExecutionError) as caught:
        call("programmable", alice, retries=2, **QUICK)
    assert not caught.value.retryable
    assert len(programmable.calls) == 1


def test_a_failing_network_of_a_tools_own_counts_for_the_breaker(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    programmable.outcomes = [ConnectionResetError() for _ in range(5)]
    for _ in range(5):
        with pytest.raises(ToolExecutionError) as caught:
            call("programmable", alice)
        assert caught.value.retryable
    with pytest.raises(CircuitOpenError):
        call("programmable", alice)


def test_does_not_wait_beyond_the_deadline(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = [UpstreamUnavailableError("busy", retry_after=30)]
    begun = time.monotonic()
    with pytest.raises(UpstreamUnavailableError):
        call("programmable", alice, retries=3, timeout_ms=500, **QUICK)
    assert time.monotonic() - begun < 5, "far less than the thirty seconds asked for"
    assert len(programmable.calls) == 1


@pytest.mark.parametrize(
    "options", [{"retries": 4}, {"retries": -1}, {"retry_delay_ms": 99}, {"retry_delay_ms": 10_001}]
)
def test_refuses_options_out_of_bounds(hub: Hub, programmable: Programmable, alice: Caller, options: Any) -> None:
    with pytest.raises(ValidationError, match="must be between"):
        call("programmable", alice, **options)
    assert programmable.calls == []


def test_refuses_a_caller_that_calls_too_often_and_nobody_else(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    governance.set_policy("programmable", {"rate_calls": 2, "rate_seconds": 60}, actor=governance.trusted("test"))
    bob = Caller("key", "key:2", "bob", alice.scopes)
    call("programmable", alice)
    call("programmable", alice)
    with pytest.raises(RateLimitError):
        call("programmable", alice)
    call("programmable", bob)
    asyncio.run(engine.close())
    assert Call.objects.filter(status="refused", code="RATE_LIMIT_EXCEEDED").count() == 1
    assert Call.objects.get(status="refused").attempts == 0


def test_the_hubs_own_limit_is_not_for_the_local_process(
    hub: Hub, programmable: Programmable, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_RATE_CALLS = 1
    governance.set_policy("programmable", {"timeout_ms": 5000}, actor=governance.trusted("test"))
    local = Caller("local", "local:me", "me", alice.scopes)
    for _ in range(3):
        call("programmable", local)
    call("programmable", alice)
    with pytest.raises(RateLimitError):
        call("programmable", alice)


def test_an_authors_limit_is_for_everybody(hub: Hub, alice: Caller) -> None:
    rare = Programmable("rare", rate=Rate(1, 60))
    hub.add(rare.tool)
    local = Caller("local", "local:me", "me", alice.scopes)
    call("rare", local)
    with pytest.raises(RateLimitError):
        call("rare", local)


def test_a_failing_upstream_is_left_alone_and_the_others_are_not(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    programmable.outcomes = [down() for _ in range(5)]
    for _ in range(5):
        with pytest.raises(UpstreamUnavailableError):
            call("programmable", alice)
    with pytest.raises(CircuitOpenError) as caught:
        call("programmable", alice)
    assert caught.value.retry_after is not None
    assert len(programmable.calls) == 5, "nothing was sent"
    assert Call.objects.filter(status="refused", code="CIRCUIT_OPEN").count() == 1
    other = Programmable("other")
    hub.add(other.tool)
    assert call("other", alice).answer.value == {"value": 0}


def test_a_call_that_opens_the_circuit_itself_tells_what_its_attempts_met(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    cause = OSError("cable cut")
    for number in range(5):
        failure = UpstreamUnavailableError(f"failure {number}")
        failure.__cause__ = cause
        programmable.outcomes.append(failure)
    for _ in range(3):
        with pytest.raises(UpstreamUnavailableError):
            call("programmable", alice)
    with pytest.raises(UpstreamUnavailableError, match="^failure 4$") as caught:
        call("programmable", alice, retries=3, **QUICK)
    assert caught.value.__cause__ is cause
    assert len(programmable.calls) == 5
    with pytest.raises(CircuitOpenError):
        call("programmable", alice)


def test_a_slow_upstream_holds_up_nobody_but_itself(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_UPSTREAM_RUNNING, settings.TOOLHUB_UPSTREAM_WAITING = 2, 3
    slow, healthy = Pack("slow"), Programmable("healthy", hints=Hints(read_only=True, open_world=False))
    release = threading.Event()

    @slow.tool(hints=Hints(read_only=True))
    async def crawl() -> str:
        """Take long."""
        await asyncio.to_thread(release.wait, 10)
        return "done"

    hub.add(crawl, healthy.tool)

    async def story() -> list[Any]:
        crawling = [asyncio.create_task(engine.call("crawl", {}, alice, door="code")) for _ in range(8)]
        await asyncio.gather(*(engine.call("healthy", {}, alice, door="code") for _ in range(20)))
        async with asyncio.timeout(5):  # Two run, three wait, three are refused at once.
            while len(going := [task for task in crawling if not task.done()]) > 5:
                await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        return await asyncio.gather(*crawling, return_exceptions=True)

    outcomes = asyncio.run(story())
    assert sum(isinstance(outcome, OverloadedError) for outcome in outcomes) == 3
    assert sum(isinstance(outcome, engine.Result) for outcome in outcomes) == 5


def test_waiting_for_a_place_counts_against_the_deadline(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_UPSTREAM_RUNNING = 1
    only = Programmable("only", hints=Hints())
    hub.add(only.tool)
    only.outcomes = [lambda: asyncio.sleep(0.6)]

    async def story() -> Any:
        limit = engine.Options(timeout_ms=150)
        first = asyncio.create_task(engine.call("only", {}, alice, door="code"))
        await asyncio.sleep(0.05)
        second = engine.call("only", {}, alice, door="code", options=limit)
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = asyncio.run(story())
    assert isinstance(first, engine.Result)
    assert isinstance(second, ToolTimeoutError)
    assert second.message == "Execution timeout after 150ms"
    assert second.retryable, "it never ran"
    assert len(only.calls) == 1


def test_a_thread_that_goes_on_keeps_its_place_until_it_ends(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_UPSTREAM_RUNNING, settings.TOOLHUB_UPSTREAM_WAITING = 1, 0
    release = threading.Event()
    hub.add(blocking_tool("blocks", release))
    try:
        with pytest.raises(ToolTimeoutError):
            call("blocks", alice, timeout_ms=100)
        with pytest.raises(OverloadedError):
            call("blocks", alice, timeout_ms=100)
    finally:
        release.set()

    def free() -> bool:
        try:
            return bool(call("blocks", alice).answer.value == "released")
        except OverloadedError:
            return False

    assert eventually(free)
