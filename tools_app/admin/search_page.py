"""One search over records and pages of the admin: a page, and its results as JSON for the palette (Ctrl+K).

Records are found by their names, calls and error events by their ids. A kind that the user may not read is neither
searched nor named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin import AdminSite
from django.db.models import Q, QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from tools_app.access import actions
from tools_app.access.actions import Action
from tools_app.admin import links
from tools_app.admin.filters import WhereFilter
from tools_app.base import secrets
from tools_app.journal.call_search import IDENTIFIER
from tools_app.models import ApiKey, Call, Connection, ErrorLog, Source, ToolRecord, Toolset

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_CHARACTERS: Final = 200
# Results of one kind.
MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Result:
    text: str
    note: str
    address: str


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one kind."""

    title: str
    results: list[Result] = field(default_factory=list)
    # The list with all that match, if these are not all.
    more: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """Records that are found by parts of their names, and who may read them."""

    title: StrOrPromise
    reading: Action
    model: str
    rows: Callable[[], QuerySet[Any]]
    condition: Callable[[str], Q]
    note: Callable[[Any], str]
    # The order: the shortest match first.
    name: str = "name"


def _key(text: str) -> Q:
    """By name, or by its beginning as lists show it."""
    return Q(name__icontains=text) | Q(prefix__startswith=text.removeprefix(f"{secrets.BRAND}_").rstrip("_…"))


KINDS: Final = (
    Kind(
        gettext_lazy("Tools"),
        actions.TOOLS_LIST,
        "toolrecord",
        lambda: ToolRecord.objects.filter(retired_at=None),
        lambda text: Q(name__icontains=text) | Q(title__icontains=text),
        lambda tool: str(tool.title),
    ),
    Kind(
        gettext_lazy("Sources"),
        actions.SOURCES_READ,
        "source",
        lambda: Source.objects.filter(removed_at=None),
        lambda text: Q(name__icontains=text),
        lambda source: str(source.get_kind_display()),
    ),
    Kind(
        gettext_lazy("Connections"),
        actions.CONNECTIONS_READ,
        "connection",
        Connection.objects.all,
        lambda text: Q(name__icontains=text) | Q(pack__icontains=text),
        lambda connection: str(connection.pack),
    ),
    Kind(
        gettext_lazy("API keys"),
        actions.KEYS_READ,
        "apikey",
        ApiKey.objects.all,
        _key,
        lambda key: f"{secrets.BRAND}_{key.prefix}_…",
    ),
    Kind(
        gettext_lazy("Toolsets"),
        actions.TOOLSETS_READ,
        "toolset",
        Toolset.objects.all,
        lambda text: Q(name__icontains=text) | Q(description__icontains=text),
        lambda toolset: str(toolset.description),
    ),
)
# Found by id, or the beginning of one.
IDENTIFIED: Final = (
    (gettext_lazy("Calls"), actions.CALLS_READ, "call", Call),
    (gettext_lazy("Error events"), actions.ERROR_EVENTS_READ, "errorlog", ErrorLog),
)


def view(site: AdminSite) -> Callable[[HttpRequest], HttpResponse]:
    @require_safe
    def search_view(request: HttpRequest) -> HttpResponse:
        text = request.GET.get("q", "").replace("\x00", "").strip()[:MOST_CHARACTERS]
        context = site.each_context(request)
        groups = list(_found(request, text, context)) if text else []
        summary = _summary(request, groups) if text else ""
        if text and actions.CALLS_READ.permits(request.user):
            groups.append(_further(request, text))
        if request.GET.get("format") == "json":
            return JsonResponse({"groups": [asdict(group) for group in groups], "summary": summary})
        context |= {"title": _("Search"), "text": text, "groups": groups, "summary": summary}
        return TemplateResponse(request, "admin/tools_app/search.html", context)

    return site.admin_view(search_view)


def _found(request: HttpRequest, text: str, context: dict[str, Any]) -> Iterator[Group]:
    groups = [_pages(text, context)]
    groups += [_named(kind, text) for kind in KINDS if kind.reading.permits(request.user)]
    if IDENTIFIER.fullmatch(text.lower()):
        groups += [
            _identified(title, model, rows, text.lower())
            for title, reading, model, rows in IDENTIFIED
            if reading.permits(request.user)
        ]
    yield from (group for group in groups if group.results)


def _further(request: HttpRequest, text: str) -> Group:
    """A search of all calls takes longer than people wait between two letters."""
    words = _("Calls with “%(text)s” in tool, caller, code or error text") % {"text": text}
    results = [Result(words, "", links.address("call", "changelist", q=text))]
    if actions.PAYLOADS_SEARCH.permits(request.user):
        words = _("Calls with “%(text)s” in arguments, too") % {"text": text}
        address = links.address("call", "changelist", q=text, **{WhereFilter.parameter_name: WhereFilter.ARGUMENTS})
        results.append(Result(words, _("recorded in the audit trail"), address))
    return Group(_("Search further"), results)


def _pages(text: str, context: dict[str, Any]) -> Group:
    """Pages of the menu, which has only those that the user may open."""
    group, folded = Group(_("Pages")), text.casefold()
    for section in context.get("sidebar_navigation") or ():
        for item in section["items"]:
            if folded in str(item["title"]).casefold():
                group.results.append(Result(str(item["title"]), str(section["title"] or ""), str(item["link"])))
    return group


def _named(kind: Kind, text: str) -> Group:
    rows = list(kind.rows().filter(kind.condition(text)).order_by(Length(kind.name), kind.name)[: MOST + 1])
    results = [
        Result(str(getattr(row, kind.name)), kind.note(row), links.address(kind.model, "change", row.pk))
        for row in rows[:MOST]
    ]
    more = links.address(kind.model, "changelist", q=text) if len(rows) > MOST else ""
    return Group(str(kind.title), results, more)


def _identified(title: StrOrPromise, model: str, rows: type[Call | ErrorLog], text: str) -> Group:
    # Up to the first character after all that ids consist of.
    matching = rows._default_manager.filter(pk__gte=text, pk__lt=f"{text}g").order_by("pk")[:MOST]
    results = [
        Result(row.pk, " · ".join(filter(None, (row.tool_name, row.code))), links.address(model, "change", row.pk))
        for row in matching.only("pk", "tool_name", "code")
    ]
    return Group(str(title), results)


def _summary(request: HttpRequest, groups: list[Group]) -> str:
    """How many results, or where none were looked for in vain."""
    if number := sum(len(group.results) for group in groups):
        return ngettext("%(n)s result", "%(n)s results", number) % {"n": number}
    searched = [_("pages of the menu")]
    named = [str(kind.title) for kind in KINDS if kind.reading.permits(request.user)]
    identified = [str(title) for title, reading, *_rest in IDENTIFIED if reading.permits(request.user)]
    searched += [_("names of: %(what)s") % {"what": ", ".join(named)}] if named else []
    searched += [_("ids, from 8 characters on, of: %(what)s") % {"what": ", ".join(identified)}] if identified else []
    return _("No matches. Searched: %(what)s.") % {"what": "; ".join(searched)}
