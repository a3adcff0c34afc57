"""Toolsets: which tools a key, or an agent that is started with one, can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from tools_app import catalog, governance
from tools_app.admin import links, theme
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.lists import RecordList
from tools_app.catalog import Entry, Snapshot
from tools_app.models import Toolset
from tools_app.tool import folded

MOST_SHOWN: Final = 100


class NamesField(forms.CharField):
    """Names, with commas between them."""

    widget = theme.TextInput

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]  # a list is what the model holds
        return [name.strip() for name in str(value or "").split(",") if name.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return sorted(initial or []) != sorted(set(self.to_python(data)))


class ToolsetForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    packs = NamesField(required=False, help_text="Every tool of these packs. Names, with commas between them.")
    categories = NamesField(required=False, help_text="Every tool of these categories.")
    tags = NamesField(required=False, help_text="Every tool that has one of these tags.")
    names = NamesField(required=False, label="Tools", help_text="And these tools.")

    class Meta:
        model = Toolset
        fields = ("name", *governance.TOOLSET)


class Row(Protocol):
    """A toolset with what the list shows beside it."""

    key_count: int
    tool_count: int


class ToolsetList(RecordList):
    """With how many tools are in each, by one snapshot."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        snapshot = catalog.current()
        for row in self.result_list:
            cast(Row, row).tool_count = len(_held(row, snapshot))


@admin.register(Toolset)
class ToolsetAdmin(GovernedAdmin[Toolset]):
    form = ToolsetForm
    list_display = ("shown_name", "shown_selectors", "shown_tools", "shown_keys", "changed")
    list_display_links = None
    search_fields = ("name", "description")
    search_help_text = "Name or description"
    ordering = ("name",)
    nothing_yet = ("No toolset yet", "A key or an agent with a toolset reaches the tools in it, and no other.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.add_toolset")

    def get_fields(self, request: HttpRequest, obj: Toolset | None = None) -> tuple[str, ...]:
        return ("name", *governance.TOOLSET)

    def get_readonly_fields(self, request: HttpRequest, obj: Toolset | None = None) -> tuple[str, ...]:
        # Agents are started with it: nobody could tell them of another name.
        return () if obj is None else ("name",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolsetList]:
        return ToolsetList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Toolset]:
        return super().get_queryset(request).annotate(key_count=Count("keys"))

    # ---------------------------------------------------------------------------------------------------- list

    @admin.display(description="Toolset", ordering="name")
    def shown_name(self, toolset: Toolset) -> SafeString:
        address = links.address("toolset", "change", toolset.pk)
        return format_html(
            '<a class="hub-name" href="{}">{}</a>{}', address, toolset.name, links.sub(toolset.description)
        )

    @admin.display(description="All of")
    def shown_selectors(self, toolset: Toolset) -> SafeString:
        chosen = [
            f"{part}: {', '.join(getattr(toolset, part))}" for part in governance.SELECTORS if getattr(toolset, part)
        ]
        reads = "only what reads" if toolset.read_only else ""
        return format_html("{}{}", "; ".join(chosen) or "every tool", links.sub(reads))

    @admin.display(description="Tools now")
    def shown_tools(self, toolset: Row) -> int:
        return toolset.tool_count

    @admin.display(description="Keys", ordering="key_count")
    def shown_keys(self, toolset: Row) -> int:
        return toolset.key_count

    @admin.display(description="Changed", ordering="updated_at")
    def changed(self, toolset: Toolset) -> SafeString:
        return links.when(toolset.updated_at)

    # ------------------------------------------------------------------------------------------------ changing

    def save_model(self, request: HttpRequest, obj: Toolset, form: ModelForm[Toolset], change: bool) -> None:
        given = {part: form.cleaned_data[part] for part in governance.TOOLSET}
        if change:
            governance.change_toolset(obj.name, actor=actor(request), **given)
        else:
            obj.pk = governance.create_toolset(obj.name, actor=actor(request), **given).pk

    def response_add(self, request: HttpRequest, obj: Toolset, post_url_continue: str | None = None) -> HttpResponse:
        return self.response_change(request, obj)

    def response_change(self, request: HttpRequest, obj: Toolset) -> HttpResponse:
        self.message_user(request, f"{obj.name}: saved; it holds from the next call.", messages.SUCCESS)
        return HttpResponseRedirect(links.address("toolset", "change", obj.pk))

    def get_urls(self) -> list[URLPattern]:
        remove = self.admin_site.admin_view(self.remove_view)
        return [path("<int:pk>/remove/", remove, name="tools_app_toolset_remove"), *super().get_urls()]

    @method_decorator(require_POST)
    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm("tools_app.delete_toolset"):
            raise PermissionDenied
        toolset = get_object_or_404(Toolset, pk=pk)
        with FailuresTold(request):
            governance.delete_toolset(toolset.name, actor=actor(request))
            self.message_user(request, f"{toolset.name} is deleted.", messages.SUCCESS)
            return HttpResponseRedirect(links.address("toolset", "changelist"))
        return HttpResponseRedirect(links.address("toolset", "change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        asked = kwargs.get("obj")
        if isinstance(asked, Toolset):
            # A form that was refused has left its values on the object: the page tells what is.
            toolset = Toolset.objects.get(pk=asked.pk)
            snapshot = catalog.current()
            held = _held(toolset, snapshot)
            context.update(
                toolset=toolset,
                tools=held[:MOST_SHOWN],
                tool_count=len(held),
                idle=_idle(toolset, snapshot.all),
                keys=toolset.keys.order_by("name")[:MOST_SHOWN],
                may_remove=request.user.has_perm("tools_app.delete_toolset"),
            )
        return super().render_change_form(request, context, *args, **kwargs)


def _held(toolset: Toolset, snapshot: Snapshot) -> list[Entry]:
    choice = toolset.choice()
    return [entry for entry in snapshot.all if choice.holds(entry)]


def _idle(toolset: Toolset, entries: Sequence[Entry]) -> list[str]:
    """What fits no tool now: not yet, not any more, or a slip of the pen."""
    there = [("packs", {entry.pack for entry in entries}), ("categories", {entry.category for entry in entries})]
    there.append(("tags", {tag for entry in entries for tag in entry.tags}))
    found = [name for part, known in there for name in getattr(toolset, part) if name not in known]
    names = {entry.folded_name for entry in entries}
    return found + [name for name in toolset.names if folded(name) not in names]
