"""The path of one call, from top to bottom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from tools_app.answers import bytes_of
from tools_app.base import conf, logs
from tools_app.catalog import catalog
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.engine import answers, approvals, replies
from tools_app.engine.answers import Answer
from tools_app.engine.attempts import Attempts, Plan
from tools_app.engine.cache import Cache
from tools_app.engine.clients import Clients
from tools_app.engine.finding import ToolFinder
from tools_app.engine.fitting import Fitting, Reading, Shelf
from tools_app.engine.guards import Guards
from tools_app.engine.record import CallRecord
from tools_app.engine.workers import Workers
from tools_app.journal.journal import Journal
from tools_app.models.idempotency import REPLAYED_FOR
from tools_app.models.tools import POLICY
from tools_app.sdk import heavy
from tools_app.sdk.checker import is_small
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    InternalError,
    InvalidArgumentsError,
    Problem,
    ToolError,
    ToolNotFoundError,
    ValidationError,
)
from tools_app.sdk.hub_errors import ShuttingDownError, StorageBusyError
from tools_app.sdk.policies import Rate
from tools_app.sdk.questions import NO_CLIENT, Client, InputRequired
from tools_app.sdk.tool import Tool
from tools_app.text import json_text

R = TypeVar("R")

log = logging.getLogger("tools_app.calls")

EXECUTE: Final = "tools:execute"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a call beside the arguments; None: the tool's policy decides."""

    timeout_ms: int | None = None
    retries: int | None = None
    retry_delay_ms: int | None = None
    # Do everything up to the tool itself, and report what would be done.
    dry_run: bool = False
    # Idempotency: a second call with the same key gets the answer of the first.
    idempotency_key: str | None = None
    # The maximum size of the answer, within the tool's policy.
    answer_tokens: int | None = None
    # The id of an approval, as an earlier call reported it.
    approval: str | None = None

    def check(self) -> None:
        """Raises: ValidationError, with every option that is out of bounds."""
        problems = []
        for part, wire_name in _OPTIONS.items():
            low, high = POLICY[part]
            value = getattr(self, part)
            if value is not None and not (type(value) is int and low <= value <= high):
                message = f"options.{wire_name} must be between {low} and {high}"
                problems.append(Problem(f"/options/{wire_name}", message, f"{low} to {high}"))
        if problems:
            raise ValidationError(problems=problems)
        if self.idempotency_key is not None:
            replies.check(self.idempotency_key)
        if self.approval is not None:
            approvals.check(self.approval)


# Option names as in the API documentation.
_OPTIONS: Final = {
    "timeout_ms": "timeout",
    "retries": "retry",
    "retry_delay_ms": "retryDelay",
    "answer_tokens": "answerTokens",
}


@dataclass(frozen=True, slots=True)
class Result:
    """A successful call. A replayed answer has the id of the original call."""

    call_id: str
    entry: Entry
    answer: Answer
    started_at: datetime
    duration_ms: int
    answered_by: str = ""
    dry_run: bool = False
    # The tool through which it was called; empty for a direct call.
    via: str = ""


