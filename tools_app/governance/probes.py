"""Whether a connection works. Asked when somebody wants to know, and answered in words that say what to do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from django.db import connections as database_connections

from tools_app import governance, sources
from tools_app.base import database
from tools_app.catalog import connections
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import (
    ApiError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
)

log = logging.getLogger("tools_app.catalog.connections")

SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """How a connection is: well, or what is wrong with it and what helps."""

    healthy: bool
    words: str
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.words} {self.next_step}".strip()


async def tested(identifier: str, *, actor: str) -> Finding:
    """Find out about a connection, and write it down.

    Raises:
        NotFoundError
    """
    account = await database.run(connections.identified, identifier)
    finding = await probed(account)
    await database.run(_note, account, finding, actor)
    return finding


def tested_sync(identifier: str, *, actor: str) -> Finding:
    """The same for code without an event loop."""
    account = connections.identified(identifier)
    finding = asyncio.run(probed(account))
    _note(account, finding, actor)
    return finding


def look_at_all() -> None:
    """Find out about every connection that is on, so that what is wrong is known before a call meets it.

    For a thread of its own, at the start of a hub: nothing waits for it, and nothing breaks by it.
    """
    try:
        accounts = connections.all_of(sources.loaded())
        for account, finding in zip(accounts, asyncio.run(_all_probed(accounts)), strict=True):
            if not finding.healthy:
                log.warning("connection %s: %s", connections.identifier(account), finding)
            governance.note_health(account.name, healthy=finding.healthy, words=str(finding))
    except Exception:
        log.exception("the connections could not be looked at")
    finally:
        database_connections.close_all()


async def _all_probed(accounts: Sequence[Account]) -> list[Finding]:
    return await asyncio.gather(*(probed(account) for account in accounts))


async def probed(account: Account) -> Finding:
    """Ask the upstream, once, for what its kind is asked for. Nothing is changed, there or here."""
    if account.fault:
        return Finding(False, f"It cannot be used: {account.fault}.", "Correct it.")
    kind, begun = account.kind, time.monotonic()
    path, _, query = kind.probe.partition("?")
    try:
        client = connections.client(account, explained=False)
        try:
            await client.get(
                *filter(None, path.split("/")),
                operation=f"reach {kind.title}",
                params=dict(parse_qsl(query)),
                suffix="",
                timeout=min(SECONDS, client.timeout),
            )
        finally:
            await client.close()
    except ToolError as error:
        words, next_step = _in_words(error, account)
        return Finding(False, words, next_step)
    return Finding(True, f"{kind.title} took the secret and answered in {(time.monotonic() - begun) * 1000:.0f} ms.")


def _in_words(error: ToolError, account: Account) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    title, said = account.kind.title, error.message
    match error:
        case ApiError():
            return _of_status(error.context.get("statusCode", 0), said, account)
        case UpstreamInvalidResponseError():
            return (
                f"Wrong address: what answers there is not the interface of {title}. {said}.",
                f"Set the address under which people open {title}; a login page or a proxy may stand in front of it.",
            )
        case UpstreamTlsError():
            return f"No secure connection: {said}.", "Mend the certificate, or correct the address."
        case UpstreamUnavailableError():
            reason = said.removeprefix("Network error: ")
            return f"Not reachable: {reason}.", "Check the address, and that this machine can reach it."
        case ToolTimeoutError():
            return f"Too slow: {said}.", "Check that it is up, and that nothing on the way swallows requests."
    return f"{said}.", error.next_step


def _of_status(status: int, said: str, account: Account) -> tuple[str, str]:
    title = account.kind.title
    if status == 401:
        return f"Wrong key: {title} does not accept it (401).", "Set the secret again."
    if status == 403:
        return (
            f"The key may do too little: {title} refuses what every tool needs (403).",
            f"Check what its account may do at {title}, and whether its interface is switched on there.",
        )
    if 300 <= status < 400:
        return f"Wrong address: {said}.", "Set the address to which it leads, if it is the right one."
    if status < 500 and status != 429:
        return (
            f"Wrong address: {account.base}{account.kind.probe} is nothing that {title} knows ({status}).",
            f"Set the address under which people open {title}.",
        )
    return f"{title} is in trouble itself: it answers {status}.", "Look there, and test again later."


def _note(account: Account, finding: Finding, actor: str) -> None:
    governance.note_check(account.name, account.pack, healthy=finding.healthy, words=str(finding), actor=actor)
