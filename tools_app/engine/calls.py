"""The path of one call, from top to bottom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from tools_app.base import conf, log_fields, ports, shared
from tools_app.catalog import available, catalog, obstacles
from tools_app.catalog.entry import MANY, Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.engine import answers, approvals, budgets, replies
from tools_app.engine.answers import Answer
from tools_app.engine.attempts import Attempts, Plan
from tools_app.engine.cache import Cache
from tools_app.engine.guards import Guards
from tools_app.engine.running import RunningCall
from tools_app.engine.workers import Workers
from tools_app.journal.journal import Journal
from tools_app.journal.notes import CallNotes
from tools_app.models import Call
from tools_app.models.tools import POLICY
from tools_app.sdk import heavy, traces
from tools_app.sdk.checker import mistyped
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    InternalError,
    InvalidArgumentsError,
    Problem,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from tools_app.sdk.hub_errors import DefinitionChangedError, ShuttingDownError, StorageBusyError
from tools_app.sdk.policies import Rate
from tools_app.sdk.questions import NO_CLIENT, Ask, Client
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import FIELDS, Kind, ToolSpec
from tools_app.text import json_text
from tools_app.text.budget import FEWEST_TOKENS

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
    # The paths of the parts of the answer to send; empty: all. An argument `_fields` says the same.
    fields: Sequence[str] = ()
    # True if it is one of several calls that another call makes, which may only read.
    is_part: bool = False
    # True if the channel sends the answer's value: it is not written in the tool's text form.
    as_value: bool = False

    def check(self) -> None:
        """Raises: ValidationError, with every option that is out of bounds."""
        problems = []
        for part, wire_name in _OPTIONS.items():
            low, high = POLICY[part]
            value = getattr(self, part)
            if value is not None and not (type(value) is int and low <= value <= high):
                message = f"options.{wire_name} must be between {low} and {high}"
                problems.append(Problem(f"/options/{wire_name}", message, f"{low} to {high}"))
        if not isinstance(self.fields, list | tuple) or not all(isinstance(path, str) for path in self.fields):
            problems.append(Problem("/options/fields", "options.fields must be a list of paths", "a list of paths"))
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
        self.clients = ports.clients()
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
        kind: Kind = Kind.TOOL,
    ) -> Result | Ask:
        """Run a tool, prompt, resource or completion. Every failure is a `ToolError`, recorded before it is raised.

        Of completions, only failures are recorded.
        """
        notes = CallNotes(self.journal, name, caller, door, quiet=kind is Kind.COMPLETION)
        running = RunningCall(notes, caller, options)
        with traces.call(running.call.id) as running.span:
            return await self._recorded(running, name, arguments, options, client, kind)

    async def _recorded(
        self,
        running: RunningCall,
        name: str,
        arguments: Mapping[str, Any] | None,
        options: Options,
        client: Client,
        kind: Kind,
    ) -> Result | Ask:
        token = log_fields.call_id.set(running.call.id)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._under_way.add(task)
        try:
            outcome = await self._call(running, name, arguments, options, client, kind)
            if isinstance(outcome, Ask):
                await running.asked()
            return outcome
        except ToolError as error:
            await running.failed(error)
            raise
        except asyncio.CancelledError:
            if not self._is_aborted:
                await running.cancelled("the caller")
                raise
            await running.cancelled("the end of this process")
            task.uncancel()
            raise running.broken_off() from None
        except Exception as bug:
            internal = InternalError(detail=bug)
            await running.failed(internal)
            raise internal from bug
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._idle.set()
            log_fields.call_id.reset(token)

    async def _call(
        self,
        running: RunningCall,
        name: str,
        arguments: Mapping[str, Any] | None,
        options: Options,
        client: Client,
        kind: Kind,
    ) -> Result | Ask:
        if self.closing:
            raise ShuttingDownError
        if self.journal.trouble:
            raise StorageBusyError(detail=self.journal.trouble)
        caller = running.caller
        snapshot = await catalog.fresh()
        entry = _allowed(_find(snapshot, kind, name, caller), caller, options)
        through = entry if entry.forwards else None
        through_fields: Sequence[str] = ()
        if through is not None:
            entry, arguments, through_fields = await _forwarded(running, through, arguments, snapshot.seen_by(caller))
        running.resolved(entry)
        _check_maintenance(snapshot, entry, kind)
        spec = entry.spec
        options.check()
        arguments, fields = _without_fields(spec, arguments)
        complete = await running.receive(spec, arguments)
        values = complete.values
        account = running.connected(entry, values)
        await complete.check(spec)
        runner = await self._runner(entry)
        prepared = await complete.processed(runner.prepared, values)
        cached = bool(entry.policy.cache_seconds) and options.idempotency_key is None
        # A shared answer must not depend on what one of its clients answers.
        client = NO_CLIENT if cached else client
        tokens = min(entry.policy.answer_tokens, options.answer_tokens or entry.policy.answer_tokens)
        fields = fields or through_fields or options.fields
        stored_answers = ports.shelf().for_call(entry, caller, running.call.id, tokens, fields)
        is_many = entry.is_finder and entry.name == MANY
        call_each = partial(self._call_each, running, tokens) if is_many else None
        plan = running.plan(entry, runner, prepared, client, stored_answers, call_each)
        if account is not None:
            # Runners of sources outside bring a connection of their own.
            api_client = None if entry.origin is not None else await self.clients.of(account, runner.explain)
            plan = plan.through(account, api_client)
            running.notes.upstream = plan.context.upstream
        if options.dry_run:
            return _result(running, entry, answers.from_hub(self._outlook(entry, plan, values, caller)))
        await self.guards.count(caller.id, entry.name, _rate(entry, caller))
        if through is not None and through.policy.decided("rate"):
            await self.guards.count(caller.id, through.name, through.policy.rate)
        key = options.idempotency_key
        earlier = await running.earlier(key, values) if key is not None else None
        # A replay counts, and is never refused: the caller would repeat the call when there is a budget again.
        await budgets.admit(running, entry, snapshot, is_replay=earlier is not None)
        running.invoked()
        if earlier is not None:
            answer = running.replayed(earlier)
        else:
            run = self._cached(running, entry, plan, values) if cached else self._run(running, plan)
            if approvals.needed(entry, caller):
                run = _approved(running, values, options.approval, run)
            outcome = await run
            if isinstance(outcome, Ask):
                return outcome
            # The cache holds complete answers: each caller gets its own outline.
            answer = await stored_answers.fitted(outcome, key is not None) if kind is Kind.TOOL else outcome
        await running.succeeded(answer)
        # The text of prompts and resources comes from their pack: no marks.
        return _result(running, entry, answer.marked() if kind is Kind.TOOL else answer)

    async def _call_each(
        self, outer: RunningCall, tokens: int, calls: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The outcomes of calls that only read, each with all that a call has, its row in the journal included.

        Together their answers fit the budget of the outer call: larger ones are outlined.
        """
        options = Options(answer_tokens=max(FEWEST_TOKENS, tokens // max(1, len(calls))), as_value=True, is_part=True)
        return await asyncio.gather(*(self._outcome(outer, name, arguments, options) for name, arguments in calls))

    async def _outcome(
        self, outer: RunningCall, name: str, arguments: Mapping[str, Any], options: Options
    ) -> dict[str, Any]:
        try:
            result = await self.call(
                name, arguments, outer.caller, door=outer.call.door, options=options, client=NO_CLIENT
            )
        except ToolError as error:
            return {"name": name, "error": error.as_dict()}
        assert not isinstance(result, Ask)  # noqa: S101 – without a client, a question is an error
        answer = result.answer
        outcome = {"name": name, "result": answer.value if answer.content is None else answer.text}
        return outcome | ({"note": answer.note} if answer.note else {})

    async def _runner(self, entry: Entry) -> Runner:
        """The code of the tool. The first call imports it, within the time of a call."""
        try:
            async with asyncio.timeout(entry.policy.timeout_ms / 1000):
                return await ports.code().runner(entry.source_name, entry.spec, entry.origin)
        except TimeoutError as error:
            raise ToolTimeoutError.after(entry.policy.timeout_ms, writes=False) from error

    def end_within(self, seconds: float) -> None:
        """After that time, refuse new calls and cancel those still running: each caller gets an error.

        Until then new ones run: what the server had accepted when it was asked to end gets an answer.
        """
        asyncio.get_running_loop().call_later(seconds, self._abort)

    def _abort(self) -> None:
        self.closing = self._is_aborted = True
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
        await self.guards.aclose()
        await shared.of_hub().leave()
        await ports.code().stop()
        await ports.upstreams().aclose()
        await self.clients.close()
        await asyncio.get_running_loop().run_in_executor(None, self.journal.close, 5.0)

    async def _run(self, running: RunningCall, plan: Plan) -> Answer | Ask:
        returned = await self._attempts.run(plan, running.attempt)
        if isinstance(returned, Ask):
            return returned
        if running.options.as_value:
            returned = replace(returned, write=None)
        answer = await heavy.by_size_in_turn(running.caller.id, returned.value, answers.shaped, plan.entry, returned)
        # A tool that reads stored answers passes on their content.
        return replace(answer, untrusted=True) if plan.context.answers.untrusted else answer

    async def _cached(
        self, running: RunningCall, entry: Entry, plan: Plan, arguments: Mapping[str, Any]
    ) -> Answer | Ask:
        # Includes source and definition: an answer from before a change of the tool is not valid after it.
        parts: list[Any] = [
            entry.source_name,
            entry.name,
            entry.definition_hash,
            *entry.identity,
            arguments,
            running.account.mark if running.account else "",
        ]
        if running.options.as_value and entry.spec.formats_text:
            parts.append("as value")
        if not entry.spec.policy.cache_seconds:
            # Only its author knows whether the tool answers alike for all callers. If operators enabled the cache, an
            # answer is for its caller only, and until the tools or permissions of the hub change.
            parts += [running.caller.id, *catalog.numbers()]
        key = json_text.digest(parts)
        try:
            answer, is_shared = await self.cache.answer(
                key, entry.policy.cache_seconds, lambda: self._answered(running, plan), plan.context.remaining
            )
        except TimeoutError as error:
            raise plan.too_slow(writes=False) from error
        if is_shared:
            running.call.answered_by = Call.Origin.CACHE
        return answer

    async def _answered(self, running: RunningCall, plan: Plan) -> Answer:
        """The answer of a tool that has no client to ask."""
        answer = await self._run(running, plan)
        assert not isinstance(answer, Ask)  # noqa: S101 – without a client, a question is an error
        return answer

    def _outlook(self, entry: Entry, plan: Plan, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The result of a dry run: what the call would do. Nothing is sent to anyone."""
        return {
            "tool": entry.name,
            "version": entry.version,
            "arguments": arguments,
            "annotations": entry.hints.as_dict(),
            "timeoutMs": plan.timeout_ms,
            "retries": plan.retries if entry.hints.repeatable else 0,
            "policy": entry.policy.as_dict(),
            "approvalRequired": approvals.needed(entry, caller),
            "connection": plan.context.connection or None,
            "upstream": self.guards.state(plan.upstream) if plan.upstream else None,
        }


def _find(snapshot: Snapshot, kind: Kind, name: str, caller: Caller) -> Entry:
    view = snapshot.seen_by(caller)
    entry = None
    if isinstance(name, str):
        entry = view.find(name) if kind is Kind.TOOL else available.find(view, kind, name)
    if entry is None:
        raise ToolNotFoundError.named(str(name))
    return entry


async def _forwarded(
    running: RunningCall, through: Entry, arguments: object, view: Snapshot
) -> tuple[Entry, Mapping[str, Any], Sequence[str]]:
    """The tool that a call of `through` is for, its arguments, and the parts of the answer to send."""
    running.resolved(through)
    spec = through.spec
    try:
        complete = await running.receive(spec, arguments)
        await complete.check(spec)
    except InvalidArgumentsError as error:
        # Models put the other tool's arguments beside its name, or send them as text.
        error.next_step = (
            f"{through.name} takes the name of a tool and, in an object, what that tool takes: "
            '{"name": "…", "arguments": {…}}.'
        )
        raise
    values = complete.values
    name = values["name"]
    entry = view.find(name)
    if entry is None:
        raise await ports.finder()(running.caller).none_named(name, through.name)
    if entry.forwards:
        message = f"{entry.name} cannot be called through another tool: call it directly"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "another tool")])
    running.notes.forwarded(entry, through)
    _allowed(entry, running.caller, running.options)
    if through.hints.read_only and not entry.hints.read_only:
        message = f"{entry.shown_name} changes something: call it with call_writing_tool"
        raise InvalidArgumentsError(problems=[Problem("/name", message, "a tool that only reads")])
    return _bounded(entry, through), values["arguments"], values.get(FIELDS, ())


def _without_fields(spec: ToolSpec, arguments: object) -> tuple[Any, Sequence[str]]:
    """The arguments of the tool, and which parts of its answer to send.

    Raises:
        InvalidArgumentsError: that is no list of texts.
    """
    if not isinstance(arguments, Mapping) or FIELDS not in arguments:
        return arguments, ()
    # A tool outside may have a parameter of that name.
    if spec.kind is not Kind.TOOL or spec.unchecked or FIELDS in spec.input_schema.get("properties", {}):
        return arguments, ()
    fields = arguments[FIELDS]
    if isinstance(fields, str):
        fields = [fields]
    if not isinstance(fields, list) or not all(isinstance(path, str) for path in fields):
        raise InvalidArgumentsError(problems=[mistyped([FIELDS], "array")])
    return {name: value for name, value in arguments.items() if name != FIELDS}, fields


def _check_part(entry: Entry) -> None:
    """Raises: InvalidArgumentsError, for a tool that cannot be one of several: only what reads is called so."""
    if entry.forwards or entry.is_finder:
        message = f"{entry.name} cannot be called through another tool: call it directly"
    elif not entry.hints.read_only:
        message = f"{entry.shown_name} changes something: call it by itself"
    else:
        return
    raise InvalidArgumentsError(problems=[Problem("/name", message, "a tool that only reads")])


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


def _allowed(entry: Entry, caller: Caller, options: Options) -> Entry:
    if not caller.may(EXECUTE):
        raise AuthorizationError.lacking(EXECUTE)
    if kind := entry.beyond(caller.reach):
        raise AuthorizationError.beyond(entry.name, kind)
    if entry.refusal is not None:
        raise entry.refusal.error(entry.shown_name)
    if entry.is_held:
        raise DefinitionChangedError.held(entry.shown_name)
    if options.is_part:
        _check_part(entry)
    return entry


def _check_maintenance(snapshot: Snapshot, entry: Entry, kind: Kind) -> None:
    """For the tool that runs, not for the one through which it is called. Raises: MaintenanceError."""
    if entry.hints.writes and kind is Kind.TOOL and (error := obstacles.refusal_of_write(snapshot.stops)) is not None:
        raise error


async def _approved(
    running: RunningCall,
    arguments: Mapping[str, Any],
    approval_id: str | None,
    run: Coroutine[Any, Any, Answer | Ask],
) -> Answer | Ask:
    """Run what an operator has approved, once. The approval is given back if nothing was done."""
    try:
        approval = await approvals.take(approvals.Request(running.call, arguments, running.identity), approval_id)
        try:
            answer = await run
        except BaseException as error:
            if running.attempts == 0 or _may_be_repeated(error):
                await asyncio.shield(approvals.give_back(approval))
            raise
        if isinstance(answer, Ask):
            await asyncio.shield(approvals.give_back(approval))
        return answer
    finally:
        run.close()


def _may_be_repeated(error: BaseException) -> bool:
    """Whether callers are told that nothing was sent, and to call again."""
    return isinstance(error, ToolError) and error.retryable and error.nothing_done


def _rate(entry: Entry, caller: Caller) -> Rate | None:
    """The applicable limit. The hub-wide default is for callers from outside."""
    if caller.kind == "local" and entry.policy.origins["rate"] == "settings":
        return None
    return entry.policy.rate


def _result(running: RunningCall, entry: Entry, answer: Answer) -> Result:
    call, duration_ms = running.call, running.duration_ms
    return Result(running.call_id, entry, answer, call.started_at, duration_ms, call.answered_by, running.dry, call.via)
