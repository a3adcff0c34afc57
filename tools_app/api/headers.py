"""Security headers for every response."""

from __future__ import annotations

from typing import Final

from tools_app.base.asgi import Application, Message, Receive, Scope, Send

_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
# For data, which a browser never needs to execute or frame.
_DATA: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
# For pages: everything is loaded from our own files. Inline scripts and styles are never ours.
_PAGES: Final = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
)

STRICT: Final = [*_ALWAYS, _DATA]


class SafeHeaders:
    """ASGI middleware that adds the security headers that a response does not set itself."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.lower(), value) for name, value in message.get("headers", ())]
                own = dict(headers)
                defaults = (*_ALWAYS, _PAGES if own.get(b"content-type", b"").startswith(b"text/html") else _DATA)
                message["headers"] = headers + [header for header in defaults if header[0] not in own]
            await send(message)

        await self._application(scope, receive, send_with_headers)
