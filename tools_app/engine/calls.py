"""One call, from top to bottom."""

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
from tools_app.engine.finding import Finding
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
    ShuttingDownError,
    StorageBusyError,
    ToolError,
    ToolNotFoundError,
    ValidationError,
)
from tools_app.sdk.policies import Rate
from tools_app.sdk.questions import NOBODY, Asked, Client
from tools_app.sdk.tool import Tool
from tools_app.text import json_text

R = TypeVar("R")

log = logging.getLogger("tools_app.calls")

EXECUTE: Final = "tools:execute"


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask for beside the arguments; what is left out, the tool's policy decides."""

    timeout_ms: int | None = None
    retries: int | None = None
    retry_delay_ms: int | None = None
    # Go through everything up to the tool itself, and tell what would be done.
    dry_run: bool = False
    # A second call with the same key gets the answer of the first.
    idempotency_key: str | None = None
    # How large the answer may be; never more than the tool's policy allows.
    answer_tokens: int | None = None
    # What an operator has approved, by the id that an earlier call was told.
    approval: str | None = None

    def check(self) -> None:
        """Raises: ValidationError, naming every option that is out of bounds."""
        problems = []
        for part, shown in _OPTIONS.items():
            low, high = POLICY[part]
            value = getattr(self, part)
            if value is not None and not (type(value) is int and low <= value <= high):
                message = f"options.{shown} must be between {low} and {high}"
                problems.append(Problem(f"/options/{shown}", message, f"{low} to {high}"))
        if problems:
            raise ValidationError(problems=problems)
        if self.idempotency_key is not None:
            replies.check(self.idempotency_key)
        if self.approval is not None:
            approvals.check(self.approval)


# By their names in the documents.
_OPTIONS: Final = {
    "timeout_ms": "timeout",
    "retries": "retry",
    "retry_delay_ms": "retryDelay",
    "answer_tokens": "answerTokens",
}


@dataclass(frozen=True, slots=True)
class Result:
    """A call that succeeded. What was given again bears the id of the call that it was first given to."""

    call_id: str
    entry: Entry
    answer: Answer
    started_at: datetime
    duration_ms: int
    answered_by: str = ""
    dry_run: bool = False
    # The tool through which it was called, where that was not done directly.
    via: str = ""


