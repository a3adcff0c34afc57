"""Django's ASGI handler without the middleware and signals that only pages need.

Each synchronous middleware costs a request two thread switches, each signal one more, and REST requests use none of
them: no session, no messages, and database work runs in threads of its own. So a REST request stays on the event loop
from the server to the view and back.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.urls import set_script_prefix

from tools_app.api.arrival import RestRequest
from tools_app.models.audit import coming_from
from tools_app.sdk import traces
from tools_app.sdk.traces import TRACEPARENT, TRACESTATE, Span

_MONITORED: Final = frozenset({"/health", "/metrics"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Whatever a client makes up.
_OTHER: Final = "HTTP"


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
        with _traced(request) as span:
            response = await self._answered(request, send)
            if span.is_sampled:
                _describe(span, request, response)

    async def _answered(self, request: RestRequest, send: Any) -> HttpResponseBase | None:
        """Send the response; None: the client has disconnected."""
        disconnect = asyncio.ensure_future(request.hang_up())
        with coming_from(request):  # the task copies the context
            response = asyncio.ensure_future(self._middleware_chain(request))
        try:
            await asyncio.wait((response, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if not response.done():
                return None
            result: HttpResponseBase = _with_length(response.result())
            await self.send_response(result, send)
            return result
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


def _traced(request: HttpRequest) -> Span:
    """The span of a request, if there are traces. Monitors ask too often for one."""
    if not traces.are_on() or request.path in _MONITORED:
        return traces.OFF
    headers = request.headers
    return traces.server(_OTHER, traces.place(headers.get(TRACEPARENT), headers.get(TRACESTATE)))


def _describe(span: Span, request: HttpRequest, response: HttpResponseBase | None) -> None:
    method = request.method if request.method in _METHODS else _OTHER
    span.set("http.request.method", str(method))
    span.set("url.scheme", str(request.scheme))
    # The path has what callers write into it.
    route = f"/{request.resolver_match.route}" if request.resolver_match is not None else ""
    span.name = f"{method} {route}" if route else str(method)
    if route:
        span.set("http.route", route)
    if "toolhub.call.id" in span.attributes:
        span.set("gen_ai.operation.name", "execute_tool")
    if response is None:
        span.fail("disconnected")
        return
    span.set("http.response.status_code", response.status_code)
    if response.status_code >= 500:
        span.fail(str(span.attributes.get("toolhub.error.code", response.status_code)))


def _with_length(response: Any) -> Any:
    # Without Content-Length the response would be chunked; 204 and 304 have no body.
    if not response.streaming and response.status_code not in (204, 304):
        response.headers["Content-Length"] = str(len(response.content))
    return response
