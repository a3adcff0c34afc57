"""One warm session with an upstream: an owner task connects, keeps and ends it; callers only send.

The owner runs each connection in a task of its own: the SDK cancels the task that entered a connection when something
behind it fails, and no other task can leave what it has entered.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

from mcp.shared.exceptions import MCPError

from tools_app.base import log_fields
from tools_app.sdk import heavy, traces
from tools_app.sdk.errors import shortened
from tools_app.upstream.links import Link, PendingRequest, unwrapped
from tools_app.upstream.wire import Broken

log = logging.getLogger("tools_app.upstream")

IDLE_SECONDS: Final = 600.0
LEAST_WAIT: Final = 0.1
FIRST_PAUSE: Final = 0.5
LAST_PAUSE: Final = 60.0
# A call does not wait longer than this for the next attempt to connect.
MOST_PAUSE_OF_A_CALL: Final = 2.0
STABLE_SECONDS: Final = 30.0
# A connection that is replaced still gets the answers of its calls.
DRAIN_SECONDS: Final = 60.0
# After a call that was given up, the server must show that it still answers.
PING_SECONDS: Final = 10.0
DOUBT_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
_JITTER: Final = 0.2

# Opens a connection, within its own time.
Open = Callable[[], AbstractAsyncContextManager[Link]]


class Session:
    """Used on one event loop."""

    def __init__(
        self,
        name: str,
        open_link: Open,
        on_change: Callable[[], None],
        *,
        is_kept: bool = False,
        idle_seconds: float = IDLE_SECONDS,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_kept`: it is connected again whenever it ends, and never idle."""
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.error = ""
        self.used_at = time.monotonic()
        self._open = open_link
        self._on_change = on_change
        self._is_kept = is_kept
        self._idle_seconds = idle_seconds
        self._on_open = on_open
        self._link: Link | None = None
        self._label = ""
        self._waiting: set[asyncio.Future[Link]] = set()
        self._in_flight = 0
        self._failed_at = self._next_try_at = 0.0
        self._pause = FIRST_PAUSE
        self._is_wanted = is_kept
        self._is_over = False
        self._stop, self._replace, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._draining: set[asyncio.Task[None]] = set()

    # ---- for callers

    @property
    def is_unused(self) -> bool:
        return self._link is None and self._owner is None and not self._in_flight

    @property
    def is_busy(self) -> bool:
        return self._in_flight > 0

    async def ask(self, method: str, params: Mapping[str, Any], pending: PendingRequest) -> dict[str, Any]:
        """The raw result. What certainly was not sent, or not run, is sent once more.

        Raises:
            Broken: there is no answer.
            MCPError: the answer is an error.
        """
        self._in_flight += 1
        try:
            link = await self._ready(pending.remaining)
            try:
                return await self._over(link, method, params, pending)
            except Broken as error:
                is_unsent = error.sent == "no" and error.status is None and not error.needs_sign_in
                if not error.is_lost and (not is_unsent or pending.remaining() < 0.1):
                    raise
                if error.is_lost or link.transport.ended.is_set():
                    self._leave(link)
            return await self._over(await self._ready(pending.remaining), method, params, pending)
        finally:
            self._in_flight -= 1
            self.used_at = time.monotonic()

    async def _over(
        self, link: Link, method: str, params: Mapping[str, Any], pending: PendingRequest
    ) -> dict[str, Any]:
        pending.session = self._label
        try:
            return await link.ask(method, params, pending)
        except asyncio.CancelledError:
            self._doubt(link)
            raise

    async def _ready(self, remaining: Callable[[], float]) -> Link:
        """The connection, once it is open."""
        if self._link is not None:
            return self._link
        if self._is_over:
            raise Broken("its connection was ended by an operator, or by a change of the source")
        waiting: asyncio.Future[Link] = self.loop.create_future()
        self._waiting.add(waiting)
        try:
            self.want()
            done, _ = await asyncio.wait({waiting}, timeout=remaining())
            if not done:
                raise Broken(self.error or "it has not answered yet", is_starting=True)
            return waiting.result()
        finally:
            self._waiting.discard(waiting)
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()

    def want(self) -> None:
        """Connect now, or as soon as the pause after a failure permits."""
        self._is_wanted = True
        self._hurry.set()
        if self._owner is None and not self._is_over:
            # It outlives the call that begins it, whose id its log lines must not have.
            context = contextvars.copy_context()
            context.run(log_fields.call_id.set, "")
            context.run(traces.leave)
            # It reads for all callers.
            context.run(heavy.charged.set, None)
            self._owner = self.loop.create_task(self._own(), name=f"upstream {self.name}", context=context)

    async def close(self) -> None:
        """End the connection. Calls fail."""
        self._is_over = True
        self._stop.set()
        self._hurry.set()
        tasks = {*self._draining, *({self._owner} if self._owner is not None else ())}
        if self._owner is not None and self._link is None:
            # It may be connecting for long.
            self._owner.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_SECONDS)
        self._fail(Broken("its connection was ended"))

    # ---- the owner

    async def _own(self) -> None:
        while self._is_wanted and not self._stop.is_set():
            await self._wait_for_next_try()
            if self._stop.is_set():
                break
            began = time.monotonic()
            self._replace.clear()
            self._label = ""
            connection = asyncio.create_task(self._connection())
            replaced = asyncio.create_task(self._replace.wait())
            try:
                await asyncio.wait({connection, replaced}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                connection.cancel()
                await asyncio.wait({connection})
                raise
            finally:
                replaced.cancel()
            if connection.done():
                self._ended(connection, time.monotonic() - began)
            else:
                self._draining.add(connection)
                connection.add_done_callback(self._drained)
        self._owner = None

    async def _wait_for_next_try(self) -> None:
        while not self._stop.is_set() and (pause := self._next_try_at - time.monotonic()) > 0:
            if self._waiting:
                pause = min(pause, self._failed_at + MOST_PAUSE_OF_A_CALL - time.monotonic())
                if pause <= 0:
                    return
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()

    def _drained(self, connection: asyncio.Task[None]) -> None:
        self._draining.discard(connection)
        _problem(connection)

    def _ended(self, connection: asyncio.Task[None], seconds: float) -> None:
        """A connection has ended, or could not be opened."""
        was_open, self._link = self._label != "", None
        problem = _problem(connection)
        if problem is None:
            self._pause, self._next_try_at, self.error = FIRST_PAUSE, 0.0, ""
            self._is_wanted = self._is_kept or bool(self._waiting)
            return
        self.error = problem.reason
        log.warning("[%s] connection: %s", self.name, self.error)
        if seconds > STABLE_SECONDS:
            self._pause = FIRST_PAUSE
        pause = self._pause * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 – it spreads attempts
        self._failed_at = time.monotonic()
        self._next_try_at = self._failed_at + max(pause, min(problem.retry_after or 0, LAST_PAUSE))
        self._pause = min(self._pause * 2, LAST_PAUSE)
        if not was_open:
            self._fail(problem)
        # Otherwise calls wait for the next one. What was in use of late is opened without them: it also brings changes.
        is_in_use = was_open and time.monotonic() - self.used_at < self._idle_seconds
        self._is_wanted = self._is_kept or is_in_use or bool(self._waiting)

    def _fail(self, problem: Broken) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(problem)

    async def _connection(self) -> None:
        """Open a connection and keep it until it is not needed any more.

        Raises:
            Broken: it could not be opened, or has broken. May be in an exception group.
        """
        async with self._open() as link:
            if self._stop.is_set():
                return
            self._link, self.error, self._label = link, "", f"{self.name}-{secrets.token_hex(4)}"
            self.used_at = time.monotonic()
            self._on_open()
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(link)
            try:
                async with _listening(link, self._on_change):
                    await self._until_its_end(link)
            finally:
                if self._link is link:
                    self._link = None

    async def _until_its_end(self, link: Link) -> None:
        """Raises: Broken, when the connection has."""
        transport = link.transport
        events = (self._stop, self._replace, transport.ended, transport.lost, transport.missed)
        tasks = [asyncio.create_task(event.wait()) for event in events]
        try:
            while True:
                left = self._idle_seconds - (time.monotonic() - self.used_at)
                timeout = None if self._is_kept else max(left, LEAST_WAIT)
                done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if self._stop.is_set():
                    return
                if transport.ended.is_set():
                    raise Broken(transport.end or "the connection ended")
                if transport.lost.is_set() or self._replace.is_set():
                    break
                if transport.missed.is_set():
                    transport.missed.clear()
                    tasks[-1] = asyncio.create_task(transport.missed.wait())
                    self._on_change()
                elif not done and not self._in_flight and left <= 0:
                    return
            self._leave(link)
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await link.quiet.wait() if link.waiting else None
        finally:
            for task in tasks:
                task.cancel()

    def _leave(self, link: Link) -> None:
        """Later calls wait for the next connection; those over this one may still get their answers."""
        if self._link is link:
            self._link = None
            self._is_wanted = True
            self._replace.set()

    def _doubt(self, link: Link) -> None:
        """A call was given up: if the server answers nothing at all any more, connect anew."""
        if not link.is_doubted and not link.transport.ended.is_set():
            link.is_doubted = True
            link.transport.spawn(self._check(link))

    async def _check(self, link: Link) -> None:
        # A caller that cancels often closes next, and many cancel at once.
        await asyncio.sleep(DOUBT_SECONDS)
        try:
            await link.request("server/discover" if link.is_modern else "ping", {}, PING_SECONDS)
        except MCPError:
            pass  # also an answer
        except (Broken, TimeoutError):
            log.warning("[%s] does not answer any more; connecting anew", self.name)
            self._leave(link)
        link.is_doubted = False


@asynccontextmanager
async def _listening(link: Link, on_change: Callable[[], None]) -> AsyncIterator[None]:
    """Hear of changes in the modern era; before, the transport does."""
    if not link.is_modern:
        yield
        return
    task = asyncio.create_task(_listen(link, on_change))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _listen(link: Link, on_change: Callable[[], None]) -> None:
    pause = FIRST_PAUSE
    while not link.transport.ended.is_set():
        began = time.monotonic()
        try:
            await link.listen()
        except MCPError:
            return  # it has no such stream
        except Broken as error:
            if error.status is not None and error.status < 500:
                return
        if time.monotonic() - began > STABLE_SECONDS:
            pause = FIRST_PAUSE
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE)
        # What was announced in between is not known.
        on_change()


def _problem(connection: asyncio.Task[None]) -> Broken | None:
    if connection.cancelled():
        return Broken("its connection was ended by a fault of the transport")
    error = connection.exception()
    if error is None:
        return None
    cause = unwrapped(error)
    if isinstance(cause, Broken):
        return cause
    log.error("a connection failed unexpectedly", exc_info=error)
    return Broken(f"{type(cause).__name__}: {shortened(str(cause))}")