class Calls:
    """Runs calls and keeps count of those under way."""

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
        self._broken_off = False
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
        """Run a tool. Whatever goes wrong is a `ToolError`, and is recorded before it is raised.

        `offered` is what to run where that is no tool of the catalog: somebody else has found it for this caller.
        `quietly` records only what goes wrong.
        """
        one = CallRecord(self.journal, name, caller, door, dry=options.dry_run, quiet=quietly)
        token = logs.call_id.set(one.call.id)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._under_way.add(task)
        try:
            return await self._call(one, name, arguments, options, client, offered)
        except Asked:
            await one.asked()
            raise
        except ToolError as error:
            await one.failed(error)
            raise
        except asyncio.CancelledError:
            if not self._broken_off:
                await one.cancelled("the caller")
                raise
            await one.cancelled("the end of this process")
            task.uncancel()
            raise one.broken_off() from None
        except Exception as bug:
            internal = InternalError(detail=bug)
            await one.failed(internal)
            raise internal from bug
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._idle.set()
            logs.call_id.reset(token)

    async def _call(
        self,
        one: CallRecord,
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
        caller = one.caller
        snapshot = await catalog.fresh()
        entry = _allowed(offered or _found(snapshot, name, caller), caller)
        through = entry if offered is None and entry.forwards else None
        if through is not None:
            entry, arguments = await _forwarded(one, through, arguments, snapshot.seen_by(caller))
        tool = one.resolved(entry)
        options.check()
        given = await _worked_on(caller, arguments, lambda: one.given(tool, arguments))
        account = one.connected(entry, given)
        converted = await _worked_on(caller, arguments, lambda: tool.checked(given))
        cached = bool(entry.policy.cache_seconds) and options.idempotency_key is None
        # What others are given as well must not depend on what one of them says.
        client = NOBODY if cached else client
        tokens = min(entry.policy.answer_tokens, options.answer_tokens or entry.policy.answer_tokens)
        reading = Reading(self.shelf, caller, bytes_of(tokens), tool.name, one.call.id)
        plan = one.plan(
            entry, tool, converted, client, reading, options.timeout_ms, options.retries, options.retry_delay_ms
        )
        if account is not None:
            plan = plan.through(account, await self.clients.of(account))
            one.upstream = plan.context.upstream
        if options.dry_run:
            return _result(one, entry, answers.own(self._outlook(entry, plan, given, caller)))
        self.guards.count(caller.id, entry.name, _rate(entry, caller))
        if through is not None and through.policy.decided("rate"):
            self.guards.count(caller.id, through.name, through.policy.rate)
        one.invoked()
        if options.idempotency_key is not None and (said := await one.earlier(options.idempotency_key, given)):
            answer = one.replayed(said)
        else:
            running = self._cached(one, entry, plan, given) if cached else self._run(one, plan, given)
            if approvals.needed(entry, caller):
                running = _approved(one, given, options.approval, running)
            answer = await running
            if offered is None:
                # What is cached is whole: each caller gets an outline of its own.
                answer = await self._fitted(one, tool, answer, tokens, options)
        await one.succeeded(answer)
        # What a prompt or a resource says is its pack's own.
        return _result(one, entry, answer.marked() if offered is None else answer)

    def end_within(self, seconds: float) -> None:
        """Refuse new calls from now on, and break off those that are still running then: each gets its answer."""
        self.closing = True
        asyncio.get_running_loop().call_later(seconds, self._break_off)

    def _break_off(self) -> None:
        self._broken_off = True
        for task in self._under_way:
            task.cancel()

    async def close(self, seconds: float) -> None:
        """Refuse new calls, wait for those under way, write everything down."""
        self.closing = True
        if self._under_way:
            self._idle.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("%d calls did not end in %.0f s", len(self._under_way), seconds)
        self.workers.close()
        await self.clients.close()
        await asyncio.get_running_loop().run_in_executor(None, self.journal.close, 5.0)

    async def _fitted(self, one: CallRecord, tool: Tool, answer: Answer, tokens: int, options: Options) -> Answer:
        if answer.size_to_send <= bytes_of(tokens):
            return answer
        seconds = conf.value("TOOLHUB_ANSWER_SECONDS")
        if seconds and options.idempotency_key is not None:
            # Whoever is told the same again can still read it.
            seconds = max(seconds, REPLAYED_FOR.total_seconds())
        try:
            reader = (await catalog.fresh()).seen_by(one.caller).find(READER)
            readable = reader is not None and reader.callable
        except StorageBusyError:
            readable = True  # Nothing can be kept now; let that be the reason.
        return await Fitting(tool, one.caller, one.call.id, tokens, seconds, readable).fitted(answer)

    async def _run(self, one: CallRecord, plan: Plan, given: Mapping[str, Any]) -> Answer:
        returned = await self._attempts.run(plan, one.attempt)
        answer = await heavy.by_size(returned, answers.shaped, plan.tool, returned, given)
        # A tool that reads kept answers passes on what those did.
        return replace(answer, untrusted=True) if plan.context.answers.untrusted else answer

    async def _cached(self, one: CallRecord, entry: Entry, plan: Plan, given: Mapping[str, Any]) -> Answer:
        # With the definition: what a tool said before it was changed, it need not say now.
        parts: list[Any] = [entry.name, entry.definition_hash, given, one.account.mark if one.account else ""]
        if not plan.tool.cache_seconds:
            # Only its author knows whether it says the same to everybody. Where operators let it be cached, its answers
            # are for whom they were made, and until the hub's tools or who may use them change.
            parts += [one.caller.id, catalog.latest().revision]
        key = json_text.digest(parts)
        try:
            answer, theirs = await self.cache.answer(
                key, entry.policy.cache_seconds, lambda: self._run(one, plan, given), plan.context.remaining
            )
        except TimeoutError as error:
            raise plan.too_slow(writes=False) from error
        if theirs:
            one.from_cache()
        return answer

    def _outlook(self, entry: Entry, plan: Plan, given: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """What a call would meet: everything that has been decided about it, and nothing that was asked of anybody."""
        tool = plan.tool
        return {
            "tool": entry.name,
            "version": entry.version,
            "arguments": given,
            "annotations": tool.hints.as_dict(),
            "timeoutMs": plan.timeout_ms,
            "retries": plan.retries if tool.hints.repeatable else 0,
            "policy": entry.policy.as_dict(),
            "approvalRequired": approvals.needed(entry, caller),
            "connection": plan.context.connection or None,
            "upstream": self.guards.state(plan.upstream) if plan.upstream else None,
        }


async def _worked_on(caller: Caller, arguments: object, work: Callable[[], R]) -> R:
    """Work on arguments: large ones in a thread, as the event loop has others to answer."""
    return work() if is_small(arguments) else await heavy.in_turn(caller.id, work)


def _found(snapshot: Snapshot, name: str, caller: Caller) -> Entry:
    entry = snapshot.seen_by(caller).find(name) if isinstance(name, str) else None
    if entry is None:
        raise ToolNotFoundError.named(str(name))
    return entry


async def _forwarded(
    one: CallRecord, through: Entry, arguments: object, seen: Snapshot
) -> tuple[Entry, Mapping[str, Any]]:
    """The tool that a call of `through` is meant for, and what it is to be given."""
    tool = one.resolved(through)
    try:
        asked = tool.checked(one.given(tool, arguments))
    except InvalidArgumentsError as error:
        # Models put what the other tool takes beside its name, or hand it over as a text.
        error.next_step = (
            f"{through.name} takes the name of a tool and, in an object, what that tool takes: "
            '{"name": "…", "arguments": {…}}.'
        )
        raise
    entry = seen.find(asked.name)
    if entry is None:
        raise await Finding(one.caller).none_named(asked.name, through.name)
    if entry.forwards:
        message = f"{entry.name} cannot be called through another tool: call it directly"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "another tool")])
    one.forwarded(entry, through)
    _allowed(entry, one.caller)
    if tool.hints.read_only and not entry.hints.read_only:
        message = f"{entry.shown_name} changes something: call it with call_writing_tool"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "a tool that only reads")])
    return _bounded(entry, through), asked.arguments


