"""Starting while the database is unavailable: the handshake works, all other requests are refused until it recovers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from tools_app.base import database
from tools_app.setup.installation import NotReady

log = logging.getLogger("tools_app.mcp")

LOOK_SECONDS: Final = 0.5
# Answered without the database. A client whose handshake fails disconnects and would miss the recovery.
GREETINGS: Final = frozenset({"initialize", "ping", "server/discover", "subscriptions/listen"})


class Opening:
    """The reason why the hub is not ready, and `prepare`, which makes it ready or raises the current reason."""

    def __init__(self, trouble: NotReady, prepare: Callable[[], None]) -> None:
        self._trouble: NotReady | None = trouble
        self._prepare = prepare

    async def look(self) -> None:
        """Retry until the hub is ready."""
        while self._trouble is not None:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await database.run(self._prepare)
                self._trouble = None
            except NotReady as trouble:
                self._trouble = trouble
            except Exception:
                log.exception("checking whether the hub is ready failed")
        log.warning("the database is available now")

    async def guard(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        trouble = self._trouble
        if trouble is None or ctx.request_id is None or (trouble.passing and ctx.method in GREETINGS):
            return await call_next(ctx)
        later = "; call again in a moment" if trouble.passing else ""
        raise MCPError(INTERNAL_ERROR, f"ToolHub cannot be used: {trouble}{later}")
