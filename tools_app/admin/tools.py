"""The tools: a list with a switch in every row, and a page for each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import charts, console, hint_words, links, states, tool_page
from tools_app.admin.filters import CategoryFilter, EffectFilter, SourceFilter, StateFilter
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.lists import Column
from tools_app.admin.many_tools import OFF, BulkChange, ManyTools, asks_first
from tools_app.admin.states import State
from tools_app.admin.tool_list import PAGE, SLOWEST_PERCENT, ToolList, ToolRow, back, carried_query, newest_call
from tools_app.catalog import catalog, listed
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import insights
from tools_app.models import Source, Tag, ToolRecord
from tools_app.models.figures import DURATIONS
from tools_app.sdk.names import folded
from tools_app.sources import sync

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
    list_filter = (
        StateFilter,
        "pack",
        ("category", CategoryFilter),
        ("tags", admin.RelatedOnlyFieldListFilter),
        EffectFilter,
        SourceFilter,
    )
    posts: ClassVar = {"switch": "<int:pk>/switch/", "remove": "<int:pk>/remove/", "hints": "<int:pk>/hints/"}
    views: ClassVar = {**ManyTools.views, "named": "named/"}
    list_per_page = 100
    list_max_show_all = 500
    # As in the search of callers: all words, in any field.
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
        """Leave out figures that the user may not see."""
        hidden_columns = set()
        if not actions.CALLS_READ.permits(request.user):
            hidden_columns |= {"shown_calls", "shown_p95", "shown_last_call"}
        if not actions.ERROR_EVENTS_READ.permits(request.user):
            hidden_columns.add("shown_errors")
        return tuple(column for column in self.list_display if column not in hidden_columns)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolRecord]:
        records = super().get_queryset(request).select_related("source").prefetch_related("tags")
        return records.annotate(last_call=newest_call(), destructive=F(states.DESTRUCTIVE))

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        snapshot = catalog.current()
        state_filter = request.GET.get(StateFilter.parameter_name)
        base_query = {key: value for key, value in request.GET.items() if key not in {StateFilter.parameter_name, "p"}}
        tabs = [
            {
                "name": capfirst(str(states.WORDS[State(state)])) if state else _("All"),
                "count": count,
                "address": "?" + urlencode(base_query | ({"state": state} if state else {})),
                "selected": (state_filter or "") == state,
            }
            for state, count in _tabs(snapshot).items()
        ]
        costs = listed.costs(snapshot)
        # Finder tools are not listed together with all others.
        listed_names = [entry.name for entry in snapshot.callable if not entry.is_finder]
        return {
            "state_tabs": tabs,
            "listed_tools": len(listed_names),
            "listed_tokens": sum(costs.get(name, 0) for name in listed_names),
            "load_problems": sync.problems()[:MOST_PROBLEMS],
        }

    @admin.display(description=_lazy("Switch"), ordering="enabled")
    def switch(self, row: ToolRow) -> SafeString:
        if row.condition.state is State.GONE:
            return format_html("{}", links.NOTHING)
        return links.switch(row, row.switch_address, may_switch=row.may_switch)

    @admin.display(description=_lazy("Tool"), ordering="name")
    def tool(self, row: ToolRow) -> SafeString:
        name = links.named(links.address("toolrecord", "change", row.pk), row.name)
        old = format_html(' <span title="{}">{}</span>', row.deprecated, links.mark("warn", _("deprecated")))
        return links.with_sub(format_html("{}{}", name, old) if row.deprecated else name, row.title)

    @admin.display(description=_lazy("State"))
    def shown_state(self, row: ToolRow) -> SafeString:
        condition = row.condition
        state_mark = links.mark(condition.tone, condition.words)
        return format_html('<span title="{}">{}{}</span>', condition.next_step, state_mark, links.sub(condition.reason))

    @admin.display(description=_lazy("Source"), ordering="pack")
    def shown_pack(self, row: ToolRow) -> SafeString:
        effect = str(states.EFFECTS[row.effect])
        source = links.link(row.source_address, row.source_name) if row.source_address else row.source_name
        return links.with_sub(source, f"{row.version} · {effect}" if row.version else effect)

    @admin.display(description=_lazy("Category, tags"), ordering="category")
    def shown_category(self, row: ToolRow) -> SafeString:
        tags: Iterable[Tag] = row.tags.all()
        tag_links = format_html_join(
            ", ", '<a class="hub-tag-link" href="?tags__id__exact={}">{}</a>', ((tag.pk, tag.name) for tag in tags)
        )
        return format_html('{}<span class="hub-tag-line">{}</span>', row.category, tag_links)

    # `ToolList` computes the orders of these columns.

    shown_calls = Column[ToolRow](
        _lazy("Calls (24 h)"),
        lambda row: links.number(row.day.calls, links.address("call", "changelist", tool=row.name, since="24h")),
        "name",
    )

    @admin.display(description=_lazy("Errors (24 h)"), ordering="name")
    def shown_errors(self, row: ToolRow) -> SafeString:
        number = links.number(row.day.errors, row.errors_address, "hub-bad")
        return links.with_sub(number, charts.share_of(row.day) if row.day.errors else "")

    @admin.display(description=_lazy("p95 (24 h)"), ordering="name")
    def shown_p95(self, row: ToolRow) -> SafeString:
        bound = insights.percentile([row.day], SLOWEST_PERCENT / 100)
        if bound is None:
            return format_html("{}", links.NOTHING)
        words = charts.length(DURATIONS[-1])
        duration = f"> {words}" if math.isinf(bound) else f"≤ {charts.length(bound)}"
        return links.whole(duration, _("95 of 100 calls took at most this long"))

    @admin.display(description=_lazy("Tokens"), ordering="name")
    def shown_tokens(self, row: ToolRow) -> SafeString:
        if row.tokens is None:
            return format_html("{}", links.NOTHING)
        title = _("Approximate tokens this tool adds to a list")
        return links.figure(row.tokens, title)

    shown_last_call = Column[ToolRow](
        _lazy("Last call"), lambda row: links.when(row.last_call), F("last_call").desc(nulls_last=True)
    )

    # -------------------------------------------------------------------------------------------------- switch

    def get_urls(self) -> list[URLPattern]:
        return [path("<int:pk>/try/", console.view(self), name="tools_app_toolrecord_try"), *super().get_urls()]

    def switch_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Switch one tool. The form names the new state, so a stale page does no harm."""
        require(request, actions.TOOL_CHANGE)
        record = get_object_or_404(ToolRecord, pk=pk)
        enabled_value = request.POST.get("enabled")
        if enabled_value not in {"0", "1"}:
            return HttpResponseBadRequest("enabled must be 0 or 1")
        return_query = carried_query(request)
        if enabled_value == "0" and asks_first([record.name]):
            return self.ask(request, BulkChange(OFF, {record.pk: record.name}), return_query)
        with FailuresAsMessages(request):
            self._switch_one(request, record, enabled=enabled_value == "1")
        address = back(return_query, [pk])
        return HttpResponseRedirect(address if PAGE in return_query else f"{address}#switch-{pk}")

    def _switch_one(self, request: HttpRequest, record: ToolRecord, *, enabled: bool) -> None:
        changed = governance.set_enabled([record.name], enabled, actor=actor(request))
        record.enabled = enabled
        condition = states.condition(record, catalog.current())
        if not changed:
            level, text = messages.INFO, _("%(tool)s was already on.") if enabled else _("%(tool)s was already off.")
        elif not enabled:
            level, text = messages.SUCCESS, _("%(tool)s is off. Calls are refused from now on.")
        elif condition.state is State.ON:
            level, text = messages.SUCCESS, _("%(tool)s is on. Calls are accepted from now on.")
        else:
            level, text = messages.WARNING, _("%(tool)s is on, but not callable: %(reason)s.")
        self.message_user(request, text % {"tool": record.name, "reason": condition.reason or condition.words}, level)

    def hints_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Set what the hub assumes of a tool, in place of what its source claims."""
        require(request, actions.TOOL_HINTS)
        record = get_object_or_404(ToolRecord, pk=pk, source__kind__in=Source.OUTSIDE)
        decisions = {name: request.POST.get(name, "") for name in hint_words.WORDS}
        if not hint_words.VALUES.keys() >= set(decisions.values()):
            return HttpResponseBadRequest("every hint must be yes, no or empty")
        with FailuresAsMessages(request):
            changed = governance.set_hints(
                record.name,
                **{name: hint_words.VALUES[decision] for name, decision in decisions.items()},
                actor=actor(request),
                reason=posted(request, "reason"),
            )
            text = (
                _("The hints of %(tool)s are saved. They apply from the next call.")
                if changed
                else _("Nothing changed.")
            )
            self.message_user(request, text % {"tool": record.name}, messages.SUCCESS if changed else messages.INFO)
        return HttpResponseRedirect(f"{links.address('toolrecord', 'change', pk)}#hints")

    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask, and delete a retired tool when the answer is sent."""
        require(request, actions.TOOL_DELETE)
        record = get_object_or_404(ToolRecord, pk=pk)
        address = links.address("toolrecord", "change", pk)
        if "confirmed" not in request.POST and record.retired_at is not None:
            return self.page(
                request,
                "confirm.html",
                _("Delete %(tool)s") % {"tool": record.name},
                text=_(
                    "Its definitions, tags and policy are deleted, and it is removed from toolsets that name it. "
                    "Another tool can use its name then. Its calls stay in the journal. This cannot be undone."
                ),
                address=links.address("toolrecord", "remove", pk),
                button=_("Delete"),
                cancel_address=address,
            )
        reason = posted(request, "reason")
        with FailuresAsMessages(request):
            governance.delete_tool(record.name, actor=actor(request), reason=reason)
            self.message_user(request, _("%(name)s is deleted.") % {"name": record.name}, messages.SUCCESS)
            return HttpResponseRedirect(links.address("toolrecord", "changelist"))
        return HttpResponseRedirect(address)

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """Redirect from a recorded name to the tool's page, or to the list if there is no such tool."""
        name = request.GET.get("name", "").replace("\x00", "")
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        record = ToolRecord.objects.filter(folded_name=folded(name)).first()
        if record is not None:
            return HttpResponseRedirect(links.address("toolrecord", "change", record.pk))
        self.message_user(request, _("There is no tool named %(tool)s.") % {"tool": name}, messages.WARNING)
        return HttpResponseRedirect(links.address("toolrecord", "changelist"))

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], record: ToolRecord) -> None:
        if request.method == "POST":
            # A rejected form has changed the object; show the stored values.
            record = self.get_queryset(request).get(pk=record.pk)
        for part, value in tool_page.inherited_policy(record).items():
            if field := context["adminform"].form.fields.get(part):
                field.widget.attrs["placeholder"] = value
        context.update(
            tool_page.of(record, request),
            record=record,
            switch_address=links.address("toolrecord", "switch", record.pk, **{PAGE: 1}),
            may_switch=self.has_change_permission(request) and record.retired_at is None,
            may_set_hints=actions.TOOL_HINTS.permits(request.user) and record.retired_at is None,
            try_address=console.address(record, request),
        )

    def save_model(self, request: HttpRequest, obj: ToolRecord, form: ModelForm[ToolRecord], change: bool) -> None:
        policy = {part: form.cleaned_data[part] for part in form.changed_data}
        ask = policy.pop("ask", None)
        governance.change_tool(obj.name, enabled=None, policy=policy, ask=ask, actor=actor(request))


def _tabs(snapshot: Snapshot) -> dict[str, int]:
    counts = states.counts(snapshot)
    present = sum(counts.values())
    return {"": present} | {state: count for state, count in counts.items() if count or state is not State.GONE}
