"""The event loop on which a hub runs its calls.

A server lends its own loop (`adopt_running_loop`); otherwise the engine starts one in a thread at the first call.
Clients, pools and futures of tools belong to that loop and stay usable across calls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, overload

from django.db import transaction

from tools_app.base import hub, otlp, ports, shared
from tools_app.base.loops import post
from tools_app.engine.calls import Calls, Options, Result
from tools_app.journal.attendance import Presence
from tools_app.journal.failures import failure, storable
from tools_app.journal.refusals import Presented
from tools_app.journal.writer import JournalEntry
from tools_app.models import Call
from tools_app.models.audit import shown_origin
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InternalError, ToolError
from tools_app.sdk.hub_errors import ShuttingDownError
from tools_app.sdk.questions import NO_CLIENT, Ask, Client
from tools_app.sdk.spec import Kind

log = logging.getLogger("tools_app.engine")

DRAIN_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 20.0
_DEFAULTS: Final = Options()


class Engine:
    """The event loop of a hub, and the calls on it. Both are there from the first call until `aclose`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.calls: Calls | None = None
        # Runs the loop, if no server has lent one.
        self._thread: threading.Thread | None = None

    def adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self.loop is not None:
                raise RuntimeError("the engine has a loop already")
            otlp.start(os.environ)
            self.loop, self.calls = loop, Calls()
            shared.of_hub().stay(loop)
            self.calls.journal.start()

    def started(self) -> tuple[asyncio.AbstractEventLoop, Calls]:
        loop, calls = self.loop, self.calls
        if loop is not None and calls is not None:
            return loop, calls
        with self._lock:
            if self.loop is None or self.calls is None:
                if hub.current().is_closing:
                    raise ShuttingDownError
                otlp.start(os.environ)
                ready = threading.Event()
                self.loop = asyncio.new_event_loop()
                self._thread = hub.current().thread(partial(_serve, self.loop, ready), "toolhub-engine")
                self._thread.start()
                ready.wait()
                shared.of_hub().stay(self.loop)
                self.calls = Calls()
            return self.loop, self.calls

    async def aclose(self, seconds: float = DRAIN_SECONDS) -> None:
        with self._lock:
            loop, thread, calls = self.loop, self._thread, self.calls
            self.loop = self._thread = self.calls = None
        if loop is None or calls is None:
            return
        if loop is asyncio.get_running_loop():
            await calls.close(seconds)
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(calls.close(seconds), loop))
        await asyncio.to_thread(otlp.stop, seconds)
        if thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(2)


def adopt_running_loop() -> None:
    """Run the hub's calls on the running loop. Call this before the first call."""
    hub.part(Engine).adopt(asyncio.get_running_loop())


@overload
async def call(
    name: str,
    arguments: Mapping[str, Any] | None,
    caller: Caller,
    *,
    door: str,
    options: Options = ...,
    kind: Kind = ...,
) -> Result: ...
@overload
async def call(
    name: str,
    arguments: Mapping[str, Any] | None,
    caller: Caller,
    *,
    door: str,
    options: Options = ...,
    kind: Kind = ...,
    client: Client,
) -> Result | Ask: ...
async def call(
    name: str,
    arguments: Mapping[str, Any] | None,
    caller: Caller,
    *,
    door: str,
    options: Options = _DEFAULTS,
    kind: Kind = Kind.TOOL,
    client: Client = NO_CLIENT,
) -> Result | Ask:
    """Run a tool for a caller, or a prompt, resource or completion. It can talk to the `client` while it runs.

    `Ask`: the tool needs input; the client answers by calling again.

    Raises:
        ToolError: for every failure; it is recorded already and has its `call_id` and `duration_ms`.
    """
    loop, calls = hub.part(Engine).started()
    work = calls.call(name, arguments, caller, door=door, options=options, client=client, kind=kind)
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def call_sync(
    name: str,
    arguments: Mapping[str, Any] | None,
    caller: Caller,
    *,
    door: str,
    options: Options = _DEFAULTS,
) -> Result:
    """`call` for code without an event loop.

    Raises:
        ToolError: as `call` does.
        RuntimeError: inside a transaction, where the journal could not commit.
    """
    if transaction.get_connection().in_atomic_block:
        raise RuntimeError("a tool cannot be called inside a transaction: its journal entry could not be committed")
    loop, calls = hub.part(Engine).started()
    work = calls.call(name, arguments, caller, door=door, options=options, client=NO_CLIENT)
    result = asyncio.run_coroutine_threadsafe(work, loop).result()
    assert not isinstance(result, Ask)  # noqa: S101 – without a client, a question is an error
    return result


