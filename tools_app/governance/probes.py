"""Tests whether connections work, and says what to do if they do not."""

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
class ProbeResult:
    """The state of a connection: healthy, or what is wrong and what helps."""

    healthy: bool
    words: str
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.words} {self.next_step}".strip()


async def tested(identifier: str, *, actor: str) -> ProbeResult:
    """Test a connection, and record the result.

    Raises:
        NotFoundError
    """
    account = await database.run(connections.identified, identifier)
    result = await probed(account)
    await database.run(_note, account, result, actor)
    return result


def tested_sync(identifier: str, *, actor: str) -> ProbeResult:
    """The same for code without an event loop."""
    account = connections.identified(identifier)
    result = asyncio.run(probed(account))
    _note(account, result, actor)
    return result


def look_at_all() -> None:
    """Test every enabled connection, so that problems are known before a call meets them.

    Runs in its own thread when the hub starts: nothing waits for it, and no error escapes.
    """
    try:
        accounts = connections.all_of(sources.loaded())
        for account, result in zip(accounts, asyncio.run(_all_probed(accounts)), strict=True):
            if not result.healthy:
                log.warning("connection %s: %s", connections.identifier(account), result)
            governance.note_health(account.name, healthy=result.healthy, words=str(result))
    except Exception:
        log.exception("testing the connections failed")
    finally:
        database_connections.close_all()


async def _all_probed(accounts: Sequence[Account]) -> list[ProbeResult]:
    return await asyncio.gather(*(probed(account) for account in accounts))


async def probed(account: Account) -> ProbeResult:
    """Send the kind's probe request once. Changes nothing, neither there nor here."""
    if account.fault:
        return ProbeResult(False, f"It cannot be used: {account.fault}.", "Correct it.")
    kind, started = account.kind, time.monotonic()
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
        return ProbeResult(False, words, next_step)
    return ProbeResult(True, f"{kind.title} accepted the secret after {(time.monotonic() - started) * 1000:.0f} ms.")


def _in_words(error: ToolError, account: Account) -> tuple[str, str]:
    """The problem, and what to do about it."""
    title, message = account.kind.title, error.message
    match error:
        case ApiError():
            return _of_status(error.context.get("statusCode", 0), message, account)
        case UpstreamInvalidResponseError():
            return (
                f"Wrong address: the server at this address is not the API of {title}. {message}.",
                f"Set the address under which people open {title}; a login page or a proxy may be in front of it.",
            )
        case UpstreamTlsError():
            return f"No secure connection: {message}.", "Fix the certificate, or correct the address."
        case UpstreamUnavailableError():
            reason = message.removeprefix("Network error: ")
            return f"Not reachable: {reason}.", "Check the address, and that this machine can reach it."
        case ToolTimeoutError():
            return f"Too slow: {message}.", "Check that it is running, and that no firewall drops requests."
    return f"{message}.", error.next_step


def _of_status(status: int, message: str, account: Account) -> tuple[str, str]:
    title = account.kind.title
    if status == 401:
        return f"Wrong key: {title} does not accept it (401).", "Set the secret again."
    if status == 403:
        return (
            f"Missing permissions: {title} refuses what every tool needs (403).",
            f"Check the permissions of its account at {title}, and whether the API is enabled there.",
        )
    if 300 <= status < 400:
        return f"Wrong address: {message}.", "Set the address that it redirects to, if that is the right one."
    if status < 500 and status != 429:
        return (
            f"Wrong address: {account.base}{account.kind.probe} is not an address of {title} ({status}).",
            f"Set the address under which people open {title}.",
        )
    return f"{title} has a problem: it answers {status}.", f"Check {title}, and test again later."


def _note(account: Account, result: ProbeResult, actor: str) -> None:
    governance.note_check(account.name, account.pack, healthy=result.healthy, words=str(result), actor=actor)
