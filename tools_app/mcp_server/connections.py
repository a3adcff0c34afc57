"""What lasts longer than a request: the connection that the SDK keeps to itself."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    # The session is made anew for every message, and hides the connection that it stands for.
    return context.session._connection