async def report(bug: BaseException, *, door: str, caller: Caller | None = None, where: str = "") -> InternalError:
    """Log an exception that happened outside a call, and return the error that may be shown for it."""
    loop, calls = hub.part(Engine).started()
    work = _report(calls, bug, door, caller, where)
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def report_sync(bug: BaseException, *, door: str, caller: Caller | None = None, where: str = "") -> InternalError:
    """`report` for code without an event loop."""
    loop, calls = hub.part(Engine).started()
    return asyncio.run_coroutine_threadsafe(_report(calls, bug, door, caller, where), loop).result()


def note_use(key_id: int) -> None:
    """Record that a key was used: its `last_used_at` is updated within a minute."""
    hub.part(Engine).started()[1].journal.note_use(key_id)


def note_refusal(
    error: ToolError, *, door: str, address: str = "", client: str = "", caller: Caller | None = None
) -> None:
    """Count a refusal that happened before the caller or the tool was known. Does not wait for the database.

    Recorded are the address, the user agent and the key prefix, where known.
    """
    now = datetime.now(UTC)
    credential = error.detail if isinstance(error.detail, Presented) else Presented()
    if caller is None and credential.caller_id:
        caller = Caller("key", credential.caller_id, credential.caller_name)
    address, client = shown_origin(address, client)
    refusal = Call(
        id=secrets.token_hex(16),
        door=door,
        status=Call.Status.REFUSED,
        code=error.code,
        error=credential.words
        or (error.message if error.detail is credential else error.default_message or error.code),
        caller_kind=caller.kind if caller else "",
        caller_id=caller.id if caller else "",
        caller_name=storable(caller.name, 150) if caller else "",
        address=address,
        client=client,
        key_prefix=credential.prefix,
        started_at=now,
        finished_at=now,
        duration_ms=0,
        attempts=0,
    )
    hub.part(Engine).started()[1].journal.count_refusal(refusal, credential.hashes)


def arrived(presence: Presence) -> Presence:
    """Record that an agent is connected to this process, until `left`."""
    return hub.part(Engine).started()[1].journal.attendance.arrived(presence)


def left(presence: Presence) -> None:
    calls = hub.part(Engine).calls
    if calls is not None:
        calls.journal.attendance.left(presence)


def trouble() -> str:
    """Why calls cannot be recorded now, for operators; empty if they can."""
    calls = hub.part(Engine).calls
    return calls.journal.trouble if calls is not None else ""


def end_within(seconds: float) -> None:
    """After that time, refuse new calls and cancel those still running. For signal handlers; `close` follows."""
    engine = hub.part(Engine)
    if engine.loop is not None and engine.calls is not None:
        post(engine.loop, engine.calls.end_within, seconds)


async def close(seconds: float = DRAIN_SECONDS) -> None:
    """Drain: let running calls end, and write the journal. The next call starts a new engine."""
    await hub.part(Engine).aclose(seconds)


def file_sync(error: ToolError, *, tool: str, door: str) -> None:
    """Log a tool error that did not happen in a call (for threads)."""
    loop, calls = hub.part(Engine).started()
    about = Call(id="", tool_name=tool, door=door, started_at=datetime.now(UTC))
    entry = JournalEntry(failure=failure(error, secrets.token_hex(16), about))
    asyncio.run_coroutine_threadsafe(calls.journal.write(entry), loop).result()


def reconnect(name: str) -> None:
    """End the connections of a source outside that this process has, and its child processes.

    Waits only in a process without calls, such as a command. Errors are logged: the next call connects again.
    """
    loop = hub.part(Engine).loop
    if loop is None:
        asyncio.run(_reconnect(name))
    else:
        work = _reconnect(name)
        try:
            asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # The loop was closed just now, and its connections with it.
            work.close()


async def _reconnect(name: str) -> None:
    try:
        async with asyncio.timeout(RECONNECT_SECONDS):
            await ports.upstreams().reconnect(name)
    except Exception:
        log.exception("the connections of source %s cannot be ended", name)


async def _report(calls: Calls, bug: BaseException, door: str, caller: Caller | None, where: str) -> InternalError:
    error = InternalError(detail=bug)
    # Not a call, but the error log takes these fields from one.
    about = Call(id="", door=door, caller_name=caller.name if caller else "", started_at=datetime.now(UTC))
    failure_rows = failure(error, secrets.token_hex(16), about)
    log.error("%s: %s", where or door, type(bug).__name__, exc_info=bug, extra={"error_id": error.error_id})
    try:
        await calls.journal.write(JournalEntry(failure=failure_rows))
    except ToolError as trouble:
        log.warning("error %s is only in this log: %s", error.error_id, trouble)
    return error


def _serve(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    loop.run_forever()
    loop.close()
