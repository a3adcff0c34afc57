"""What a source offers: tools, prompts and resources with their state, and decisions about many versions at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import hint_words, links, phrases, states
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require
from tools_app.admin.tool_list import list_query
from tools_app.catalog import catalog, listed, source_states
from tools_app.catalog.snapshot import Snapshot
from tools_app.catalog.source_states import SourceState
from tools_app.models import Definition, Source, ToolRecord
from tools_app.sdk.spec import Kind

PER_PAGE: Final = 100
MOST_AT_ONCE: Final = 5_000
MOST_NAMED: Final = 100
SHOW: Final = "tools"
PAGE: Final = "page"
WAITING, REFUSED, ABSENT, ON, OFF = "waiting", "refused", "absent", "on", "off"
SHOWN: Final = {
    WAITING: _lazy("awaiting approval"),
    ON: _lazy("on"),
    OFF: _lazy("off"),
    REFUSED: _lazy("rejected"),
    ABSENT: _lazy("not listed any more"),
}
APPROVE, APPROVE_ON, APPROVE_HINTS, REFUSE = "approve", "approve_on", "approve_hints", "refuse"
DECISIONS: Final = {
    APPROVE: _lazy("Approve…"),
    APPROVE_ON: _lazy("Approve and switch on…"),
    APPROVE_HINTS: _lazy("Approve and accept hints…"),
    REFUSE: _lazy("Reject…"),
}
_NUMBERS: Final = re.compile(r"[0-9]{1,12}(,[0-9]{1,12})*", re.ASCII)
# Records with a version that is not approved, of the present origin.
_CHANGED: Final = Q(offered__isnull=False, offered__epoch=F("source__epoch"))
_NEW: Final = Q(offered=None, definition__approved_at=None, definition__epoch=F("source__epoch"))
_OPEN: Final = _CHANGED | _NEW
_WAITING: Final = (_CHANGED & Q(offered__refused_at=None)) | (_NEW & Q(definition__refused_at=None))
_REFUSED: Final = (_CHANGED & Q(offered__refused_at__isnull=False)) | (_NEW & Q(definition__refused_at__isnull=False))


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A tool, prompt or resource of a source, as the table shows it."""

    pk: int
    name: str
    original: str
    title: str
    # Empty for tools.
    kind: str
    address: str
    enabled: bool
    switch_address: str
    state: SafeString
    reason: str
    # The version that is not approved; 0: none.
    version: int
    version_address: str
    findings: Sequence[str]
    claimed: str
    effective: str
    tokens: int | None


def records_of(source: Source) -> QuerySet[ToolRecord]:
    """Everything that the source has, except what was retired."""
    return ToolRecord.everything.filter(source=source, retired_at=None)


def shown(records: QuerySet[ToolRecord], choice: str) -> QuerySet[ToolRecord]:
    present = Q(absent_since=None)
    match choice:
        case "waiting":
            return records.filter(_WAITING, present)
        case "refused":
            return records.filter(_REFUSED, present)
        case "absent":
            return records.exclude(absent_since=None)
        case "on":
            return records.filter(present, ~_OPEN, enabled=True)
        case "off":
            return records.filter(present, ~_OPEN, enabled=False)
    return records


def table(request: HttpRequest, source: Source) -> dict[str, Any]:
    """One page of the table, its tabs, and the versions that can be decided."""
    records = records_of(source)
    choice = request.GET.get(SHOW, "") if request.GET.get(SHOW) in SHOWN else ""
    counts = {name: shown(records, name).count() for name in SHOWN}
    ordered = shown(records, choice).order_by("name", "pk").select_related("definition", "offered")
    texts = [f"{version}__{part}" for version in ("definition", "offered") for part in ("body", "body_text")]
    pages = Paginator(ordered.defer(*texts), PER_PAGE)
    page = pages.get_page(request.GET.get(PAGE))
    snapshot = catalog.current()
    costs = listed.costs(snapshot)
    back = list_query(request)
    rows = [_row(record, source, snapshot, costs, back) for record in page]
    waiting = shown(records, WAITING).order_by("name", "pk").annotate(waits=Coalesce("offered", "definition"))
    open_versions = list(waiting.values_list("waits", flat=True)[:MOST_AT_ONCE])
    return {
        "tool_rows": rows,
        "tool_page": page,
        "tool_pages": [(number, _address(choice, number)) for number in pages.page_range]
        if pages.num_pages > 1
        else [],
        "tool_tabs": [
            {
                "name": capfirst(str(SHOWN[name])) if name else _("All"),
                "count": counts[name] if name else records.count(),
                "address": _address(name),
                "selected": name == choice,
            }
            for name in ("", *SHOWN)
            if not name or counts[name] or name == choice
        ],
        "page_versions": _numbers(row.version for row in rows if row.version),
        "page_version_count": sum(bool(row.version) for row in rows),
        "all_versions": _numbers(open_versions),
        "all_version_count": len(open_versions),
        "decisions": list(DECISIONS.items()),
        "decide_address": links.address("source", "decide", source.pk),
        "may_decide": actions.DEFINITION_APPROVE.permits(request.user),
        "may_switch_tools": actions.TOOL_CHANGE.permits(request.user),
    }


