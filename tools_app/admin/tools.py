"""The tools: a list with a switch in every row, and a page for each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Protocol, cast
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from tools_app import catalog, governance, insights
from tools_app.admin import links, states, tool_page
from tools_app.admin.filters import EffectFilter, StateFilter
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.lists import RecordList
from tools_app.admin.states import Condition, State
from tools_app.models import Call, Tag, ToolRecord
from tools_app.tool import folded

PRESERVED: Final = "_changelist_filters"


class Row(Protocol):
    """A record with what the list shows beside it; filled in for one page at a time."""

    pk: int
    name: str
    title: str
    category: str
    pack: str
    version: str
    enabled: bool
    tags: Any
    day_calls: int
    day_errors: int
    last_call: datetime | None
    condition: Condition
    switch_address: str
    may_switch: bool
    errors_address: str


class ToolList(RecordList):
    """Gives every row its state and its switch: asked once for the page, not once a row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        snapshot = catalog.current()
        may_switch = self.model_admin.has_change_permission(request)
        sees_calls = request.user.has_perm("tools_app.view_call")
        query = request.GET.urlencode()
        kept = f"?{urlencode({PRESERVED: query})}" if query else ""
        for record in self.result_list:
            row = cast(Row, record)
            row.condition = states.condition(record, snapshot)
            row.switch_address = links.address("toolrecord", "switch", record.pk) + kept
            row.may_switch = may_switch
            row.errors_address = links.errors_since("24h", calls=sees_calls, tool=record.name)


