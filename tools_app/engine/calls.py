"""One call, from top to bottom."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
import secrets
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tools_app import catalog, conf, json_text, logs, redaction
from tools_app.catalog import Entry
from tools_app.engine import answers
from tools_app.engine.answers import Answer
from tools_app.engine.journal import Entry as JournalEntry
from tools_app.engine.journal import Journal
from tools_app.engine.workers import Workers
from tools_app.errors import (
    AuthorizationError,
    InternalError,
    InvalidArgumentsError,
    Problem,
    ShuttingDownError,
    StorageBusyError,
    ToolDisabledError,
    ToolError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from tools_app.models import Call, ErrorLog
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.tool import RAW_PARAMETER, Caller, Context, Tool

log = logging.getLogger("tools_app.calls")

EXECUTE: Final = "tools:execute"
MOST_DETAIL: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the arguments."""

    timeout_ms: int | None = None

    def check(self) -> None:
        """Raises: ValidationError."""
        if self.timeout_ms is not None and not MIN_TIMEOUT_MS <= self.timeout_ms <= MAX_TIMEOUT_MS:
            message = f"options.timeout must be between {MIN_TIMEOUT_MS} and {MAX_TIMEOUT_MS} ms"
            raise ValidationError(problems=[Problem("/options/timeout", message)])


@dataclass(frozen=True, slots=True)
class Result:
    """A call that succeeded."""

    call_id: str
    entry: Entry
    answer: Answer
    started_at: datetime
    duration_ms: int


