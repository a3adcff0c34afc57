"""The journal of calls: tool, caller, arguments and outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import QuerySet, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app.access import actions
from tools_app.admin import call_page, console, exports, links
from tools_app.admin.exports import columns
from tools_app.admin.filters import (
    CallSourceFilter,
    CodeFilter,
    ConnectionFilter,
    StatusFilter,
    ToolFilter,
    WhereFilter,
    since,
)
from tools_app.admin.journal import may_read_payload, may_search_arguments
from tools_app.admin.lists import BoundedPaginator, Column, RecordList
from tools_app.admin.narrowing import CallerFilter, SlowFilter, between, time_range
from tools_app.admin.saved_views import SavedViews
from tools_app.base import secrets
from tools_app.journal import argument_search, call_search
from tools_app.journal.argument_search import ArgumentSearch
from tools_app.models import ApiKey, Approval, Call, ErrorLog, Process

FromFilter, UntilFilter = between("started_at")
# Few enough to be counted and shown by id.
MOST_FOUND: Final = 2_000
# Resolution of the timeline bar.
PARTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a call, with the time since the call began."""

    title: str
    after: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A part of a call's duration in the timeline."""

    title: str
    tone: str
    x: int
    width: int


class CallList(RecordList):
    """Calls that a text was searched in, or sorted by their duration: both only among the newest."""

    search: call_search.CallSearch | None = None
    # To this list with arguments: for who may search these, and does not yet.
    arguments_link: str = ""

    @property
    def follows(self) -> str:
        # Each change would search all arguments again.
        return "" if self.search is not None and self.search.arguments else super().follows

    @property
    def tells(self) -> bool:
        """Whether there is something to say about a search that has found calls."""
        return self.search is not None and bool(self.search.is_partial or self.search.arguments or self.arguments_link)

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Call]:
        rows: QuerySet[Call] = super().get_queryset(request, exclude_parameters)
        exports_rows = request.path == links.address("call", "export")
        term = self.query.strip()
        if term:
            most = (exports.MOST_ROWS if exports_rows else MOST_FOUND) + 1
            self.search = call_search.find(term, rows, most, self._in_arguments(request, term, rows, most))
            if exports_rows:
                self.exported = self.search.ids
                return rows
            rows = self.root_queryset.filter(pk__in=self.search.ids).order_by(*rows.query.order_by)
        is_by_duration = any(not isinstance(column, str) for column in rows.query.order_by)
        if is_by_duration and not (term or exports_rows):
            # No index has this order; an export has its own.
            times = rows.order_by("-started_at").values_list("started_at", flat=True)
            if (oldest := times[BoundedPaginator.bound : BoundedPaginator.bound + 1].first()) is not None:
                rows = rows.filter(started_at__gte=oldest)
        return rows

    def _in_arguments(self, request: HttpRequest, term: str, rows: QuerySet[Call], most: int) -> ArgumentSearch | None:
        """What is in arguments, if the user asks for that and may: for others, nothing of it may run."""
        if request.GET.get(WhereFilter.parameter_name) != WhereFilter.ARGUMENTS:
            if actions.PAYLOADS_SEARCH.permits(request.user):
                self.arguments_link = self.get_query_string({WhereFilter.parameter_name: WhereFilter.ARGUMENTS}, ["p"])
            return None
        if not may_search_arguments(request, term):
            return None
        return argument_search.find(term, rows.order_by(), most, *time_range(request.GET))