def _numbers(pks: Iterable[int]) -> str:
    return ",".join(map(str, pks))


def _address(choice: str, page: int = 1) -> str:
    query = {SHOW: choice, PAGE: str(page) if page > 1 else ""}
    return "?" + "&".join(f"{name}={value}" for name, value in query.items() if value) + "#tools"


def _row(
    record: ToolRecord, source: Source, snapshot: Snapshot, costs: Mapping[str, int], back: Mapping[str, str]
) -> OfferRow:
    is_tool = record.kind == Kind.TOOL
    version = record.offered or record.definition
    is_open = version is not None and version.approved_at is None and version.epoch == source.epoch
    entry = snapshot.find(record.name) if is_tool else None
    mark, reason = _state(record, source, snapshot)
    return OfferRow(
        pk=record.pk,
        name=record.name if is_tool else record.original_name,
        original=record.original_name if is_tool else "",
        title=record.title,
        kind="" if is_tool else record.get_kind_display(),
        address=links.address("toolrecord", "change", record.pk) if is_tool else "",
        enabled=record.enabled,
        switch_address=links.address("toolrecord", "switch", record.pk, source=source.pk, **back) if is_tool else "",
        state=mark,
        reason=reason,
        version=version.pk if version is not None and is_open else 0,
        version_address=links.address("definition", "change", version.pk) if version is not None and is_open else "",
        findings=phrases.all_spoken(version.findings) if version is not None else (),
        claimed=hint_words.in_words(hint_words.claimed(version)) if is_tool else "",
        effective=hint_words.in_words(entry.hints) if entry is not None else "",
        tokens=costs.get(record.name) if is_tool else None,
    )


def _state(record: ToolRecord, source: Source, snapshot: Snapshot) -> tuple[SafeString, str]:
    """The state of a record in one word, and the reason."""
    if record.absent_since is not None:
        words = _("Since %(moment)s. Calls are refused. It is retired if the next list lacks it, too.")
        return links.mark("quiet", _("not listed any more")), words % {"moment": links.exact(record.absent_since)}
    version = record.offered or record.definition
    if version is not None and version.approved_at is None:
        if version.refused_at is not None:
            return links.mark("bad", _("rejected")), version.reason
        if record.offered is not None:
            return links.mark("warn", _("changed")), _("Calls are refused until the change is approved.")
        return links.mark("warn", _("new")), ""
    if version is not None and version.epoch != source.epoch:
        return links.mark("warn", _("held")), _("The origin has changed. It is listed again at the next connection.")
    if record.kind != Kind.TOOL:
        return (links.mark("good", _("on")) if record.enabled else links.mark("quiet", _("off"))), ""
    condition = states.condition(record, snapshot)
    # What applies to all tools is said once, above the table.
    is_of_source = source_states.state_of(source) not in (SourceState.AVAILABLE, SourceState.INCOMPLETE)
    return links.mark(condition.tone, condition.words), "" if is_of_source else condition.reason