class Calls:
    """Runs calls and keeps track of those running."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.workers = Workers(conf.value("TOOLHUB_THREADS"))
        self.guards = Guards()
        self.cache = Cache(conf.value("TOOLHUB_CACHE_BYTES"))
        self.shelf = Shelf()
        self.clients = Clients()
        self._attempts = Attempts(self.workers, self.guards)
        self.closing = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_aborted = False
        self._idle = asyncio.Event()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        caller: Caller,
        *,
        door: str,
        options: Options,
        client: Client,
        offered: Entry | None = None,
        quietly: bool = False,
    ) -> Result:
        """Run a tool. Every failure is a `ToolError`, recorded before it is raised.

        `offered` is a prompt or resource to run instead of a tool of the catalog, which was looked up for this caller.
        `quietly` records failures only.
        """
        record = CallRecord(self.journal, name, caller, door, dry=options.dry_run, quiet=quietly)
        token = logs.call_id.set(record.call.id)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._under_way.add(task)
        try:
            return await self._call(record, name, arguments, options, client, offered)
        except InputRequired:
            await record.asked()
            raise
        except ToolError as error:
            await record.failed(error)
            raise
        except asyncio.CancelledError:
            if not self._is_aborted:
                await record.cancelled("the caller")
                raise
            await record.cancelled("the end of this process")
            task.uncancel()
            raise record.broken_off() from None
        except Exception as bug:
            internal = InternalError(detail=bug)
            await record.failed(internal)
            raise internal from bug
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._idle.set()
            logs.call_id.reset(token)

    async def _call(
        self,
        record: CallRecord,
        name: str,
        arguments: Mapping[str, Any] | None,
        options: Options,
        client: Client,
        offered: Entry | None,
    ) -> Result:
        if self.closing:
            raise ShuttingDownError
        if self.journal.trouble:
            raise StorageBusyError(detail=self.journal.trouble)
        caller = record.caller
        snapshot = await catalog.fresh()
        entry = _allowed(offered or _find(snapshot, name, caller), caller)
        through = entry if offered is None and entry.forwards else None
        if through is not None:
            entry, arguments = await _forwarded(record, through, arguments, snapshot.seen_by(caller))
        tool = record.resolved(entry)
        options.check()
        values = await _off_loop(caller, arguments, lambda: record.complete_arguments(tool, arguments))
        account = record.connected(entry, values)
        converted = await _off_loop(caller, arguments, lambda: tool.checked(values))
        cached = bool(entry.policy.cache_seconds) and options.idempotency_key is None
        # A shared answer must not depend on what one of its clients answers.
        client = NO_CLIENT if cached else client
        tokens = min(entry.policy.answer_tokens, options.answer_tokens or entry.policy.answer_tokens)
        reading = Reading(self.shelf, caller, bytes_of(tokens), tool.name, record.call.id)
        plan = record.plan(
            entry, tool, converted, client, reading, options.timeout_ms, options.retries, options.retry_delay_ms
        )
        if account is not None:
            plan = plan.through(account, await self.clients.of(account))
            record.upstream = plan.context.upstream
        if options.dry_run:
            return _result(record, entry, answers.from_hub(self._outlook(entry, plan, values, caller)))
        self.guards.count(caller.id, entry.name, _rate(entry, caller))
        if through is not None and through.policy.decided("rate"):
            self.guards.count(caller.id, through.name, through.policy.rate)
        record.invoked()
        if options.idempotency_key is not None and (earlier := await record.earlier(options.idempotency_key, values)):
            answer = record.replayed(earlier)
        else:
            running = self._cached(record, entry, plan, values) if cached else self._run(record, plan, values)
            if approvals.needed(entry, caller):
                running = _approved(record, values, options.approval, running)
            answer = await running
            if offered is None:
                # The cache holds complete answers: each caller gets its own outline.
                answer = await self._fitted(record, tool, answer, tokens, options)
        await record.succeeded(answer)
        # The text of prompts and resources comes from their pack: no marks.
        return _result(record, entry, answer.marked() if offered is None else answer)

    def end_within(self, seconds: float) -> None:
        """Refuse new calls, and cancel those still running after that time: each caller gets an error."""
        self.closing = True
        asyncio.get_running_loop().call_later(seconds, self._abort)

    def _abort(self) -> None:
        self._is_aborted = True
        for task in self._under_way:
            task.cancel()

    async def close(self, seconds: float) -> None:
        """Refuse new calls, wait for running ones, and write the journal."""
        self.closing = True
        if self._under_way:
            self._idle.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("%d calls were still running after %.0f s", len(self._under_way), seconds)
        self.workers.close()
        await self.clients.close()
        await asyncio.get_running_loop().run_in_executor(None, self.journal.close, 5.0)

    async def _fitted(self, record: CallRecord, tool: Tool, answer: Answer, tokens: int, options: Options) -> Answer:
        if answer.size_to_send <= bytes_of(tokens):
            return answer
        seconds = conf.value("TOOLHUB_ANSWER_SECONDS")
        if seconds and options.idempotency_key is not None:
            # The answer must be readable for as long as it is replayed.
            seconds = max(seconds, REPLAYED_FOR.total_seconds())
        try:
            reader = (await catalog.fresh()).seen_by(record.caller).find(READER)
            readable = reader is not None and reader.callable
        except StorageBusyError:
            readable = True  # Nothing can be stored now either; that is the error to report.
        return await Fitting(tool, record.caller, record.call.id, tokens, seconds, readable).fitted(answer)

    async def _run(self, record: CallRecord, plan: Plan, arguments: Mapping[str, Any]) -> Answer:
        result = await self._attempts.run(plan, record.attempt)
        answer = await heavy.by_size(result, answers.shaped, plan.tool, result, arguments)
        # A tool that reads stored answers passes on their content.
        return replace(answer, untrusted=True) if plan.context.answers.untrusted else answer

    async def _cached(self, record: CallRecord, entry: Entry, plan: Plan, arguments: Mapping[str, Any]) -> Answer:
        # Includes the definition: an answer from before a change of the tool is not valid after it.
        parts: list[Any] = [entry.name, entry.definition_hash, arguments, record.account.mark if record.account else ""]
        if not plan.tool.cache_seconds:
            # Only its author knows whether the tool answers alike for all callers. If operators enabled the cache, an
            # answer is for its caller only, and until the tools or permissions of the hub change.
            parts += [record.caller.id, catalog.latest().revision]
        key = json_text.digest(parts)
        try:
            answer, is_shared = await self.cache.answer(
                key, entry.policy.cache_seconds, lambda: self._run(record, plan, arguments), plan.context.remaining
            )
        except TimeoutError as error:
            raise plan.too_slow(writes=False) from error
        if is_shared:
            record.from_cache()
        return answer

    def _outlook(self, entry: Entry, plan: Plan, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The result of a dry run: what the call would do. Nothing is sent to anyone."""
        tool = plan.tool
        return {
            "tool": entry.name,
            "version": entry.version,
            "arguments": arguments,
            "annotations": tool.hints.as_dict(),
            "timeoutMs": plan.timeout_ms,
            "retries": plan.retries if tool.hints.repeatable else 0,
            "policy": entry.policy.as_dict(),
            "approvalRequired": approvals.needed(entry, caller),
            "connection": plan.context.connection or None,
            "upstream": self.guards.state(plan.upstream) if plan.upstream else None,
        }


