"""Django without what only its pages need.

Every middleware of Django's that was made for threads costs a request of the REST door two changes of thread, and every
signal one more. None of them does anything here: there is no session to open, no message to show, and work on the
database is done in threads of its own. So the requests of this door take their way from the server to the view and back
without leaving the event loop.
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
    """Answers the requests of the REST door: there is no session, no user, no message in them."""

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        inner = convert_exception_to_response(self._get_response_async)  # type: ignore[attr-defined]
        self._middleware_chain: Any = convert_exception_to_response(_Security(inner))

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request; when the client hangs up before that, what was going on for it is cancelled."""
        set_script_prefix(get_script_prefix(scope))
        request = RestRequest(scope, receive)
        hanging_up = asyncio.ensure_future(request.hang_up())
        with coming_from(request):  # which the task takes along
            answering = asyncio.ensure_future(self._middleware_chain(request))
        try:
            await asyncio.wait((answering, hanging_up), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await self.send_response(_complete(answering.result()), send)
        finally:
            hanging_up.cancel()
            if not answering.done():
                answering.cancel()
                await asyncio.wait((answering,))


class _Security(SecurityMiddleware):
    """Looks at headers and sets some: there is nothing in it that could block."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.process_request(request) or await self.get_response(request)  # type: ignore[misc]
        return self.process_response(request, response)


def _complete(response: Any) -> Any:
    # Without its length a response would go out in chunks; these two have none.
    if not response.streaming and response.status_code not in (204, 304):
        response.headers["Content-Length"] = str(len(response.content))
    return response
