"""The event loop on which this process runs calls.

A server lends its own loop (`adopt_running_loop`); otherwise the engine starts one in a thread at the first call.
Clients, pools and futures of tools belong to that loop and stay usable across calls.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.db import transaction

from tools_app.access import access
from tools_app.catalog.entry import Entry
from tools_app.engine.calls import Calls, Options, Result
from tools_app.journal.attendance import Presence
from tools_app.journal.failures import failure, storable
from tools_app.journal.refusals import Presented
from tools_app.journal.writer import JournalEntry
from tools_app.models import Call
from tools_app.models.audit import shown_origin
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InternalError, ToolError
from tools_app.sdk.questions import NO_CLIENT, Client

log = logging.getLogger("tools_app.engine")

DRAIN_SECONDS: Final = 10.0
_DEFAULTS: Final = Options()

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_calls: Calls | None = None


def adopt_running_loop() -> None:
    """Run this process's calls on the running loop. Call this before the first call."""
    global _loop, _calls
    with _lock:
        if _loop is not None:
            raise RuntimeError("the engine has a loop already")
        _loop, _calls = asyncio.get_running_loop(), Calls()
        _calls.journal.start()


async def call(
    name: str,
    arguments: Mapping[str, Any] | None,
    caller: Caller,
    *,
    door: str,
    options: Options = _DEFAULTS,
    client: Client = NO_CLIENT,
    offered: Entry | None = None,
    quietly: bool = False,
) -> Result:
    """Run a tool for a caller, or the prompt or resource `offered`. It can talk to the `client` while it runs.

    `quietly` records failures only.

    Raises:
        ToolError: for every failure; it is recorded already and has its `call_id` and `duration_ms`.
        InputRequired: the tool needs input; the client answers by calling again.
    """
    loop, calls = _started()
    work = calls.call(
        name, arguments, caller, door=door, options=options, client=client, offered=offered, quietly=quietly
    )
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
    loop, calls = _started()
    work = calls.call(name, arguments, caller, door=door, options=options, client=NO_CLIENT)
    return asyncio.run_coroutine_threadsafe(work, loop).result()


async def report(bug: BaseException, *, door: str, caller: Caller | None = None, where: str = "") -> InternalError:
    """Log an exception that happened outside a call, and return the error that may be shown for it."""
    loop, calls = _started()
    work = _report(calls, bug, door, caller, where)
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def report_sync(bug: BaseException, *, door: str, caller: Caller | None = None, where: str = "") -> InternalError:
    """`report` for code without an event loop."""
    loop, calls = _started()
    return asyncio.run_coroutine_threadsafe(_report(calls, bug, door, caller, where), loop).result()


def note_use(key_id: int) -> None:
    """Record that a key was used: its `last_used_at` is updated within a minute."""
    _started()[1].journal.note_use(key_id)


access.on_key_use(note_use)


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
        error=error.message if isinstance(error.detail, Presented) else error.default_message or error.code,
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
    _started()[1].journal.count_refusal(refusal, credential.hashes)


def arrived(presence: Presence) -> Presence:
    """Record that an agent is connected to this process, until `left`."""
    return _started()[1].journal.attendance.arrived(presence)


def left(presence: Presence) -> None:
    if _calls is not None:
        _calls.journal.attendance.left(presence)


def trouble() -> str:
    """Why calls cannot be recorded now, for operators; empty if they can."""
    return _calls.journal.trouble if _calls is not None else ""


def end_within(seconds: float) -> None:
    """Refuse new calls, and cancel those still running after that time. For signal handlers; `close` follows."""
    loop, calls = _loop, _calls
    if loop is not None and calls is not None:
        loop.call_soon_threadsafe(calls.end_within, seconds)


async def close(seconds: float = DRAIN_SECONDS) -> None:
    """Drain: let running calls end, and write the journal. The next call starts a new engine."""
    global _loop, _thread, _calls
    with _lock:
        loop, thread, calls = _loop, _thread, _calls
        _loop = _thread = _calls = None
    if loop is None or calls is None:
        return
    if loop is asyncio.get_running_loop():
        await calls.close(seconds)
        return
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(calls.close(seconds), loop))
    if thread is not None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(2)


def file_sync(error: ToolError, *, tool: str, door: str) -> None:
    """Log a tool error that did not happen in a call (for threads)."""
    loop, calls = _started()
    about = Call(id="", tool_name=tool, door=door, started_at=datetime.now(UTC))
    entry = JournalEntry(failure=failure(error, secrets.token_hex(16), about))
    asyncio.run_coroutine_threadsafe(calls.journal.write(entry), loop).result()


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


def _started() -> tuple[asyncio.AbstractEventLoop, Calls]:
    global _loop, _thread, _calls
    loop, calls = _loop, _calls
    if loop is not None and calls is not None:
        return loop, calls
    with _lock:
        if _loop is None or _calls is None:
            ready = threading.Event()
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_serve, args=(_loop, ready), name="toolhub-engine", daemon=True)
            _thread.start()
            ready.wait()
            _calls = Calls()
        return _loop, _calls


def _serve(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    loop.run_forever()
    loop.close()
