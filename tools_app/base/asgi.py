"""Types and helpers for ASGI, for the channels that are open to the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Key in the scope of a request: who sends its body, if that is known before the body is read.
SENDER: Final = "toolhub.sender"


async def whole_body(receive: Receive) -> bytes | None:
    """The whole body, whose size was limited before; None if the client has disconnected."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


class Again:
    """Replays a body that has been read, then the following messages, until the request is answered.

    A session keeps a reference to its latest request; `end` releases the body and the connection behind it.
    """

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive: Receive | None = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive() if self._receive is not None else {"type": "http.disconnect"}

    def end(self) -> None:
        self._body = self._receive = None
