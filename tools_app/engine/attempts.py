"""Runs a tool: within its deadline, under the limits of its upstream, with retries where they help and are safe."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tools_app.base import conf
from tools_app.catalog.entry import Entry
from tools_app.engine.guards import Guards, Place
from tools_app.engine.workers import Workers
from tools_app.sdk import network_errors
from tools_app.sdk.accounts import Account
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError, ToolExecutionError, ToolTimeoutError
from tools_app.sdk.policies import Backoff
from tools_app.sdk.questions import Ask
from tools_app.sdk.runner import Returned, Runner
from tools_app.text import redaction

if TYPE_CHECKING:
    from tools_app.http import ApiClient

log = logging.getLogger("tools_app.calls")

Before = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A tool run: what to run, and its limits."""

    entry: Entry
    runner: Runner
    arguments: Any
    context: Context
    timeout_ms: int
    # What set the time limit, if the caller cannot raise it; empty if it can.
    limited_by: str
    # True if the caller gave the tool less time than its policy does.
    hurried: bool
    retries: int
    backoff: Backoff
    # The upstream whose limits apply; empty if the tool uses none.
    upstream: str

    def through(self, account: Account, client: ApiClient | None) -> Plan:
        """The same plan with an account at the upstream."""
        call_client = client.for_call(self.context.call_id, self.context.remaining) if client is not None else None
        options = MappingProxyType(dict(account.options))
        context = replace(self.context, connection=account.name, upstream=call_client, options=options, account=account)
        return replace(self, context=context, upstream=account.upstream)

    def too_slow(self, *, writes: bool) -> ToolTimeoutError:
        return ToolTimeoutError.after(self.timeout_ms, writes=writes, limited_by=self.limited_by)

    def settle(self, error: ToolError) -> None:
        """Allow callers to retry only if that cannot make a change twice."""
        if self.entry.hints.repeatable:
            error.allow_repeat()
        elif (error.retryable or error.is_unanswered) and not error.nothing_done:
            error.leave_outcome_open()

    def again_after(self, error: ToolError, attempt: int) -> float | None:
        """Backoff in seconds until the next attempt; None: a retry would not help, is not safe or comes too late."""
        if not error.retryable or not self.entry.hints.repeatable or attempt >= self.retries:
            return None
        # Jitter: not security relevant; it spreads callers out.
        seconds = self.backoff.wait(attempt, random.random(), error.retry_after)  # noqa: S311
        return seconds if seconds < self.context.remaining() else None


class Attempts:
    def __init__(self, workers: Workers, guards: Guards) -> None:
        self._workers = workers
        self._guards = guards

    async def run(self, plan: Plan, before: Before) -> Returned | Ask:
        """Run the tool and return its result. `before` is awaited ahead of each attempt, once it has its place.

        Raises:
            ToolError: the error of the last attempt, or the reason why there was none.
        """
        deadline = plan.context.deadline.enforced()
        ran = False

        async def mark_start() -> None:
            nonlocal ran
            await before()
            ran = True

        try:
            async with deadline:
                return await self._until_it_works(plan, mark_start, deadline)
        except TimeoutError as error:
            # A timeout inside the tool becomes a ToolError in the attempt: this one is the call's deadline.
            raise plan.too_slow(writes=ran and not plan.entry.hints.repeatable) from error

    async def _until_it_works(self, plan: Plan, before: Before, deadline: asyncio.Timeout) -> Returned | Ask:
        attempt = 0
        last_error: ToolError | None = None
        while True:
            try:
                place = await self._place(plan)
            except ToolError:
                if last_error is None:
                    raise
                # The call's own attempts may have opened the circuit: their error is the one to report.
                raise last_error from last_error.__cause__
            spot = _AttemptPlace(place)
            try:
                await before()
                result = await self._once(plan, spot)
            except ToolError as error:
                if spot.ran:
                    plan.settle(error)
                spot.failed(error)
                # A call that could not be recorded has not run: that does not count as an attempt.
                wait = plan.again_after(error, attempt) if spot.ran else None
                if wait is None:
                    raise
                last_error = error
            except asyncio.CancelledError:
                # If the caller set a shorter timeout, exceeding it says nothing about the upstream.
                if deadline.expired() and not plan.hurried:
                    spot.failed(ToolTimeoutError())
                raise
            else:
                spot.succeeded()
                return result
            finally:
                spot.leave()
            attempt += 1
            log.info("[%s] Attempt %d: %s; retrying in %.1f s", plan.entry.name, attempt, last_error.code, wait)
            await asyncio.sleep(wait)

    async def _place(self, plan: Plan) -> Place | None:
        if not plan.upstream:
            return None
        return await self._guards.upstream(plan.upstream).enter(plan.context.remaining())

    async def _once(self, plan: Plan, spot: _AttemptPlace) -> Returned | Ask:
        spot.ran = True

        async def in_thread(work: Callable[[], Any]) -> Any:
            return await self._workers.run(work, spot.until_ended())

        try:
            return await plan.runner.run(plan.context, plan.arguments, in_thread)
        except ToolError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not a cancellation of this call: the tool raised CancelledError itself.
            raise unforeseen(plan.entry.name, error) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise unforeseen(plan.entry.name, error) from error


def unforeseen(tool_name: str, error: BaseException) -> ToolExecutionError:
    """The error for an exception that a tool should not raise."""
    detail = ""
    if conf.value("TOOLHUB_ERROR_DETAIL") == "message":
        detail = redaction.redacted_text(f"{type(error).__name__}: {error}")[:500]
    tool_error = ToolExecutionError.of(tool_name, error, detail)
    return tool_error.by_network() if network_errors.is_network_error(error) else tool_error


class _AttemptPlace:
    """The bulkhead place of one attempt, if it needs one, and whether the tool was run."""

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._in_thread = False
        self.ran = False

    def until_ended(self) -> Callable[[], None]:
        """Keep the place until the returned function is called."""
        self._in_thread = True
        return self._leave

    def succeeded(self) -> None:
        if self._place is not None:
            self._place.succeeded()

    def failed(self, error: ToolError) -> None:
        """Report the outcome. A bug in the tool says nothing about its upstream, nor does a call that did not run."""
        if (
            self._place is not None
            and self.ran
            and (error.blames_upstream or not isinstance(error, ToolExecutionError))
        ):
            self._place.failed(error)

    def leave(self) -> None:
        if not self._in_thread:
            self._leave()

    def _leave(self) -> None:
        if self._place is not None:
            self._place.leave()
