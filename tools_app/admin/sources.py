"""Sources: where tools come from, their state, and what operators decide about all tools of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Protocol, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Field, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, links, source_admissions, source_page, source_tools
from tools_app.admin.filters import SourceStateFilter
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.lists import Column
from tools_app.admin.source_admissions import SourceAdmissions
from tools_app.admin.source_documents import DocumentImports
from tools_app.admin.source_imports import SourceImports
from tools_app.admin.source_tools import SourceTools
from tools_app.admin.tool_list import FILTERS, PAGE, carried_query, list_query
from tools_app.catalog import source_states
from tools_app.models import AuditEntry, Source, ToolRecord
from tools_app.models.tools import POLICY
from tools_app.sdk.spec import Kind
from tools_app.sources.recording import SyncReport

MOST_SHOWN: Final = 10
MOST_TOOLS: Final = 100
MOST_PROBLEMS: Final = 20


class SourceRow(Protocol):
    """A source with what the list shows beside it."""

    pk: int
    name: str
    enabled: bool
    tool_count: int
    on_count: int
    waiting: int
    tokens: int
    refusal: str
    may_switch: bool
    switch_address: str


@admin.register(Source)
class SourceAdmin(SourceAdmissions, SourceImports, DocumentImports, SourceTools):
    change_list_template = "admin/tools_app/source/change_list.html"
    list_display = (
        *("switch", "shown_name", "shown_state", "kind", "shown_tools", "shown_waiting", "shown_tokens"),
        *("shown_trust", "described"),
    )
    list_display_links = None
    follows = "sources"
    list_filter = (SourceStateFilter, "kind")
    list_select_related = ("status",)
    search_fields = ("name", "location")
    search_help_text = _lazy("Name or location")
    ordering = ("name",)
    posts: ClassVar = {
        **SourceAdmissions.posts,
        **SourceTools.posts,
        "switch": "<int:pk>/switch/",
        "describe": "<int:pk>/describe/",
    }
    views: ClassVar = {
        **SourceAdmissions.views,
        **SourceImports.views,
        **DocumentImports.views,
        "named": "named/",
    }
    fields = (
        "trust",
        "timeout_ms",
        ("retries", "retry_delay_ms"),
        ("rate_calls", "rate_seconds"),
        ("cache_seconds", "answer_tokens"),
    )
    nothing_yet = (
        _lazy("No sources yet"),
        _lazy("Start the hub or run `toolhub synctools` to record its sources and their tools."),
    )

    def complete_rows(self, request: HttpRequest, rows: Iterable[SourceRow]) -> None:
        waiting, tokens = source_page.waiting_counts(), source_page.token_costs()
        refusals = source_page.refusals()
        for row in rows:
            row.refusal = refusals.get(row.name, "")
            row.waiting, row.tokens = waiting.get(row.pk, 0), tokens.get(row.name, 0)
            row.may_switch = self.has_change_permission(request)
            row.switch_address = links.address("source", "switch", row.pk, **list_query(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Source]:
        present = Q(tools__kind=Kind.TOOL, tools__retired_at=None)
        sources = super().get_queryset(request).filter(removed_at=None)
        return sources.annotate(
            tool_count=Count("tools", filter=present), on_count=Count("tools", filter=present & Q(tools__enabled=True))
        )

    def formfield_for_choice_field(
        self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> forms.TypedChoiceField | None:
        if db_field.name == "trust":
            kwargs["help_text"] = _(
                "Which versions of tools are approved without an operator. Applies to versions that are recorded from "
                "now on; versions that wait are not decided by this. Automatic approval includes them when the source "
                "is described the next time, except those that were rejected."
            )
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    # ---------------------------------------------------------------------------------------------------- list

    switch = Column[SourceRow](
        _lazy("Switch"), lambda row: links.switch(row, row.switch_address, may_switch=row.may_switch), "enabled"
    )
    shown_name = Column[Source](
        _lazy("Source"),
        lambda source: links.named(
            links.address("source", "change", source.pk), source.name, source.location or " ".join(source.command)
        ),
        "name",
    )
    shown_state = Column[Source](
        _lazy("State"),
        lambda source: links.with_sub(
            links.with_sub(source_page.mark(source), source_page.timing(source)), source_states.status_of(source).error
        ),
    )
    shown_trust = Column[Source](
        _lazy("Trust"),
        lambda source: links.with_sub(source_page.trust(source), "" if source.trust else _("default")),
        "trust",
    )

    @admin.display(description=_lazy("Tools on"), ordering="tool_count")
    def shown_tools(self, row: SourceRow) -> SafeString:
        if not row.tool_count:
            return links.quiet(0)
        words = _("%(on)s of %(all)s") % {"on": f"{row.on_count:,}", "all": f"{row.tool_count:,}"}
        return links.with_sub(links.link(_tools_address(row.name), words, "hub-number hub-whole"), row.refusal)

    shown_waiting = Column[SourceRow](
        _lazy("To approve"), lambda row: links.number(row.waiting, source_page.waiting_address(row))
    )
    shown_tokens = Column[SourceRow](
        _lazy("Tokens"),
        lambda row: links.figure(
            row.tokens, _("Approximate number of tokens that its enabled tools add to a tool list")
        ),
    )
    described = Column[Source](
        _lazy("Recorded"),
        lambda source: links.when(source_states.status_of(source).described_at),
        "status__described_at",
    )

    # ------------------------------------------------------------------------------------------------ changing

    def switch_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Switch a source to what the button said. It asks before it switches one off."""
        require(request, actions.SOURCE_CHANGE)
        source = get_object_or_404(self.get_queryset(request), pk=pk)
        enabled = request.POST.get("enabled")
        if enabled not in {"0", "1"}:
            return HttpResponseBadRequest("enabled must be 0 or 1")
        kept = carried_query(request)
        query = kept.get(FILTERS, "")
        address = links.address("source", "changelist") + (f"?{query}" if query else "")
        if PAGE in kept:
            address = links.address("source", "change", pk)
        if enabled == "0" and "confirmed" not in request.POST:
            return self._confirm_off(request, source, links.address("source", "switch", pk, **kept), address)
        reason = posted(request, "reason")
        with FailuresAsMessages(request):
            changed = governance.change_source(source.name, enabled=enabled == "1", actor=actor(request), reason=reason)
            if not changed:
                sentence = _("%(name)s was already on.") if enabled == "1" else _("%(name)s was already off.")
            elif enabled == "1":
                sentence = (
                    _("%(name)s is on. Its tools are listed here in a moment; new ones wait for approval.")
                    if source.is_outside
                    else _("%(name)s is on. Calls of its tools are accepted from now on.")
                )
            else:
                sentence = _("%(name)s is off. Calls of its tools are refused from now on.")
            level = messages.SUCCESS if changed else messages.INFO
            self.message_user(request, sentence % {"name": source.name}, level)
        return HttpResponseRedirect(address if PAGE in kept else f"{address}#switch-{pk}")

    def _confirm_off(self, request: HttpRequest, source: Source, address: str, back: str) -> HttpResponse:
        names = list(_present_tools(source).values_list("name", flat=True))
        number = ngettext("%(number)s tool", "%(number)s tools", len(names)) % {"number": f"{len(names):,}"}
        text = _("Calls of %(tools)s are refused from now on, in every process. Connected agents are notified.")
        return self.page(
            request,
            "confirm.html",
            _("Switch off %(name)s") % {"name": source.name},
            text=text % {"tools": number},
            names=names[:MOST_TOOLS],
            more=max(0, len(names) - MOST_TOOLS),
            hidden=[("enabled", "0")],
            address=address,
            button=_("Switch off"),
            cancel_address=back,
        )

    def describe_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.SOURCE_DESCRIBE)
        source = get_object_or_404(self.get_queryset(request), pk=pk)
        with FailuresAsMessages(request):
            report = governance.describe_source(source.name, actor=actor(request))
            self.message_user(request, _result(report) % {"name": source.name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("source", "change", pk))

    def named_view(self, request: HttpRequest) -> HttpResponse:
        """From a name, as the audit trail has it, to the source's page."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        name = request.GET.get("name", "").replace("\x00", "")
        source = self.get_queryset(request).filter(name=name).first()
        if source is not None:
            return HttpResponseRedirect(links.address("source", "change", source.pk))
        self.message_user(request, _("There is no source named %(name)s.") % {"name": name}, messages.WARNING)
        return HttpResponseRedirect(links.address("source", "changelist"))

    def save_model(self, request: HttpRequest, obj: Source, form: ModelForm[Source], change: bool) -> None:
        values = {part: form.cleaned_data[part] for part in form.changed_data}
        trust = values.pop("trust", None)
        governance.change_source(obj.name, trust=trust, policy=values, actor=actor(request))

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], record: Source) -> None:
        # A form that was refused has left its values on the object: the page shows the stored ones.
        source = self.get_queryset(request).select_related("status", "connection").get(pk=record.pk)
        status = source_states.status_of(source)
        tools = _present_tools(source)
        may_change = self.has_change_permission(request)
        context.update(
            source=source,
            state=source_page.mark(source),
            failure=source_page.failure(source),
            refusal=source_page.refusals().get(source.name, ""),
            facts=source_page.facts(source),
            problems=[(place, reason) for place, reason, _tool in status.problems[:MOST_PROBLEMS]],
            tools=tools[:MOST_TOOLS],
            more_tools=max(0, cast(Any, source).tool_count - MOST_TOOLS),
            all_tools=_tools_address(source.name),
            switch_address=links.address("source", "switch", source.pk, **{PAGE: 1}),
            may_change=may_change,
            may_describe=may_change and source_states.is_configured(source) and not source.is_outside,
            describe_address=links.address("source", "describe", source.pk),
            changes=audit.rows(AuditEntry.objects.filter(subject=f"source:{source.name}"), request.user),
            all_changes=links.address("auditentry", "changelist", subject=f"source:{source.name}"),
        )
        if source.is_outside:
            context.update(source_page.outside(source, request), **source_tools.table(request, source))
            context.update(source_admissions.card(source, request))
        for part in POLICY:
            if field := context["adminform"].form.fields.get(part):
                field.widget.attrs["placeholder"] = _("inherit")


def _present_tools(source: Source) -> QuerySet[ToolRecord]:
    return ToolRecord.objects.present().filter(source=source).order_by("name")


def _tools_address(name: str) -> str:
    return links.address("toolrecord", "changelist", source=name)


def _result(report: SyncReport) -> str:
    """What a description has changed, as a sentence that takes the name of the source."""
    counted = (
        (_("new: %(tools)s"), report.added),
        (_("changed: %(tools)s"), report.changed),
        (_("back: %(tools)s"), report.returned),
        (_("removed: %(tools)s"), report.retired),
    )
    parts = [words % {"tools": ", ".join(names[:MOST_SHOWN])} for words, names in counted if names]
    if not parts:
        return _("%(name)s is described. Nothing has changed.")
    return _("%(name)s is described.") + " " + "; ".join(parts).replace("%", "%%") + "."
