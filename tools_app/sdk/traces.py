"""Spans of requests and calls, for OpenTelemetry. `base/otlp.py` says whether there are any, and exports them.

While traces are off, all of this costs a branch, and nothing of OpenTelemetry is imported. Attributes follow its
conventions for MCP, HTTP and GenAI; none has arguments, answers, texts of errors, paths or queries (decision 101).
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias

Value: TypeAlias = str | int

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
# What others name themselves.
MOST_VALUE: Final = 100
_MOST_STATE: Final = 512
_NAMED: Final = {"tool": "gen_ai.tool.name", "prompt": "gen_ai.prompt.name"}
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.ASCII)
# Ids are not secrets. A forked process must not repeat those of its parent.
_random: Final = random.Random()  # noqa: S311
_chance: Final = _random.getrandbits
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_random.seed)
_STATE: Final = re.compile(r"[\x20-\x7e]+")


class Place(NamedTuple):
    """A span of another program, as its `traceparent` names it."""

    trace_id: str
    span_id: str
    state: str = ""


class Tracer(NamedTuple):
    """What is done with spans."""

    # Whether the spans of a trace are exported, by its id.
    samples: Callable[[str], bool]
    export: Callable[[Span], object]


class Span:
    """One request, call, or request to an upstream, from the beginning to the end of a `with` statement."""

    __slots__ = (
        *("trace_id", "span_id", "parent_id", "state", "kind", "name", "prefix", "attributes", "error_type", "link"),
        *("is_sampled", "takes_call", "started_at", "ended_at", "_token"),
    )
    trace_id: str
    span_id: str
    state: str

    def __init__(self, kind: int, name: str, parent: Span | Place | None, is_sampled: bool) -> None:
        self.kind = kind
        self.name = name
        if parent is None:
            self.trace_id, self.parent_id, self.state = f"{_chance(128) or 1:032x}", "", ""
        else:
            self.trace_id, self.parent_id, self.state = parent.trace_id, parent.span_id, parent.state
        self.span_id = f"{_chance(64) or 1:016x}"
        self.is_sampled = is_sampled
        self.attributes: dict[str, Value] = {}
        self.error_type = ""
        self.link: Place | None = None
        # What precedes the name of the tool in that of the span; empty: the tool is not part of it.
        self.prefix = ""
        # Whether the next call is what this request is about.
        self.takes_call = False
        self.started_at = self.ended_at = 0

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"

    def set(self, name: str, value: Value) -> None:
        if self.is_sampled:
            self.attributes[name] = value

    def resolve(self, kind: str, name: str) -> None:
        """Name the tool or prompt that a call is about. Names that clients send and nothing has are not recorded."""
        if self.is_sampled and kind in _NAMED:
            self.attributes[_NAMED[kind]] = name
            if self.prefix:
                self.name = f"{self.prefix} {name}"

    def fail(self, error_type: str) -> None:
        self.error_type = error_type

    def carry(self, carrier: MutableMapping[str, str]) -> None:
        """Name this span in headers or in the `_meta` of a request."""
        carrier[TRACEPARENT] = self.traceparent
        if self.state:
            carrier[TRACESTATE] = self.state

    def __enter__(self) -> Self:
        self.started_at = time.time_ns()
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)
        if not self.is_sampled:
            return
        self.ended_at = time.time_ns()
        if error is not None and not self.error_type:
            # Codes of errors of the hub, of JSON-RPC, and names of others.
            code = getattr(error, "code", None)
            self.error_type = str(code) if isinstance(code, str | int) else type(error).__name__
        if _tracer is not None:
            _tracer.export(self)


class _Off(Span):
    """In place of every span while there are no traces."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def carry(self, carrier: MutableMapping[str, str]) -> None:
        pass


class _Joined:
    """The span of a request, for the call that it is about: the request ends it."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        return self._span

    def __exit__(self, *_: object) -> None:
        pass


OFF: Final = _Off(INTERNAL, "", None, is_sampled=False)
_current: ContextVar[Span | None] = ContextVar("toolhub_span", default=None)
_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Make spans from now on; None: no more."""
    global _tracer
    _tracer = tracer


def are_on() -> bool:
    return _tracer is not None


def trace_id() -> str:
    """Of the current span, also if it is not exported; empty if there is none."""
    span = _current.get()
    return span.trace_id if span is not None else ""


def carry(carrier: MutableMapping[str, str]) -> None:
    """Name the current span in a request."""
    span = _current.get()
    if span is not None:
        span.carry(carrier)


def leave() -> None:
    """Work of this context belongs to no span any more."""
    _current.set(None)


def place(traceparent: object, tracestate: object = None) -> Place | None:
    """The span that a client names; None if it names none, or nonsense. Whether it exports that is not our decision."""
    found = _PARENT.fullmatch(traceparent) if isinstance(traceparent, str) and len(traceparent) < 256 else None
    if found is None:
        return None
    version, of_trace, of_span, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not of_trace.strip("0") or not of_span.strip("0"):
        return None
    is_state = isinstance(tracestate, str) and len(tracestate) <= _MOST_STATE and _STATE.fullmatch(tracestate)
    return Place(of_trace, of_span, str(tracestate) if is_state else "")


def server(name: str, parent: Place | None = None, link: Place | None = None) -> Span:
    """A request of a client. `link`: another span that it belongs to."""
    if _tracer is None:
        return OFF
    span = Span(SERVER, name, parent, is_sampled=False)
    span.is_sampled = _tracer.samples(span.trace_id)
    span.link = link
    span.takes_call = True
    return span


def client(name: str) -> Span:
    """A request to an upstream. What belongs to no call has no span."""
    if _tracer is None or (current := _current.get()) is None:
        return OFF
    return Span(CLIENT, name, current, current.is_sampled)


def call(call_id: str) -> Span | _Joined:
    """A call: the current request is about it; else it has a span of its own."""
    if _tracer is None:
        return OFF
    current = _current.get()
    if current is not None and current.takes_call:
        current.takes_call = False
        current.set("toolhub.call.id", call_id)
        return _Joined(current)
    span = Span(INTERNAL, "execute_tool", current, is_sampled=current is not None and current.is_sampled)
    if current is None:
        span.is_sampled = _tracer.samples(span.trace_id)
    span.prefix = span.name
    span.set("gen_ai.operation.name", "execute_tool")
    span.set("toolhub.call.id", call_id)
    return span
