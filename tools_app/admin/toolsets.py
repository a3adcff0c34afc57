"""Toolsets: which tools a key, or an agent that is started with one, can reach."""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.admin import links, toolset_preview
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.lists import RecordList
from tools_app.admin.toolset_form import ToolsetForm
from tools_app.catalog import catalog
from tools_app.models import Toolset

MOST_SHOWN: Final = 100


class ToolsetRow(Protocol):
    """A toolset with what the list shows beside it."""

    key_count: int
    tool_count: int
    tokens: int


class ToolsetList(RecordList):
    """With how many tools are in each, by one snapshot."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        snapshot = catalog.current()
        for record in self.result_list:
            row = cast(ToolsetRow, record)
            seen = toolset_preview.of(record, snapshot)
            row.tool_count, row.tokens = seen.count, seen.sent


@admin.register(Toolset)
class ToolsetAdmin(GovernedAdmin[Toolset]):
    form = ToolsetForm
    list_display = ("shown_name", "shown_selectors", "shown_tools", "shown_tokens", "shown_keys", "changed")
    list_display_links = None
    search_fields = ("name", "description")
    search_help_text = _lazy("Name or description")
    ordering = ("name",)
    nothing_yet = (
        _lazy("No toolsets yet"),
        _lazy("A toolset restricts an API key or an agent to the tools in it."),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.add_toolset")

    def get_fields(self, request: HttpRequest, obj: Toolset | None = None) -> tuple[str, ...]:
        return ("name", *governance.TOOLSET)

    def get_readonly_fields(self, request: HttpRequest, obj: Toolset | None = None) -> tuple[str, ...]:
        # Agents are started with its name, so renaming would break them.
        return () if obj is None else ("name",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolsetList]:
        return ToolsetList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Toolset]:
        return super().get_queryset(request).annotate(key_count=Count("keys"))

    # ---------------------------------------------------------------------------------------------------- list

    @admin.display(description=_lazy("Toolset"), ordering="name")
    def shown_name(self, toolset: Toolset) -> SafeString:
        address = links.address("toolset", "change", toolset.pk)
        return format_html(
            '<a class="hub-name" href="{}">{}</a>{}', address, toolset.name, links.sub(toolset.description)
        )

    @admin.display(description=_lazy("Selects"))
    def shown_selectors(self, toolset: Toolset) -> SafeString:
        words = {"packs": _("sources"), "categories": _("categories"), "tags": _("tags"), "names": _("tools")}
        chosen = [f"{words[part]}: {', '.join(getattr(toolset, part))}" for part in words if getattr(toolset, part)]
        reads = _("read-only") if toolset.read_only else ""
        return format_html("{}{}", "; ".join(chosen) or _("all tools"), links.sub(reads))

    @admin.display(description=_lazy("Matching tools"))
    def shown_tools(self, toolset: ToolsetRow) -> int:
        return toolset.tool_count

    @admin.display(description=_lazy("Tokens"))
    def shown_tokens(self, toolset: ToolsetRow) -> SafeString:
        title = _("Approximate tokens an agent reads when it lists these tools")
        return format_html('<span class="hub-number" title="{}">{}</span>', title, f"{toolset.tokens:,}")

    @admin.display(description=_lazy("Keys"), ordering="key_count")
    def shown_keys(self, toolset: ToolsetRow) -> int:
        return toolset.key_count

    @admin.display(description=_lazy("Changed"), ordering="updated_at")
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
        self.message_user(
            request, _("%(name)s saved. Applies from the next call.") % {"name": obj.name}, messages.SUCCESS
        )
        return HttpResponseRedirect(links.address("toolset", "change", obj.pk))

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:pk>/remove/", wrap(self.remove_view), name="tools_app_toolset_remove"),
            path("preview/", wrap(self.preview_view), name="tools_app_toolset_preview"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """What a form that is still being filled in would choose; a part of a page, for the script of that page."""
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        seen = toolset_preview.of(ToolsetForm(request.POST).chosen(), catalog.current())
        return TemplateResponse(request, "admin/tools_app/toolset/preview.html", {"preview": seen})

    @method_decorator(require_POST)
    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm("tools_app.delete_toolset"):
            raise PermissionDenied
        toolset = get_object_or_404(Toolset, pk=pk)
        with FailuresTold(request):
            governance.delete_toolset(toolset.name, actor=actor(request))
            self.message_user(request, _("%(name)s is deleted.") % {"name": toolset.name}, messages.SUCCESS)
            return HttpResponseRedirect(links.address("toolset", "changelist"))
        return HttpResponseRedirect(links.address("toolset", "change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        asked = kwargs.get("obj")
        form = context["adminform"].form
        if isinstance(form, ToolsetForm):
            context["preview"] = toolset_preview.of(form.chosen(), catalog.current())
        if isinstance(asked, Toolset):
            # A form that was refused has left its values on the object: the page tells what is.
            toolset = Toolset.objects.get(pk=asked.pk)
            context.update(
                toolset=toolset,
                saved=toolset_preview.of(toolset, catalog.current()),
                command=f"toolhub runmcp --toolset {toolset.name}",
                keys=toolset.keys.order_by("name")[:MOST_SHOWN],
                may_remove=request.user.has_perm("tools_app.delete_toolset"),
            )
        return super().render_change_form(request, context, *args, **kwargs)
