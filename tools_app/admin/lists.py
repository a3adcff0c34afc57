"""Base of all lists: active filters, and pages that never count a whole journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from django.contrib import messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.filters import SimpleListFilter
from django.contrib.admin.options import ShowFacets
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from tools_app.admin import theme

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Record = TypeVar("Record", bound=Model)
Row = TypeVar("Row")

# People do not type longer terms, and SQLite fails on them.
MOST_CHARACTERS_IN_URL: Final = 1_000


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """An active filter, and the URL of the list without it."""

    title: str
    value: str
    without: str


class RecordList(theme.ChangeList):
    """A list that shows its active filters; the theme hides the filter form."""

    model_admin: ListAdmin[Any]

    exported: Sequence[str] | None = None
    """The keys of the rows that an export of this list has. None: all of its query."""

    def get_filters(self, request: HttpRequest) -> Any:
        """The filters that the page declares, and no others.

        Django accepts any lookup of any column from the URL. With `arguments__startswith` users could read a column
        that they may not see, letter by letter; one `id__regex` could keep the process busy.

        Raises:
            DisallowedModelAdminLookup: the URL has another lookup.
        """
        filters = super().get_filters(request)
        for name in filters[2]:  # lookups that no declared filter uses
            raise DisallowedModelAdminLookup(f"Filtering by {name} not allowed")
        return filters

    @property
    def follows(self) -> str:
        """Topics of `live` with which it changes while it is open."""
        return str(self.model_admin.follows)

    def get_ordering_field(self, field_name: Any) -> Any:
        """Ignore sorting by a column that is not sortable."""
        is_sortable = self.sortable_by is None or field_name in self.sortable_by
        return super().get_ordering_field(field_name) if is_sortable else None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.full_result_count is None:
            # The total is not counted on purpose; without it the theme would offer “Show all”.
            self.full_result_count = self.result_count
        self.model_admin.complete_rows(request, self.result_list)

    def active_filters(self) -> Iterator[ActiveFilter]:
        for spec in self.filter_specs:
            if isinstance(spec, SimpleListFilter) and spec.value() is None:
                continue
            no_filter, *other_choices = spec.choices(self)
            for choice in other_choices:
                if choice["selected"]:
                    yield ActiveFilter(str(spec.title), str(choice["display"]), str(no_filter["query_string"]))


class Column(Generic[Row]):
    """A column of a list, or a read-only field of a page, that one expression shows."""

    def __init__(self, title: StrOrPromise, content: Callable[[Row], object], ordering: Any = None) -> None:
        self.short_description, self.admin_order_field, self._content = title, ordering, content

    def __call__(self, row: Row) -> object:
        return self._content(row)


class ListAdmin(theme.ModelAdmin[Record]):
    """The admin of a model with such a list."""

    change_list_template = "admin/tools_app/change_list.html"
    list_fullwidth = True
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    nothing_yet: tuple[StrOrPromise, ...] = ()
    """Title and text of an empty list."""

    first_steps: bool = False
    """If the list is empty, link to the first steps."""

    searched_template: str = ""
    """What a search of this list looked at, as a template. Empty: what its help text names."""

    follows: str = ""
    """Topics of `live`, separated by spaces, with which the list changes while it is open."""

    follows_by: str = "replacing"
    """What a page does then: replace the rows (`replacing`), or only once the user has switched it on (`switching`), or
    ask (`asking`), where a press could hit another row than the one that was meant."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RecordList]:
        return RecordList

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        """Add what columns show beside the record, queried once for the rows of a page."""

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        """What the template of the list needs in addition."""
        return {}

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """Redirect to the list, not to the overview, so that users with an old link can continue from there."""
        super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]  # the stubs leave it out
        return HttpResponseRedirect(reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if (elsewhere := unanswerable(request, request.path)) is not None:
            return elsewhere
        # Instead of “Select call to view”.
        title = capfirst(str(self.opts.verbose_name_plural))
        # Rows are selected with a script; nothing else in a list has one.
        media = Media(js=["admin/js/actions.js"] if self.get_actions(request) else [])
        context = {"title": title, "media": media, **self.list_context(request), **(extra_context or {})}
        return super().changelist_view(request, context)


def unanswerable(request: HttpRequest, whole_list: str) -> HttpResponseRedirect | None:
    """The redirect for a URL with values that databases reject even in a query; None if valid."""
    values_in_url = [value for _name, values in request.GET.lists() for value in values]
    if all("\x00" not in value and len(value) <= MOST_CHARACTERS_IN_URL for value in values_in_url):
        return None
    messages.warning(request, _("The search or filter in this URL is not valid. All entries are shown."))
    return HttpResponseRedirect(whole_list)


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # it takes none when it runs
    """Counts at most `bound` rows, so that long journals open as fast as short ones."""

    bound: int = 10_000
    template_name: Final = "admin/tools_app/bounded_pages.html"

    @cached_property
    def _bounded_count(self) -> int:
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by()[: self.bound + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._bounded_count, self.bound)

    @property
    def more(self) -> bool:
        """True if there are rows after the last page."""
        return self._bounded_count > self.bound
