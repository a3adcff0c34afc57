"""The calls: what was asked of which tool, by whom, and how it ended."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tools_app.admin import links
from tools_app.admin.filters import CallerFilter, CodeFilter, ConnectionFilter, StartedFilter, StatusFilter, ToolFilter
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, tool_names
from tools_app.models import Call, ErrorLog, Process

_WITHOUT_PAYLOAD: Final = {"shown_arguments": "hidden_arguments", "shown_result": "hidden_result"}
_HIDDEN: Final = "hidden: needs the permission “view_payload”, which the role admin has"


@admin.register(Call)
class CallAdmin(JournalAdmin[Call]):
    list_display = ("started", "tool", "shown_status", "shown_caller", "door", "took", "shown_error")
    nothing_yet = ("No call yet", "Every call of every tool is written down here, with who made it and how it ended.")
    list_display_links = None
    list_filter = (StatusFilter, CodeFilter, "door", StartedFilter, ToolFilter, CallerFilter, ConnectionFilter)
    search_fields = ("tool_name",)
    search_help_text = "Tool, call id or error id"
    fieldsets = (
        (None, {"fields": ("id", "tool", "whole_status", "shown_code", "error", "error_log")}),
        ("When", {"fields": ("begun", "ended", "took", "attempts")}),
        ("Who, and through what", {"fields": ("shown_caller", "door", "through", "process")}),
        ("What was sent", {"fields": ("shown_arguments", "argument_bytes")}),
        ("What came back", {"fields": ("shown_result", "result_bytes", "shown_hash")}),
        ("The tool then", {"fields": ("tool_version", "definition_hash")}),
    )
    readonly_fields = (
        "tool", "whole_status", "shown_code", "error_log", "begun", "ended", "took", "shown_caller", "through",
        "process", "shown_arguments", "hidden_arguments", "shown_result", "hidden_result", "shown_hash",
    )  # fmt: skip

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        linked = request.user.has_perm("tools_app.view_errorlog")
        last = "shown_error" if linked else "plain_error"
        return (*self.list_display[:-1], last)

    def get_fieldsets(self, request: HttpRequest, obj: Call | None = None) -> Any:
        hidden = set()
        if not request.user.has_perm("tools_app.view_errorlog"):
            hidden.add("error_log")
        if obj is None or not obj.result:
            hidden.add("shown_result")
        instead: dict[Any, str] = {} if request.user.has_perm("tools_app.view_payload") else {**_WITHOUT_PAYLOAD}
        return [
            (title, {"fields": [instead.get(name, name) for name in options["fields"] if name not in hidden]})
            for title, options in self.fieldsets
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Call]:
        return super().get_queryset(request).defer("arguments", "result", "result_hash", "definition_hash")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Call], search_term: str
    ) -> tuple[QuerySet[Call], bool]:
        """By whole values that have an index; a part of a name is looked up among the tools first."""
        term = search_term.strip()
        if IDENTIFIER.fullmatch(term):
            of_error = ErrorLog.objects.filter(pk=term).values("call_id")
            return queryset.filter(Q(pk=term) | Q(pk__in=of_error)), False
        return queryset.filter(tool_name__in=tool_names(term)) if term else queryset, False

    @admin.display(description="Started")
    def started(self, call: Call) -> SafeString:
        shown = links.to_call(call.pk, links.stamp(call.started_at))
        return format_html('<span class="hub-whole" title="{}">{}</span>', links.ago(call.started_at), shown)

    @admin.display(description="Tool")
    def tool(self, call: Call) -> SafeString:
        return links.to_tool(call.tool_name, call.code)

    @admin.display(description="Status")
    def shown_status(self, call: Call) -> SafeString:
        return links.status(call)

    @admin.display(description="Status")
    def whole_status(self, call: Call) -> SafeString:
        many = "So many calls of this kind within a minute, kept as one." if call.count > 1 else ""
        return format_html('{}<span class="hub-line hub-quiet">{}</span>', links.status(call), many)

    @admin.display(description="Code")
    def shown_code(self, call: Call) -> str:
        return call.code or links.NOTHING

    @admin.display(description="Caller")
    def shown_caller(self, call: Call) -> SafeString:
        address = links.address("call", "changelist", caller=call.caller_id)
        kind = format_html('<span class="hub-quiet">{}</span>', call.caller_kind)
        shown = '<span class="hub-whole"><a class="hub-link" href="{}">{}</a> {}</span>'
        return format_html(shown, address, call.caller_name, kind)

    @admin.display(description="Took")
    def took(self, call: Call) -> SafeString:
        shown = links.NOTHING if call.duration_ms is None else f"{call.duration_ms:,} ms"
        return format_html('<span class="hub-whole">{}</span>', shown)

    @admin.display(description="Error")
    def shown_error(self, call: Call) -> SafeString:
        code = links.to_error(call.error_id, call.code) if call.error_id else call.code
        return format_html("{}{}", code, links.sub(call.error))

    @admin.display(description="Error")
    def plain_error(self, call: Call) -> SafeString:
        return format_html("{}{}", call.code, links.sub(call.error))

    @admin.display(description="Error log")
    def error_log(self, call: Call) -> SafeString:
        return links.to_error(call.error_id)

    @admin.display(description="Started")
    def begun(self, call: Call) -> str:
        return links.in_full(call.started_at)

    @admin.display(description="Ended")
    def ended(self, call: Call) -> str:
        return links.exact(call.finished_at) if call.finished_at else "not yet, or never recorded"

    @admin.display(description="Connection")
    def through(self, call: Call) -> str:
        return call.connection or links.NOTHING

    @admin.display(description="Process")
    def process(self, call: Call) -> SafeString:
        running = Process.objects.filter(pk=call.process_id).first() if call.process_id else None
        if running is None:
            return format_html("{}", call.process_id or links.NOTHING)
        address = links.address("process", "change", running.pk)
        return format_html('<a class="hub-link" href="{}">{}</a>', address, running)

    @admin.display(description="Arguments")
    def shown_arguments(self, call: Call) -> SafeString:
        return links.preformatted(call.arguments)

    @admin.display(description="Arguments")
    def hidden_arguments(self, call: Call) -> str:
        return _HIDDEN

    @admin.display(description="Result")
    def hidden_result(self, call: Call) -> str:
        return _HIDDEN

    @admin.display(description="Result")
    def shown_result(self, call: Call) -> SafeString:
        return links.preformatted(call.result)

    @admin.display(description="Hash of the result")
    def shown_hash(self, call: Call) -> str:
        return call.result_hash or links.NOTHING
