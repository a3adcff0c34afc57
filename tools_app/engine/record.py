"""What the journal will know of one call, filled in as it goes."""

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
from tools_app.engine.finding import Finding
from tools_app.engine.replies import Said
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
    IdempotencyInProgressError,
    InternalError,
    InvalidArgumentsError,
    Problem,
    ShuttingDownError,
    StoppedError,
    StorageBusyError,
    ToolDisabledError,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from tools_app.sdk.policies import Backoff
from tools_app.sdk.questions import Client
from tools_app.sdk.tool import Tool
from tools_app.text import json_text, redaction

if TYPE_CHECKING:
    from tools_app.http import ApiClient

log = logging.getLogger("tools_app.calls")

# What is kept of arguments and answers, by TOOLHUB_PAYLOADS.
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
        # What asks the upstream for this call, and counts how long that takes.
        self.upstream: ApiClient | None = None
        self._journal = journal
        self._begun = time.monotonic()
        self._began = False
        self._ended = False
        self._writes = self._repeatable = self._passes_on = False
        # What the log names of it beside the tool: arguments that may be, and what the tool notes.
        self._shown: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}
        self._claim: IdempotencyKey | None = None
        self._said: Said | None = None
        self.call = Call(
            # One that is not kept has no id by which anybody could look for it.
            id="" if quiet else secrets.token_hex(16),
            # A caller may name anything.
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
        """Of the call whose answer this is."""
        return self._said.call_id if self._said is not None else self.call.id

    @property
    def duration_ms(self) -> int:
        return self._said.duration_ms if self._said is not None else self.call.duration_ms or 0

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
        """It is a call of another tool, from now on: as if nothing had been known of it yet."""
        self.call.tool_name, self.call.via = entry.name, through.name
        self.call.tool_version = self.call.definition_hash = self.call.arguments = ""
        self.call.argument_bytes = 0

    def given(self, tool: Tool, arguments: object) -> dict[str, Any]:
        """The arguments completed by defaults."""
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            message = "Invalid type for the arguments: expected object"
            raise InvalidArgumentsError(problems=[Problem("", message, "object")])
        given = tool.checker.with_defaults(dict(arguments))
        if json_text.nested_deeper(given, json_text.MAX_DEPTH):
            message = f"Invalid arguments: nested deeper than {json_text.MAX_DEPTH} levels"
            raise InvalidArgumentsError(problems=[Problem("", message)])
        self.call.argument_bytes = len(json.dumps(given, default=str))
        self.call.arguments = _payload(given)
        self._shown = events.logged(tool, given)
        return given

    def connected(self, entry: Entry, given: dict[str, Any]) -> Account | None:
        """The account that this call uses, where it needs one. What names it is no argument of the tool, and goes.

        Raises:
            InvalidArgumentsError: there are several, and none is named.
            AuthorizationError: one is named that this caller may not use, or that is not there.
            ToolDisabledError: it cannot be used now.
        """
        tool, mine = entry.tool, entry.accounts
        if tool is None or not mine:
            return None
        named = given.pop(PARAMETER, None)
        account = accounts.chosen(mine, named)
        if account is None:
            raise InvalidArgumentsError(problems=[accounts.not_chosen(named), *tool.checker.problems(given)])
        if account.stopped:
            raise StoppedError.because(account.stopped)
        if why := account.obstacle(writes=tool.hints.writes):
            raise ToolDisabledError.named(entry.name, why, accounts.ASK)
        self.account = account
        self.call.connection = account.name
        return account

    def plan(
        self,
        entry: Entry,
        tool: Tool,
        arguments: Any,
        client: Client,
        kept: Answers,
        timeout_ms: int | None,
        retries: int | None,
        retry_delay_ms: int | None,
    ) -> Plan:
        """The tool's policy, with what the caller asked for in its place, as far as operators have set no limit."""
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
                kept,
                Finding(self.caller),
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

    async def earlier(self, key: str, given: Mapping[str, Any]) -> Said | None:
        """What an earlier call with this key was told; None when this is the first, which will claim the key."""
        request = json_text.digest([self.call.tool_name, given, self.call.connection])
        try:
            async with asyncio.timeout(PATIENCE):
                said = await database.run(replies.earlier, key, self.caller.id, request, repeatable=self._repeatable)
        except TimeoutError as error:
            raise StorageBusyError(detail=error) from error
        if said is None:
            self._claim = replies.claim(key, self.caller.id, self.call, request)
        return said

    def replayed(self, said: Said) -> Answer:
        """Raises: ToolError, when that is what the first call was told."""
        self.call.answered_by = Call.Origin.REPLAY
        self._said = said
        if said.answer is None:
            error = said.error or InternalError(detail="neither an answer nor an error was kept")
            error.replayed = True
            raise error
        return said.answer

    def from_cache(self) -> None:
        self.call.answered_by = Call.Origin.CACHE

    async def attempt(self) -> None:
        """Before an attempt. A tool that writes is on record before it can write anything."""
        if (self._writes or self._claim is not None) and not self._began:
            self._began = True
            won = await self._journal.write(JournalEntry(call=self.call, claim=self._claim))
            if not won:
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
        # Once it ran, it may repeat what an upstream said.
        error.untrusted = error.untrusted or (self.attempts > 0 and self._passes_on)
        if self.dry:
            events.failed(error, self.call, self.caller)
        elif self._ended:
            # How it ended is handed in, and will be written when that is possible; the error is about that.
            if isinstance(error, InternalError):
                self._journal.post(JournalEntry(failure=failure(error, secrets.token_hex(16), self.call)))
            events.failed(error, self.call, self.caller)
            error.call_id, error.duration_ms = self.call.id, self.call.duration_ms
        else:
            await self._filed(error)

    async def _filed(self, error: ToolError) -> None:
        """Write down the call and its failure. The log's line comes first: it knows the ids that the caller is told."""
        call = self.call
        call.code, call.error = error.code, storable(redaction.redacted_text(error.message), 1000)
        status, filed = self._judged(error)
        counted = status == Call.Status.REFUSED and not self.quiet and self._counted()
        events.failed(error, call, self.caller)
        if self.quiet:
            if filed is not None:
                self._journal.post(JournalEntry(failure=filed))
            return
        try:
            if isinstance(error, StorageBusyError):
                self._stop(status)
                if self._began:
                    # It never ran. Whether its first row was written is not known: that is settled later.
                    self._journal.post(JournalEntry(call=call, failure=filed, known=True))
            elif status != Call.Status.REFUSED:
                await self._end(status, filed, error=error)
            elif not counted:
                await self._journal.write(JournalEntry(call=call, known=self._began))
        except StorageBusyError:
            # The caller learns what went wrong first; that it is not on record stands in the log.
            log.exception("call %s is not on record", call.id)
        error.call_id, error.duration_ms = self.call_id, self.duration_ms

    async def asked(self) -> None:
        """The call ended with a question; whoever answers it calls again. Nothing has been done yet."""
        log.info("Tool asked", extra={"tool": self.call.tool_name, "ms": self.call.duration_ms})
        try:
            await self._end(Call.Status.ASKED)
        except StorageBusyError:
            log.exception("call %s is not on record", self.call.id)

    async def cancelled(self, by: str) -> None:
        log.warning("[%s] Cancelled by %s", self.call.tool_name, by)
        if self._ended or self.dry or self.quiet:
            return
        try:
            await asyncio.shield(self._end(Call.Status.CANCELLED))
        except (StorageBusyError, asyncio.CancelledError):
            log.warning("call %s: its end may not be on record", self.call.id)

    def broken_off(self) -> ToolError:
        """What the caller of a call is told that the end of this process cut off."""
        error = ShuttingDownError.amid(writes=self.attempts > 0 and not self._repeatable)
        error.call_id, error.duration_ms = self.call_id, self.duration_ms
        return error

    def _judged(self, error: ToolError) -> tuple[Call.Status, Failure | None]:
        """How a call that ended with this error is counted, and what the error log gets of it."""
        timeout = isinstance(error, ToolTimeoutError)
        if error.error_id is not None:
            # It is in the error log already: this call was told what another one had met.
            self.call.error_id = error.error_id
            return (Call.Status.TIMEOUT if timeout else Call.Status.FAILED), None
        if self.attempts == 0 and not isinstance(error, InternalError | StorageBusyError | ToolTimeoutError):
            return Call.Status.REFUSED, None
        self.call.error_id = secrets.token_hex(16)
        failed = failure(error, self.call.error_id, self.call)
        return (Call.Status.TIMEOUT if timeout else Call.Status.FAILED), failed

    def _counted(self) -> bool:
        """Whether this refusal is one more of a row that is there already, under whose id it goes."""
        self._stop(Call.Status.REFUSED)
        if (row := self._journal.counted(self.call)) is None:
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
        """Milliseconds since it was received."""
        return round((time.monotonic() - self._begun) * 1000)

    async def _end(
        self,
        status: Call.Status,
        failed: Failure | None = None,
        *,
        answer: Answer | None = None,
        error: ToolError | None = None,
    ) -> None:
        self._stop(status)
        entry = JournalEntry(call=self.call, failure=failed, known=self._began)
        if self._claim is not None and self._began:
            entry.reply = await self._reply(answer, error)
        self._ended = True
        await self._journal.write(entry)

    async def _reply(self, answer: Answer | None, error: ToolError | None) -> Reply | None:
        """What the next call with the same key will be told. What may be repeated and may pass, it may try again."""
        if self._claim is None:
            return None
        if self.call.status == Call.Status.ASKED:
            return replies.reply(self._claim, self.call, None, None)
        if answer is None and error is None:
            # Cancelled while it ran: only a tool that may be repeated gives the key back.
            return replies.reply(self._claim, self.call, None, None) if self._repeatable else None
        if error is not None and error.retryable and self._repeatable:
            return replies.reply(self._claim, self.call, None, None)
        reply = await asyncio.to_thread(replies.reply, self._claim, self.call, answer, error)
        return await self._journal.replies.applied(reply)


def _payload(value: Any) -> str:
    """As much of arguments or of an answer as the operator wants kept; never what looks like a secret."""
    kept = conf.value("TOOLHUB_PAYLOADS")
    if kept == "none":
        return ""
    return redaction.summary(value, MOST_FULL if kept == "full" else MOST_REDACTED)


def _files_for(caller: Caller) -> Path | None:
    """Whoever comes over HTTP does not see the files of this machine, and must not read them through a tool."""
    root = conf.value("TOOLHUB_FILE_ROOT")
    return Path(root) if root and caller.kind == "local" else None
