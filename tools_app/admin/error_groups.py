"""What goes wrong, by kind: the place where an operator looks first, and says what is resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.admin import audit, charts, links
from tools_app.admin.exports import Columns
from tools_app.admin.filters import CodeFilter, LastSeenFilter, ResolvedFilter, ToolFilter
from tools_app.admin.governed import FailuresTold, actor
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.admin.narrowing import between
from tools_app.models import AuditEntry, Call, ErrorGroup, ErrorHour, ErrorLog, ErrorNote
from tools_app.sdk.hub_errors import all_errors

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

FromFilter, UntilFilter = between("last_seen_at")
MOST_SHOWN: Final = 10
# Number of the newest errors of a group whose callers are counted.
MOST_COUNTED: Final = 1_000
DAYS: Final = 14
# What a decision is called on a button, what it does, and what the groups are afterwards.
DECISIONS: Final[dict[str, tuple[StrPromise, Callable[..., list[str]], StrPromise]]] = {
    "resolve": (gettext_lazy("Resolve"), governance.resolve_errors, gettext_lazy("resolved")),
    "reopen": (gettext_lazy("Reopen"), governance.reopen_errors, gettext_lazy("open")),
}


@admin.register(ErrorGroup)
class ErrorGroupAdmin(JournalAdmin[ErrorGroup]):
    change_list_template = "admin/tools_app/errorgroup/change_list.html"
    change_form_template = "admin/tools_app/errorgroup/change_form.html"
    list_display = ("last_seen", "kind", "shown_message", "shown_count", "trend", "first_seen", "shown_state")
    list_display_links = None
    list_filter = (ResolvedFilter, CodeFilter, LastSeenFilter, FromFilter, UntilFilter, ToolFilter)
    nothing_yet = (
        gettext_lazy("No open issues"),
        gettext_lazy("Errors with the same tool, code and location are grouped into one issue until it is resolved."),
    )
    search_fields = ("tool_name",)
    search_help_text = gettext_lazy("Tool, id, or start of code or message")
    actions = ("resolve", "reopen")
    fields = ("message", "place", "last_call", "last_seen_exactly", "first_seen_exactly", "reopened", "resolved")
    readonly_fields = ("last_call", "last_seen_exactly", "first_seen_exactly", "reopened", "resolved")
    exported_by = "last_seen_at"
    exported: Columns = {
        "id": "fingerprint",
        "tool": "tool_name",
        "code": "code",
        "place": "place",
        "message": "message",
        "count": "count",
        "firstSeen": "first_seen_at",
        "lastSeen": "last_seen_at",
        "lastCallId": "last_call_id",
        "resolved": "resolved_at",
        "resolvedBy": "resolved_by",
        "reopened": "reopened_at",
    }

    def has_change_permission(self, request: HttpRequest, obj: ErrorGroup | None = None) -> bool:
        # Groups change by being resolved and reopened. The page of one has nothing to save.
        return obj is None and request.user.has_perm("tools_app.change_errorgroup")

    # ------------------------------------------------------------------------------------------------ the list

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """The number leads to the errors, where the user may see those."""
        if request.user.has_perm("tools_app.view_errorlog"):
            return self.list_display
        return tuple("count" if column == "shown_count" else column for column in self.list_display)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ErrorGroup]:
        recent = ErrorHour.objects.filter(hour__gte=_first_day(timezone.now())).order_by("hour")
        return super().get_queryset(request).prefetch_related(Prefetch("hours", recent, to_attr="recent_hours"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ErrorGroup], search_term: str
    ) -> tuple[QuerySet[ErrorGroup], bool]:
        """By whole values and beginnings; a part of a name is looked up among the tools first."""
        term = search_term.strip()
        if IDENTIFIER.fullmatch(term):
            of_error = ErrorLog.objects.filter(Q(pk=term) | Q(call_id=term)).values("group")
            return queryset.filter(Q(pk=term) | Q(last_call_id=term) | Q(pk__in=of_error)), False
        if not term:
            return queryset, False
        begins = Q(code__startswith=term.upper()) | Q(message__startswith=term)
        return queryset.filter(begins | Q(tool_name__in=tool_names(term))), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        chosen = request.GET.get(ResolvedFilter.parameter_name)
        rest = request.GET.copy()
        for name in (ResolvedFilter.parameter_name, "p"):
            rest.pop(name, None)
        tabs = []
        for state, title in (("", _("Open")), ("resolved", _("Resolved")), ("all", _("All"))):
            query = rest.copy()
            if state:
                query[ResolvedFilter.parameter_name] = state
            selected = state == (chosen if chosen in {"resolved", "all"} else "")
            tabs.append({"name": title, "address": f"?{query.urlencode()}", "selected": selected})
        return super().changelist_view(request, {**(extra_context or {}), "state_tabs": tabs})

    @admin.display(description=gettext_lazy("Last seen"))
    def last_seen(self, group: ErrorGroup) -> SafeString:
        shown = links.to_group(group.pk, links.stamp(group.last_seen_at))
        return format_html('<span class="hub-whole" title="{}">{}</span>', links.ago(group.last_seen_at), shown)

    @admin.display(description=gettext_lazy("Error"))
    def kind(self, group: ErrorGroup) -> SafeString:
        address = links.address("errorgroup", "change", group.pk)
        tool = links.to_tool(group.tool_name, group.code) if group.tool_name else ""
        shown = '<a class="hub-name" href="{}">{}</a><span class="hub-sub">{}</span>'
        return format_html(shown, address, group.code, tool)

    @admin.display(description=gettext_lazy("Message"))
    def shown_message(self, group: ErrorGroup) -> SafeString:
        shown = '<span class="hub-cut" title="{0}">{0}</span>{1}'
        return format_html(shown, group.message, links.sub(group.place))

    @admin.display(description=gettext_lazy("Count"))
    def shown_count(self, group: ErrorGroup) -> SafeString:
        address = links.address("errorlog", "changelist", group=group.pk)
        return format_html('<a class="hub-number" href="{}">{}</a>', address, f"{group.count:,}")

    @admin.display(description=gettext_lazy("14 days"))
    def trend(self, group: ErrorGroup) -> SafeString:
        numbers = [number for _day, number in by_day(getattr(group, "recent_hours", []), timezone.now())]
        words = _("%(number)s in %(days)s days, %(today)s today")
        said = {"number": f"{sum(numbers):,}", "days": len(numbers), "today": f"{numbers[-1]:,}"}
        return charts.sparkline(numbers, words % said, "bad")

    @admin.display(description=gettext_lazy("First seen"))
    def first_seen(self, group: ErrorGroup) -> SafeString:
        return links.when(group.first_seen_at)

    @admin.display(description=gettext_lazy("State"))
    def shown_state(self, group: ErrorGroup) -> SafeString:
        return format_html("{}{}", state_mark(group), links.sub(_since(group)))

    # ------------------------------------------------------------------------------------------------ deciding

    @admin.action(description=gettext_lazy("Resolve"), permissions=["change"])
    def resolve(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "resolve")

    @admin.action(description=gettext_lazy("Reopen"), permissions=["change"])
    def reopen(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "reopen")

    def _decide_many(self, request: HttpRequest, queryset: QuerySet[ErrorGroup], decision: str) -> HttpResponse | None:
        """Asks for a reason first."""
        if "confirmed" in request.POST:
            self._decide(request, queryset.values_list("pk", flat=True), decision)
            return None
        # The list with its filters, as far as all of it was chosen; else the rows that were marked.
        across = request.POST.get("select_across") == "1"
        count = queryset.count()
        context = {
            **self.admin_site.each_context(request),
            "title": _("%(decision)s %(groups)s") % {"decision": DECISIONS[decision][0], "groups": _groups(count)},
            "opts": self.opts,
            "decision": decision,
            "button": DECISIONS[decision][0],
            "groups": queryset[:MOST_SHOWN],
            "more": max(0, count - MOST_SHOWN),
            "marked": request.POST.getlist("_selected_action"),
            "across": across,
            "list_address": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/tools_app/errorgroup/decide.html", context)

    def get_urls(self) -> list[URLPattern]:
        decide = self.admin_site.admin_view(self.decide_view)
        note = self.admin_site.admin_view(self.note_view)
        own = [
            path("<str:pk>/decide/", decide, name="tools_app_errorgroup_decide"),
            path("<str:pk>/note/", note, name="tools_app_errorgroup_note"),
        ]
        return [*own, *super().get_urls()]

    @method_decorator(require_POST)
    def note_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Add a note to a group."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        group = get_object_or_404(ErrorGroup, pk=pk.replace("\x00", ""))
        with FailuresTold(request):
            governance.add_error_note(group.pk, request.POST.get("text", "").replace("\x00", ""), actor=actor(request))
            self.message_user(request, _("Note added."), messages.SUCCESS)
        return HttpResponseRedirect(f"{links.address('errorgroup', 'change', group.pk)}#notes")

    @method_decorator(require_POST)
    def decide_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Resolve or reopen one group, as the button said: pressing it on a page that is out of date does no harm."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        decision = request.POST.get("decision", "")
        if decision not in DECISIONS:
            return HttpResponseBadRequest("decision must be resolve or reopen")
        group = get_object_or_404(ErrorGroup, pk=pk.replace("\x00", ""))
        self._decide(request, [group.pk], decision)
        return HttpResponseRedirect(links.address("errorgroup", "change", group.pk))

    def _decide(self, request: HttpRequest, fingerprints: Iterable[str], decision: str) -> None:
        _title, decide, state = DECISIONS[decision]
        reason = request.POST.get("reason", "").strip().replace("\x00", "")
        with FailuresTold(request):
            chosen = list(fingerprints)
            changed = decide(chosen, actor=actor(request), reason=reason)
            said = _("Nothing changed.")
            if changed:
                said = _("%(groups)s: now %(state)s.") % {"groups": _groups(len(changed)), "state": state}
            if already := len(chosen) - len(changed):
                before = ngettext("%(groups)s was already %(state)s.", "%(groups)s were already %(state)s.", already)
                said += " " + before % {"groups": _groups(already), "state": state}
            self.message_user(request, said, messages.SUCCESS if changed else messages.INFO)

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        group: ErrorGroup = kwargs["obj"]
        may = request.user.has_perm
        sees_errors = may("tools_app.view_errorlog")
        errors = list(ErrorLog.objects.filter(group=group.pk)[:MOST_SHOWN]) if sees_errors else []
        decisions = AuditEntry.objects.filter(subject=f"error:{group.pk}")[:MOST_SHOWN]
        decision = "resolve" if group.resolved_at is None else "reopen"
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
            state=state_mark(group),
            state_since=_since(group),
            decision=decision,
            button=DECISIONS[decision][0],
            may_decide=self.has_change_permission(request),
            newest_errors=errors if sees_errors else None,
            newest_detail=errors[0].detail if errors else "",
            all_errors=links.address("errorlog", "changelist", group=group.pk),
            changes=audit.rows(decisions) if may("tools_app.view_auditentry") else None,
        )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Last call"))
    def last_call(self, group: ErrorGroup) -> SafeString:
        return links.to_call(group.last_call_id)

    @admin.display(description=gettext_lazy("Last seen"))
    def last_seen_exactly(self, group: ErrorGroup) -> str:
        return links.in_full(group.last_seen_at)

    @admin.display(description=gettext_lazy("First seen"))
    def first_seen_exactly(self, group: ErrorGroup) -> str:
        return links.in_full(group.first_seen_at)

    @admin.display(description=gettext_lazy("Regressed at"))
    def reopened(self, group: ErrorGroup) -> str:
        return links.in_full(group.reopened_at)

    @admin.display(description=gettext_lazy("Resolved"))
    def resolved(self, group: ErrorGroup) -> str:
        return _by(links.in_full(group.resolved_at), group.resolved_by) if group.resolved_at else links.NOTHING


def state_mark(group: ErrorGroup) -> SafeString:
    if group.resolved_at is not None:
        return links.mark("good", _("resolved"))
    return links.mark("bad", _("open") if group.reopened_at is None else _("regressed"))


def by_day(hours: Iterable[ErrorHour], now: datetime) -> list[tuple[date, int]]:
    """How often it happened on each of the last days, the oldest first."""
    first = timezone.localtime(_first_day(now)).date()
    numbers = {first + timedelta(days=number): 0 for number in range(DAYS)}
    for hour in hours:
        day = timezone.localtime(hour.hour).date()
        if day in numbers:
            numbers[day] += hour.count
    return list(numbers.items())


def _first_day(now: datetime) -> datetime:
    """Where the first of the days that are shown begins; the last one is today."""
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=DAYS - 1)


def _callers(group: ErrorGroup) -> list[dict[str, Any]]:
    """Whom it happened to, those first who met it most often; told from the newest errors whose calls are kept."""
    newest = ErrorLog.objects.filter(group=group.pk).order_by("-created_at").values("call_id")[:MOST_COUNTED]
    rows = Call.objects.filter(pk__in=newest).order_by().values("caller_id", "caller_name", "caller_kind")
    found = rows.annotate(number=Count("pk")).order_by("-number", "caller_id")[:MOST_SHOWN]
    return [
        {"link": links.to_calls_of(row["caller_id"], row["caller_name"], row["caller_kind"]), "number": row["number"]}
        for row in found
    ]


def _since(group: ErrorGroup) -> str:
    if group.resolved_at is not None:
        return _by(links.ago(group.resolved_at), group.resolved_by)
    return _("since %(time)s") % {"time": links.stamp(group.reopened_at)} if group.reopened_at is not None else ""


def _by(time: str, actor: str) -> str:
    return _("%(time)s by %(actor)s") % {"time": time, "actor": actor}


def _groups(number: int) -> str:
    return ngettext("%(number)s issue", "%(number)s issues", number) % {"number": f"{number:,}"}
