"""Read-only lists of journal records, fast for any number of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ORDER_VAR
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import override
from django.views.decorators.http import require_GET

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import exports, links, narrowing
from tools_app.admin.exports import Columns, Export
from tools_app.admin.filters import choice
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor
from tools_app.admin.lists import BoundedPaginator, RecordList, unanswerable
from tools_app.models import ToolRecord

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Record = TypeVar("Record", bound=Model)

MOST_NAMES: Final = 50
IDENTIFIER: Final = re.compile("[0-9a-f]{32}")
# Query parameters of exports, in addition to the filters of the list.
_FORMAT, _PAYLOADS = "format", "payloads"


class JournalAdmin(GovernedAdmin[Record]):
    """Newest first, which is the only order with an index."""

    change_list_template = "admin/tools_app/journal_list.html"
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    sortable_by: ClassVar[tuple[str, ...]] = ()
    actions: Sequence[str] | None = None

    orders: Sequence[tuple[str, StrOrPromise]] = ()
    """Values of `o` in the URL, and their words; the first is the order of the list without one."""

    export_columns: Columns = {}
    """The columns of an export; empty: the list cannot be exported."""

    export_payload_columns: Columns = {}
    """Additional columns for users who may read payloads and ask for them."""

    export_order: str | None = None
    """The time by which an export is ordered; its values must be written by Python. None: the primary key."""

    def get_readonly_fields(self, request: HttpRequest, obj: Record | None = None) -> list[str]:
        return list(flatten_fieldsets(self.get_fieldsets(request, obj)))

    def has_change_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        fields = list(narrowing.fields(self.list_filter, request.GET))
        if self.orders:
            fields.append(choice(ORDER_VAR, _("Order"), request.GET.get(ORDER_VAR, ""), self.orders))
        remaining_query = request.GET.copy()
        for name in ("p", *(field.name for field in fields)):
            remaining_query.pop(name, None)
        return {
            "narrowing": fields,
            "narrowing_keeps": [(name, value) for name, values in remaining_query.lists() for value in values],
            "exports": self._exports(request) if self.export_columns else [],
            "payload_exports": self._exports(request, **{_PAYLOADS: "1"}) if self._may_take_payloads(request) else [],
            "most_exported": exports.MOST_ROWS,
        }

    def _exports(self, request: HttpRequest, **more: str) -> list[tuple[str, str]]:
        """Formats and URLs of the exports of this list."""
        query = request.GET.copy()
        query.pop("p", None)
        address, addresses = links.address(str(self.opts.model_name), "export"), []
        for form in exports.FORMATS:
            for name, value in {**more, _FORMAT: form}.items():
                query[name] = value
            addresses.append((form.upper(), f"{address}?{query.urlencode()}"))
        return addresses

    def _may_take_payloads(self, request: HttpRequest) -> bool:
        return bool(self.export_payload_columns) and actions.PAYLOADS_EXPORT.permits(request.user)

    def get_urls(self) -> list[URLPattern]:
        if not self.export_columns:
            return super().get_urls()
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name=f"tools_app_{self.opts.model_name}_export"), *super().get_urls()]

    @method_decorator(require_GET)
    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The filtered list as a file; the export is audited."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        query = request.GET.copy()
        form, payloads = query.pop(_FORMAT, ["csv"])[-1], query.pop(_PAYLOADS, [""])[-1] == "1"
        if form not in exports.FORMATS:
            return HttpResponseBadRequest("format must be csv or json")
        if payloads and not self._may_take_payloads(request):
            raise PermissionDenied(actions.PAYLOADS_EXPORT)
        request.GET = query  # type: ignore[assignment]  # a copy can be changed; nothing here does
        whole_list = links.address(str(self.opts.model_name), "changelist")
        if (elsewhere := unanswerable(request, whole_list)) is not None:
            return elsewhere
        back = HttpResponseRedirect(f"{whole_list}?{query.urlencode()}")
        try:
            whole = cast("RecordList", self.get_changelist_instance(request))
        except IncorrectLookupParameters:
            # The list reports the error.
            return back
        columns = {**self.export_columns, **(self.export_payload_columns if payloads else {})}
        with override(None):
            name = str(self.opts.verbose_name_plural).replace(" ", "-")
        with FailuresAsMessages(request):
            governance.note_export(name, payloads=payloads, filters=query.urlencode(), actor=actor(request))
            rows: QuerySet[Any] = whole.queryset.defer(None) if payloads else whole.queryset
            return Export(name, rows, columns, self.export_order, whole.exported).response(form)
        return back


def may_read_payload(request: HttpRequest, call_id: str) -> bool:
    """True if the user may see the payload of a call, and the access is audited."""
    if not actions.PAYLOADS_READ.permits(request.user):
        return False
    try:
        governance.note_payload_read(call_id, actor=actor(request))
    except DatabaseError:
        return False
    return True


def may_search_arguments(request: HttpRequest, text: str) -> bool:
    """True if the user may find calls by what is in their arguments, and the search is audited."""
    if not actions.PAYLOADS_SEARCH.permits(request.user):
        return False
    try:
        governance.note_payload_search(text, actor=actor(request))
    except DatabaseError:
        return False
    return True


def tool_names(term: str) -> list[str]:
    """Names of tools that match a search term, and the term: journals contain names of tools that never existed."""
    names = ToolRecord.objects.filter(name__icontains=term).values_list("name", flat=True)[:MOST_NAMES]
    return [*names, term]
