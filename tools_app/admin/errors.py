"""The error log: every failure, with the detail that leaves the hub nowhere else."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from tools_app.admin import error_groups, links
from tools_app.admin.exports import Columns
from tools_app.admin.filters import CodeFilter, CreatedFilter, GroupFilter, ToolFilter
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.admin.narrowing import between
from tools_app.models import Call, ErrorGroup, ErrorLog
from tools_app.sdk import hub_errors

FromFilter, UntilFilter = between("created_at")


@admin.register(ErrorLog)
class ErrorAdmin(JournalAdmin[ErrorLog]):
    list_display = ("created", "code", "tool", "shown_message", "shown_caller", "call")
    list_display_links = None
    nothing_yet = (
        gettext_lazy("No errors yet"),
        gettext_lazy("Errors of tools are recorded here, with their cause."),
    )
    list_filter = (CodeFilter, "door", CreatedFilter, FromFilter, UntilFilter, ToolFilter, GroupFilter)
    search_fields = ("tool_name",)
    search_help_text = gettext_lazy("Tool, error id or call id")
    fieldsets = (
        (None, {"fields": ("id", "code", "message", "next_step", "tool", "whole_call", "shown_group")}),
        (gettext_lazy("Time and caller"), {"fields": ("at", "whole_caller", "door")}),
        (gettext_lazy("Operators only"), {"fields": ("shown_detail",)}),
    )
    readonly_fields = ("next_step", "tool", "whole_call", "shown_group", "at", "whole_caller", "shown_detail")
    exported_by = "created_at"
    exported: Columns = {
        "id": "id",
        "created": "created_at",
        "code": "code",
        "tool": "tool_name",
        "message": "message",
        "caller": "caller_name",
        "door": "door",
        "callId": "call_id",
        "group": "group_id",
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[ErrorLog]:
        return super().get_queryset(request).defer("detail")

    def get_fieldsets(self, request: HttpRequest, obj: ErrorLog | None = None) -> Any:
        (_, about), *others = self.fieldsets
        if request.user.has_perm("tools_app.view_errorgroup"):
            return self.fieldsets
        return [(None, {"fields": [name for name in about["fields"] if name != "shown_group"]}), *others]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ErrorLog], search_term: str
    ) -> tuple[QuerySet[ErrorLog], bool]:
        """By whole values that have an index; a part of a name is looked up among the tools first."""
        term = search_term.strip()
        if IDENTIFIER.fullmatch(term):
            return queryset.filter(Q(pk=term) | Q(call_id=term)), False
        return queryset.filter(tool_name__in=tool_names(term)) if term else queryset, False

    @admin.display(description=gettext_lazy("Time"))
    def created(self, error: ErrorLog) -> SafeString:
        shown = links.to_error(error.pk, links.stamp(error.created_at))
        return format_html('<span class="hub-whole" title="{}">{}</span>', links.ago(error.created_at), shown)

    @admin.display(description=gettext_lazy("Time"))
    def at(self, error: ErrorLog) -> str:
        return links.in_full(error.created_at)

    @admin.display(description=gettext_lazy("Tool"))
    def tool(self, error: ErrorLog) -> SafeString:
        return links.to_tool(error.tool_name, error.code)

    @admin.display(description=gettext_lazy("Message"))
    def shown_message(self, error: ErrorLog) -> SafeString:
        return format_html('<span class="hub-cut" title="{0}">{0}</span>', error.message)

    @admin.display(description=gettext_lazy("Caller"))
    def shown_caller(self, error: ErrorLog) -> SafeString:
        shown = '<span class="hub-whole">{}</span>{}'
        return format_html(shown, error.caller_name or links.NOTHING, links.sub(error.get_door_display()))

    @admin.display(description=gettext_lazy("Call"))
    def call(self, error: ErrorLog) -> SafeString:
        return links.to_call(error.call_id, f"{error.call_id[:8]}…" if error.call_id else "")

    @admin.display(description=gettext_lazy("Call"))
    def whole_call(self, error: ErrorLog) -> SafeString:
        return links.to_call(error.call_id)

    @admin.display(description=gettext_lazy("Issue"))
    def shown_group(self, error: ErrorLog) -> SafeString:
        group = ErrorGroup.objects.filter(pk=error.group_id).first() if error.group_id else None
        if group is None:
            return format_html("{}", links.NOTHING)
        link = links.to_group(group.pk, str(group))
        return format_html("{} {} {}", link, f"× {group.count:,}", error_groups.state_mark(group))

    @admin.display(description=gettext_lazy("Advice sent to the caller"))
    def next_step(self, error: ErrorLog) -> str:
        """What the kind of error says; its caller may have been told something closer."""
        steps = {kind.code: kind.default_next_step for kind in hub_errors.all_errors()}
        return steps.get(error.code) or links.NOTHING

    @admin.display(description=gettext_lazy("Caller"))
    def whole_caller(self, error: ErrorLog) -> SafeString:
        call = Call.objects.filter(pk=error.call_id).only("caller_id", "caller_name", "caller_kind").first()
        if call is None:
            return format_html("{}", error.caller_name or links.NOTHING)
        return links.to_calls_of(call.caller_id, call.caller_name, call.caller_kind)

    @admin.display(description=gettext_lazy("Stack trace or upstream response"))
    def shown_detail(self, error: ErrorLog) -> SafeString:
        return links.preformatted(error.detail)
