"""Saved views of the list of calls: links above it, a form to save one, and a page to rename, share and delete them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.journal import JournalAdmin
from tools_app.models import Call, SavedView

# Above the list; the page of views has all.
MOST_LINKS: Final = 12
# What a list takes from its URL, apart from the page.
NAMES: Final = (
    "q", "in", "since", "from", "until", "slower", "caller", "status", "code", "door__exact", "tool", "source",
    "connection", "o",
)  # fmt: skip


class SavedViews(JournalAdmin[Call]):
    views: ClassVar = {"saved": "views/", "shown": "views/<int:pk>/"}
    posts: ClassVar = {"keep": "views/save/", "edit": "views/<int:pk>/edit/", "discard": "views/<int:pk>/delete/"}

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        query = _cleaned(request.GET)
        saved = list(governance.visible_views(request.user)[: MOST_LINKS + 1])
        return {
            **super().list_context(request),
            "saved_views": [(view, view.query == query) for view in saved[:MOST_LINKS]],
            "query_to_save": query,
            "may_share": actions.VIEW_SHARE.permits(request.user),
        }

    @method_decorator(require_safe)
    def saved_view(self, request: HttpRequest) -> TemplateResponse:
        require(request, actions.CALLS_READ)
        views = [(view, request.build_absolute_uri(_address(view))) for view in governance.visible_views(request.user)]
        return self.page(
            request,
            "call/views.html",
            gettext_lazy("Saved views"),
            views=views,
            may_share=actions.VIEW_SHARE.permits(request.user),
            may_delete_any=actions.VIEW_DELETE_ANY.permits(request.user),
            most_of_name=SavedView.MOST_OF_NAME,
        )

    @method_decorator(require_safe)
    def shown_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Where a shared link leads: what the view shows now."""
        require(request, actions.CALLS_READ)
        view = governance.visible_views(request.user).filter(pk=pk).first()
        if view is None:
            raise Http404
        return HttpResponseRedirect(f"{_list()}?{view.query}")

    def keep_view(self, request: HttpRequest) -> HttpResponse:
        require(request, actions.VIEW_SAVE)
        query = _cleaned(QueryDict(posted(request, "query")))
        with FailuresAsMessages(request):
            shared = posted(request, "shared") == "1"
            view = governance.save_view(posted(request, "name"), query, shared=shared, actor=actor(request))
            self.message_user(request, _("View “%(name)s” saved.") % {"name": view.name}, messages.SUCCESS)
        return HttpResponseRedirect(f"{_list()}?{query}")

    def edit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.VIEW_CHANGE)
        with FailuresAsMessages(request):
            shared = posted(request, "shared") == "1"
            view = governance.change_view(pk, name=posted(request, "name"), shared=shared, actor=actor(request))
            self.message_user(request, _("View “%(name)s” saved.") % {"name": view.name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("call", "saved"))

    def discard_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.VIEW_DELETE)
        with FailuresAsMessages(request):
            name = governance.delete_view(pk, actor=actor(request))
            self.message_user(request, _("View “%(name)s” deleted.") % {"name": name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("call", "saved"))


def _list() -> str:
    return links.address("call", "changelist")


def _address(view: SavedView) -> str:
    return links.address("call", "shown", view.pk)


def _cleaned(query: QueryDict) -> str:
    """The search and filters of a URL, in one order: two views that show the same are equal."""
    kept = QueryDict(mutable=True)
    for name in NAMES:
        if value := query.get(name, ""):
            kept[name] = value
    return kept.urlencode()
