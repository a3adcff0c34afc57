"""Sessions in the admin: of all users for those who manage users, and everyone's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from django.apps import apps
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.filters import ChoiceFilter
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted
from tools_app.admin.lists import Column
from tools_app.models import BrowserSession

# In this order: Edge and Opera also say that they are Chrome, and Chrome that it is Safari.
_BROWSERS: Final = ("Firefox", "Edg", "OPR", "Chrome", "Safari", "curl", "python-requests")
_NAMES: Final = {"Edg": "Edge", "OPR": "Opera"}
_SYSTEMS: Final = ("Windows", "Android", "iPhone", "iPad", "Mac OS X", "CrOS", "Linux")
MOST_OF_UNKNOWN: Final = 40


def browser_name(client: str) -> str:
    """A user agent in short: browser with its version, and system."""
    found = next((match for name in _BROWSERS if (match := re.search(rf"{name}/(\d+)", client))), None)
    if found is None:
        return client[:MOST_OF_UNKNOWN]
    name = found[0].partition("/")[0]
    system = next((one for one in _SYSTEMS if one in client), "")
    return " ".join(filter(None, (_NAMES.get(name, name), found[1], f"({system})" if system else "")))


class WhoseFilter(ChoiceFilter):
    title = gettext_lazy("user")
    parameter_name = "whose"
    words: ClassVar = {"own": gettext_lazy("Only mine")}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(user=request.user.pk) if self.value() == "own" else queryset


class SessionAdmin(GovernedAdmin[BrowserSession]):
    change_list_template = "admin/tools_app/session/change_list.html"
    list_display = ("shown_user", "since", "seen", "address", "browser", "shown_method", "end")
    list_display_links = None
    list_filter = (WhoseFilter,)
    search_fields = ("address", "client")
    search_help_text = gettext_lazy("Address or browser")
    sortable_by = ()
    actions = None
    posts: ClassVar = {"end": "<int:pk>/end/", "end_all": "end-all/"}
    nothing_yet = (
        gettext_lazy("No sessions"),
        gettext_lazy("Sessions are listed from their first request on."),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[BrowserSession]:
        """Of all users, or of the user alone."""
        rows = governance.open_sessions().select_related("user")
        return rows if actions.USERS_READ.permits(request.user) else rows.filter(user=request.user.pk)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False  # Not in the list of apps: users find it in their menu.

    def has_view_permission(self, request: HttpRequest, obj: BrowserSession | None = None) -> bool:
        return True

    def has_change_permission(self, request: HttpRequest, obj: BrowserSession | None = None) -> bool:
        return False

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """A session has no page of its own."""
        return HttpResponseRedirect(links.address("browsersession", "changelist"))

    history_view = change_view

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        mark(request, rows)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        own = governance.open_sessions().filter(user=request.user.pk)
        return {"others": own.exclude(session_key=request.session.session_key or "").count()}

    shown_user = Column[BrowserSession](gettext_lazy("User"), lambda one: one.user.get_username())
    since = Column[BrowserSession](gettext_lazy("Signed in"), lambda one: links.when(one.started_at))
    seen = Column[BrowserSession](gettext_lazy("Last seen"), lambda one: links.when(one.seen_at))
    browser = Column[BrowserSession](
        gettext_lazy("Browser"), lambda one: links.whole(browser_name(one.client), one.client)
    )
    shown_method = Column[BrowserSession](gettext_lazy("Signed in with"), lambda one: one.method or links.NOTHING)

    @admin.display(description=gettext_lazy("End"))
    def end(self, session: BrowserSession) -> SafeString:
        return render_to_string("admin/tools_app/session/end.html", {"session": session})

    def end_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        session = self.get_queryset(request).filter(pk=pk).first()
        if session is None:
            self.message_user(request, _("The session has already ended."), messages.INFO)
        else:
            self._end(request, [session])
        return HttpResponseRedirect(_back(request))

    def end_all_view(self, request: HttpRequest) -> HttpResponse:
        """Of one user, but for the session that asks."""
        user = posted(request, "user") or str(request.user.pk)
        sessions = self.get_queryset(request).filter(user=int(user)) if user.isdecimal() else ()
        self._end(request, [one for one in sessions if one.session_key != request.session.session_key])
        return HttpResponseRedirect(_back(request))

    def _end(self, request: HttpRequest, sessions: list[BrowserSession]) -> None:
        with FailuresAsMessages(request):
            number = governance.end_sessions(sessions, actor=actor(request), reason=posted(request, "reason"))
            words = ngettext("%(number)s session has ended.", "%(number)s sessions have ended.", number)
            self.message_user(request, words % {"number": number}, messages.SUCCESS)


def _back(request: HttpRequest) -> str:
    """To the user's page that the form was on, or to the list."""
    user = posted(request, "from")
    if user.isdecimal():
        return reverse("admin:auth_user_change", args=(int(user),))
    return links.address("browsersession", "changelist")


def mark(request: HttpRequest, rows: Iterable[Any]) -> None:
    """Note on each session whether it is the one of this request, and whether the user can end it."""
    may_end = actions.USER_CHANGE.permits(request.user)
    for session in rows:
        session.is_this = session.session_key == request.session.session_key
        session.may_end = may_end or session.user_id == request.user.pk
        session.browser = browser_name(session.client)


if apps.is_installed("django.contrib.sessions"):
    admin.site.register(BrowserSession, SessionAdmin)
