"""CORS for REST and MCP: pages of the origins that an operator names may use them; none by default.

They authenticate with a key. Their cookies are never accepted (`Access-Control-Allow-Credentials` is not sent).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tools_app.base.asgi import Application, Message, Receive, Scope, Send

_EXPOSED: Final = (
    b"access-control-expose-headers",
    b"Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Idempotent-Replayed, ETag, "
    b"Mcp-Session-Id, WWW-Authenticate",
)
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, If-None-Match, X-API-Key, Toolhub-Approval, "
        b"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name",
    ),
    (b"access-control-max-age", b"600"),
    (b"content-length", b"0"),
)
_VARY: Final = (b"vary", b"Origin")


class Cors:
    """ASGI middleware that allows the given origins; `*` allows all."""

    def __init__(self, application: Application, origins: Collection[str]) -> None:
        self._application = application
        self._all = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._origins:
            await self._application(scope, receive, send)
            return
        request_headers = dict(scope["headers"])
        origin = request_headers.get(b"origin", b"")
        # Sent for every origin, also a refused one: caches must not reuse the response for another origin.
        headers = [_VARY]
        if self._all or origin in self._origins:
            headers.append((b"access-control-allow-origin", b"*" if self._all else origin))
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in request_headers:
                await send({"type": "http.response.start", "status": 204, "headers": [*headers, *_PREFLIGHT]})
                await send({"type": "http.response.body"})
                return
            headers.append(_EXPOSED)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        await self._application(scope, receive, send_with_headers)