def _bounded(entry: Entry, through: Entry) -> Entry:
    """With what an operator has decided for every call through another tool, where that allows less."""
    theirs, policy = through.policy, entry.policy
    for part in ("timeout_ms", "answer_tokens"):
        most: Any = getattr(theirs, part)
        # Of equal limits the operator's counts: callers cannot raise it.
        if theirs.decided(part) and most <= getattr(policy, part):
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
    one: CallRecord, given: Mapping[str, Any], approval_id: str | None, running: Coroutine[Any, Any, Answer]
) -> Answer:
    """Run what an operator has approved, once. What did nothing is not counted as that."""
    try:
        approval = await approvals.taken(approvals.Request(one.call, given), approval_id)
        try:
            return await running
        except BaseException as error:
            if one.attempts == 0 or isinstance(error, Asked):
                await asyncio.shield(approvals.give_back(approval))
            raise
    finally:
        running.close()


def _rate(entry: Entry, caller: Caller) -> Rate | None:
    """The limit that applies. The hub's own is for those who come from outside."""
    if caller.kind == "local" and entry.policy.origins["rate"] == "settings":
        return None
    return entry.policy.rate


def _result(one: CallRecord, entry: Entry, answer: Answer) -> Result:
    return Result(
        one.call_id, entry, answer, one.call.started_at, one.duration_ms, one.call.answered_by, one.dry, one.call.via
    )
