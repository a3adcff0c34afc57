"""One call, from top to bottom."""

from __future__ import annotations

import asyncio
import hashlib
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
from tools_app.engine.attempts import Attempts, Plan
from tools_app.engine.guards import Guards
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
from tools_app.models.tools import POLICY
from tools_app.policies import Backoff, Rate
from tools_app.tool import RAW_PARAMETER, Caller, Context, Tool

log = logging.getLogger("tools_app.calls")

EXECUTE: Final = "tools:execute"
MOST_DETAIL: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the arguments; what is left out, the tool's policy decides."""

    timeout_ms: int | None = None
    retries: int | None = None
    retry_delay_ms: int | None = None

    def check(self) -> None:
        """Raises: ValidationError, naming every option that is out of bounds."""
        problems = []
        for part, shown in _OPTIONS.items():
            low, high = POLICY[part]
            value = getattr(self, part)
            if value is not None and not low <= value <= high:
                message = f"options.{shown} must be between {low} and {high}"
                problems.append(Problem(f"/options/{shown}", message, f"{low} to {high}"))
        if problems:
            raise ValidationError(problems=problems)


# By their names in the documents.
_OPTIONS: Final = {"timeout_ms": "timeout", "retries": "retry", "retry_delay_ms": "retryDelay"}


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
        self.guards = Guards()
        self._attempts = Attempts(self.workers, self.guards)
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
            self.guards.count(caller.id, entry.name, _rate(entry, caller))
            log.info("Tool invoked", extra={"tool": tool.name, "caller": str(caller), "door": door})
            plan = one.plan(entry, tool, converted, options)
            returned = await self._attempts.run(plan, lambda: one.attempt(self.journal))
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


def _resolve(snapshot: catalog.Snapshot, name: str, caller: Caller) -> Entry:
    entry = snapshot.find(name) if isinstance(name, str) else None
    if entry is None:
        raise ToolNotFoundError.named(str(name))
    if not caller.may(EXECUTE):
        raise AuthorizationError.lacking(EXECUTE)
    if entry.refusal is not None:
        raise ToolDisabledError.named(entry.name, entry.refusal.reason, entry.refusal.next_step)
    return entry


def _rate(entry: Entry, caller: Caller) -> Rate | None:
    """The limit that applies. The hub's own is for those who come from outside."""
    if caller.kind == "local" and entry.policy.origins["rate"] == "settings":
        return None
    return entry.policy.rate


class _OneCall:
    """What the journal will know of a call, filled in as it goes."""

    def __init__(self, name: str, caller: Caller, door: str) -> None:
        self.caller = caller
        self.begun = time.monotonic()
        self.journaled = False
        self.writes = False
        self.attempts = 0
        self.record = Call(
            id=secrets.token_hex(16),
            tool_name=_storable(str(name), 100),
            door=door,
            caller_kind=caller.kind,
            caller_id=caller.id,
            caller_name=_storable(caller.name, 150),
            status=Call.Status.STARTED,
            attempts=0,
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

    def plan(self, entry: Entry, tool: Tool, arguments: Any, options: Options) -> Plan:
        """The tool's policy, with what the caller asked for in its place."""
        policy = entry.policy
        timeout_ms = policy.timeout_ms if options.timeout_ms is None else options.timeout_ms
        delay_ms = policy.retry_delay_ms if options.retry_delay_ms is None else options.retry_delay_ms
        adapter = logging.LoggerAdapter(logging.getLogger(f"tools_app.tool.{entry.name}"), {"tool": entry.name})
        return Plan(
            tool=tool,
            arguments=arguments,
            context=Context(self.record.id, entry.name, self.caller, time.monotonic() + timeout_ms / 1000, adapter),
            timeout_ms=timeout_ms,
            retries=policy.retries if options.retries is None else options.retries,
            backoff=Backoff(base=delay_ms / 1000),
        )

    async def attempt(self, journal: Journal) -> None:
        """Before an attempt. A tool that writes is on record before it can write anything."""
        if self.writes and not self.journaled:
            self.journaled = True
            await journal.write(JournalEntry(call=self.record))
        self.attempts += 1
        self.record.attempts = self.attempts

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
        answers.clean(error)
        record = self.record
        record.code, record.error = error.code, _storable(error.message, 1000)
        status = Call.Status.REFUSED
        entry = None
        if self.attempts or isinstance(error, InternalError | StorageBusyError | ToolTimeoutError):
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
