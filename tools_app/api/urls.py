"""The URLs of the REST API, and the JSON 404 for all others."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import NoReturn

from django.http import HttpRequest
from django.urls import URLPattern, include, path, re_path

from tools_app.api import api, docs
from tools_app.api.door import behind_door
from tools_app.api.errors import RouteNotFoundError


async def nothing_here(request: HttpRequest) -> NoReturn:
    """JSON for unknown paths below /v1, also with DEBUG, where Django would show its own page."""
    raise RouteNotFoundError


_operations, _app_name, _namespace = api.urls
for _operation in _operations:
    # Not ninja's own root, which our first path replaces.
    if isinstance(_operation, URLPattern) and iscoroutinefunction(_operation.callback):
        _operation.callback = behind_door(_operation.callback)

urlpatterns = [
    path("", include((_operations, _app_name), namespace=_namespace)),
    path("v1/docs", behind_door(docs.show_docs), name="docs"),
    re_path(r"^v1(?:/.*)?\Z", behind_door(nothing_here)),
]