class Calls:
    """Runs calls and keeps count of those under way."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.workers = Workers(conf.value("TOOLHUB_THREADS"))
        self.closing = False
        self._under_way = 0
        self._idle = asyncio.Event()

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, caller: Caller, *, door: str, options: Options
    ) -> Result:
        """Run a tool. Whatever goes wrong is a `ToolError`, and is recorded before it is raised."""
        one = _OneCall(name, caller, door)
        token = logs.call_id.set(one.record.id)
        self._under_way += 1
        try:
            if self.closing:
                raise ShuttingDownError
            entry = _resolve(await catalog.fresh(), name, caller)
            tool = one.resolved(entry)
            options.check()
            given, raw = one.given(tool, arguments)
            converted = tool.checked(given)
            context, timeout_ms = one.context(entry, options)
            if tool.hints.writes:
                await one.begin(self.journal)
            log.info("Tool invoked", extra={"tool": tool.name, "caller": str(caller), "door": door})
            returned = await self._run(tool, context, converted, timeout_ms)
            answer = answers.shaped(tool, returned, raw=raw)
            await one.succeeded(self.journal, answer)
            return Result(one.record.id, entry, answer, one.record.started_at, one.record.duration_ms or 0)
        except ToolError as error:
            await one.failed(self.journal, error)
            raise
        except asyncio.CancelledError:
            await one.cancelled(self.journal)
            raise
        except Exception as bug:
            internal = InternalError(detail=bug)
            await one.failed(self.journal, internal)
            raise internal from bug
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()
            logs.call_id.reset(token)

    async def close(self, seconds: float) -> None:
        """Refuse new calls, wait for those under way, write everything down."""
        self.closing = True
        if self._under_way:
            self._idle.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("%d calls did not end in %.0f s", self._under_way, seconds)
        self.workers.close()
        await asyncio.get_running_loop().run_in_executor(None, self.journal.close, 5.0)

    async def _run(self, tool: Tool, context: Context, arguments: Any, timeout_ms: int) -> Any:
        deadline = asyncio.timeout(timeout_ms / 1000)
        try:
            async with deadline:
                if tool.blocking:
                    returned = await self.workers.run(lambda: tool.run(context, arguments))
                else:
                    returned = tool.run(context, arguments)
                return await returned if inspect.isawaitable(returned) else returned
        except ToolError:
            raise
        except TimeoutError as error:
            if deadline.expired():
                raise ToolTimeoutError.after(timeout_ms, writes=tool.hints.writes) from error
            raise _unforeseen(tool, error) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this call: the tool let a cancellation of its own escape.
            raise _unforeseen(tool, error) from error
        except (Exception, SystemExit) as error:
            raise _unforeseen(tool, error) from error


def _resolve(snapshot: catalog.Snapshot, name: str, caller: Caller) -> Entry:
    entry = snapshot.find(name) if isinstance(name, str) else None
    if entry is None:
        raise ToolNotFoundError.named(str(name))
    if not caller.may(EXECUTE):
        raise AuthorizationError.lacking(EXECUTE)
    if entry.refusal is not None:
        raise ToolDisabledError.named(entry.name, entry.refusal.reason, entry.refusal.next_step)
    return entry


def _unforeseen(tool: Tool, error: BaseException) -> ToolExecutionError:
    shown = ""
    if conf.value("TOOLHUB_ERROR_DETAIL") == "message":
        shown = redaction.redacted_text(f"{type(error).__name__}: {error}")[:500]
    return ToolExecutionError.of(tool.name, error, shown)


class _OneCall:
    """What the journal will know of a call, filled in as it goes."""

    def __init__(self, name: str, caller: Caller, door: str) -> None:
        self.caller = caller
        self.begun = time.monotonic()
        self.journaled = False
        self.writes = False
        self.running = False
        self.record = Call(
            id=secrets.token_hex(16),
            tool_name=_storable(str(name), 100),
            door=door,
            caller_kind=caller.kind,
            caller_id=caller.id,
            caller_name=_storable(caller.name, 150),
            status=Call.Status.STARTED,
            started_at=datetime.now(UTC),
        )

    def resolved(self, entry: Entry) -> Tool:
        tool = entry.tool
        if tool is None:  # Cannot be: an entry without a tool has a refusal.
            raise ToolNotFoundError.named(entry.name)
        self.record.tool_name = entry.name
        self.record.tool_version = entry.version
        self.record.definition_hash = entry.definition_hash
        self.writes = tool.hints.writes
        return tool

    def given(self, tool: Tool, arguments: object) -> tuple[dict[str, Any], bool]:
        """The arguments completed by defaults, and whether the full answer is wanted."""
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            message = "Invalid type for the arguments: expected object"
            raise InvalidArgumentsError(problems=[Problem("", message, "object")])
        given = tool.checker.with_defaults(dict(arguments))
        if json_text.nested_deeper(given, json_text.MAX_DEPTH):
            message = f"Invalid arguments: nested deeper than {json_text.MAX_DEPTH} levels"
            raise InvalidArgumentsError(problems=[Problem("", message)])
        self.record.argument_bytes = len(json.dumps(given, default=str))
        self.record.arguments = redaction.summary(given)
        return given, tool.minimal is not None and given.get(RAW_PARAMETER) is True

    def context(self, entry: Entry, options: Options) -> tuple[Context, int]:
        timeout_ms = options.timeout_ms if options.timeout_ms is not None else entry.timeout[0]
        adapter = logging.LoggerAdapter(logging.getLogger(f"tools_app.tool.{entry.name}"), {"tool": entry.name})
        self.running = True
        return (
            Context(self.record.id, entry.name, self.caller, self.begun + timeout_ms / 1000, adapter),
            timeout_ms,
        )

    async def begin(self, journal: Journal) -> None:
        """A tool that writes is on record before it can write anything."""
        await journal.write(JournalEntry(call=self.record))
        self.journaled = True

    async def succeeded(self, journal: Journal, answer: Answer) -> None:
        self.record.result_bytes = answer.size
        self.record.result_hash = hashlib.sha256(answer.text.encode()).hexdigest()
        try:
            await self._finish(journal, Call.Status.SUCCEEDED)
        except StorageBusyError as error:
            if self.writes:
                error.message = "The tool ran, but the hub could not record it"
                error.next_step = "The change was made: check it instead of calling again."
            raise
        log.info(
            "Tool completed",
            extra={"tool": self.record.tool_name, "ms": self.record.duration_ms, "bytes": answer.size},
        )

    async def failed(self, journal: Journal, error: ToolError) -> None:
        record = self.record
        record.code, record.error = error.code, _storable(error.message, 1000)
        status = Call.Status.REFUSED
        entry = None
        if self.running or isinstance(error, InternalError | StorageBusyError):
            status = Call.Status.TIMEOUT if isinstance(error, ToolTimeoutError) else Call.Status.FAILED
            record.error_id = secrets.token_hex(16)
            entry = error_row(error, record.error_id, record)
        cause = error.detail if isinstance(error.detail, BaseException) else None
        log.log(
            error.log_level,
            "[%s] Error: %s %s",
            record.tool_name,
            error.code,
            error.message,
            extra={"error_id": error.error_id, "caller": str(self.caller), "door": record.door},
            exc_info=cause if isinstance(error, ToolExecutionError | InternalError) else None,
        )
        try:
            await self._finish(journal, status, entry)
        except StorageBusyError:
            # The caller learns what went wrong first; that it is not on record stands in the log.
            log.exception("call %s is not on record", record.id)
        error.call_id, error.duration_ms = record.id, record.duration_ms

    async def cancelled(self, journal: Journal) -> None:
        log.warning("[%s] Cancelled by the caller", self.record.tool_name)
        try:
            await asyncio.shield(self._finish(journal, Call.Status.CANCELLED))
        except (StorageBusyError, asyncio.CancelledError):
            log.warning("call %s: its end may not be on record", self.record.id)

    async def _finish(self, journal: Journal, status: Call.Status, error: ErrorLog | None = None) -> None:
        self.record.status = status
        self.record.finished_at = datetime.now(UTC)
        self.record.duration_ms = round((time.monotonic() - self.begun) * 1000)
        await journal.write(JournalEntry(call=self.record, error=error, known=self.journaled))


def error_row(error: ToolError, error_id: str, call: Call) -> ErrorLog:
    """A failure for the error log, with everything that may not leave the hub. The error learns its id."""
    error.error_id = error_id
    return ErrorLog(
        id=error_id,
        call_id=call.id,
        tool_name=call.tool_name,
        door=call.door,
        caller_name=call.caller_name,
        code=error.code,
        message=_storable(error.message, 1000),
        detail=_detail(error),
        created_at=datetime.now(UTC),
    )


def _detail(error: ToolError) -> str:
    parts: list[str] = []
    if isinstance(error.detail, BaseException):
        parts.extend(traceback.format_exception(error.detail))
    elif error.detail is not None:
        parts.append(str(error.detail))
    if error.__cause__ is not None and error.__cause__ is not error.detail:
        parts.extend(traceback.format_exception(error.__cause__))
    return _storable(redaction.redacted_text("".join(parts)[:MOST_DETAIL]), MOST_DETAIL)


def _storable(text: str, limit: int) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair."""
    return text[:limit].encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
