"""Tests of sources outside: connects to one, lists what it has, and records no tool."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet
from django.utils import timezone

from tools_app.access import actions
from tools_app.base import hub
from tools_app.base.ports import UnavailableError
from tools_app.catalog import listed, projection
from tools_app.governance.actors import Actor, changing
from tools_app.governance.outside import outside_source
from tools_app.models import SourceStatus, ToolRecord
from tools_app.sdk import wording
from tools_app.sdk.errors import ConflictError, RateLimitError
from tools_app.sdk.spec import Kind
from tools_app.sources import outside
from tools_app.sources.provider import Server, SourceContents
from tools_app.text import hygiene

MOST_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class SourceTest:
    """What a source outside has, as of one moment."""

    # Name and version of the server.
    server: str
    # The protocol version.
    era: str
    seconds: float
    # Names of the tools, as agents will see them.
    tools: Sequence[str]
    # Approximate tokens of all of its tools in a list.
    tokens: int
    # Numbers of resources, with their templates, and of prompts.
    resources: int
    prompts: int
    # Untrusted text.
    instructions: str
    # Tools that two listings in a row described differently.
    unstable: Sequence[str]
    # What cannot be used, and why.
    problems: Sequence[str]
    # Wording that might mislead an agent, with the name of its tool.
    findings: Sequence[str]
    # What clients do not accept of the tools, or of their number.
    clients: Sequence[str]


class _Running:
    """The tests that run in this process: each has a thread, and a child process of its own."""

    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(MOST_AT_ONCE)


def test_source(name: str, *, actor: Actor) -> SourceTest:
    """Connect to a source outside and list what it has, whether it is switched on or not. Blocks, for up to minutes.

    Records the state of the source, but no tools.

    Raises:
        NotFoundError
        ConflictError: the source is Python code; or it cannot be used now, and the message says why.
        RateLimitError: other sources are being tested.
    """
    places = hub.part(_Running).places
    if not places.acquire(blocking=False):
        raise RateLimitError(f"At most {MOST_AT_ONCE} sources can be tested at the same time", retry_after=5)
    try:
        return _test(name, actor)
    finally:
        places.release()


def _test(name: str, actor: Actor) -> SourceTest:
    with changing(actions.SOURCE_TEST, actor):
        epoch = outside_source(name).epoch
        outside.read_again(name)
    provider = outside.provider(name)
    if provider is None:
        raise ConflictError(f"Source {name} was removed during the test")
    started_at = time.monotonic()
    contents = reason = None
    try:
        contents = provider.describe()
    except UnavailableError as error:
        reason = hygiene.cleaned(str(error))
    seconds = time.monotonic() - started_at
    with changing(actions.SOURCE_TEST, actor) as change:
        # None, if the origin has changed meanwhile.
        statuses = SourceStatus.objects.filter(source__name=name, source__epoch=epoch, source__removed_at=None)
        if contents is None or contents.server is None:
            statuses.update(error=(reason or "")[:1000], since=timezone.now())
            change.note(f"source:{name}", {"found": [None, (reason or "")[:500]]})
        else:
            record_server(statuses, contents.server)
            tools = sum(tool.spec.kind is Kind.TOOL for tool in contents.tools)
            change.note(f"source:{name}", {"server": [None, contents.server.name], "tools": [None, tools]})
    if contents is None or contents.server is None:
        raise ConflictError(
            f"Source {name} cannot be used: {reason}", next_step="Correct its address, command or connection."
        )
    return _result(contents, contents.server, round(seconds, 3))


def record_server(statuses: QuerySet[SourceStatus], server: Server) -> None:
    """What a server says of itself, as a description would record it. It can be reached."""
    text = server.instructions
    statuses.update(
        server=server.name,
        era=server.era,
        unstable=list(server.unstable),
        instructions=text,
        instructions_hash=hashlib.sha256(text.encode()).hexdigest() if text else "",
        error="",
        since=None,
    )


def _result(contents: SourceContents, server: Server, seconds: float) -> SourceTest:
    tools = [tool for tool in contents.tools if tool.spec.kind is Kind.TOOL]
    others = dict(ToolRecord.objects.values_list("folded_name", "pack"))
    return SourceTest(
        server=server.name,
        era=server.era,
        seconds=seconds,
        tools=[tool.spec.name for tool in tools],
        tokens=sum(listed.cost_of(tool.spec) for tool in tools),
        resources=sum(tool.spec.kind in (Kind.RESOURCE, Kind.TEMPLATE) for tool in contents.tools),
        prompts=sum(tool.spec.kind is Kind.PROMPT for tool in contents.tools),
        instructions=server.instructions,
        unstable=list(server.unstable),
        problems=[str(problem) for problem in contents.problems],
        findings=[
            f"{tool.spec.name}: {finding}"
            for tool in contents.tools
            for finding in wording.findings(tool.spec.body, wording.Others(tool.pack, others))
        ],
        clients=[
            *(f"{finding}" for finding in projection.list_findings(len(tools))),
            *(
                f"{tool.spec.name}: {finding}"
                for tool in tools
                for finding in projection.findings(tool.spec.name, tool.spec.input_schema)
            ),
        ],
    )
