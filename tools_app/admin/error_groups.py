"""Issues: groups of errors, which operators resolve, ignore, snooze, assign and reopen."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import Count, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, charts, issue_decisions, links
from tools_app.admin.exports import columns
from tools_app.admin.filters import AssigneeFilter, CodeFilter, IssueStateFilter, ToolFilter, since
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.issue_decisions import DECISIONS
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.admin.lists import Column
from tools_app.admin.narrowing import between
from tools_app.models import AuditEntry, Call, ErrorGroup, ErrorHour, ErrorLog, ErrorNote
from tools_app.sdk.hub_errors import all_errors

FromFilter, UntilFilter = between("last_seen_at")
MOST_SHOWN: Final = 10
# Number of the newest errors of a group whose callers are counted.
MOST_COUNTED: Final = 1_000
DAYS: Final = 14
State = ErrorGroup.State


@admin.register(ErrorGroup)
class ErrorGroupAdmin(JournalAdmin[ErrorGroup]):
    change_form_template = "admin/tools_app/errorgroup/change_form.html"
    follows, follows_by = "issues", "asking"
    list_display = ("last_seen", "kind", "shown_message", "shown_count", "trend", "first_seen", "shown_state")
    list_display_links = None
    list_filter = (
        IssueStateFilter,
        AssigneeFilter,
        CodeFilter,
        since("last_seen_at", gettext_lazy("last seen")),
        FromFilter,
        UntilFilter,
        ToolFilter,
    )
    nothing_yet = (
        gettext_lazy("No open issues"),
        gettext_lazy("Errors with the same tool, code and location are grouped into one issue until it is resolved."),
    )
    search_fields = ("tool_name",)
    search_help_text = gettext_lazy("Tool, id, or start of code or message")
    actions = ("resolve", "ignore", "snooze", "assign", "reopen")
    posts: ClassVar = {"decide": "<str:pk>/decide/", "note": "<str:pk>/note/"}
    fields = (
        "message", "place", "assigned_to", "last_call", "last_seen_exactly", "first_seen_exactly", "reopened",
        "resolved", "muted",
    )  # fmt: skip
    export_order = "last_seen_at"
    export_columns = columns(
        "fingerprint", "tool_name", "code", "place", "message", "count", "first_seen_at", "last_seen_at",
        "last_call_id", "resolved_at", "resolved_by", "reopened_at", "state", "assignee_name", "muted_at", "muted_by",
        "mute_reason", "muted_until", "muted_until_count", fingerprint="id",
    )  # fmt: skip

    def has_change_permission(self, request: HttpRequest, obj: ErrorGroup | None = None) -> bool:
        # Only their state and assignee change; their page has no form.
        return obj is None and actions.ERROR_RESOLVE.permits(request.user)

    # ------------------------------------------------------------------------------------------------ the list

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """The count links to the errors, and their cause is shown, if the user may see them."""
        if actions.ERROR_EVENTS_READ.permits(request.user):
            return self.list_display
        plain = {"shown_count": "count", "shown_message": "plain_message"}
        return tuple(plain.get(column, column) for column in self.list_display)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ErrorGroup]:
        recent = ErrorHour.objects.filter(hour__gte=_first_day(timezone.now())).order_by("hour")
        groups = super().get_queryset(request).select_related("assignee")
        return groups.prefetch_related(Prefetch("hours", recent, to_attr="recent_hours"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ErrorGroup], search_term: str
    ) -> tuple[QuerySet[ErrorGroup], bool]:
        """Search by exact values and prefixes; part of a name is looked up among the tools first."""
        term = search_term.strip()
        if IDENTIFIER.fullmatch(term):
            of_error = ErrorLog.objects.filter(Q(pk=term) | Q(call_id=term)).values("group")
            return queryset.filter(Q(pk=term) | Q(last_call_id=term) | Q(pk__in=of_error)), False
        if not term:
            return queryset, False
        begins = Q(code__startswith=term.upper()) | Q(message__startswith=term)
        return queryset.filter(begins | Q(tool_name__in=tool_names(term))), False

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        state_filter = request.GET.get(IssueStateFilter.parameter_name)
        base_query = request.GET.copy()
        for name in (IssueStateFilter.parameter_name, "p"):
            base_query.pop(name, None)
        tabs = []
        titles = {"": IssueStateFilter.default, **IssueStateFilter.words}
        for state, title in titles.items():
            query = base_query.copy()
            if state:
                query[IssueStateFilter.parameter_name] = state
            selected = state == (state_filter if state_filter in titles else "")
            tabs.append({"name": title, "count": None, "address": f"?{query.urlencode()}", "selected": selected})
        return {**super().list_context(request), "state_tabs": tabs}

    last_seen = Column[ErrorGroup](
        gettext_lazy("Last seen"),
        lambda group: links.at(group.last_seen_at, links.to_group(group.pk, links.stamp(group.last_seen_at))),
    )

    @admin.display(description=gettext_lazy("Error"))
    def kind(self, group: ErrorGroup) -> SafeString:
        address = links.address("errorgroup", "change", group.pk)
        tool = links.to_tool(group.tool_name, group.code) if group.tool_name else ""
        template = '<a class="hub-name" href="{}">{}</a><span class="hub-sub">{}</span>'
        return format_html(template, address, group.code, tool)

    shown_message = Column[ErrorGroup](
        gettext_lazy("Message"), lambda group: links.with_sub(links.cut(group.message), group.cause or group.place)
    )
    plain_message = Column[ErrorGroup](
        gettext_lazy("Message"), lambda group: links.with_sub(links.cut(group.message), group.place)
    )
    shown_count = Column[ErrorGroup](
        gettext_lazy("Count"),
        lambda group: links.number(group.count, links.address("errorlog", "changelist", group=group.pk)),
    )

    @admin.display(description=gettext_lazy("14 days"))
    def trend(self, group: ErrorGroup) -> SafeString:
        numbers = [number for _day, number in by_day(getattr(group, "recent_hours", []), timezone.now())]
        words = _("%(number)s in %(days)s days, %(today)s today")
        values = {"number": f"{sum(numbers):,}", "days": len(numbers), "today": f"{numbers[-1]:,}"}
        return charts.sparkline(numbers, words % values, "bad")

    first_seen = Column[ErrorGroup](gettext_lazy("First seen"), lambda group: links.when(group.first_seen_at))

    shown_state = Column[ErrorGroup](
        gettext_lazy("State"),
        lambda group: format_html(
            "{}{}",
            links.with_sub(issue_decisions.state_mark(group), issue_decisions.state_details(group)),
            links.sub(_("assigned to %(name)s") % {"name": group.assignee_name} if group.assignee_name else ""),
        ),
    )

    # ------------------------------------------------------------------------------------------------ deciding

    @admin.action(description=gettext_lazy("Resolve"), permissions=["change"])
    def resolve(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "resolve")

    @admin.action(description=gettext_lazy("Ignore"), permissions=["change"])
    def ignore(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "ignore")

    @admin.action(description=gettext_lazy("Snooze"), permissions=["change"])
    def snooze(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "snooze")

    @admin.action(description=gettext_lazy("Assign"), permissions=["change"])
    def assign(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "assign")

    @admin.action(description=gettext_lazy("Reopen"), permissions=["change"])
    def reopen(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "reopen")

    def _decide_many(self, request: HttpRequest, queryset: QuerySet[ErrorGroup], name: str) -> HttpResponse | None:
        """Asks for a reason and for the rest of the decision first."""
        if "confirmed" in request.POST:
            self._decide(request, queryset.values_list("pk", flat=True), name)
            return None
        # All rows of the filtered list if “select all” was used, else the selected rows.
        across = request.POST.get("select_across") == "1"
        count = queryset.count()
        selected = [("_selected_action", pk) for pk in request.POST.getlist("_selected_action")]
        decision = DECISIONS[name]
        label = decision.button
        return self.page(
            request,
            "errorgroup/decide.html",
            _("%(decision)s %(groups)s") % {"decision": label, "groups": issue_decisions.number_of(count)},
            decision=name,
            text=decision.text,
            button=label,
            groups=queryset[:MOST_SHOWN],
            more=max(0, count - MOST_SHOWN),
            hidden=[*selected, *([("select_across", "1")] if across else []), ("action", name)],
            address=request.get_full_path(),
            cancel_address=request.get_full_path(),
            harmless=True,
            needs_reason=decision.needs_reason,
            **issue_decisions.form_context(request.user),
        )

    def note_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Add a note to a group."""
        require(request, actions.ERROR_NOTE)
        group = get_object_or_404(ErrorGroup, pk=pk.replace("\x00", ""))
        with FailuresAsMessages(request):
            governance.add_error_note(group.pk, posted(request, "text"), actor=actor(request))
            self.message_user(request, _("Note added."), messages.SUCCESS)
        return HttpResponseRedirect(f"{links.address('errorgroup', 'change', group.pk)}#notes")

    def decide_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Decide about one group. The form names the decision, so a stale page does no harm."""
        require(request, actions.ERROR_RESOLVE)
        name = request.POST.get("decision", "")
        if name not in DECISIONS:
            return HttpResponseBadRequest(f"decision must be one of {', '.join(DECISIONS)}")
        group = get_object_or_404(ErrorGroup, pk=pk.replace("\x00", ""))
        self._decide(request, [group.pk], name)
        return HttpResponseRedirect(links.address("errorgroup", "change", group.pk))

    def _decide(self, request: HttpRequest, fingerprints: Iterable[str], name: str) -> None:
        decision, pks = DECISIONS[name], list(fingerprints)
        with FailuresAsMessages(request):
            changed = len(decision.decide(pks, request))
            message = issue_decisions.outcome(decision, changed, len(pks) - changed)
            self.message_user(request, message, messages.SUCCESS if changed else messages.INFO)

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], group: ErrorGroup) -> None:
        sees_errors = actions.ERROR_EVENTS_READ.permits(request.user)
        errors = list(ErrorLog.objects.filter(group=group.pk)[:MOST_SHOWN]) if sees_errors else []
        state = group.state
        decision = "resolve" if group.resolved_at is None else "reopen"
        may_decide = self.has_change_permission(request)
        days = by_day(getattr(group, "recent_hours", []), timezone.now())
        places = [charts.Place(f"{day:%m-%d}", f"{day:%Y-%m-%d}", (number,)) for day, number in days]
        context.update(
            chart=charts.bars(_("Errors by day"), [charts.Series(_("Errors"), "bad")], places),
            next_step=next((kind.default_next_step for kind in all_errors() if kind.code == group.code), ""),
            callers=_callers(group) if sees_errors else None,
            most_counted=MOST_COUNTED,
            notes=group.notes.all(),
            most_characters=ErrorNote.MOST_CHARACTERS,
            group=group,
            tool_link=links.to_tool(group.tool_name, group.code) if group.tool_name else "",
            state=issue_decisions.state_mark(group),
            state_since=issue_decisions.state_details(group),
            mute_reason=group.mute_reason if state in (State.IGNORED, State.SNOOZED) else "",
            decision=decision,
            button=DECISIONS[decision].button,
            decisions=[(name, DECISIONS[name]) for name in DECISIONS if name in _others(state)],
            may_decide=may_decide,
            **(issue_decisions.form_context(request.user, group) if may_decide else {}),
            newest_errors=errors if sees_errors else None,
            newest_detail=errors[0].detail if errors else "",
            all_errors=links.address("errorlog", "changelist", group=group.pk),
            changes=audit.rows(AuditEntry.objects.filter(subject=f"error:{group.pk}"), request.user),
        )

    last_call = Column[ErrorGroup](gettext_lazy("Last call"), lambda group: links.to_call(group.last_call_id))
    last_seen_exactly = Column[ErrorGroup](gettext_lazy("Last seen"), lambda group: links.in_full(group.last_seen_at))

    @admin.display(description=gettext_lazy("First seen"))
    def first_seen_exactly(self, group: ErrorGroup) -> str:
        return links.in_full(group.first_seen_at)

    reopened = Column[ErrorGroup](gettext_lazy("Regressed at"), lambda group: links.in_full(group.reopened_at))

    @admin.display(description=gettext_lazy("Resolved"))
    def resolved(self, group: ErrorGroup) -> str:
        if group.resolved_at is None:
            return links.NOTHING
        return issue_decisions.by(links.in_full(group.resolved_at), group.resolved_by)

    assigned_to = Column[ErrorGroup](gettext_lazy("Assignee"), lambda group: group.assignee_name or links.NOTHING)

    @admin.display(description=gettext_lazy("Ignored or snoozed"))
    def muted(self, group: ErrorGroup) -> str:
        if group.muted_at is None or group.state not in (State.IGNORED, State.SNOOZED):
            return links.NOTHING
        return issue_decisions.by(links.in_full(group.muted_at), group.muted_by)


def _others(state: ErrorGroup.State) -> tuple[str, ...]:
    """The decisions that an issue in this state has, beside the first button."""
    return {
        State.OPEN: ("ignore", "snooze", "assign"),
        State.IGNORED: ("snooze", "assign", "reopen"),
        State.SNOOZED: ("ignore", "snooze", "assign", "reopen"),
        State.RESOLVED: ("assign",),
    }[state]


def by_day(hours: Iterable[ErrorHour], now: datetime) -> list[tuple[date, int]]:
    """Errors per day, oldest first."""
    first = timezone.localtime(_first_day(now)).date()
    numbers = {first + timedelta(days=number): 0 for number in range(DAYS)}
    for hour in hours:
        day = timezone.localtime(hour.hour).date()
        if day in numbers:
            numbers[day] += hour.count
    return list(numbers.items())


def _first_day(now: datetime) -> datetime:
    """The start of the first day that is shown; the last one is today."""
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=DAYS - 1)


def _callers(group: ErrorGroup) -> list[dict[str, Any]]:
    """The callers with the most errors, counted in the newest errors whose calls are still stored."""
    newest = ErrorLog.objects.filter(group=group.pk).order_by("-created_at").values("call_id")[:MOST_COUNTED]
    rows = Call.objects.filter(pk__in=newest).order_by().values("caller_id", "caller_name", "caller_kind")
    callers = rows.annotate(number=Count("pk")).order_by("-number", "caller_id")[:MOST_SHOWN]
    return [
        {"link": links.to_calls_of(row["caller_id"], row["caller_name"], row["caller_kind"]), "number": row["number"]}
        for row in callers
    ]
