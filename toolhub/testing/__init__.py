"""Test helpers for authors: call a tool as the hub would, and find what would confuse an agent.

    from toolhub import testing

    def test_keeps_its_promises():
        testing.assert_contract(forecast)

    def test_knows_kyoto():
        with testing.fake_upstream({"GET /kyoto": {"degrees": 21.5}}, pack=pack):
            assert testing.call(forecast, city="Kyoto")["degrees"] == 21.5

Needs no database and no hub. A tool of a pack with a connection uses the upstream in the pack's variables, so a test
sets those. An answer is the tool's own, as JSON: the short form if there is one, without the wrapper and guidance that
the hub adds.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_jsonable_python

from toolhub.testing.skills import assert_skill
from toolhub.testing.upstream import FakeUpstream, ReceivedRequest, Reply, fake_upstream
from tools_app.http import ApiClient
from tools_app.sdk import content, wording
from tools_app.sdk.accounts import OptionValue
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import ConfigurationError, ToolError, ToolExecutionError, ToolTimeoutError
from tools_app.sdk.network_errors import is_network_error
from tools_app.sdk.offer import Offer
from tools_app.sdk.schemas import parts_of
from tools_app.sdk.spec import RAW_PARAMETER
from tools_app.sdk.tool import Tool

__all__ = [
    "FakeUpstream",
    "ReceivedRequest",
    "Reply",
    "acall",
    "assert_contract",
    "assert_skill",
    "call",
    "context",
    "fake_upstream",
    "findings",
]

SECONDS: Final = 30.0
# Prefixes of names that suggest a read-only tool, which its hints must confirm.
READING: Final = re.compile(r"(?:get|list|show|search|find|read|query|count|check|fetch|describe|lookup)(?:[_-]|$)")

EVERYTHING: Final = frozenset({"tools:list", "tools:read", "tools:execute"})


def context(tool: Tool, *, seconds: float = SECONDS, caller: Caller | None = None) -> Context:
    """The context of a call; by default of the local user, with 30 seconds left."""
    return Context(
        call_id="test",
        tool=tool.name,
        caller=caller or Caller("local", "local:test", "test", EVERYTHING),
        deadline=Deadline(seconds),
        log=logging.getLogger(f"tools_app.sdk.tool.{tool.name}"),
        upstream=_upstream(tool),
        options=_options(tool),
    )


def _upstream(tool: Tool) -> ApiClient | None:
    """A client for the upstream in the variables of its pack."""
    kind = tool.connection_kind
    url, secret = (os.environ.get(name, "") for name in (kind.url_variable, kind.secret_variable)) if kind else ("", "")
    return ApiClient.of_kind(kind, url, secret) if kind and url and secret else None


def _options(tool: Tool) -> Mapping[str, OptionValue]:
    """The connection options in the variables of its pack."""
    kind = tool.connection_kind
    options = kind.options if kind is not None else ()
    texts = {option.name: os.environ.get(kind.option_variable(option), "") for option in options} if kind else {}
    return {
        option.name: option.read(texts[option.name]) if texts[option.name] else option.default for option in options
    }


def call(tool: Tool | Offer, /, **arguments: Any) -> Any:
    """Call a tool, a prompt or a resource, and return its answer. A blocking tool runs in the current thread.

    Raises:
        ToolError: as a caller of the hub would get it; an unexpected exception is its `__cause__`.
    """
    return asyncio.run(_call(tool, arguments, in_thread=False))


async def acall(tool: Tool | Offer, /, **arguments: Any) -> Any:
    """The same for asynchronous tests. A blocking tool runs in a thread."""
    return await _call(tool, arguments, in_thread=True)


async def _call(subject: Tool | Offer, arguments: dict[str, Any], *, in_thread: bool) -> Any:
    tool = _runnable(subject)
    complete_arguments = tool.spec.checker.with_defaults(arguments)
    converted_arguments = tool.checked(complete_arguments)
    ctx = context(tool)
    deadline = asyncio.timeout(SECONDS)
    try:
        async with deadline:
            if tool.blocking and in_thread:
                value = await asyncio.to_thread(tool.run, ctx, converted_arguments)
            else:
                value = tool.run(ctx, converted_arguments)
            answer = await value if inspect.isawaitable(value) else value
        if isinstance(subject, Offer):
            answer = subject.shaped(answer)
        return _as_answer(tool, answer, raw=complete_arguments.get(RAW_PARAMETER) is True)
    except ToolError as error:
        if isinstance(error, ConfigurationError) and ctx.upstream is None and (kind := tool.connection_kind):
            error.add_note(
                f"In a test: `with testing.fake_upstream({{…}}, pack=…)`, or set {kind.url_variable} and "
                f"{kind.secret_variable} to those of an account."
            )
        raise
    except Exception as error:
        if deadline.expired() and isinstance(error, TimeoutError):
            raise ToolTimeoutError.after(round(SECONDS * 1000), writes=not tool.hints.repeatable) from error
        execution_error = ToolExecutionError.of(subject.spec.label, error, f"{type(error).__name__}: {error}")
        raise (execution_error.by_network() if is_network_error(error) else execution_error) from error
    finally:
        if ctx.upstream is not None:
            await ctx.upstream.close()


def assert_contract(what: Tool | Offer) -> None:
    """Check that a tool is clear to an agent, and that each example returns the expected result.

    Raises:
        AssertionError: lists all findings.
    """
    tool = _runnable(what)
    faults = findings(what)
    if not tool.examples and not isinstance(what, Offer):
        faults.append("has no example")
    for example in tool.examples:
        if example.shown_only:
            continue
        try:
            mismatches = example.mismatches(call(what, **example.parameters))
        except ToolError as error:
            mismatches = [" ".join((f"{error.code}: {error.message}", *getattr(error, "__notes__", ())))]
        faults += [f"example {example.description!r}: {words}" for words in mismatches]
    if faults:
        raise AssertionError("\n".join(f"{what.spec.label}: {words}" for words in faults))


def _runnable(subject: Tool | Offer) -> Tool:
    return subject.tool if isinstance(subject, Offer) else subject


def _as_answer(tool: Tool, answer: Any, *, raw: bool) -> Any:
    if (pieces := content.parts_in(answer)) is not None:
        return [content.wire_of(piece) for piece in pieces]
    data = to_jsonable_python(answer, inf_nan_mode="constants")
    if tool.minimal is not None and not raw:
        data = to_jsonable_python(tool.minimal(data), inf_nan_mode="constants")
    if (checker := tool.spec.output_checker) is not None and (mismatches := checker.problems(data)):
        raise ValueError(f"the answer does not fit the output schema: {mismatches[0].message}")
    return data


# ---- what would confuse an agent


def findings(what: Tool | Offer) -> list[str]:
    """Possible improvements of what agents and operators see of a tool, prompt or resource."""
    tool = _runnable(what)
    problems = [str(finding) for finding in wording.findings(tool.definition())]
    if not tool.category:
        problems.append("has no category")
    if not tool.tags:
        problems.append("has no tags")
    if READING.match(tool.name) and tool.hints.writes:
        problems.append(f"is called {tool.name}, but has no hints that say read_only=True")
    if tool.hints.read_only and tool.hints.destructive:
        problems.append("says that it only reads, and that it destroys")
    return problems + _findings_in(tool)


def _findings_in(tool: Tool) -> list[str]:
    problems = []
    for name, part in tool.input_schema["properties"].items():
        if not part.get("description", "").strip():
            problems.append(f"parameter {name} has no description")
    return problems + [
        f"parameter {part} is of one type or another, which many agents cannot read"
        for part in parts_of(tool.input_schema)
        if isinstance(part.body.get("type"), list) or part.body.keys() & {"anyOf", "oneOf"}
    ]


def __getattr__(name: str) -> Any:
    # An old name, which works for one more release.
    if name != "Seen":
        raise AttributeError(f"module 'toolhub.testing' has no attribute {name!r}")
    warnings.warn("toolhub.testing.Seen is deprecated: use ReceivedRequest", DeprecationWarning, stacklevel=2)
    return ReceivedRequest
