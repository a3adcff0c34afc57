"""The connections of a hub to sources outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError

from tools_app.base import database
from tools_app.base.loops import post
from tools_app.base.ports import SignInRequiredError, UnavailableError
from tools_app.models import Source
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import ToolError
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import ToolSpec
from tools_app.sources import outside

if TYPE_CHECKING:
    from tools_app.upstream.openapi import Services
    from tools_app.upstream.session import Session

log = logging.getLogger("tools_app.upstream")

DRAIN_SECONDS: Final = 10.0
MOST_SESSIONS: Final = 500
# Servers may announce changes at any rate.
ANNOUNCED_EVERY: Final = 0.5

# Source at one moment, account, client.
_Key = tuple[Origin, str, str]


class Upstreams:
    """Sessions live on the event loop that uses them first: that of the engine."""

    def __init__(self) -> None:
        self._sessions: dict[_Key, Session] = {}
        # The protocol version that was negotiated with each source.
        self._eras: dict[Origin, str] = {}
        # Sources whose change is being noted.
        self._announcing: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    # ---- calls

    def runner(self, origin: Origin, spec: ToolSpec) -> Runner:
        # Imported at the first use: most commands connect to nothing.
        if origin.kind == Source.Kind.OPENAPI:
            from tools_app.upstream.openapi import HttpRunner

            return HttpRunner(self._services, origin, spec)
        from tools_app.upstream.runner import McpRunner

        return McpRunner(self, origin, spec)

    def session(self, origin: Origin, account: Account | None, client: str) -> Session:
        """The session for calls of a client with an account. `client` counts only where the source says so.

        Raises:
            Broken: there are too many.
        """
        key = (origin, account.mark if account is not None else "", client if origin.per_session else "")
        session = self._sessions.get(key)
        if session is None or session.loop is not asyncio.get_running_loop():
            self._make_room(origin)
            session = self._sessions[key] = self._new(origin, account)
        return session

    def list_again(self, name: str) -> None:
        """Have a source listed soon: it has changed. Called on the event loop of the sessions."""
        if name not in self._announcing:
            task = asyncio.create_task(self._announce(name))
            self._announcing[name] = task
            task.add_done_callback(lambda _: self._announcing.pop(name, None))

    @cached_property
    def _services(self) -> Services:
        from tools_app.upstream.openapi import Services

        return Services()

    # ---- listings

    def listing(self, origin: Origin) -> Listing:
        if origin.kind == Source.Kind.OPENAPI:
            from tools_app.upstream import documents

            return documents.listing(origin)
        from tools_app.upstream.links import unwrapped
        from tools_app.upstream.wire import Broken

        try:
            return asyncio.run(self._listing(origin))
        except ToolError as error:
            raise UnavailableError(error.message) from error
        except Exception as error:
            cause = unwrapped(error)
            if not isinstance(cause, Broken):
                raise
            is_refused = cause.needs_sign_in or cause.status in (401, 403)
            kind = SignInRequiredError if is_refused else UnavailableError
            raise kind(f"{origin.name}: {cause.reason}") from cause

    async def _listing(self, origin: Origin) -> Listing:
        from tools_app.catalog import connections
        from tools_app.upstream.listing import listed
        from tools_app.upstream.opening import connected

        account = await database.run(connections.account_of, origin.connection) if origin.connection else None
        async with connected(origin, account, self._eras, _ignore) as link:
            return await listed(link)

    # ---- the end

    async def reconnect(self, name: str) -> None:
        await self._end([key for key in self._sessions if key[0].name == name])
        if "_services" in vars(self):
            await self._services.close(name)
        # Imported at the first use: most hubs start no children.
        from tools_app.upstream import children

        await children.stop(name)

    def origins(self) -> list[Origin]:
        return [origin for origin, _, _ in list(self._sessions)]

    def end(self, origins: Collection[Origin]) -> None:
        for key, session in list(self._sessions.items()):
            if key[0] in origins:
                post(session.loop, self._drop, key)

    async def aclose(self) -> None:
        """End all sessions, each after its last call, for which it waits for a while. Later calls open others."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while any(session.is_busy for session in list(self._sessions.values())):  # noqa: ASYNC110 – of any loop
                    await asyncio.sleep(0.02)
        await self._end(list(self._sessions))
        if "_services" in vars(self):
            await self._services.close()
        loop = asyncio.get_running_loop()
        # Sessions that others have replaced, and changes that are noted in a thread, which cannot be cancelled.
        if ending := [task for task in (*self._closing, *self._announcing.values()) if task.get_loop() is loop]:
            await asyncio.wait(ending, timeout=DRAIN_SECONDS)

    async def _end(self, keys: list[_Key]) -> None:
        sessions = [session for key in keys if (session := self._sessions.pop(key, None)) is not None]
        for loop in {session.loop for session in sessions}:
            ended = [session for session in sessions if session.loop is loop]
            if loop is asyncio.get_running_loop():
                await _close(ended)
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_close(ended), loop))

    def _new(self, origin: Origin, account: Account | None) -> Session:
        from tools_app.upstream.opening import connected
        from tools_app.upstream.session import Session

        if len(self._eras) > MOST_SESSIONS:
            self._eras.clear()
        changed = partial(self.list_again, origin.name)
        return Session(
            origin.name,
            lambda: connected(origin, account, self._eras, changed),
            changed,
            is_kept=origin.starts_always,
            # A child that was started may be another version than the last one.
            on_open=changed if origin.kind == Source.Kind.MCP_STDIO else _ignore,
        )

    def _make_room(self, origin: Origin) -> None:
        """End sessions without use: of earlier versions of a source, and the oldest if there are too many."""
        from tools_app.upstream.wire import Broken

        loop = asyncio.get_running_loop()
        for key, session in list(self._sessions.items()):
            is_outdated = session.loop is loop and key[0].name == origin.name and key[0] != origin
            # What an operator reconnects may hang with its calls.
            is_over = is_outdated and (not session.is_busy or key[0].generation < origin.generation)
            if session.is_unused or session.loop is not loop or is_over:
                self._drop(key)
        if len(self._sessions) >= MOST_SESSIONS:
            idle = [key for key, session in self._sessions.items() if not session.is_busy]
            if not idle:
                raise Broken(f"the hub holds {MOST_SESSIONS} sessions, and all of them are in use")
            self._drop(min(idle, key=lambda key: self._sessions[key].used_at))

    def _drop(self, key: _Key) -> None:
        session = self._sessions.pop(key, None)
        if session is not None and session.loop is asyncio.get_running_loop():
            task = asyncio.create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _announce(self, name: str) -> None:
        try:
            await database.run(outside.list_again, name)
        except DatabaseError:
            log.warning("[%s] its change could not be noted; it is listed at its next time", name)
        await asyncio.sleep(ANNOUNCED_EVERY)


async def _close(sessions: list[Session]) -> None:
    await asyncio.gather(*(session.close() for session in sessions))


def _ignore() -> None:
    """What is listed now is listed as it is now."""
