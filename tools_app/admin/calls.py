"""The calls: what was asked of which tool, by whom, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app.admin import console, links
from tools_app.admin.exports import Columns
from tools_app.admin.filters import CodeFilter, ConnectionFilter, StartedFilter, StatusFilter, ToolFilter
from tools_app.admin.journal import IDENTIFIER, JournalAdmin, may_read_payload, tool_names
from tools_app.admin.narrowing import CallerFilter, SlowFilter, between
from tools_app.base import secrets
from tools_app.models import ApiKey, Approval, Call, ErrorLog, Process

FromFilter, UntilFilter = between("started_at")
# Resolution of the timeline bar.
PARTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to a call: when, counted from its beginning."""

    title: str
    after: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time that a call took, as it is drawn."""

    title: str
    tone: str
    x: int
    width: int


@admin.register(Call)
class CallAdmin(JournalAdmin[Call]):
    change_form_template = "admin/tools_app/call/change_form.html"
    list_display = ("started", "tool", "shown_status", "listed_caller", "door", "took", "shown_error")
    nothing_yet = (
        gettext_lazy("No calls yet"),
        gettext_lazy("Every tool call is recorded here, with its caller and outcome."),
    )
    first_steps = True
    list_display_links = None
    list_filter = (
        StatusFilter, CodeFilter, "door", StartedFilter, FromFilter, UntilFilter, SlowFilter, CallerFilter, ToolFilter,
        ConnectionFilter,
    )  # fmt: skip
    search_fields = ("tool_name",)
    search_help_text = gettext_lazy("Tool, call id or error id")
    fieldsets = (
        (None, {"fields": ("id", "tool", "whole_status", "shown_code", "error", "error_log")}),
        (gettext_lazy("Caller"), {"fields": ("shown_caller", "door", "through", "process")}),
        (gettext_lazy("Size"), {"fields": ("attempts", "argument_bytes", "result_bytes", "shown_hash")}),
        (gettext_lazy("Tool version at call time"), {"fields": ("tool_version", "definition_hash")}),
    )
    readonly_fields = (
        "tool", "whole_status", "shown_code", "error_log", "shown_caller", "through", "process", "shown_hash",
        "shown_key", "linked_key",
    )  # fmt: skip
    exported_by = "started_at"
    exported: Columns = {
        "id": "id",
        "started": "started_at",
        "finished": "finished_at",
        "durationMs": "duration_ms",
        "queuedMs": "queued_ms",
        "upstreamMs": "upstream_ms",
        "tool": "tool_name",
        "toolVersion": "tool_version",
        "status": "status",
        "code": "code",
        "error": "error",
        "errorId": "error_id",
        "callerKind": "caller_kind",
        "callerId": "caller_id",
        "caller": "caller_name",
        "address": "address",
        "client": "client",
        "keyPrefix": "key_prefix",
        "door": "door",
        "connection": "connection",
        "attempts": "attempts",
        "answeredBy": "answered_by",
        "count": "count",
        "argumentBytes": "argument_bytes",
        "resultBytes": "result_bytes",
    }
    exported_payloads: Columns = {"arguments": "arguments", "result": "result"}

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        linked = request.user.has_perm("tools_app.view_errorlog")
        last = "shown_error" if linked else "plain_error"
        return (*self.list_display[:-1], last)

    def get_fieldsets(self, request: HttpRequest, obj: Call | None = None) -> Any:
        (_nothing, about), (who, whose), *others = self.fieldsets
        if not request.user.has_perm("tools_app.view_errorlog"):
            about = {"fields": [name for name in about["fields"] if name != "error_log"]}
        if obj is not None and (obj.address or obj.key_prefix):
            key = "linked_key" if request.user.has_perm("tools_app.view_apikey") else "shown_key"
            whose = {"fields": ("shown_caller", "address", "client", key, "door")}
        return [(None, about), (who, whose), *others]

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

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        call: Call = kwargs["obj"]
        kept = bool(call.arguments or call.result)
        context.update(
            call=call,
            begun=links.in_full(call.started_at),
            approval=_approval(call) if request.user.has_perm("tools_app.view_approval") else None,
            steps=steps(call),
            spans=spans(call),
            parts=PARTS,
            again_address=console.again_address(call, request),
            payload_kept=kept,
            payload_shown=kept and may_read_payload(request, call.pk),
            may_read=request.user.has_perm("tools_app.view_payload"),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Started"))
    def started(self, call: Call) -> SafeString:
        shown = links.to_call(call.pk, links.stamp(call.started_at))
        return format_html('<span class="hub-whole" title="{}">{}</span>', links.ago(call.started_at), shown)

    @admin.display(description=gettext_lazy("Tool"))
    def tool(self, call: Call) -> SafeString:
        return links.to_tool(call.tool_name, call.code)

    @admin.display(description=gettext_lazy("Status"))
    def shown_status(self, call: Call) -> SafeString:
        return links.status(call)

    @admin.display(description=gettext_lazy("Status"))
    def whole_status(self, call: Call) -> SafeString:
        many = _("Identical refusals within a minute are combined.") if call.count > 1 else ""
        return format_html('{}<span class="hub-line hub-quiet">{}</span>', links.status(call), many)

    @admin.display(description=gettext_lazy("Code"))
    def shown_code(self, call: Call) -> str:
        return call.code or links.NOTHING

    @admin.display(description=gettext_lazy("Caller"))
    def shown_caller(self, call: Call) -> SafeString:
        return links.to_calls_of(call.caller_id, call.caller_name, call.caller_kind)

    @admin.display(description=gettext_lazy("Caller"))
    def listed_caller(self, call: Call) -> SafeString:
        known = self.shown_caller(call)
        return format_html("{}{}", known, links.sub(" · ".join(filter(None, (call.address, _start_of(call))))))

    @admin.display(description=gettext_lazy("Key"))
    def shown_key(self, call: Call) -> SafeString:
        return format_html("{}", _start_of(call) or _("none, or not a key of this hub"))

    @admin.display(description=gettext_lazy("Key"))
    def linked_key(self, call: Call) -> SafeString:
        """With the key that it is, or was: for those who may see keys."""
        kind, _colon, number = call.caller_id.partition(":")
        key = ApiKey.objects.filter(pk=number).first() if kind == "key" else None
        if key is None:
            return self.shown_key(call)
        return format_html("{}{}", links.to_key(key.pk, key.name), links.sub(_start_of(call)))

    @admin.display(description=gettext_lazy("Duration"))
    def took(self, call: Call) -> SafeString:
        shown = links.NOTHING if call.duration_ms is None else f"{call.duration_ms:,} ms"
        return format_html('<span class="hub-whole">{}</span>', shown)

    @admin.display(description=gettext_lazy("Error"))
    def shown_error(self, call: Call) -> SafeString:
        code = links.to_error(call.error_id, call.code) if call.error_id else call.code
        return format_html("{}{}", code, links.sub(call.error))

    @admin.display(description=gettext_lazy("Error"))
    def plain_error(self, call: Call) -> SafeString:
        return format_html("{}{}", call.code, links.sub(call.error))

    @admin.display(description=gettext_lazy("Error event"))
    def error_log(self, call: Call) -> SafeString:
        return links.to_error(call.error_id)

    @admin.display(description=gettext_lazy("Connection"))
    def through(self, call: Call) -> str:
        return call.connection or links.NOTHING

    @admin.display(description=gettext_lazy("Process"))
    def process(self, call: Call) -> SafeString:
        running = Process.objects.filter(pk=call.process_id).first() if call.process_id else None
        if running is None:
            return format_html("{}", call.process_id or links.NOTHING)
        return links.to_process(running)

    @admin.display(description=gettext_lazy("Result hash"))
    def shown_hash(self, call: Call) -> str:
        return call.result_hash or links.NOTHING


def _start_of(call: Call) -> str:
    """The start of the key that was sent: all that anybody may know of it."""
    return f"{secrets.BRAND}_{call.key_prefix}_…" if call.key_prefix else ""


def _approval(call: Call) -> Approval | None:
    """The approval of the call, if it required one."""
    found = Approval.objects.exclude(call_id="").filter(call_id=call.pk)
    return found.only("pk", "decided_by", "decided_at").first()


def steps(call: Call) -> list[Step]:
    """What is known of a call, in the order in which it happened."""
    door, caller = call.get_door_display(), call.caller_name or call.address or _("unknown caller")
    found = [Step(_("Received"), "0 ms", _("from %(caller)s via %(door)s") % {"caller": caller, "door": door})]
    if call.queued_ms is not None:
        found.append(Step(_("Run"), f"{call.queued_ms:,} ms", _("after validation and queueing")))
    elif call.answered_by:
        found.append(Step(_("Not run"), "", _("answered from an earlier result")))
    elif call.status == Call.Status.REFUSED:
        found.append(Step(_("Not run"), "", call.error))
    if call.attempts > 1:
        again = ngettext(
            "retried after a failure, %(times)s time", "retried after failures, %(times)s times", call.attempts - 1
        )
        found.append(Step(_("Retried"), "", again % {"times": f"{call.attempts - 1:,}"}))
    if call.upstream_ms is not None:
        through = _("of which waiting for %(connection)s") % {"connection": call.connection or _("the upstream")}
        found.append(Step(_("Upstream"), f"{call.upstream_ms:,} ms", through))
    if call.finished_at is None:
        found.append(Step(_("Running"), "", _("not finished, or its end was not recorded")))
    elif call.duration_ms is None:
        found.append(Step(_("Interrupted"), "", call.error))
    else:
        found.append(Step(_("Responded"), f"{call.duration_ms:,} ms", links.exact(call.finished_at)))
    return found


def spans(call: Call) -> list[Span]:
    """How the time of a call divides up; nothing where that is not known."""
    if not call.duration_ms or call.queued_ms is None:
        return []
    whole = call.duration_ms
    waited = min(call.queued_ms, whole)
    upstream = min(call.upstream_ms or 0, whole - waited)
    found, x = [], 0
    lengths = (
        (_("Validation and queueing"), "quiet", waited),
        (_("Upstream"), "plain", upstream),
        (_("Tool and hub"), "good", whole - waited - upstream),
    )
    for title, tone, length in lengths:
        width = round(PARTS * length / whole)
        if width:
            found.append(Span(f"{title}: {length:,} ms", tone, x, width))
        x += width
    return found
