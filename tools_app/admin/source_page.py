"""The page of one source beside its form, and the figures that the list shows of all."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, F, Q
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, phrases
from tools_app.admin.source_documents import needs_in_words
from tools_app.admin.source_tools import SHOW, WAITING
from tools_app.admin.states import SOURCE_TONES, SOURCE_WORDS
from tools_app.catalog import catalog, listed, projection, source_states
from tools_app.catalog.entry import Entry
from tools_app.models import Definition, Source, SourceStatus, Toolset
from tools_app.sdk import wording
from tools_app.sdk.spec import Kind
from tools_app.sources.documents import needs_of
from tools_app.text.budget import size_of, tokens_of

if TYPE_CHECKING:
    from tools_app.upstream.children import ChildStatus

MOST_UNSTABLE: Final = 20
VIEWS: Final = ("test", "reconnect", "instructions", "origin", "remove", "operations", "document")


def mark(source: Source) -> SafeString:
    state = source_states.state_of(source)
    return links.mark(SOURCE_TONES[state], str(SOURCE_WORDS[state]))


def timing(source: Source) -> str:
    """Since when it is not available, and when the next try is."""
    status = source_states.status_of(source)
    if not status.error:
        return ""
    since = _("since %(moment)s") % {"moment": links.ago(status.since)} if status.since is not None else ""
    again = status.next_try_at
    return ", ".join(filter(None, (since, _("next try %(moment)s") % {"moment": links.ago(again)} if again else "")))


def failure(source: Source) -> list[str]:
    """Why it is not available, since when, and when the next try is."""
    status = source_states.status_of(source)
    if not status.error:
        return []
    since = _("since %(moment)s") % {"moment": links.in_full(status.since)} if status.since is not None else ""
    again = _("next try %(moment)s") % {"moment": links.in_full(status.next_try_at)} if status.next_try_at else ""
    return [text for text in (status.error, since, again) if text]


def trust(source: Source) -> str:
    labels = dict(Source._meta.get_field("trust").flatchoices)
    return str(labels[source.effective_trust])


def facts(source: Source) -> list[tuple[str, object]]:
    status = source_states.status_of(source)
    facts: list[tuple[str, object]] = [
        (_("Source type"), str(dict(Source._meta.get_field("kind").flatchoices)[source.kind])),
        (_("Location"), source.location),
        *(_origin(source, status) if source.is_outside else ()),
        (_("Trust"), trust(source)),
        (_("Last listed") if source.is_outside else _("Recorded"), _moment(status.described_at)),
        (_("Failures in a row"), f"{status.failures:,}" if status.failures else ""),
        (_("Added by"), source.created_by),
        (_("Added"), links.exact(source.created_at)),
    ]
    return [(title, text) for title, text in facts if text]


def _moment(moment: Any) -> str:
    return links.exact(moment) if moment is not None else _("never")


def _origin(source: Source, status: SourceStatus) -> list[tuple[str, object]]:
    declared = ", ".join(name for name, is_declared in source.declares.items() if is_declared)
    start = dict(Source._meta.get_field("start").flatchoices)[source.start] if source.command else ""
    return [
        (_("Server"), status.server),
        (_("Protocol version"), status.era),
        *_document(source),
        (
            _("Connection"),
            source.connection.name
            if source.connection is not None
            else ""
            if source.kind == Source.Kind.OPENAPI
            else _("none"),
        ),
        (_("Address"), _("private addresses and plain http permitted") if source.internal else ""),
        (_("Start"), str(start)),
        (_("Sessions"), _sessions(source)),
        (_("May ask for"), declared),
        (_("Failure pattern"), source.failure_rule.get("pattern", "")),
        (_("Defaults"), "" if source.pin_defaults else _("change without approval")),
    ]


def _sessions(source: Source) -> str:
    if source.kind == Source.Kind.OPENAPI:
        return ""
    return _("one for each agent") if source.per_session else _("shared")


def _document(source: Source) -> list[tuple[str, object]]:
    document = governance.document_of(source)
    if document is None:
        return []
    number = document.facts.get("operations", 0)
    imported = _("all %(n)s") if document.selected is None else _("%(some)s of %(n)s")
    some = len(document.selected or ())
    return [
        (_("Document"), document.address or _("uploaded by %(name)s") % {"name": document.uploaded_by}),
        (_("Document read"), _moment(document.fetched_at)),
        (_("Cannot be read again"), document.error),
        (_("Operations imported"), imported % {"n": f"{number:,}", "some": f"{some:,}"}),
        (_("Operations not supported"), f"{document.facts.get('unsupported', 0):,}"),
        (_("Needs a connection"), needs_in_words(needs_of(document.facts))),
    ]


def outside(source: Source, request: HttpRequest) -> dict[str, Any]:
    """What the page of a source outside shows in addition."""
    status = source_states.status_of(source)
    may_change = actions.SOURCE_CHANGE.permits(request.user)
    entries = [entry for entry in catalog.current().all if entry.source_name == source.name]
    costs = listed.costs(catalog.current())
    is_approved = bool(status.instructions_hash) and status.instructions_hash == source.approved_instructions
    return {
        "toolsets": _toolsets(entries) if actions.TOOLSETS_READ.permits(request.user) else None,
        "may_add_toolset": actions.TOOLSET_CREATE.permits(request.user),
        "add_toolset_address": links.address("toolset", "add", packs=source.name),
        "is_draft": not source.enabled and status.described_at is None,
        "command_words": source.command,
        **(_process(source) if source.command and may_change else {}),
        "unstable": status.unstable[:MOST_UNSTABLE],
        "tokens_on": sum(costs.get(entry.name, 0) for entry in entries if entry.enabled),
        "tokens_all": sum(costs.get(entry.name, 0) for entry in entries),
        "client_findings": _client_findings(entries),
        "instructions": status.instructions,
        "instructions_findings": phrases.all_spoken(wording.faults(status.instructions, outside=True))
        if status.instructions
        else (),
        "instructions_hash": status.instructions_hash,
        "instructions_tokens": tokens_of(size_of(status.instructions)),
        "instructions_approved": is_approved,
        "may_test": actions.SOURCE_TEST.permits(request.user),
        "may_reconnect": may_change,
        "may_approve_instructions": actions.SOURCE_INSTRUCTIONS.permits(request.user) and not is_approved,
        "may_change_origin": actions.SOURCE_ORIGIN.permits(request.user),
        "may_remove": actions.SOURCE_REMOVE.permits(request.user),
        "answer_findings": document.findings.all() if (document := governance.document_of(source)) is not None else (),
        "is_document": source.kind == Source.Kind.OPENAPI,
        "may_select": source.kind == Source.Kind.OPENAPI and actions.SOURCE_SELECT.permits(request.user),
        "may_connect": actions.CONNECTION_CREATE.permits(request.user),
        "connection_address": links.address("connection", "add", pack=source.name),
        **{f"{view}_address": links.address("source", view, source.pk) for view in VIEWS},
    }


def _client_findings(entries: Sequence[Entry]) -> list[tuple[str, Sequence[str]]]:
    """What clients do not accept, with the tools that it concerns."""
    tools: dict[str, list[str]] = {}
    for entry in entries:
        for finding in projection.findings(entry.name, entry.input_schema):
            tools.setdefault(f"{finding.client} {finding.effect}", []).append(entry.name)
    number = sum(entry.spec.kind is Kind.TOOL for entry in entries)
    return [
        *((phrases.spoken(str(finding)), ()) for finding in projection.list_findings(number)),
        *((phrases.spoken(words), names[:MOST_UNSTABLE]) for words, names in tools.items()),
    ]


def _toolsets(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """The toolsets with at least one of these tools."""
    rows = Toolset.objects.order_by("name")
    return [
        (links.address("toolset", "change", one.pk), one.name)
        for one, choice in ((one, one.choice()) for one in rows)
        if any(choice.holds(entry) for entry in entries)
    ]


def _process(source: Source) -> dict[str, Any]:
    """The child process on this machine, as far as it is known."""
    # Imported late: most hubs start no children.
    children = importlib.import_module("tools_app.upstream.children")
    child: ChildStatus | None = asyncio.run(children.status(source.name))
    facts: list[tuple[str, str]] = []
    if child is not None:
        facts = [
            (_("State"), f"{child.state}, {_('since %(moment)s') % {'moment': links.in_full(child.since)}}"),
            (_("Reason"), child.reason),
            (_("Next try"), links.in_full(child.next_try) if child.next_try is not None else ""),
            (_("Process"), str(child.pid or "")),
            (_("Restarts"), f"{child.restarts:,}" if child.restarts else ""),
            (_("Processes of this source"), f"{child.children:,}" if child.children > 1 else ""),
        ]
    return {
        "reads_files": children.isolation() == "none",
        "child_facts": [(title, text) for title, text in facts if text],
        "stderr": "\n".join(child.lines) if child is not None else "",
    }


def waiting_counts() -> Mapping[int, int]:
    """The number of versions that wait for a decision, by source."""
    is_present = Q(epoch=F("tool__source__epoch")) | ~Q(tool__source__kind__in=Source.OUTSIDE)
    waiting = Definition.objects.open().filter(is_present, refused_at=None, tool__absent_since=None)
    return dict(waiting.order_by().values_list("tool__source").annotate(Count("pk")))


def waiting_address(row: Any) -> str:
    if row.is_outside:
        return f"{links.address('source', 'change', row.pk)}?{SHOW}={WAITING}#tools"
    return links.address("definition", "changelist")


def refusals() -> Mapping[str, str]:
    """Why tools that are on cannot be called, by source: their number, and the most frequent reason."""
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in catalog.current().all:
        if entry.enabled and entry.refusal is not None:
            reasons[entry.source_name][entry.refusal.reason] += 1
    return {
        name: _("%(number)s not callable: %(reason)s")
        % {"number": f"{found.total():,}", "reason": found.most_common(1)[0][0]}
        for name, found in reasons.items()
    }


def token_costs() -> Mapping[str, int]:
    """Approximate tokens that the enabled tools of each source add to a list."""
    snapshot = catalog.current()
    costs, tokens = listed.costs(snapshot), Counter[str]()
    for entry in snapshot.all:
        if entry.enabled:
            tokens[entry.source_name] += costs.get(entry.name, 0)
    return tokens
