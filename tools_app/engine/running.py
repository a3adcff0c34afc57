"""One call while it runs: its state, and the decisions that depend on it. What is recorded of it are its notes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools_app.base import conf, database, ports
from tools_app.catalog.entry import Entry
from tools_app.engine import answers, events, replies
from tools_app.engine.answers import Answer
from tools_app.engine.arguments import Arguments
from tools_app.engine.attempts import Plan
from tools_app.engine.replies import EarlierOutcome
from tools_app.journal.failures import failure
from tools_app.journal.notes import CallNotes
from tools_app.journal.rows import Failure, Reply
from tools_app.journal.writer import PATIENCE
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk import accounts, traces
from tools_app.sdk.accounts import Account
from tools_app.sdk.context import Answers, CallEach, Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import InternalError, InvalidArgumentsError, ToolDisabledError, ToolError, ToolTimeoutError
from tools_app.sdk.hub_errors import ShuttingDownError, StoppedError, StorageBusyError
from tools_app.sdk.policies import Backoff
from tools_app.sdk.questions import Client
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import ToolSpec
from tools_app.sdk.traces import Span
from tools_app.text import json_text

if TYPE_CHECKING:
    from tools_app.engine.calls import Options

log = logging.getLogger("tools_app.calls")


class RunningCall:
    def __init__(self, notes: CallNotes, caller: Caller, options: Options) -> None:
        self.notes = notes
        self.call = notes.call
        self.caller = caller
        self.options = options
        self.dry = options.dry_run
        self.attempts = 0
        self.span: Span = traces.OFF
        self.identity: tuple[str, int] | tuple[()] = ()
        self.account: Account | None = None
        self._writes = self._repeatable = self._passes_on = False
        # What the log names beside the tool: loggable arguments, and what the tool notes.
        self._shown: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}
        self._claim: IdempotencyKey | None = None
        self._earlier: EarlierOutcome | None = None

    @property
    def call_id(self) -> str:
        """The id of the call whose answer this is."""
        return self._earlier.call_id if self._earlier is not None else self.call.id

    @property
    def duration_ms(self) -> int:
        return self._earlier.duration_ms if self._earlier is not None else self.call.duration_ms or 0

    def resolved(self, entry: Entry) -> None:
        self.notes.resolved(entry)
        self.span.resolve(entry.spec.kind, entry.name)
        self.identity = entry.identity
        self._writes, self._repeatable = entry.hints.writes, entry.hints.repeatable
        self._passes_on = entry.spec.passes_on

    async def receive(self, spec: ToolSpec, sent: object) -> Arguments:
        """What the caller sent, complete and noted.

        Raises:
            InvalidArgumentsError: the hub cannot read them; they are not checked yet.
        """
        arguments = await Arguments.received(self.caller.id, spec, sent)
        self.notes.received(arguments.size, arguments.payload)
        self._shown = events.logged(spec, arguments.values)
        return arguments

    def connected(self, entry: Entry, arguments: dict[str, Any]) -> Account | None:
        """The account that this call uses, if it needs one. Removes the parameter that names it from the arguments.

        Raises:
            InvalidArgumentsError: there are several, and the caller named none.
            AuthorizationError: the account does not exist or this caller may not use it.
            ToolDisabledError: the account cannot be used now.
        """
        available = entry.accounts
        if not available:
            return None
        parameter = entry.connection_parameter
        account_name = arguments.pop(parameter, None) if parameter else None
        account = accounts.chosen(available, account_name)
        if account is None:
            raise InvalidArgumentsError(
                problems=[accounts.not_chosen(account_name, parameter), *entry.spec.checker.problems(arguments)]
            )
        if account.stopped:
            raise StoppedError.because(account.stopped)
        if obstacle := account.obstacle_now(writes=entry.hints.writes):
            raise ToolDisabledError.named(entry.name, obstacle, accounts.ASK)
        account = account.of_caller(self.caller.identity)
        self.account = account
        self.call.connection = account.name
        return account

    def plan(
        self,
        entry: Entry,
        runner: Runner,
        arguments: Any,
        client: Client,
        stored_answers: Answers,
        call_each: CallEach | None = None,
    ) -> Plan:
        """The tool's policy, overridden by the caller's options within the operators' limits."""
        options, root = self.options, _file_root()
        policy = entry.policy.for_caller(options.timeout_ms, options.retries, options.retry_delay_ms)
        adapter = logging.LoggerAdapter(logging.getLogger(f"tools_app.sdk.tool.{entry.name}"), {"tool": entry.name})
        return Plan(
            entry=entry,
            runner=runner,
            arguments=arguments,
            context=Context(
                self.call.id,
                entry.name,
                self.caller,
                Deadline(policy.timeout_ms / 1000),
                adapter,
                client,
                stored_answers,
                ports.finder()(self.caller),
                call_each,
                files=root if self.caller.kind == "local" else None,  # callers over HTTP must not name any
                file_root=root,
                on_sent=self.notes.sent,
                noted=self._noted,
            ),
            timeout_ms=policy.timeout_ms,
            limited_by=entry.policy.limit_of_time(policy.timeout_ms),
            hurried=policy.timeout_ms < entry.policy.timeout_ms,
            retries=policy.retries,
            backoff=Backoff(base=policy.retry_delay_ms / 1000),
            upstream=entry.spec.upstream,
        )

    async def earlier(self, key: str, arguments: Mapping[str, Any]) -> EarlierOutcome | None:
        """The outcome of an earlier call with this key; None if this is the first, which will claim the key."""
        request = json_text.digest([self.call.tool_name, arguments, self.call.connection, *self.identity])
        try:
            outcome = await database.run_within(
                PATIENCE, replies.earlier, key, self.caller.id, request, repeatable=self._repeatable
            )
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

    async def attempt(self) -> None:
        """Called before each attempt. A tool that writes is recorded before it can change anything."""
        first = self._writes or self._claim is not None
        await self.notes.attempt(self.attempts + 1, self._claim, first=first)
        self.attempts += 1

    def invoked(self) -> None:
        events.invoked(self.call, self.caller, self._shown)

    async def succeeded(self, answer: Answer) -> None:
        if self.notes.quiet:
            return
        self.notes.answered(answer.size, answer.text, answer.value)
        try:
            await self._end(Call.Status.SUCCEEDED, answer=answer)
        except StorageBusyError as error:
            if self._writes:
                error.retryable = False
                error.message = "The tool ran, but the hub could not record it"
                error.next_step = "The change was made: check it instead of calling again."
            raise
        events.completed(self.call, answer.size, self._shown | self._noted)

    async def failed(self, error: ToolError) -> None:
        self.span.set("toolhub.error.code", error.code)
        answers.clean(error)
        # After the tool ran, its error may repeat text from an upstream.
        error.untrusted = error.untrusted or (self.attempts > 0 and self._passes_on and not error.is_of_hub)
        if self.dry:
            events.failed(error, self.call, self.caller)
            return
        if not self.notes.is_ended:
            await self._record_failure(error)
            return
        # The end of the call is queued and will be written when possible; this error is about the writing.
        if isinstance(error, InternalError):
            self.notes.post(failure(error, secrets.token_hex(16), self.call))
        events.failed(error, self.call, self.caller)
        error.call_id, error.duration_ms = self.call.id, self.call.duration_ms

    async def _record_failure(self, error: ToolError) -> None:
        """Record the call and its failure. The log line comes first: it has the ids that the caller gets."""
        # Now, as noting the error gives it an id.
        has_run = self.attempts > 0 or error.error_id is not None
        notes, status = self.notes, self._status(error, has_run=has_run)
        failure_rows = notes.failed(error, is_logged=has_run or status != Call.Status.REFUSED)
        # Calls that ran have a row each.
        is_refused = status == Call.Status.REFUSED and not has_run
        is_counted = is_refused and not notes.quiet and notes.count_refusal()
        events.failed(error, self.call, self.caller)
        if notes.quiet:
            if failure_rows is not None:
                notes.post(failure_rows)
            return
        try:
            if isinstance(error, StorageBusyError):
                notes.stop(status)
                if notes.is_begun:
                    # The tool never ran. Whether its first row was written is unknown: the upsert settles that later.
                    notes.post(failure_rows, with_call=True)
            elif not is_refused:
                await self._end(status, failure_rows, error=error)
            elif not is_counted:
                await notes.end()
        except StorageBusyError:
            # The caller gets the original error; the log says that it is not in the journal.
            log.exception("call %s could not be recorded", self.call.id)
        error.call_id, error.duration_ms = self.call_id, self.duration_ms

    def _status(self, error: ToolError, *, has_run: bool) -> Call.Status:
        """The status of a call that ended with this error."""
        if isinstance(error, ToolTimeoutError):
            return Call.Status.TIMEOUT
        if error.blames_caller:
            return Call.Status.REFUSED
        if has_run or isinstance(error, InternalError | StorageBusyError):
            return Call.Status.FAILED
        return Call.Status.REFUSED

    async def asked(self) -> None:
        """The call ended with a question; the client answers it with a new call. Nothing has been done yet."""
        log.info("Tool asked", extra={"tool": self.call.tool_name, "ms": self.call.duration_ms})
        try:
            await self._end(Call.Status.ASKED)
        except StorageBusyError:
            log.exception("call %s could not be recorded", self.call.id)

    async def cancelled(self, by: str) -> None:
        log.warning("[%s] Cancelled by %s", self.call.tool_name, by)
        if self.notes.is_ended or self.dry or self.notes.quiet:
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

    async def _end(
        self,
        status: Call.Status,
        failure_rows: Failure | None = None,
        *,
        answer: Answer | None = None,
        error: ToolError | None = None,
    ) -> None:
        self.notes.stop(status)
        reply = await self._reply(self._claim, answer, error) if self._claim and self.notes.is_begun else None
        await self.notes.end(failure_rows, reply)

    async def _reply(self, claim: IdempotencyKey, answer: Answer | None, error: ToolError | None) -> Reply | None:
        """What to store for the next call with the same key; a release if that call may run again safely."""
        if self.call.status == Call.Status.CANCELLED and not self._repeatable:
            return None
        # Only errors of calls that changed nothing, or that may run twice, are still retryable here.
        if answer is None and (error is None or error.retryable):
            return replies.reply(claim, self.call, None, None)
        return await asyncio.to_thread(replies.reply, claim, self.call, answer, error)


def _file_root() -> Path | None:
    root = conf.value("TOOLHUB_FILE_ROOT")
    return Path(root) if root else None
