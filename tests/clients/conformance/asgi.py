"""The hub, for a client that cannot send a key: every request gets one."""

from __future__ import annotations

import os
from typing import Any

from toolhub.asgi import application as hub

_KEY = os.environ["CONFORMANCE_KEY"].encode()


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        scope = {**scope, "headers": [*scope["headers"], (b"x-api-key", _KEY)]}
    await hub(scope, receive, send)
