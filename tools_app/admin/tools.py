"""The tools: a list with a switch in every row, and a page for each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_POST

from tools_app import governance, sources
from tools_app.admin import charts, console, links, states, tool_page
from tools_app.admin.filters import EffectFilter, StateFilter
from tools_app.admin.governed import FailuresTold, actor
from tools_app.admin.many_tools import OFF, Change, ManyTools, asks_first
from tools_app.admin.states import State
from tools_app.admin.tool_list import PAGE, SLOWEST_PERCENT, ToolList, ToolRow, back, carried, newest_call
from tools_app.catalog import catalog, listed
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import insights
from tools_app.models import Tag, ToolRecord
from tools_app.models.figures import DURATIONS
from tools_app.sdk.names import folded

MOST_PROBLEMS: Final = 20


@admin.register(ToolRecord)
class ToolAdmin(ManyTools):
    change_list_template = "admin/tools_app/toolrecord/change_list.html"
    list_display = (
        "switch",
        "tool",
        "shown_state",
        "shown_pack",
        "shown_category",
        "shown_calls",
        "shown_errors",
        "shown_p95",
        "shown_tokens",
        "shown_last_call",
    )
    list_display_links = None
    list_filter = (StateFilter, "pack", "category", ("tags", admin.RelatedOnlyFieldListFilter), EffectFilter)
    list_per_page = 100
    list_max_show_all = 500
    # As callers look for tools: all the words, anywhere.
    search_fields = ("name", "title", "description", "category", "tags__name")
    search_help_text = _lazy("Name, title, description, category or tag")
    ordering = ("name",)
    fields = (
        "timeout_ms",
        ("retries", "retry_delay_ms"),
        ("rate_calls", "rate_seconds"),
        ("cache_seconds", "answer_tokens"),
        "ask",
    )
    nothing_yet = (
        _lazy("No tools yet"),
        _lazy("Start the hub or run `toolhub synctools` to register tools."),
    )

    # ------------------------------------------------------------------------------------------------ the list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolList]:
        return ToolList

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Figures only of what the user may see."""
        hidden = set()
        if not request.user.has_perm("tools_app.view_call"):
            hidden |= {"shown_calls", "shown_p95", "shown_last_call"}
        if not request.user.has_perm("tools_app.view_errorlog"):
            hidden.add("shown_errors")
        return tuple(column for column in self.list_display if column not in hidden)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolRecord]:
        records = super().get_queryset(request).prefetch_related("tags")
        return records.annotate(last_call=newest_call(), destructive=F(states.DESTRUCTIVE))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        snapshot = catalog.current()
        chosen = request.GET.get(StateFilter.parameter_name)
        rest = {key: value for key, value in request.GET.items() if key not in {StateFilter.parameter_name, "p"}}
        tabs = [
            {
                "name": capfirst(str(states.WORDS[State(state)])) if state else _("All"),
                "count": count,
                "address": "?" + urlencode(rest | ({"state": state} if state else {})),
                "selected": (chosen or "") == state,
            }
            for state, count in _tabs(snapshot).items()
        ]
        costs = listed.costs(snapshot)
        # Those that find others are never listed beside all others.
        told = [entry.name for entry in snapshot.callable if not entry.is_finder]
        context = {
            "state_tabs": tabs,
            "listed_tools": len(told),
            "listed_tokens": sum(costs.get(name, 0) for name in told),
            "load_problems": sources.loaded().problems[:MOST_PROBLEMS],
        }
        return super().changelist_view(request, {**(extra_context or {}), **context})

    @admin.display(description=_lazy("Switch"), ordering="enabled")
    def switch(self, row: ToolRow) -> SafeString:
        if row.condition.state is State.GONE:
            return format_html("{}", links.NOTHING)
        if not row.may_switch:
            return format_html('<span class="hub-quiet">{}</span>', _("on") if row.enabled else _("off"))
        return render_to_string("admin/tools_app/toolrecord/switch.html", {"tool": row, "address": row.switch_address})

    @admin.display(description=_lazy("Tool"), ordering="name")
    def tool(self, row: ToolRow) -> SafeString:
        address = links.address("toolrecord", "change", row.pk)
        old = format_html(' <span title="{}">{}</span>', row.deprecated, links.mark("warn", _("deprecated")))
        shown = format_html('<a class="hub-name" href="{}">{}</a>{}', address, row.name, old if row.deprecated else "")
        return format_html("{}{}", shown, links.sub(row.title))

    @admin.display(description=_lazy("State"))
    def shown_state(self, row: ToolRow) -> SafeString:
        condition = row.condition
        said = links.mark(condition.tone, condition.words)
        return format_html('<span title="{}">{}{}</span>', condition.next_step, said, links.sub(condition.reason))

    @admin.display(description=_lazy("Source"), ordering="pack")
    def shown_pack(self, row: ToolRow) -> SafeString:
        effect = str(states.EFFECTS[row.effect])
        return format_html("{}{}", row.pack, links.sub(f"{row.version} · {effect}" if row.version else effect))

    @admin.display(description=_lazy("Category, tags"), ordering="category")
    def shown_category(self, row: ToolRow) -> SafeString:
        tags: Iterable[Tag] = row.tags.all()
        named = format_html_join(
            ", ", '<a class="hub-tag-link" href="?tags__id__exact={}">{}</a>', ((tag.pk, tag.name) for tag in tags)
        )
        return format_html('{}<span class="hub-tag-line">{}</span>', row.category, named)

    # What the list is sorted by for the figures is made by `ToolList`, when it is.

    @admin.display(description=_lazy("Calls (24 h)"), ordering="name")
    def shown_calls(self, row: ToolRow) -> SafeString:
        return _number(row.day.calls, links.address("call", "changelist", tool=row.name, since="24h"))

    @admin.display(description=_lazy("Errors (24 h)"), ordering="name")
    def shown_errors(self, row: ToolRow) -> SafeString:
        shown = _number(row.day.errors, row.errors_address, "hub-bad")
        return format_html("{}{}", shown, links.sub(charts.share(row.day))) if row.day.errors else shown

    @admin.display(description=_lazy("p95 (24 h)"), ordering="name")
    def shown_p95(self, row: ToolRow) -> SafeString:
        bound = insights.percentile([row.day], SLOWEST_PERCENT / 100)
        if bound is None:
            return format_html("{}", links.NOTHING)
        words = charts.length(DURATIONS[-1])
        said = f"> {words}" if math.isinf(bound) else f"≤ {charts.length(bound)}"
        return format_html(
            '<span class="hub-whole" title="{}">{}</span>', _("95 of 100 calls took at most this long"), said
        )

    @admin.display(description=_lazy("Tokens"), ordering="name")
    def shown_tokens(self, row: ToolRow) -> SafeString:
        if row.tokens is None:
            return format_html("{}", links.NOTHING)
        title = _("Approximate tokens this tool adds to a list")
        return format_html('<span class="hub-number" title="{}">{}</span>', title, f"{row.tokens:,}")

    @admin.display(description=_lazy("Last call"), ordering=F("last_call").desc(nulls_last=True))
    def shown_last_call(self, row: ToolRow) -> SafeString:
        return links.when(row.last_call)

    # -------------------------------------------------------------------------------------------------- switch

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:pk>/switch/", wrap(self.switch_view), name="tools_app_toolrecord_switch"),
            path("<int:pk>/try/", console.view(self), name="tools_app_toolrecord_try"),
            path("named/", wrap(self.named_view), name="tools_app_toolrecord_named"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    def switch_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Switch one tool to what the button said: pressing it on a page that is out of date does no harm."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        record = get_object_or_404(ToolRecord, pk=pk)
        wanted = request.POST.get("enabled")
        if wanted not in {"0", "1"}:
            return HttpResponseBadRequest("enabled must be 0 or 1")
        kept = carried(request)
        if wanted == "0" and asks_first([record.name]):
            return self.ask(request, Change(OFF, {record.pk: record.name}), kept)
        with FailuresTold(request):
            self._switch_one(request, record, enabled=wanted == "1")
        address = back(kept, [pk])
        return HttpResponseRedirect(address if PAGE in kept else f"{address}#switch-{pk}")

    def _switch_one(self, request: HttpRequest, record: ToolRecord, *, enabled: bool) -> None:
        changed = governance.set_enabled([record.name], enabled, actor=actor(request))
        record.enabled = enabled
        condition = states.condition(record, catalog.current())
        if not changed:
            level, said = messages.INFO, _("%(tool)s was already on.") if enabled else _("%(tool)s was already off.")
        elif not enabled:
            level, said = messages.SUCCESS, _("%(tool)s is off. Calls are refused from now on.")
        elif condition.state is State.ON:
            level, said = messages.SUCCESS, _("%(tool)s is on. Calls are accepted from now on.")
        else:
            level, said = messages.WARNING, _("%(tool)s is on, but not callable: %(reason)s.")
        self.message_user(request, said % {"tool": record.name, "reason": condition.reason or condition.words}, level)

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """From a name, as journals keep it, to the tool's page; or to the list, where there is no such tool."""
        name = request.GET.get("name", "").replace("\x00", "")
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        record = ToolRecord.objects.filter(folded_name=folded(name)).first()
        if record is not None:
            return HttpResponseRedirect(links.address("toolrecord", "change", record.pk))
        self.message_user(request, _("There is no tool named %(tool)s.") % {"tool": name}, messages.WARNING)
        return HttpResponseRedirect(links.address("toolrecord", "changelist"))

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        record = cast(ToolRecord, kwargs["obj"])
        if request.method == "POST":
            # The form was refused, and has left its values on the object: the page tells what is, not what was asked.
            record = self.get_queryset(request).get(pk=record.pk)
        for part, value in tool_page.inherited(record).items():
            if field := context["adminform"].form.fields.get(part):
                field.widget.attrs["placeholder"] = value
        context.update(
            tool_page.of(record, request),
            record=record,
            switch_address=links.address("toolrecord", "switch", record.pk, **{PAGE: 1}),
            may_switch=self.has_change_permission(request) and record.retired_at is None,
            try_address=console.address(record, request),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: ToolRecord, form: ModelForm[ToolRecord], change: bool) -> None:
        policy = {part: form.cleaned_data[part] for part in form.changed_data}
        ask = policy.pop("ask", None)
        governance.change_tool(obj.name, enabled=None, policy=policy, ask=ask, actor=actor(request))

    def response_change(self, request: HttpRequest, obj: ToolRecord) -> HttpResponse:
        self.message_user(
            request, _("%(name)s saved. Applies from the next call.") % {"name": obj.name}, messages.SUCCESS
        )
        return HttpResponseRedirect(request.get_full_path())


def _tabs(snapshot: Snapshot) -> dict[str, int]:
    counts = states.counts(snapshot)
    present = sum(counts.values())
    return {"": present} | {state: count for state, count in counts.items() if count or state is not State.GONE}


def _number(number: int, address: str, loud: str = "") -> SafeString:
    if not number:
        return format_html('<span class="hub-quiet">{}</span>', 0)
    return format_html('<a class="hub-number {}" href="{}">{}</a>', loud, address, f"{number:,}")
