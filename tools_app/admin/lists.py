"""Lists of records: which filters hold, and pages that never count a whole journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from django.contrib import messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.filters import SimpleListFilter
from django.contrib.admin.options import ShowFacets
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from tools_app.admin import theme

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Record = TypeVar("Record", bound=Model)

# Longer terms are not typed by people, and SQLite fails on them.
MOST_ASKED: Final = 1_000


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """A filter that narrows the list now, and the address of the list without it."""

    title: str
    value: str
    without: str


class RecordList(theme.ChangeList):
    """A list that says which filters hold, where the theme folds the filters themselves away."""

    def get_filters(self, request: HttpRequest) -> Any:
        """The filters that the page declares, and no others.

        Django takes any lookup of any column from the address. With `arguments__startswith` a user who does not see
        a column reads it letter by letter, and with `id__regex` one request keeps the whole process busy.

        Raises:
            DisallowedModelAdminLookup: the address asks for something else.
        """
        found = super().get_filters(request)
        for name in found[2]:  # what no filter has taken for itself
            raise DisallowedModelAdminLookup(f"Filtering by {name} not allowed")
        return found

    def get_ordering_field(self, field_name: Any) -> Any:
        """A column that offers no sorting is not sorted by when the address asks for it either."""
        offered = self.sortable_by is None or field_name in self.sortable_by
        return super().get_ordering_field(field_name) if offered else None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.full_result_count is None:
            # The total was not counted on purpose. Without one, the theme offers “Show all” over the whole list.
            self.full_result_count = self.result_count

    def active_filters(self) -> Iterator[ActiveFilter]:
        for spec in self.filter_specs:
            if isinstance(spec, SimpleListFilter) and spec.value() is None:
                continue
            everything, *others = spec.choices(self)
            for choice in others:
                if choice["selected"]:
                    yield ActiveFilter(str(spec.title), str(choice["display"]), str(everything["query_string"]))


class ListAdmin(theme.ModelAdmin[Record]):
    """Pages of a kind of record, with such a list in front."""

    change_list_template = "admin/tools_app/change_list.html"
    list_fullwidth = True
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    nothing_yet: tuple[StrOrPromise, ...] = ()
    """Title and text of an empty list."""

    first_steps: bool = False
    """An empty list of these leads to the first steps, as long as there was no call."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RecordList]:
        return RecordList

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """To the list of such records, not to the overview: users who follow an old link can continue from there."""
        super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]  # the stubs leave it out
        return HttpResponseRedirect(reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if (elsewhere := unanswerable(request, request.path)) is not None:
            return elsewhere
        # Not “Select call to view”: the list is what people come for.
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})


def unanswerable(request: HttpRequest, whole_list: str) -> HttpResponseRedirect | None:
    """Where to go when the address asks for a text that no database takes, not even to look for it."""
    asked = [value for _name, values in request.GET.lists() for value in values]
    if all("\x00" not in value and len(value) <= MOST_ASKED for value in asked):
        return None
    messages.warning(request, _("The search or filter in this URL is not valid. All entries are shown."))
    return HttpResponseRedirect(whole_list)


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # it takes none when it runs
    """Counts no further than `bound`: a journal of a million rows opens as fast as one of a hundred."""

    bound: Final = 10_000
    template_name: Final = "admin/tools_app/bounded_pages.html"

    @cached_property
    def _seen(self) -> int:
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by()[: self.bound + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._seen, self.bound)

    @property
    def more(self) -> bool:
        """Whether there is something behind the last page."""
        return self._seen > self.bound
