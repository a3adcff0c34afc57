"""Starts and stops packs that declare `on_start` and `on_stop`, on the event loop that runs calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Collection
from typing import Final

from tools_app.base.ports import UnavailableError
from tools_app.sdk.errors import shortened
from tools_app.sdk.pack import Hook, Pack
from tools_app.sources.threads import in_thread
from tools_app.text.redaction import redacted_text

log = logging.getLogger("tools_app.sources")

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0


class StartError(UnavailableError):
    """A pack could not be started; the message is for operators."""


class Lifecycle:
    """The started packs of one source."""

    def __init__(self) -> None:
        self._started: list[Pack] = []
        self._lock = asyncio.Lock()

    async def start(self, packs: Collection[Pack]) -> None:
        """Start the packs that are not started yet, and stop those that a reload has replaced.

        Raises:
            StartError: the pack is not started; the next call tries again.
        """
        async with self._lock:
            await self._stop([pack for pack in self._started if pack not in packs])
            for pack in packs:
                if pack in self._started:
                    continue
                try:
                    for hook in pack.start_hooks:
                        await _run(hook, START_SECONDS)
                except Exception as error:
                    await self._stop([pack])
                    reason = shortened(redacted_text(f"{type(error).__name__}: {error}"), 500)
                    log.exception("pack %s cannot be started", pack.name)
                    raise StartError(f"the pack {pack.name} cannot be started: {reason}") from error
                self._started.append(pack)

    async def stop(self) -> None:
        """Stop all packs, the last started first."""
        async with self._lock:
            await self._stop(self._started)

    async def _stop(self, packs: Collection[Pack]) -> None:
        for pack in reversed(list(packs)):
            for hook in pack.stop_hooks:
                try:
                    await _run(hook, STOP_SECONDS)
                except Exception:
                    log.exception("pack %s did not stop properly", pack.name)
            if pack in self._started:
                self._started.remove(pack)


async def _run(hook: Hook, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        if inspect.iscoroutinefunction(hook):
            await hook()
        else:
            await in_thread(hook)