@admin.register(Call)
class CallAdmin(SavedViews):
    change_form_template = "admin/tools_app/call/change_form.html"
    change_list_template = "admin/tools_app/call/change_list.html"
    list_display = ("started", "tool", "shown_status", "listed_caller", "door", "took", "shown_error")
    nothing_yet = (
        gettext_lazy("No calls yet"),
        gettext_lazy("Every tool call is recorded here, with its caller and outcome."),
    )
    first_steps = True
    follows, follows_by = "calls", "switching"
    list_display_links = None
    list_filter = (
        StatusFilter, CodeFilter, "door", since("started_at"), FromFilter, UntilFilter, SlowFilter, CallerFilter,
        ToolFilter, CallSourceFilter, ConnectionFilter, WhereFilter,
    )  # fmt: skip
    search_fields = ("tool_name", "caller_name", "code", "error")
    search_help_text = gettext_lazy("Tool, caller, code, error text or id")
    searched_template = "admin/tools_app/call/searched.html"
    sortable_by = ("took",)
    orders = (
        ("", gettext_lazy("newest first")),
        (f"-{list_display.index('took')}", gettext_lazy("longest first")),
        (f"{list_display.index('took')}", gettext_lazy("shortest first")),
    )
    fieldsets = (
        (None, {"fields": ("id", "tool", "whole_status", "shown_code", "error", "error_log")}),
        (gettext_lazy("Caller"), {"fields": ("shown_caller", "door", "through", "process")}),
        (gettext_lazy("Size"), {"fields": ("attempts", "argument_bytes", "result_bytes", "shown_hash")}),
        (gettext_lazy("Tool version at call time"), {"fields": ("tool_version", "definition_hash")}),
    )
    export_order = "started_at"
    export_columns = columns(
        "id", "started_at", "finished_at", "duration_ms", "queued_ms", "upstream_ms", "tool_name", "tool_version",
        "status", "code", "error", "error_id", "caller_kind", "caller_id", "caller_name", "address", "client",
        "key_prefix", "door", "connection", "attempts", "answered_by", "count", "argument_bytes", "result_bytes",
    )  # fmt: skip
    export_payload_columns = columns("arguments", "result")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        may_see_errors = actions.ERROR_EVENTS_READ.permits(request.user)
        last = "shown_error" if may_see_errors else "plain_error"
        return (*self.list_display[:-1], last)

    def get_fieldsets(self, request: HttpRequest, obj: Call | None = None) -> Any:
        (_nothing, call_fields), (caller_title, caller_fields), *other_sections = self.fieldsets
        if not actions.ERROR_EVENTS_READ.permits(request.user):
            call_fields = {"fields": [name for name in call_fields["fields"] if name != "error_log"]}
        if obj is not None and (obj.address or obj.key_prefix):
            key = "linked_key" if actions.KEYS_READ.permits(request.user) else "shown_key"
            caller_fields = {"fields": ("shown_caller", "address", "client", key, "door")}
        return [(None, call_fields), (caller_title, caller_fields), *other_sections]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Call]:
        return super().get_queryset(request).defer("arguments", "result", "result_hash", "definition_hash")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CallList]:
        return CallList

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        """The cause of each error, for users who may see it."""
        errors = [call.error_id for call in rows if call.error_id]
        causes = {}
        if errors and actions.ERROR_EVENTS_READ.permits(request.user):
            causes = dict(ErrorLog.objects.filter(pk__in=errors).order_by().values_list("pk", "cause"))
        for call in rows:
            call.cause = causes.get(call.error_id, "")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Call], search_term: str
    ) -> tuple[QuerySet[Call], bool]:
        """The list searches by itself, as it also tells what it looked at."""
        return queryset, False

    def get_paginator(
        self, request: HttpRequest, queryset: QuerySet[Call], per_page: int, *args: Any, **kwargs: Any
    ) -> BoundedPaginator:
        paginator = BoundedPaginator(queryset, per_page, *args, **kwargs)
        if request.GET.get(SEARCH_VAR, "").strip():
            paginator.bound = min(paginator.bound, MOST_FOUND)
        return paginator

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], call: Call) -> None:
        has_payload = bool(call.arguments or call.result)
        shows_payload = has_payload and may_read_payload(request, call.pk)
        context.update(
            call=call,
            begun=links.in_full(call.started_at),
            approval=_approval(call) if actions.APPROVALS_READ.permits(request.user) else None,
            steps=steps(call),
            spans=spans(call),
            parts=PARTS,
            again_address=console.again_address(call, request),
            payload_kept=has_payload,
            payload_shown=shows_payload,
            may_read=actions.PAYLOADS_READ.permits(request.user),
            **call_page.context(request, call, with_payload=shows_payload),
        )

    started = Column[Call](
        gettext_lazy("Started"),
        lambda call: links.at(call.started_at, links.to_call(call.pk, links.stamp(call.started_at))),
    )
    tool = Column[Call](gettext_lazy("Tool"), lambda call: links.to_tool(call.tool_name, call.code))
    shown_status = Column[Call](gettext_lazy("Status"), lambda call: links.status(call))

    @admin.display(description=gettext_lazy("Status"))
    def whole_status(self, call: Call) -> SafeString:
        note = _("Identical refusals within a minute are combined.") if call.count > 1 else ""
        return format_html('{}<span class="hub-line hub-quiet">{}</span>', links.status(call), note)

    shown_code = Column[Call](gettext_lazy("Code"), lambda call: call.code or links.NOTHING)

    shown_caller = Column[Call](
        gettext_lazy("Caller"), lambda call: links.to_calls_of(call.caller_id, call.caller_name, call.caller_kind)
    )

    @admin.display(description=gettext_lazy("Caller"))
    def listed_caller(self, call: Call) -> SafeString:
        caller = self.shown_caller(call)
        return links.with_sub(caller, " · ".join(filter(None, (call.address, _start_of(call)))))

    shown_key = Column[Call](gettext_lazy("Key"), lambda call: _start_of(call) or _("none, or not a key of this hub"))

    @admin.display(description=gettext_lazy("Key"))
    def linked_key(self, call: Call) -> object:
        """The key with a link, for users who may see keys."""
        kind, _colon, number = call.caller_id.partition(":")
        key = ApiKey.objects.filter(pk=number).first() if kind == "key" else None
        if key is None:
            return self.shown_key(call)
        return links.with_sub(links.to_key(key.pk, key.name), _start_of(call))

    # Calls without a duration are the shortest.
    @admin.display(description=gettext_lazy("Duration"), ordering=Coalesce("duration_ms", Value(-1)))
    def took(self, call: Call) -> SafeString:
        duration = links.NOTHING if call.duration_ms is None else f"{call.duration_ms:,} ms"
        return links.whole(duration)

    @admin.display(description=gettext_lazy("Error"))
    def shown_error(self, call: Call) -> SafeString:
        code = links.to_error(call.error_id, call.code) if call.error_id else call.code
        # Set by `complete_rows`: of lists only.
        return format_html("{}{}", links.with_sub(code, call.error), links.sub(getattr(call, "cause", "")))

    plain_error = Column[Call](gettext_lazy("Error"), lambda call: links.with_sub(call.code, call.error))
    error_log = Column[Call](gettext_lazy("Error event"), lambda call: links.to_error(call.error_id))
    through = Column[Call](gettext_lazy("Connection"), lambda call: call.connection or links.NOTHING)

    @admin.display(description=gettext_lazy("Process"))
    def process(self, call: Call) -> SafeString:
        process = Process.objects.filter(pk=call.process_id).first() if call.process_id else None
        if process is None:
            return format_html("{}", call.process_id or links.NOTHING)
        return links.to_process(process)

    shown_hash = Column[Call](gettext_lazy("Result hash"), lambda call: call.result_hash or links.NOTHING)


