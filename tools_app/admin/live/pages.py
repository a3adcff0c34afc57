"""The views behind the stream: what has changed, and the parts of the frame that every page has."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_GET

from tools_app.admin.alerts import open_count
from tools_app.admin.approvals import pending_count
from tools_app.admin.live import feed

# A request that a page makes by itself: no sign of a person.
HEADER = "X-ToolHub-Live"


def urls(site: AdminSite) -> list[URLPattern]:
    return [
        path("live/", site.admin_view(require_GET(_changes)), name="tools_app_process_live"),
        path("live/frame/", site.admin_view(require_GET(_Frame(site))), name="tools_app_process_live_frame"),
    ]


def _changes(request: HttpRequest) -> HttpResponse:
    """Topic → time of its last change in milliseconds, of those that this user can follow."""
    topics = feed.topics_of(request.user)
    try:
        return JsonResponse(feed.of_hub().changed(topics))
    except DatabaseError:
        return JsonResponse({}, status=503)


class _Frame:
    """The badge of the menu and the banner, as the page has them."""

    def __init__(self, site: AdminSite) -> None:
        self._site = site

    def __call__(self, request: HttpRequest, **_: Any) -> HttpResponse:
        badges = [("approvals", pending_count(request)), ("alerts", open_count(request))]
        context = {**self._site.each_context(request), "badges": badges}
        return TemplateResponse(request, "admin/tools_app/live/frame.html", context)