async def _off_loop(caller: Caller, arguments: object, work: Callable[[], R]) -> R:
    """Process arguments: large ones in a thread, so that the event loop stays responsive."""
    return work() if is_small(arguments) else await heavy.in_turn(caller.id, work)


def _find(snapshot: Snapshot, name: str, caller: Caller) -> Entry:
    entry = snapshot.seen_by(caller).find(name) if isinstance(name, str) else None
    if entry is None:
        raise ToolNotFoundError.named(str(name))
    return entry


async def _forwarded(
    record: CallRecord, through: Entry, arguments: object, view: Snapshot
) -> tuple[Entry, Mapping[str, Any]]:
    """The tool that a call of `through` is for, and its arguments."""
    tool = record.resolved(through)
    try:
        target = tool.checked(record.complete_arguments(tool, arguments))
    except InvalidArgumentsError as error:
        # Models put the other tool's arguments beside its name, or send them as text.
        error.next_step = (
            f"{through.name} takes the name of a tool and, in an object, what that tool takes: "
            '{"name": "…", "arguments": {…}}.'
        )
        raise
    entry = view.find(target.name)
    if entry is None:
        raise await ToolFinder(record.caller).none_named(target.name, through.name)
    if entry.forwards:
        message = f"{entry.name} cannot be called through another tool: call it directly"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "another tool")])
    record.forwarded(entry, through)
    _allowed(entry, record.caller)
    if tool.hints.read_only and not entry.hints.read_only:
        message = f"{entry.shown_name} changes something: call it with call_writing_tool"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "a tool that only reads")])
    return _bounded(entry, through), target.arguments


def _bounded(entry: Entry, through: Entry) -> Entry:
    """Apply what an operator decided for all calls through another tool, where that is stricter."""
    outer, policy = through.policy, entry.policy
    for part in ("timeout_ms", "answer_tokens"):
        most: Any = getattr(outer, part)
        # Of two equal limits the operator's applies: callers cannot raise it.
        if outer.decided(part) and most <= getattr(policy, part):
            lowered: dict[str, Any] = {part: most, "origins": {**policy.origins, part: "operator"}}
            policy = replace(policy, **lowered)
    if policy is entry.policy and not through.ask:
        return entry
    return replace(entry, policy=policy, ask=entry.ask or through.ask)


def _allowed(entry: Entry, caller: Caller) -> Entry:
    if not caller.may(EXECUTE):
        raise AuthorizationError.lacking(EXECUTE)
    if kind := entry.beyond(caller.reach):
        raise AuthorizationError.beyond(entry.name, kind)
    if entry.refusal is not None:
        raise entry.refusal.error(entry.shown_name)
    return entry


async def _approved(
    record: CallRecord, arguments: Mapping[str, Any], approval_id: str | None, running: Coroutine[Any, Any, Answer]
) -> Answer:
    """Run what an operator has approved, once. The approval is given back if nothing was done."""
    try:
        approval = await approvals.take(approvals.Request(record.call, arguments), approval_id)
        try:
            return await running
        except BaseException as error:
            if record.attempts == 0 or isinstance(error, InputRequired) or _may_be_repeated(error):
                await asyncio.shield(approvals.give_back(approval))
            raise
    finally:
        running.close()


def _may_be_repeated(error: BaseException) -> bool:
    """Whether callers are told that nothing was sent, and to call again."""
    return isinstance(error, ToolError) and error.retryable and error.nothing_done


def _rate(entry: Entry, caller: Caller) -> Rate | None:
    """The applicable limit. The hub-wide default is for callers from outside."""
    if caller.kind == "local" and entry.policy.origins["rate"] == "settings":
        return None
    return entry.policy.rate


def _result(record: CallRecord, entry: Entry, answer: Answer) -> Result:
    call, duration_ms = record.call, record.duration_ms
    return Result(record.call_id, entry, answer, call.started_at, duration_ms, call.answered_by, record.dry, call.via)
