"""Record the address and user agent of a request in the audit entries of its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from tools_app.models.audit import coming_from


@sync_and_async_middleware
def on_record(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Trusted proxies are resolved before Django: REMOTE_ADDR is the client's address."""
    if iscoroutinefunction(get_response):

        async def answered(request: HttpRequest) -> HttpResponseBase:
            with coming_from(request):
                response: HttpResponseBase = await get_response(request)
                return response

        return answered

    def answered_at_once(request: HttpRequest) -> HttpResponseBase:
        with coming_from(request):
            response: HttpResponseBase = get_response(request)
            return response

    return answered_at_once
