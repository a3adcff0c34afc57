"""The paths outside `/v1`: the status at `/`, and the redirects from old paths."""

from __future__ import annotations

import time
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.cache import patch_vary_headers
from ninja import Router

from tools_app.api import limits
from tools_app.api.answers import ResponseSchema, answer, timestamp
from tools_app.api.errors import OPEN_FAILURES, Failure
from tools_app.base import conf

router = Router(auth=None, tags=["hub"])

_STARTED: Final = time.monotonic()


class Sign(ResponseSchema):
    status: str
    message: str
    version: str
    uptime: float
    timestamp: str


@router.get("", response={200: Sign, **dict.fromkeys(OPEN_FAILURES, Failure)}, by_alias=True, url_name="root")
async def show_sign(request: HttpRequest) -> HttpResponse:
    """Show the status, version and uptime in seconds of the server."""
    await limits.count_stranger(request)
    if (pages := _pages_for(request)) is not None:
        return pages
    sign = Sign(
        status="ok",
        message="MCP Server is running",
        version=conf.value("TOOLHUB_VERSION"),
        uptime=round(time.monotonic() - _STARTED, 3),
        timestamp=timestamp(),
    )
    response = answer(sign)
    patch_vary_headers(response, ["Accept"])
    return response


def _pages_for(request: HttpRequest) -> HttpResponse | None:
    """The way to the admin for people: browsers name HTML, programs accept anything. None where there is no admin."""
    if "text/html" not in request.headers.get("Accept", "").lower():
        return None
    try:
        response = HttpResponseRedirect(reverse("admin:index"))
    except NoReverseMatch:
        return None
    patch_vary_headers(response, ["Accept"])
    return response


@router.get("tools", include_in_schema=False, url_name="old_tools")
async def redirect_tools(request: HttpRequest) -> HttpResponse:
    return _redirect(request, "api:tools")


@router.post("tools/call", include_in_schema=False, url_name="old_call")
async def redirect_call(request: HttpRequest) -> HttpResponse:
    return _redirect(request, "api:call", preserve_request=True)


def _redirect(request: HttpRequest, name: str, *, preserve_request: bool = False) -> HttpResponse:
    # Not rate limited: a refusal would cost as much, and the target counts the request.
    # A relative URL keeps the host name that the client used.
    query = request.META.get("QUERY_STRING", "")
    location = reverse(name) + (f"?{query}" if query else "")
    response = HttpResponseRedirect(location, preserve_request=preserve_request)
    del response["Content-Type"]  # It has no body.
    return response