class SourceTools(GovernedAdmin[Source]):
    """Decisions about many versions: asked first, with everything that was found in their texts."""

    posts: ClassVar = {"decide": "<int:pk>/decide/"}

    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask, then decide about exactly the versions that the page showed."""
        require(request, actions.DEFINITION_APPROVE)
        source = get_object_or_404(self.get_queryset(request), pk=pk)
        decision = request.POST.get("decision", "")
        numbers = _chosen(request)
        if decision not in DECISIONS or (numbers and not _NUMBERS.fullmatch(numbers)):
            return HttpResponseBadRequest("decision must be one of the form, and versions their numbers")
        pks = list(dict.fromkeys(map(int, numbers.split(",")))) if numbers else []
        back = f"{links.address('source', 'change', pk)}?{SHOW}={WAITING}#tools"
        if not pks or len(pks) > MOST_AT_ONCE:
            problem = _("Nothing is selected.") if not pks else _("At most %(n)s at once.") % {"n": f"{MOST_AT_ONCE:,}"}
            self.message_user(request, problem, messages.WARNING)
            return HttpResponseRedirect(back)
        if "confirmed" not in request.POST:
            return self._ask(request, source, decision, pks, back)
        with FailuresAsMessages(request):
            self._decide(request, source, decision, pks)
        return HttpResponseRedirect(back)

    def _ask(self, request: HttpRequest, source: Source, decision: str, pks: Sequence[int], back: str) -> HttpResponse:
        versions = list(_open_versions(source, pks).defer("body", "body_text"))
        names = [version.tool.label for version in versions]
        claims = [hint_words.claimed(version) for version in versions if version.tool.kind == Kind.TOOL]
        approves = decision != REFUSE
        number = ngettext("%(number)s version", "%(number)s versions", len(versions)) % {"number": f"{len(versions):,}"}
        title = _("Approve %(versions)s of %(source)s") if approves else _("Reject %(versions)s of %(source)s")
        return self.page(
            request,
            "source/decide.html",
            title % {"versions": number, "source": source.name},
            text=_("Agents read these texts as instructions. Approve only what you have read.")
            if approves
            else _("Calls of these versions stay refused. Agents still see the version that was approved before."),
            names=names[:MOST_NAMED],
            more=max(0, len(names) - MOST_NAMED),
            outdated=len(pks) - len(versions),
            findings=[
                (version, version.tool.label, phrases.all_spoken(version.findings))
                for version in versions
                if version.findings
            ][:MOST_NAMED],
            approves=approves,
            enables=decision == APPROVE_ON,
            accepts_hints=decision == APPROVE_HINTS,
            reading=sum(hints.read_only for hints in claims),
            adding=sum(hints.writes and not hints.destroys for hints in claims),
            destroying=sum(hints.destroys for hints in claims),
            hidden=[("decision", decision), ("versions", _numbers(pks)), ("scope", "shown")],
            harmless=approves,
            address=links.address("source", "decide", source.pk),
            button=_("Approve") if approves else _("Reject"),
            cancel_address=back,
        )

    def _decide(self, request: HttpRequest, source: Source, decision: str, pks: Sequence[int]) -> None:
        reason = posted(request, "reason")
        if decision == REFUSE:
            current = _open_versions(source, pks).filter(refused_at=None).values_list("pk", flat=True)
            names = governance.refuse_definitions(list(current), actor=actor(request), reason=reason)
            sentence = ngettext("%(n)s version rejected.", "%(n)s versions rejected.", len(names))
        else:
            names = governance.approve_tools(
                source.name,
                definitions=pks,
                enable="enable" in request.POST,
                accept_hints="accept_hints" in request.POST,
                actor=actor(request),
                reason=reason,
            )
            sentence = ngettext("%(n)s version approved.", "%(n)s versions approved.", len(names))
            if "enable" in request.POST and not source.enabled:
                sentence += " " + _("The source is off: switch it on to accept calls.")
            is_more = "enable" in request.POST or "accept_hints" in request.POST
            if is_more and (managed := governance.managed_tools(names)):
                words = _("A configuration file decides about switch and hints of %(names)s: they are as before.")
                self.message_user(request, words % {"names": ", ".join(managed)}, messages.WARNING)
        self.message_user(request, sentence % {"n": f"{len(names):,}"}, messages.SUCCESS if names else messages.INFO)
        if outdated := len(pks) - len(names):
            sentence = ngettext(
                "%(n)s version was not decided: it has changed, or was decided, since the page was shown.",
                "%(n)s versions were not decided: they have changed, or were decided, since the page was shown.",
                outdated,
            )
            self.message_user(request, sentence % {"n": f"{outdated:,}"}, messages.WARNING)


def _chosen(request: HttpRequest) -> str:
    """The numbers of the versions, as the chosen scope has them."""
    match request.POST.get("scope", "selected"):
        case "selected":
            return ",".join(request.POST.getlist("version"))
        case "page":
            return request.POST.get("page_versions", "")
        case "all":
            return request.POST.get("all_versions", "")
    return request.POST.get("versions", "")


def _open_versions(source: Source, pks: Sequence[int]) -> QuerySet[Definition]:
    """Those of these versions that are still the newest, and not approved."""
    newest = Definition.objects.open().filter(tool__source=source, pk__in=pks, epoch=source.epoch)
    return newest.select_related("tool").order_by("tool__name", "pk")
