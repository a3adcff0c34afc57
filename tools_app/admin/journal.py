"""Read-only lists of what the hub records; they stay fast however long the journal is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.translation import override
from django.views.decorators.http import require_GET

from tools_app import governance
from tools_app.admin import exports, links, narrowing
from tools_app.admin.exports import Columns, Export
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.lists import BoundedPaginator, unanswerable
from tools_app.models import ToolRecord

Record = TypeVar("Record", bound=Model)

MOST_NAMES: Final = 50
IDENTIFIER: Final = re.compile("[0-9a-f]{32}")
# What an address asks of an export alone, beside the filters of the list.
_FORMAT, _PAYLOADS = "format", "payloads"


class JournalAdmin(GovernedAdmin[Record]):
    """Newest first, and no other order: there is an index for that one."""

    change_list_template = "admin/tools_app/journal_list.html"
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    sortable_by = ()
    actions: Sequence[str] | None = None

    exported: Columns = {}
    """What an exported row holds; where there is nothing, the list cannot be exported."""

    exported_payloads: Columns = {}
    """Additional columns for users who may read payloads and ask for them."""

    exported_by: str | None = None
    """The time by which an export is ordered; its values must be written by Python. None: the primary key."""

    def has_change_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context is not None and "cl" in context:
            fields = list(narrowing.fields(self.list_filter, request.GET))
            kept = request.GET.copy()
            for name in ("p", *(field.name for field in fields)):
                kept.pop(name, None)
            context.update(
                narrowing=fields,
                narrowing_keeps=[(name, value) for name, values in kept.lists() for value in values],
                exports=self._exports(request) if self.exported else [],
                payload_exports=self._exports(request, **{_PAYLOADS: "1"}) if self._may_take_payloads(request) else [],
                most_exported=exports.MOST_ROWS,
            )
        return response

    def _exports(self, request: HttpRequest, **more: str) -> list[tuple[str, str]]:
        """The addresses of the list as files."""
        query = request.GET.copy()
        query.pop("p", None)
        address, found = links.address(str(self.opts.model_name), "export"), []
        for form in exports.FORMATS:
            for name, value in {**more, _FORMAT: form}.items():
                query[name] = value
            found.append((form.upper(), f"{address}?{query.urlencode()}"))
        return found

    def _may_take_payloads(self, request: HttpRequest) -> bool:
        return bool(self.exported_payloads) and request.user.has_perm("tools_app.view_payload")

    def get_urls(self) -> list[URLPattern]:
        if not self.exported:
            return super().get_urls()
        export = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export/", export, name=name), *super().get_urls()]

    @method_decorator(require_GET)
    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The list with its filters, as a file. Who takes it is on record."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        query = request.GET.copy()
        form, payloads = query.pop(_FORMAT, ["csv"])[-1], query.pop(_PAYLOADS, [""])[-1] == "1"
        if form not in exports.FORMATS:
            return HttpResponseBadRequest("format must be csv or json")
        if payloads and not self._may_take_payloads(request):
            raise PermissionDenied
        request.GET = query  # type: ignore[assignment]  # a copy can be changed; nothing here does
        whole_list = links.address(str(self.opts.model_name), "changelist")
        if (elsewhere := unanswerable(request, whole_list)) is not None:
            return elsewhere
        back = HttpResponseRedirect(f"{whole_list}?{query.urlencode()}")
        try:
            rows: QuerySet[Any] = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            # The list says so.
            return back
        columns = {**self.exported, **(self.exported_payloads if payloads else {})}
        with override(None):
            name = str(self.opts.verbose_name_plural).replace(" ", "-")
        with FailuresTold(request):
            governance.note_export(name, payloads=payloads, filters=query.urlencode(), actor=actor(request))
            return Export(name, rows.defer(None) if payloads else rows, columns, self.exported_by).response(form)
        return back


def may_read_payload(request: HttpRequest, call_id: str) -> bool:
    """Whether this page may show what a call was given: only to those who may see it, and with that on record."""
    if not request.user.has_perm("tools_app.view_payload"):
        return False
    try:
        governance.note_payload_read(call_id, actor=actor(request))
    except DatabaseError:
        return False
    return True


def tool_names(term: str) -> list[str]:
    """The tools that a search term may mean; itself too, as journals name tools that never were."""
    known = ToolRecord.objects.filter(name__icontains=term).values_list("name", flat=True)[:MOST_NAMES]
    return [*known, term]
