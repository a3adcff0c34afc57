"""Toolsets: the tools that a key or an agent can use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Protocol, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import budget_words, links, toolset_preview
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, require
from tools_app.admin.lists import Column
from tools_app.admin.toolset_form import ToolsetForm
from tools_app.catalog import catalog
from tools_app.journal.budgets import limits
from tools_app.models import Toolset
from tools_app.sdk.budgets import PARTS, Limit

MOST_SHOWN: Final = 100


class ToolsetRow(Protocol):
    """A toolset with the columns of the list."""

    key_count: int
    tool_count: int
    tokens: int
    limits: Sequence[Limit]


@admin.register(Toolset)
class ToolsetAdmin(GovernedAdmin[Toolset]):
    form = ToolsetForm
    list_display = (
        "shown_name", "shown_selectors", "shown_tools", "shown_tokens", "shown_budget", "shown_keys", "changed",
    )  # fmt: skip
    list_display_links = None
    search_fields = ("name", "description")
    search_help_text = _lazy("Name or description")
    ordering = ("name",)
    posts: ClassVar = {"remove": "<int:pk>/remove/", "preview": "preview/"}
    nothing_yet = (
        _lazy("No toolsets yet"),
        _lazy("A toolset restricts an API key or an agent to the tools in it."),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.TOOLSET_CREATE.permits(request.user)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Only sources can be selected by the address of the form."""
        return {"packs": request.GET.getlist("packs")}

    def get_fields(self, request: HttpRequest, obj: Toolset | None = None) -> Any:
        others = tuple(part for part in governance.TOOLSET if part not in PARTS)
        return ("name", *others, ("calls_a_day", "calls_a_month"), ("tokens_a_day", "tokens_a_month"))

    def get_readonly_fields(self, request: HttpRequest, obj: Toolset | None = None) -> tuple[str, ...]:
        # Agents are started with its name, so renaming would break them.
        return () if obj is None else ("name",)

    def complete_rows(self, request: HttpRequest, rows: Iterable[Toolset]) -> None:
        snapshot, toolsets = catalog.current(), list(rows)
        budgets = limits({f"toolset:{toolset.name}": toolset.budget for toolset in toolsets}, timezone.now())
        for toolset in toolsets:
            preview, row = toolset_preview.of(toolset, snapshot), cast(ToolsetRow, toolset)
            row.tool_count, row.tokens = preview.count, preview.listed_tokens
            row.limits = budgets[f"toolset:{toolset.name}"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Toolset]:
        return super().get_queryset(request).annotate(key_count=Count("keys"))

    # ---------------------------------------------------------------------------------------------------- list

    shown_name = Column[Toolset](
        _lazy("Toolset"),
        lambda one: links.named(links.address("toolset", "change", one.pk), one.name, one.description),
        "name",
    )

    @admin.display(description=_lazy("Selects"))
    def shown_selectors(self, toolset: Toolset) -> SafeString:
        words = {"packs": _("sources"), "categories": _("categories"), "tags": _("tags"), "names": _("tools")}
        selectors = [f"{words[part]}: {', '.join(getattr(toolset, part))}" for part in words if getattr(toolset, part)]
        reads = _("read-only") if toolset.read_only else ""
        return links.with_sub("; ".join(selectors) or _("all tools"), reads)

    shown_tools = Column[ToolsetRow](_lazy("Matching tools"), lambda toolset: toolset.tool_count)

    @admin.display(description=_lazy("Tokens"))
    def shown_tokens(self, toolset: ToolsetRow) -> SafeString:
        title = _("Approximate tokens an agent reads when it lists these tools")
        return links.figure(toolset.tokens, title)

    shown_budget = Column[ToolsetRow](_lazy("Budget"), lambda toolset: budget_words.shown(toolset.limits))
    shown_keys = Column[ToolsetRow](_lazy("Keys"), lambda toolset: toolset.key_count, "key_count")
    changed = Column[Toolset](_lazy("Changed"), lambda toolset: links.when(toolset.updated_at), "updated_at")

    # ------------------------------------------------------------------------------------------------ changing

    def save_model(self, request: HttpRequest, obj: Toolset, form: ModelForm[Toolset], change: bool) -> None:
        fields = {part: form.cleaned_data[part] for part in governance.TOOLSET}
        if change:
            governance.change_toolset(obj.name, actor=actor(request), **fields)
        else:
            obj.pk = governance.create_toolset(obj.name, actor=actor(request), **fields).pk

    def response_add(self, request: HttpRequest, obj: Toolset, post_url_continue: str | None = None) -> HttpResponse:
        self.response_change(request, obj)
        return HttpResponseRedirect(links.address("toolset", "change", obj.pk))

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """The preview of an unsaved form, as an HTML fragment for the page's script."""
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        preview = toolset_preview.of(ToolsetForm(request.POST).unsaved_toolset(), catalog.current())
        return TemplateResponse(request, "admin/tools_app/toolset/preview.html", {"preview": preview})

    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.TOOLSET_DELETE)
        toolset = get_object_or_404(Toolset, pk=pk)
        with FailuresAsMessages(request):
            governance.delete_toolset(toolset.name, actor=actor(request))
            self.message_user(request, _("%(name)s is deleted.") % {"name": toolset.name}, messages.SUCCESS)
            return HttpResponseRedirect(links.address("toolset", "changelist"))
        return HttpResponseRedirect(links.address("toolset", "change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], record: Toolset | None) -> None:
        form = context["adminform"].form
        if isinstance(form, ToolsetForm):
            context["preview"] = toolset_preview.of(form.unsaved_toolset(), catalog.current())
        if record is not None:
            # A rejected form has changed the object; show the stored values.
            toolset = Toolset.objects.get(pk=record.pk)
            subject = f"toolset:{toolset.name}"
            context.update(
                toolset=toolset,
                budget=budget_words.lines(limits({subject: toolset.budget}, timezone.now())[subject]),
                saved=toolset_preview.of(toolset, catalog.current()),
                command=f"toolhub runmcp --toolset {toolset.name}",
                keys=toolset.keys.order_by("name")[:MOST_SHOWN],
                may_remove=actions.TOOLSET_DELETE.permits(request.user),
            )
