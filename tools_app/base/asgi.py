"""What goes through an ASGI application, for the doors that are open to the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# In the scope of a request: who sends its body, where a door knows that before it reads it.
SENDER: Final = "toolhub.sender"


async def whole_body(receive: Receive) -> bytes | None:
    """The whole body, whose size has been looked after; None when the client is gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


class Again:
    """Gives a body that has been read once more, and after it whatever follows, until the request is answered.

    A session holds on to its latest request. What stands behind that, as the connection, is let go with the answer.
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