def _start_of(call: Call) -> str:
    """The prefix of the key that was sent: the only part that may be shown."""
    return f"{secrets.BRAND}_{call.key_prefix}_…" if call.key_prefix else ""


def _approval(call: Call) -> Approval | None:
    """The approval of the call, if it required one."""
    approvals = Approval.objects.exclude(call_id="").filter(call_id=call.pk)
    return approvals.only("pk", "decided_by", "decided_at").first()


def steps(call: Call) -> list[Step]:
    """The events of a call in order."""
    door, caller = call.get_door_display(), call.caller_name or call.address or _("unknown caller")
    steps = [Step(_("Received"), "0 ms", _("from %(caller)s via %(door)s") % {"caller": caller, "door": door})]
    if call.queued_ms is not None:
        steps.append(Step(_("Run"), f"{call.queued_ms:,} ms", _("after validation and queueing")))
    elif call.answered_by:
        steps.append(Step(_("Not run"), "", _("answered from an earlier result")))
    elif call.status == Call.Status.REFUSED:
        steps.append(Step(_("Not run"), "", call.error))
    if call.attempts > 1:
        again = ngettext(
            "retried after a failure, %(times)s time", "retried after failures, %(times)s times", call.attempts - 1
        )
        steps.append(Step(_("Retried"), "", again % {"times": f"{call.attempts - 1:,}"}))
    if call.upstream_ms is not None:
        waiting_for = _("of which waiting for %(connection)s") % {"connection": call.connection or _("the upstream")}
        steps.append(Step(_("Upstream"), f"{call.upstream_ms:,} ms", waiting_for))
    if call.finished_at is None:
        steps.append(Step(_("Running"), "", _("not finished, or its end was not recorded")))
    elif call.duration_ms is None:
        steps.append(Step(_("Interrupted"), "", call.error))
    else:
        steps.append(Step(_("Responded"), f"{call.duration_ms:,} ms", links.exact(call.finished_at)))
    return steps


def spans(call: Call) -> list[TimelineSpan]:
    """The parts of a call's duration; empty if unknown."""
    if not call.duration_ms or call.queued_ms is None:
        return []
    total_ms = call.duration_ms
    queued_ms = min(call.queued_ms, total_ms)
    upstream_ms = min(call.upstream_ms or 0, total_ms - queued_ms)
    spans, x = [], 0
    lengths = (
        (_("Validation and queueing"), "quiet", queued_ms),
        (_("Upstream"), "plain", upstream_ms),
        (_("Tool and hub"), "good", total_ms - queued_ms - upstream_ms),
    )
    for title, tone, length in lengths:
        width = round(PARTS * length / total_ms)
        if width:
            spans.append(TimelineSpan(f"{title}: {length:,} ms", tone, x, width))
        x += width
    return spans
