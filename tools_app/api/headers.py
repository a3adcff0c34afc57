"""What every answer tells browsers to refuse, whoever made the answer."""

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
# Data, which a browser has no reason to run or to show anything around.
_DATA: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
# Pages: everything comes from files of our own; a script or a style that stands in a page is not what we wrote.
_PAGES: Final = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
)

STRICT: Final = [*_ALWAYS, _DATA]


class SafeHeaders:
    """An ASGI application around another one, whose answers get the headers that it has not set itself."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.lower(), value) for name, value in message.get("headers", ())]
                given = dict(headers)
                wanted = (*_ALWAYS, _PAGES if given.get(b"content-type", b"").startswith(b"text/html") else _DATA)
                message["headers"] = headers + [header for header in wanted if header[0] not in given]
            await send(message)

        await self._application(scope, receive, completed)
