"""The admission test: one run of a source in isolation, whose report is stored and compared with the one before.

`upstream.admission` runs it, `admission_checks` judges it. It decides nothing: operators switch a source on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tools_app.access import actions
from tools_app.base import hub
from tools_app.governance.actors import Actor, changing, id_of
from tools_app.governance.admission_checks import CHECKS, FINDING, MIB, NOT_TRIED, PASSED, Facts, line_of
from tools_app.governance.outside import outside_source
from tools_app.models import Admission, Source, ToolRecord
from tools_app.sdk.errors import ConflictError, NotFoundError, RateLimitError, shortened
from tools_app.sources import outside
from tools_app.sources.provider import SourceContents
from tools_app.text import hygiene

if TYPE_CHECKING:
    from tools_app.upstream.admission import Evidence

log = logging.getLogger("tools_app.governance")

MOST_AT_ONCE: Final = 2
# Reports of a source that are kept.
MOST_KEPT: Final = 10
# Tools in a report, for the comparison with the next one.
MOST_TOOLS: Final = 500
MOST_NAMED: Final = 5
# A figure has changed if it differs by this part of it, and by this amount.
CHANGED_BY: Final = 0.2
FIGURES: Final[Mapping[str, tuple[str, float]]] = {
    "cold_seconds": ("first start", 1.0),
    "warm_seconds": ("next start", 1.0),
    "end_seconds": ("time to its end", 1.0),
    "memory": ("memory", 10 * MIB),
    "tokens": ("tokens", 100),
}
_TURNS: Final = {
    (PASSED, FINDING): "no longer passed",
    (NOT_TRIED, FINDING): "has findings now",
    (FINDING, PASSED): "passed now",
    (FINDING, NOT_TRIED): "had findings, not tried now",
    (PASSED, NOT_TRIED): "passed before, not tried now",
}


class _Running:
    """The tests that run in this process: each has a thread, and processes of its own."""

    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(MOST_AT_ONCE)


def admit_source(name: str, *, call_read_only: bool = False, actor: Actor, reason: str = "") -> Admission:
    """Run a source outside once in isolation, whether it is on or off, and store what that shows. Blocks, for minutes.

    `call_read_only`: also call up to three tools that say they only read, with wrong arguments.

    Raises:
        NotFoundError
        ConflictError: it is no MCP server, or was changed during the test.
        ConfigurationError: its connection cannot be used.
        RateLimitError: other sources are being tested.
    """
    places = hub.part(_Running).places
    if not places.acquire(blocking=False):
        raise RateLimitError(f"At most {MOST_AT_ONCE} admission tests can run at the same time", retry_after=10)
    try:
        return _admit(name, actor, reason, call_read_only=call_read_only)
    finally:
        places.release()


def latest_admission(name: str) -> Admission:
    """The last report about a source.

    Raises:
        NotFoundError
    """
    row = Admission.objects.filter(source__name=name, source__removed_at=None).select_related("source").first()
    if row is None:
        raise NotFoundError(
            f"There is no admission report about {shortened(name)!r}",
            next_step="Run the admission test: toolhub source admit NAME, or POST /v1/sources/{name}/admission.",
        )
    return row


def _admit(name: str, actor: Actor, reason: str, *, call_read_only: bool) -> Admission:
    # Imported late: few processes test a source.
    from tools_app.upstream import admission

    with changing(actions.SOURCE_ADMIT, actor, reason):
        origin = outside_source(name).origin
    if origin is None or origin.kind not in (Source.Kind.MCP_HTTP, Source.Kind.MCP_STDIO):
        raise ConflictError(f"Source {name} is no MCP server", next_step="Only MCP servers have an admission test.")
    evidence = admission.examined(origin, calls_read_only=call_read_only)
    packs = dict(ToolRecord.objects.values_list("folded_name", "pack"))
    report = report_of(Facts(evidence, _contents(name, evidence), packs))
    server = hygiene.cleaned(evidence.listing.server)[:200] if evidence.listing is not None else ""
    findings = sum(line["state"] == FINDING for line in report["lines"])
    called = sorted({shortened(call.tool) for call in evidence.calls or ()})
    row = None
    with changing(actions.SOURCE_ADMIT, actor, reason) as change:
        # Also if there is nothing to store any more: a program was started, and tools were called.
        noted = {"server": [None, server], "findings": [None, findings]}
        change.note(f"source:{name}", noted | ({"called": [[], called]} if called else {}))
        source = Source.objects.select_for_update().filter(name=name, removed_at=None, epoch=origin.epoch).first()
        if source is not None:
            row = _stored(
                Admission(source=source, epoch=source.epoch, server=server, report=report, tested_by=id_of(actor))
            )
    if row is None:
        raise ConflictError(f"Source {name} was changed during the test", next_step="Run it again.")
    return row


def _stored(row: Admission) -> Admission:
    """Save a report with what has changed since the last one, and forget the oldest."""
    rows = Admission.objects.filter(source=row.source)
    last = rows.first()
    row.report["changes"] = _changes(last, row) if last is not None else []
    row.report["compared_with"] = last.tested_at.isoformat() if last is not None else None
    row.save(force_insert=True)
    row.refresh_from_db(fields=["tested_at"])
    rows.exclude(pk__in=list(rows.values_list("pk", flat=True)[:MOST_KEPT])).delete()
    return row


def _contents(name: str, evidence: Evidence) -> SourceContents | None:
    provider = outside.provider(name)
    if provider is None or evidence.listing is None:
        return None
    try:
        return provider.contents(evidence.listing)
    except Exception:
        # Whatever a stranger sends is a finding, not a failure of the test.
        log.exception("the listing of %s cannot be read", name)
        return None


def report_of(facts: Facts) -> dict[str, Any]:
    """JSON of limited size."""
    lines = [line_of(check, facts) for check in CHECKS]
    listing = facts.evidence.listing
    pins = {str(spec.runtime.get("original"))[:100]: str(spec.body.get("pin"))[:12] for spec in facts.tools}
    return {
        "lines": lines,
        "figures": {name: round(value, 3) for name, value in facts.figures.items()},
        "tools": len(listing.tools) if listing is not None else 0,
        "pins": dict(sorted(pins.items())[:MOST_TOOLS]),
        "called_read_only": facts.evidence.calls is not None,
    }


# ---- the comparison


def _changes(last: Admission, now: Admission) -> list[str]:
    """What is different from the last report, in words."""
    return [*_origins(last, now), *_figures(last, now), *_tools(last, now), *_states(last, now)]


def _origins(last: Admission, now: Admission) -> Iterator[str]:
    if last.epoch != now.epoch:
        yield "it has another URL or command"
    if last.server != now.server:
        yield f"server: {last.server or 'none'} → {now.server or 'none'}"


def _figures(last: Admission, now: Admission) -> Iterator[str]:
    before, after = last.report["figures"], now.report["figures"]
    for name, (words, least) in FIGURES.items():
        was, value = before.get(name), after.get(name)
        if was and value is not None and abs(value - was) >= max(least, CHANGED_BY * was):
            yield f"{words} {(value - was) / was:+.0%}"


def _tools(last: Admission, now: Admission) -> Iterator[str]:
    before, after = last.report["pins"], now.report["pins"]
    if max(len(before), len(after)) >= MOST_TOOLS:
        if last.report["tools"] != now.report["tools"]:
            yield f"tools: {last.report['tools']:,} → {now.report['tools']:,}"
        return
    kinds: Sequence[tuple[str, set[str]]] = (
        ("new", after.keys() - before),
        ("missing", before.keys() - after),
        ("changed", {name for name, pin in after.items() if before.get(name, pin) != pin}),
    )
    for words, names in kinds:
        if names:
            more = ", …" if len(names) > MOST_NAMED else ""
            shown = ", ".join(sorted(names)[:MOST_NAMED])
            yield f"{len(names)} {'tool' if len(names) == 1 else 'tools'} {words}: {shown}{more}"


def _states(last: Admission, now: Admission) -> Iterator[str]:
    before = {line["check"]: line["state"] for line in last.report["lines"]}
    for line in now.report["lines"]:
        if words := _TURNS.get((before.get(line["check"], line["state"]), line["state"])):
            yield f"{line['title']}: {words}"
