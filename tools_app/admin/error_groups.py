"""What goes wrong, by kind: the place where an operator looks first, and says what is resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.admin import audit, links
from tools_app.admin.filters import CodeFilter, LastSeenFilter, ResolvedFilter, ToolFilter
from tools_app.admin.governed import FailuresTold, actor
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.models import AuditEntry, ErrorGroup, ErrorLog

MOST_SHOWN: Final = 10
# What a decision is called on a button, what it does, and what the groups are afterwards.
DECISIONS: Final[dict[str, tuple[str, Callable[..., list[str]], str]]] = {
    "resolve": ("Resolve", governance.resolve_errors, "resolved"),
    "reopen": ("Reopen", governance.reopen_errors, "open"),
}


@admin.register(ErrorGroup)
class ErrorGroupAdmin(JournalAdmin[ErrorGroup]):
    change_list_template = "admin/tools_app/errorgroup/change_list.html"
    change_form_template = "admin/tools_app/errorgroup/change_form.html"
    list_display = ("last_seen", "kind", "shown_message", "shown_count", "first_seen", "shown_state")
    list_display_links = None
    list_filter = (ResolvedFilter, CodeFilter, LastSeenFilter, ToolFilter)
    nothing_yet = (
        "Nothing is failing",
        "Errors of one kind – the same tool, code and place – stand here as one, until somebody calls them resolved.",
    )
    unfiltered = "all open ones"
    search_fields = ("tool_name",)
    search_help_text = "Tool, start of a code or message, call id or error id"
    actions = ("resolve", "reopen")
    fields = ("message", "place", "last_call", "last_seen_exactly", "first_seen_exactly", "reopened", "resolved")
    readonly_fields = ("last_call", "last_seen_exactly", "first_seen_exactly", "reopened", "resolved")

    def has_change_permission(self, request: HttpRequest, obj: ErrorGroup | None = None) -> bool:
        # Groups change by being resolved and reopened. The page of one has nothing to save.
        return obj is None and request.user.has_perm("tools_app.change_errorgroup")

    # ------------------------------------------------------------------------------------------------ the list

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """The number leads to the errors, where the user may see those."""
        if request.user.has_perm("tools_app.view_errorlog"):
            return self.list_display
        return tuple("count" if column == "shown_count" else column for column in self.list_display)

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
        for state, title in (("", "Open"), ("resolved", "Resolved"), ("all", "All")):
            query = rest.copy()
            if state:
                query[ResolvedFilter.parameter_name] = state
            selected = state == (chosen if chosen in {"resolved", "all"} else "")
            tabs.append({"name": title, "address": f"?{query.urlencode()}", "selected": selected})
        return super().changelist_view(request, {**(extra_context or {}), "state_tabs": tabs})

    @admin.display(description="Last seen")
    def last_seen(self, group: ErrorGroup) -> SafeString:
        shown = links.to_group(group.pk, links.stamp(group.last_seen_at))
        return format_html('<span class="hub-whole" title="{}">{}</span>', links.ago(group.last_seen_at), shown)

    @admin.display(description="Code, tool")
    def kind(self, group: ErrorGroup) -> SafeString:
        address = links.address("errorgroup", "change", group.pk)
        tool = links.to_tool(group.tool_name, group.code) if group.tool_name else ""
        shown = '<a class="hub-name" href="{}">{}</a><span class="hub-sub">{}</span>'
        return format_html(shown, address, group.code, tool)

    @admin.display(description="Message, place")
    def shown_message(self, group: ErrorGroup) -> SafeString:
        shown = '<span class="hub-cut" title="{0}">{0}</span>{1}'
        return format_html(shown, group.message, links.sub(group.place))

    @admin.display(description="Count")
    def shown_count(self, group: ErrorGroup) -> SafeString:
        address = links.address("errorlog", "changelist", group=group.pk)
        return format_html('<a class="hub-number" href="{}">{}</a>', address, f"{group.count:,}")

    @admin.display(description="First seen")
    def first_seen(self, group: ErrorGroup) -> SafeString:
        return links.when(group.first_seen_at)

    @admin.display(description="State")
    def shown_state(self, group: ErrorGroup) -> SafeString:
        return format_html("{}{}", state_mark(group), links.sub(_since(group)))

    # ------------------------------------------------------------------------------------------------ deciding

    @admin.action(description="Resolve", permissions=["change"])
    def resolve(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "resolve")

    @admin.action(description="Reopen", permissions=["change"])
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
            "title": f"{DECISIONS[decision][0]} {_groups(count)}",
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
        return [path("<str:pk>/decide/", decide, name="tools_app_errorgroup_decide"), *super().get_urls()]

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
        _, decide, state = DECISIONS[decision]
        reason = request.POST.get("reason", "").strip().replace("\x00", "")
        with FailuresTold(request):
            chosen = list(fingerprints)
            changed = decide(chosen, actor=actor(request), reason=reason)
            said = f"{_groups(len(changed))} now {state}." if changed else "Nothing changed."
            if already := len(chosen) - len(changed):
                said += f" {_groups(already)} {'was' if already == 1 else 'were'} {state} already."
            self.message_user(request, said, messages.SUCCESS if changed else messages.INFO)

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        group: ErrorGroup = kwargs["obj"]
        may = request.user.has_perm
        errors = ErrorLog.objects.filter(group=group.pk).defer("detail")[:MOST_SHOWN]
        decisions = AuditEntry.objects.filter(subject=f"error:{group.pk}")[:MOST_SHOWN]
        decision = "resolve" if group.resolved_at is None else "reopen"
        context.update(
            group=group,
            tool_link=links.to_tool(group.tool_name, group.code) if group.tool_name else "",
            state=state_mark(group),
            state_since=_since(group),
            decision=decision,
            button=DECISIONS[decision][0],
            may_decide=self.has_change_permission(request),
            newest_errors=errors if may("tools_app.view_errorlog") else None,
            all_errors=links.address("errorlog", "changelist", group=group.pk),
            changes=audit.rows(decisions) if may("tools_app.view_auditentry") else None,
        )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="Last call")
    def last_call(self, group: ErrorGroup) -> SafeString:
        return links.to_call(group.last_call_id)

    @admin.display(description="Last seen")
    def last_seen_exactly(self, group: ErrorGroup) -> str:
        return links.in_full(group.last_seen_at)

    @admin.display(description="First seen")
    def first_seen_exactly(self, group: ErrorGroup) -> str:
        return links.in_full(group.first_seen_at)

    @admin.display(description="Came back")
    def reopened(self, group: ErrorGroup) -> str:
        return links.in_full(group.reopened_at)

    @admin.display(description="Resolved")
    def resolved(self, group: ErrorGroup) -> str:
        return f"{links.in_full(group.resolved_at)} by {group.resolved_by}" if group.resolved_at else links.NOTHING


def state_mark(group: ErrorGroup) -> SafeString:
    if group.resolved_at is not None:
        return links.mark("good", "resolved")
    return links.mark("bad", "open" if group.reopened_at is None else "open again")


def _since(group: ErrorGroup) -> str:
    if group.resolved_at is not None:
        return f"{links.ago(group.resolved_at)} by {group.resolved_by}"
    return f"since {links.stamp(group.reopened_at)}" if group.reopened_at is not None else ""


def _groups(number: int) -> str:
    return f"{number:,} error group" if number == 1 else f"{number:,} error groups"
