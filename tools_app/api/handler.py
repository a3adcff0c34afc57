"""Django's ASGI handler without the middleware and signals that only pages need.

Each synchronous middleware costs a request two thread switches, each signal one more, and REST requests use none of
them: no session, no messages, and database work runs in threads of its own. So a REST request stays on the event loop
from the server to the view and back.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.urls import set_script_prefix

from tools_app.api.arrival import RestRequest
from tools_app.models.audit import coming_from


class RestHandler(ASGIHandler):
    """Handles REST requests, which have no session, user or messages."""

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        inner = convert_exception_to_response(self._get_response_async)  # type: ignore[attr-defined]
        self._middleware_chain: Any = convert_exception_to_response(_Security(inner))

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request; cancel its work if the client disconnects."""
        set_script_prefix(get_script_prefix(scope))
        request = RestRequest(scope, receive)
        disconnect = asyncio.ensure_future(request.hang_up())
        with coming_from(request):  # the task copies the context
            response = asyncio.ensure_future(self._middleware_chain(request))
        try:
            await asyncio.wait((response, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if response.done():
                await self.send_response(_with_length(response.result()), send)
        finally:
            disconnect.cancel()
            if not response.done():
                response.cancel()
                await asyncio.wait((response,))


class _Security(SecurityMiddleware):
    """Django's SecurityMiddleware on the event loop: it only reads and sets headers, nothing in it blocks."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.process_request(request) or await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)


def _with_length(response: Any) -> Any:
    # Without Content-Length the response would be chunked; 204 and 304 have no body.
    if not response.streaming and response.status_code not in (204, 304):
        response.headers["Content-Length"] = str(len(response.content))
    return response
