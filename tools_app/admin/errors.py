"""The error log: every failure, with the detail that only operators see."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from tools_app.access import actions
from tools_app.admin import issue_decisions, links
from tools_app.admin.exports import columns
from tools_app.admin.filters import CodeFilter, GroupFilter, ToolFilter, since
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.admin.lists import Column
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
    list_filter = (CodeFilter, "door", since("created_at"), FromFilter, UntilFilter, ToolFilter, GroupFilter)
    search_fields = ("tool_name",)
    search_help_text = gettext_lazy("Tool, error id or call id")
    fieldsets = (
        (None, {"fields": ("id", "code", "message", "next_step", "tool", "whole_call", "shown_group")}),
        (gettext_lazy("Time and caller"), {"fields": ("at", "whole_caller", "door")}),
        (gettext_lazy("Operators only"), {"fields": ("shown_detail",)}),
    )
    export_order = "created_at"
    export_columns = columns(
        "id", "created_at", "code", "tool_name", "message", "cause", "caller_name", "door", "call_id", "group_id",
        group_id="group",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[ErrorLog]:
        return super().get_queryset(request).defer("detail")

    def get_fieldsets(self, request: HttpRequest, obj: ErrorLog | None = None) -> Any:
        (_, error_fields), *other_sections = self.fieldsets
        if actions.ERRORS_READ.permits(request.user):
            return self.fieldsets
        return [(None, {"fields": [name for name in error_fields["fields"] if name != "shown_group"]}), *other_sections]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ErrorLog], search_term: str
    ) -> tuple[QuerySet[ErrorLog], bool]:
        """Search by exact indexed values; part of a name is looked up among the tools first."""
        term = search_term.strip()
        if IDENTIFIER.fullmatch(term):
            return queryset.filter(Q(pk=term) | Q(call_id=term)), False
        return queryset.filter(tool_name__in=tool_names(term)) if term else queryset, False

    created = Column[ErrorLog](
        gettext_lazy("Time"),
        lambda error: links.at(error.created_at, links.to_error(error.pk, links.stamp(error.created_at))),
    )
    at = Column[ErrorLog](gettext_lazy("Time"), lambda error: links.in_full(error.created_at))
    tool = Column[ErrorLog](gettext_lazy("Tool"), lambda error: links.to_tool(error.tool_name, error.code))

    shown_message = Column[ErrorLog](
        gettext_lazy("Message"), lambda error: links.with_sub(links.cut(error.message), error.cause)
    )
    shown_caller = Column[ErrorLog](
        gettext_lazy("Caller"),
        lambda error: links.with_sub(links.whole(error.caller_name or links.NOTHING), error.get_door_display()),
    )
    call = Column[ErrorLog](gettext_lazy("Call"), lambda error: links.to_call(error.call_id, f"{error.call_id[:8]}…"))
    whole_call = Column[ErrorLog](gettext_lazy("Call"), lambda error: links.to_call(error.call_id))

    @admin.display(description=gettext_lazy("Issue"))
    def shown_group(self, error: ErrorLog) -> SafeString:
        group = ErrorGroup.objects.filter(pk=error.group_id).first() if error.group_id else None
        if group is None:
            return format_html("{}", links.NOTHING)
        link = links.to_group(group.pk, str(group))
        return format_html("{} {} {}", link, f"× {group.count:,}", issue_decisions.state_mark(group))

    @admin.display(description=gettext_lazy("Advice sent to the caller"))
    def next_step(self, error: ErrorLog) -> str:
        """The default advice of this kind of error; the caller may have received a more specific one."""
        steps = {kind.code: kind.default_next_step for kind in hub_errors.all_errors()}
        return steps.get(error.code) or links.NOTHING

    @admin.display(description=gettext_lazy("Caller"))
    def whole_caller(self, error: ErrorLog) -> SafeString:
        call = Call.objects.filter(pk=error.call_id).only("caller_id", "caller_name", "caller_kind").first()
        if call is None:
            return format_html("{}", error.caller_name or links.NOTHING)
        return links.to_calls_of(call.caller_id, call.caller_name, call.caller_kind)

    shown_detail = Column[ErrorLog](
        gettext_lazy("Stack trace or upstream response"), lambda error: links.preformatted(error.detail)
    )
