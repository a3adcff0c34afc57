"""The journal entry of one call, filled in while it runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools_app.base import conf, database
from tools_app.catalog.entry import Entry
from tools_app.engine import answers, events, replies
from tools_app.engine.answers import Answer
from tools_app.engine.attempts import Plan
from tools_app.engine.finding import ToolFinder
from tools_app.engine.replies import EarlierOutcome
from tools_app.journal.failures import failure, storable
from tools_app.journal.journal import Journal
from tools_app.journal.rows import Failure, Reply
from tools_app.journal.writer import PATIENCE, JournalEntry
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk import accounts
from tools_app.sdk.accounts import PARAMETER, Account
from tools_app.sdk.context import Answers, Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import (
    InternalError,
    InvalidArgumentsError,
    Problem,
    ToolDisabledError,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from tools_app.sdk.hub_errors import IdempotencyInProgressError, ShuttingDownError, StoppedError, StorageBusyError
from tools_app.sdk.policies import Backoff
from tools_app.sdk.questions import Client
from tools_app.sdk.tool import Tool
from tools_app.text import json_text, redaction

if TYPE_CHECKING:
    from tools_app.http import ApiClient

log = logging.getLogger("tools_app.calls")

# How much is stored of arguments and answers, depending on TOOLHUB_PAYLOADS.
MOST_REDACTED: Final = 2 * 1024
MOST_FULL: Final = 64 * 1024


class CallRecord:
    def __init__(
        self, journal: Journal, name: str, caller: Caller, door: str, *, dry: bool, quiet: bool = False
    ) -> None:
        self.caller = caller
        self.dry = dry
        self.quiet = quiet
        self.attempts = 0
        self.account: Account | None = None
        # The HTTP client of this call, which measures the upstream's time.
        self.upstream: ApiClient | None = None
        self._journal = journal
        self._begun = time.monotonic()
        self._began = False
        self._ended = False
        self._writes = self._repeatable = self._passes_on = False
        # What the log names beside the tool: loggable arguments, and what the tool notes.
        self._shown: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}
        self._claim: IdempotencyKey | None = None
        self._earlier: EarlierOutcome | None = None
        self.call = Call(
            # A call that is not recorded has no id to search for.
            id="" if quiet else secrets.token_hex(16),
            # A caller may send anything as a name.
            tool_name=storable(redaction.redacted_beginning(str(name), 1000), 100),
            door=door,
            caller_kind=caller.kind,
            caller_id=caller.id,
            caller_name=storable(caller.name, 150),
            status=Call.Status.STARTED,
            attempts=0,
            process_id=journal.process_id,
            started_at=datetime.now(UTC),
        )

    @property
    def call_id(self) -> str:
        """The id of the call whose answer this is."""
        return self._earlier.call_id if self._earlier is not None else self.call.id

    @property
    def duration_ms(self) -> int:
        return self._earlier.duration_ms if self._earlier is not None else self.call.duration_ms or 0

    def resolved(self, entry: Entry) -> Tool:
        tool = entry.tool
        if tool is None:  # Cannot be: an entry without a tool has a refusal.
            raise ToolNotFoundError.named(entry.name)
        self.call.tool_name = entry.name
        self.call.tool_version = entry.version
        self.call.definition_hash = entry.definition_hash
        self._writes, self._repeatable = tool.hints.writes, tool.hints.repeatable
        self._passes_on = tool.passes_on
        return tool

    def forwarded(self, entry: Entry, through: Entry) -> None:
        """Switch to another tool, and discard what was recorded for the one it was called through."""
        self.call.tool_name, self.call.via = entry.name, through.name
        self.call.tool_version = self.call.definition_hash = self.call.arguments = ""
        self.call.argument_bytes = 0

    def complete_arguments(self, tool: Tool, arguments: object) -> dict[str, Any]:
        """The arguments with defaults filled in."""
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            message = "Invalid type for the arguments: expected object"
            raise InvalidArgumentsError(problems=[Problem("", message, "object")])
        full_arguments = tool.checker.with_defaults(dict(arguments))
        if json_text.nested_deeper(full_arguments, json_text.MAX_DEPTH):
            message = f"Invalid arguments: nested deeper than {json_text.MAX_DEPTH} levels"
            raise InvalidArgumentsError(problems=[Problem("", message)])
        self.call.argument_bytes = len(json.dumps(full_arguments, default=str))
        self.call.arguments = _payload(full_arguments)
        self._shown = events.logged(tool, full_arguments)
        return full_arguments

    def connected(self, entry: Entry, arguments: dict[str, Any]) -> Account | None:
        """The account that this call uses, if it needs one. Removes the parameter that names it from the arguments.

        Raises:
            InvalidArgumentsError: there are several, and the caller named none.
            AuthorizationError: the account does not exist or this caller may not use it.
            ToolDisabledError: the account cannot be used now.
        """
        tool, available = entry.tool, entry.accounts
        if tool is None or not available:
            return None
        account_name = arguments.pop(PARAMETER, None)
        account = accounts.chosen(available, account_name)
        if account is None:
            raise InvalidArgumentsError(problems=[accounts.not_chosen(account_name), *tool.checker.problems(arguments)])
        if account.stopped:
            raise StoppedError.because(account.stopped)
        if obstacle := account.obstacle(writes=tool.hints.writes):
            raise ToolDisabledError.named(entry.name, obstacle, accounts.ASK)
        self.account = account
        self.call.connection = account.name
        return account

    def plan(
        self,
        entry: Entry,
        tool: Tool,
        arguments: Any,
        client: Client,
        stored_answers: Answers,
        timeout_ms: int | None,
        retries: int | None,
        retry_delay_ms: int | None,
    ) -> Plan:
        """The tool's policy, overridden by the caller's options within the operators' limits."""
        policy = entry.policy.for_caller(timeout_ms, retries, retry_delay_ms)
        adapter = logging.LoggerAdapter(logging.getLogger(f"tools_app.sdk.tool.{entry.name}"), {"tool": entry.name})
        return Plan(
            tool=tool,
            arguments=arguments,
            context=Context(
                self.call.id,
                entry.name,
                self.caller,
                Deadline(policy.timeout_ms / 1000),
                adapter,
                client,
                stored_answers,
                ToolFinder(self.caller),
                files=_files_for(self.caller),
                noted=self._noted,
            ),
            timeout_ms=policy.timeout_ms,
            limited_by=entry.policy.limit_of_time(policy.timeout_ms),
            hurried=policy.timeout_ms < entry.policy.timeout_ms,
            retries=policy.retries,
            backoff=Backoff(base=policy.retry_delay_ms / 1000),
            upstream=tool.upstream,
        )

    async def earlier(self, key: str, arguments: Mapping[str, Any]) -> EarlierOutcome | None:
        """The outcome of an earlier call with this key; None if this is the first, which will claim the key."""
        request = json_text.digest([self.call.tool_name, arguments, self.call.connection])
        try:
            async with asyncio.timeout(PATIENCE):
                outcome = await database.run(replies.earlier, key, self.caller.id, request, repeatable=self._repeatable)
        except TimeoutError as error:
            raise StorageBusyError(detail=error) from error
        if outcome is None:
            self._claim = replies.claim(key, self.caller.id, self.call, request)
        return outcome

    def replayed(self, earlier: EarlierOutcome) -> Answer:
        """Raises: ToolError, if that was the outcome of the first call."""
        self.call.answered_by = Call.Origin.REPLAY
        self._earlier = earlier
        if earlier.answer is None:
            error = earlier.error or InternalError(detail="neither an answer nor an error was kept")
            error.replayed = True
            raise error
        return earlier.answer

    def from_cache(self) -> None:
        self.call.answered_by = Call.Origin.CACHE

    async def attempt(self) -> None:
        """Called before each attempt. A tool that writes is recorded before it can change anything."""
        if (self._writes or self._claim is not None) and not self._began:
            self._began = True
            key_is_ours = await self._journal.write(JournalEntry(call=self.call, claim=self._claim))
            if not key_is_ours:
                self._began, self._claim = False, None
                raise IdempotencyInProgressError
        if self.attempts == 0:
            self.call.queued_ms = self._so_far()
        self.attempts += 1
        self.call.attempts = self.attempts

    async def succeeded(self, answer: Answer) -> None:
        if self.quiet:
            return
        self.call.result_bytes = answer.size
        self.call.result_hash = hashlib.sha256(answer.text.encode()).hexdigest()
        if conf.value("TOOLHUB_PAYLOADS") == "full":
            self.call.result = _payload(answer.value)
        try:
            await self._end(Call.Status.SUCCEEDED, answer=answer)
        except StorageBusyError as error:
            if self._writes:
                error.retryable = False
                error.message = "The tool ran, but the hub could not record it"
                error.next_step = "The change was made: check it instead of calling again."
            raise
        events.completed(self.call, answer.size, self._shown | self._noted)

    def invoked(self) -> None:
        events.invoked(self.call, self.caller, self._shown)

    async def failed(self, error: ToolError) -> None:
        answers.clean(error)
        # After the tool ran, its error may repeat text from an upstream.
        error.untrusted = error.untrusted or (self.attempts > 0 and self._passes_on)
        if self.dry:
            events.failed(error, self.call, self.caller)
        elif self._ended:
            # The end of the call is queued and will be written when possible; this error is about the writing.
            if isinstance(error, InternalError):
                self._journal.post(JournalEntry(failure=failure(error, secrets.token_hex(16), self.call)))
            events.failed(error, self.call, self.caller)
            error.call_id, error.duration_ms = self.call.id, self.call.duration_ms
        else:
            await self._record_failure(error)

    async def _record_failure(self, error: ToolError) -> None:
        """Record the call and its failure. The log line comes first: it has the ids that the caller gets."""
        call = self.call
        call.code, call.error = error.code, storable(redaction.redacted_text(error.message), 1000)
        status, failure_rows = self._classify(error)
        is_counted = status == Call.Status.REFUSED and not self.quiet and self._count_refusal()
        events.failed(error, call, self.caller)
        if self.quiet:
            if failure_rows is not None:
                self._journal.post(JournalEntry(failure=failure_rows))
            return
        try:
            if isinstance(error, StorageBusyError):
                self._stop(status)
                if self._began:
                    # The tool never ran. Whether its first row was written is unknown: the upsert settles that later.
                    self._journal.post(JournalEntry(call=call, failure=failure_rows, known=True))
            elif status != Call.Status.REFUSED:
                await self._end(status, failure_rows, error=error)
            elif not is_counted:
                await self._journal.write(JournalEntry(call=call, known=self._began))
        except StorageBusyError:
            # The caller gets the original error; the log says that it is not in the journal.
            log.exception("call %s could not be recorded", call.id)
        error.call_id, error.duration_ms = self.call_id, self.duration_ms

    async def asked(self) -> None:
        """The call ended with a question; the client answers it with a new call. Nothing has been done yet."""
        log.info("Tool asked", extra={"tool": self.call.tool_name, "ms": self.call.duration_ms})
        try:
            await self._end(Call.Status.ASKED)
        except StorageBusyError:
            log.exception("call %s could not be recorded", self.call.id)

    async def cancelled(self, by: str) -> None:
        log.warning("[%s] Cancelled by %s", self.call.tool_name, by)
        if self._ended or self.dry or self.quiet:
            return
        try:
            await asyncio.shield(self._end(Call.Status.CANCELLED))
        except (StorageBusyError, asyncio.CancelledError):
            log.warning("call %s: its end may not be recorded", self.call.id)

    def broken_off(self) -> ToolError:
        """The error for a call that was interrupted by the end of this process."""
        error = ShuttingDownError.amid(writes=self.attempts > 0 and not self._repeatable)
        error.call_id, error.duration_ms = self.call_id, self.duration_ms
        return error

    def _classify(self, error: ToolError) -> tuple[Call.Status, Failure | None]:
        """The status of a call that ended with this error, and the row for the error log."""
        timeout = isinstance(error, ToolTimeoutError)
        if error.error_id is not None:
            # Already in the error log: this call got the error of another call's run.
            self.call.error_id = error.error_id
            return (Call.Status.TIMEOUT if timeout else Call.Status.FAILED), None
        if self.attempts == 0 and not isinstance(error, InternalError | StorageBusyError | ToolTimeoutError):
            return Call.Status.REFUSED, None
        self.call.error_id = secrets.token_hex(16)
        failure_rows = failure(error, self.call.error_id, self.call)
        return (Call.Status.TIMEOUT if timeout else Call.Status.FAILED), failure_rows

    def _count_refusal(self) -> bool:
        """True if this refusal is counted in an existing row, whose id the call takes."""
        self._stop(Call.Status.REFUSED)
        if (row := self._journal.count_refusal(self.call)) is None:
            return False
        self.call.id = row.id
        return True

    def _stop(self, status: Call.Status) -> None:
        self.call.status = status
        self.call.finished_at = datetime.now(UTC)
        self.call.duration_ms = self._so_far()
        if self.upstream is not None and self.upstream.seconds:
            self.call.upstream_ms = round(self.upstream.seconds * 1000)

    def _so_far(self) -> int:
        """Milliseconds since the call was received."""
        return round((time.monotonic() - self._begun) * 1000)

    async def _end(
        self,
        status: Call.Status,
        failure_rows: Failure | None = None,
        *,
        answer: Answer | None = None,
        error: ToolError | None = None,
    ) -> None:
        self._stop(status)
        entry = JournalEntry(call=self.call, failure=failure_rows, known=self._began)
        if self._claim is not None and self._began:
            entry.reply = await self._reply(answer, error)
        self._ended = True
        await self._journal.write(entry)

    async def _reply(self, answer: Answer | None, error: ToolError | None) -> Reply | None:
        """What to store for the next call with the same key; a release if that call may run again safely."""
        if self._claim is None:
            return None
        if self.call.status == Call.Status.ASKED:
            return replies.reply(self._claim, self.call, None, None)
        if answer is None and error is None:
            # Cancelled while it ran: the key is released only if the tool may be repeated.
            return replies.reply(self._claim, self.call, None, None) if self._repeatable else None
        # Only errors of calls that changed nothing, or that may run twice, are still retryable here.
        if error is not None and error.retryable:
            return replies.reply(self._claim, self.call, None, None)
        reply = await asyncio.to_thread(replies.reply, self._claim, self.call, answer, error)
        return await self._journal.replies.applied(reply)


def _payload(value: Any) -> str:
    """The part of arguments or of an answer that the operator wants stored, redacted."""
    mode = conf.value("TOOLHUB_PAYLOADS")
    if mode == "none":
        return ""
    return redaction.summary(value, MOST_FULL if mode == "full" else MOST_REDACTED)


def _files_for(caller: Caller) -> Path | None:
    """Callers over HTTP must not read the files of this machine through a tool."""
    root = conf.value("TOOLHUB_FILE_ROOT")
    return Path(root) if root and caller.kind == "local" else None