@admin.register(ToolRecord)
class ToolAdmin(GovernedAdmin[ToolRecord]):
    change_list_template = "admin/tools_app/toolrecord/change_list.html"
    list_display = (
        "switch",
        "tool",
        "shown_state",
        "shown_pack",
        "shown_category",
        "shown_calls",
        "shown_errors",
        "shown_last_call",
    )
    list_display_links = None
    list_filter = (StateFilter, "pack", "category", ("tags", admin.RelatedOnlyFieldListFilter), EffectFilter)
    list_per_page = 100
    list_max_show_all = 500
    search_fields = ("name", "title", "description", "tags__name")
    search_help_text = "Name, title, description or tag"
    ordering = ("name",)
    actions = ("switch_on", "switch_off")
    fields = (
        "timeout_ms",
        ("retries", "retry_delay_ms"),
        ("rate_calls", "rate_seconds"),
        ("cache_seconds", "answer_tokens"),
    )
    nothing_yet = ("No tool yet", "Start the hub, or run `toolhub synctools`: it writes down the tools that it finds.")

    # ------------------------------------------------------------------------------------------------ the list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolList]:
        return ToolList

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Figures only of what the user may see."""
        hidden = set()
        if not request.user.has_perm("tools_app.view_call"):
            hidden |= {"shown_calls", "shown_last_call"}
        if not request.user.has_perm("tools_app.view_errorlog"):
            hidden.add("shown_errors")
        return tuple(column for column in self.list_display if column not in hidden)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolRecord]:
        """With each tool's figures of the last day."""
        since, _ = insights.last_day(timezone.now())
        name = OuterRef("name")
        newest = Call.objects.filter(tool_name=name).order_by("-started_at")
        return (
            super()
            .get_queryset(request)
            .select_related("definition")
            .prefetch_related("tags")
            .annotate(
                day_calls=insights.calls_of(name, since),
                day_errors=insights.calls_of(name, since, insights.ERRORS),
                last_call=Subquery(newest.values("started_at")[:1]),
            )
        )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        chosen = request.GET.get(StateFilter.parameter_name)
        rest = {key: value for key, value in request.GET.items() if key not in {StateFilter.parameter_name, "p"}}
        tabs = [
            {
                "name": state.capitalize() if state else "All",
                "count": count,
                "address": "?" + urlencode(rest | ({"state": state} if state else {})),
                "selected": (chosen or "") == state,
            }
            for state, count in _tabs().items()
        ]
        return super().changelist_view(request, {**(extra_context or {}), "state_tabs": tabs})

    @admin.display(description="Switch", ordering="enabled")
    def switch(self, row: Row) -> SafeString:
        if row.condition.state is State.GONE:
            return format_html("{}", links.NOTHING)
        if not row.may_switch:
            return format_html('<span class="hub-quiet">{}</span>', "on" if row.enabled else "off")
        return render_to_string("admin/tools_app/toolrecord/switch.html", {"tool": row, "address": row.switch_address})

    @admin.display(description="Tool", ordering="name")
    def tool(self, row: Row) -> SafeString:
        address = links.address("toolrecord", "change", row.pk)
        return format_html('<a class="hub-name" href="{}">{}</a>{}', address, row.name, links.sub(row.title))

    @admin.display(description="State")
    def shown_state(self, row: Row) -> SafeString:
        condition = row.condition
        said = links.mark(condition.tone, condition.state)
        return format_html('<span title="{}">{}{}</span>', condition.next_step, said, links.sub(condition.reason))

    @admin.display(description="Pack, version", ordering="pack")
    def shown_pack(self, row: Row) -> SafeString:
        return format_html("{}{}", row.pack, links.sub(row.version))

    @admin.display(description="Category, tags", ordering="category")
    def shown_category(self, row: Row) -> SafeString:
        tags: Iterable[Tag] = row.tags.all()
        named = format_html_join(
            " ", '<a class="hub-tag" href="?tags__id__exact={}">{}</a>', ((tag.pk, tag.name) for tag in tags)
        )
        return format_html('{}<span class="hub-tags">{}</span>', row.category, named)

    @admin.display(description="Calls 24 h", ordering=F("day_calls").desc())
    def shown_calls(self, row: Row) -> SafeString:
        return _number(row.day_calls, links.address("call", "changelist", tool=row.name, since="24h"))

    @admin.display(description="Errors 24 h", ordering=F("day_errors").desc())
    def shown_errors(self, row: Row) -> SafeString:
        return _number(row.day_errors, row.errors_address, "hub-bad")

    @admin.display(description="Last call", ordering=F("last_call").desc(nulls_last=True))
    def shown_last_call(self, row: Row) -> SafeString:
        return links.when(row.last_call)

    # ------------------------------------------------------------------------------------------------- actions

    @admin.action(description="Switch on", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> None:
        self._switch_all(request, queryset, enabled=True)

    @admin.action(description="Switch off", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> None:
        self._switch_all(request, queryset, enabled=False)

    def _switch_all(self, request: HttpRequest, queryset: QuerySet[ToolRecord], *, enabled: bool) -> None:
        names = list(queryset.order_by("name").values_list("name", flat=True))
        state = "on" if enabled else "off"
        with FailuresTold(request):
            changed = governance.set_enabled(names, enabled, actor=actor(request))
            already = len(names) - len(changed)
            said = f"{_tools(len(changed))} switched {state}." if changed else "Nothing changed."
            if already:
                said += f" {_tools(already)} {'was' if already == 1 else 'were'} {state} already."
            self.message_user(request, said, messages.SUCCESS if changed else messages.INFO)

    # -------------------------------------------------------------------------------------------------- switch

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:pk>/switch/", wrap(self.switch_view), name="tools_app_toolrecord_switch"),
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
        with FailuresTold(request):
            self._switch_one(request, record, enabled=wanted == "1")
        if "page" in request.GET:
            return HttpResponseRedirect(links.address("toolrecord", "change", pk))
        query = request.GET.get(PRESERVED, "")
        address = links.address("toolrecord", "changelist")
        return HttpResponseRedirect(f"{address}{'?' if query else ''}{query}#switch-{pk}")

    def _switch_one(self, request: HttpRequest, record: ToolRecord, *, enabled: bool) -> None:
        state = "on" if enabled else "off"
        if not governance.set_enabled([record.name], enabled, actor=actor(request)):
            self.message_user(request, f"{record.name} was {state} already.", messages.INFO)
        elif not enabled:
            self.message_user(request, f"{record.name} is now off; the next call is refused.", messages.SUCCESS)
        else:
            record.enabled = True
            condition = states.condition(record, catalog.current())
            if condition.state is State.ON:
                self.message_user(request, f"{record.name} is now on; the next call is let through.", messages.SUCCESS)
            else:
                said = f"{record.name} is now on, but cannot be called: {condition.reason or condition.state}."
                self.message_user(request, said, messages.WARNING)

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """From a name, as journals keep it, to the tool's page; or to the list, where there is no such tool."""
        name = request.GET.get("name", "").replace("\x00", "")
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        record = ToolRecord.objects.filter(folded_name=folded(name)).first()
        if record is not None:
            return HttpResponseRedirect(links.address("toolrecord", "change", record.pk))
        self.message_user(request, f"There is no tool named {name}.", messages.WARNING)
        return HttpResponseRedirect(links.address("toolrecord", "changelist"))

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        record = cast(ToolRecord, kwargs["obj"])
        if request.method == "POST":
            # The form was refused, and has left its values on the object: the page tells what is, not what was asked.
            record = self.get_queryset(request).get(pk=record.pk)
        context.update(
            tool_page.of(record, request),
            record=record,
            switch_address=links.address("toolrecord", "switch", record.pk, page=1),
            may_switch=self.has_change_permission(request) and record.retired_at is None,
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: ToolRecord, form: ModelForm[ToolRecord], change: bool) -> None:
        policy = {part: form.cleaned_data[part] for part in form.changed_data}
        governance.set_policy(obj.name, policy, actor=actor(request))

    def response_change(self, request: HttpRequest, obj: ToolRecord) -> HttpResponse:
        self.message_user(request, f"{obj.name}: saved; it holds from the next call.", messages.SUCCESS)
        return HttpResponseRedirect(request.get_full_path())


def _tabs() -> dict[str, int]:
    counts = states.counts(catalog.current())
    present = sum(counts.values())
    return {"": present} | {state: count for state, count in counts.items() if count or state is not State.GONE}


def _number(number: int, address: str, loud: str = "") -> SafeString:
    if not number:
        return format_html('<span class="hub-quiet">{}</span>', 0)
    return format_html('<a class="hub-number {}" href="{}">{}</a>', loud, address, f"{number:,}")


def _tools(number: int) -> str:
    return f"{number} tool" if number == 1 else f"{number} tools"
