"""Running a tool: within its deadline, in its turn, and again where that can help and does no harm."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tools_app.base import conf
from tools_app.engine.guards import Guards, Place
from tools_app.engine.workers import Workers
from tools_app.sdk import network_errors
from tools_app.sdk.accounts import Account
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError, ToolExecutionError, ToolTimeoutError
from tools_app.sdk.policies import Backoff
from tools_app.sdk.questions import InputRequired
from tools_app.sdk.tool import Tool
from tools_app.text import redaction

if TYPE_CHECKING:
    from tools_app.http import ApiClient

log = logging.getLogger("tools_app.calls")

Before = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run, and how hard to try."""

    tool: Tool
    arguments: Any
    context: Context
    timeout_ms: int
    # Who limits the time so that the caller cannot have more; empty where it can.
    limited_by: str
    # Whether the caller gave it less time than it would have had.
    hurried: bool
    retries: int
    backoff: Backoff
    # Whose limits it shares; empty where it needs nothing outside the hub.
    upstream: str

    def through(self, account: Account, client: ApiClient) -> Plan:
        """The same, with an account at the upstream."""
        own = client.for_call(self.context.call_id, self.context.remaining)
        options = MappingProxyType(dict(account.options))
        context = replace(self.context, connection=account.name, upstream=own, options=options)
        return replace(self, context=context, upstream=account.upstream)

    def too_slow(self, *, writes: bool) -> ToolTimeoutError:
        return ToolTimeoutError.after(self.timeout_ms, writes=writes, limited_by=self.limited_by)

    def settle(self, error: ToolError) -> None:
        """Let callers repeat what failed only where that cannot change something twice."""
        if self.tool.hints.repeatable:
            error.allow_repeat()
        elif error.retryable and not error.nothing_done:
            error.leave_outcome_open()

    def again_after(self, error: ToolError, attempt: int) -> float | None:
        """Seconds until the next attempt, or None: it would not help, do harm, or come too late."""
        if not error.retryable or not self.tool.hints.repeatable or attempt >= self.retries:
            return None
        # No secret depends on this; it only spreads callers out.
        seconds = self.backoff.wait(attempt, random.random(), error.retry_after)  # noqa: S311
        return seconds if seconds < self.context.remaining() else None


class Attempts:
    def __init__(self, workers: Workers, guards: Guards) -> None:
        self._workers = workers
        self._guards = guards

    async def run(self, plan: Plan, before: Before) -> Any:
        """What the tool returns. `before` is awaited ahead of every attempt, when its turn has come.

        Raises:
            ToolError: what the last attempt ended with, or why there was none.
        """
        deadline = plan.context.deadline.enforced()
        ran = False

        async def noted() -> None:
            nonlocal ran
            await before()
            ran = True

        try:
            async with deadline:
                return await self._until_it_works(plan, noted, deadline)
        except TimeoutError as error:
            # An attempt turns the timeouts of the tool itself into something else: this one is the deadline.
            raise plan.too_slow(writes=ran and not plan.tool.hints.repeatable) from error

    async def _until_it_works(self, plan: Plan, before: Before, deadline: asyncio.Timeout) -> Any:
        attempt = 0
        failed: ToolError | None = None
        while True:
            try:
                place = await self._guards.upstream(plan.upstream).enter() if plan.upstream else None
            except ToolError:
                if failed is None:
                    raise
                # The call's own attempts may have opened the breaker: what they ended with is the reason to tell.
                raise failed from failed.__cause__
            held = _Held(place)
            try:
                await before()
                returned = await self._once(plan, held)
            except ToolError as error:
                if held.ran:
                    plan.settle(error)
                held.failed(error)
                # A call that could not be written down has not run: that is no attempt.
                wait = plan.again_after(error, attempt) if held.ran else None
                if wait is None:
                    raise
                failed = error
            except asyncio.CancelledError:
                # Less time than the tool usually has says nothing about the upstream.
                if deadline.expired() and not plan.hurried:
                    held.failed(ToolTimeoutError())
                raise
            else:
                held.succeeded()
                return returned
            finally:
                held.leave()
            attempt += 1
            log.info("[%s] Attempt %d: %s; again in %.1f s", plan.tool.name, attempt, failed.code, wait)
            await asyncio.sleep(wait)

    async def _once(self, plan: Plan, held: _Held) -> Any:
        tool, held.ran = plan.tool, True
        try:
            if tool.blocking:
                # The thread goes on after a deadline; until it ends, the place is taken.
                returned = await self._workers.run(lambda: tool.run(plan.context, plan.arguments), held.until_ended())
            else:
                returned = tool.run(plan.context, plan.arguments)
            return await returned if inspect.isawaitable(returned) else returned
        except ToolError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this call: the tool let a cancellation of its own escape.
            raise unforeseen(tool, error) from error
        except (InputRequired, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise unforeseen(tool, error) from error


def unforeseen(tool: Tool, error: BaseException) -> ToolExecutionError:
    """What callers are told of an exception that no tool should raise."""
    shown = ""
    if conf.value("TOOLHUB_ERROR_DETAIL") == "message":
        shown = redaction.redacted_text(f"{type(error).__name__}: {error}")[:500]
    failed = ToolExecutionError.of(tool.name, error, shown)
    return failed.by_network() if network_errors.is_network_error(error) else failed


class _Held:
    """The place of one attempt, if it needs one, and whether the tool was run at all."""

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._in_thread = False
        self.ran = False

    def until_ended(self) -> Callable[[], None]:
        """Keep the place until the function that this returns is called."""
        self._in_thread = True
        return self._leave

    def succeeded(self) -> None:
        if self._place is not None:
            self._place.succeeded()

    def failed(self, error: ToolError) -> None:
        """A bug of the tool says nothing about its upstream, and neither does a call that did not run."""
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
