"""Error handlers for requests that reach no view of the hub: JSON, but HTML in the admin.

Set in the site's URLs as `handler400`, `handler404` and `handler500`.
"""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.views import defaults

from tools_app.api import errors


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return defaults.bad_request(request, exception) if _in_admin(request) else errors.response_sync(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _in_admin(request):
        return defaults.page_not_found(request, exception)
    return errors.response_sync(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if _in_admin(request):
        return defaults.server_error(request)
    return errors.response_sync(request, sys.exc_info()[1] or RuntimeError("an error without an exception"))


def _in_admin(request: HttpRequest) -> bool:
    try:
        return f"{request.path}/".startswith(reverse("admin:index"))
    except NoReverseMatch:
        return False
