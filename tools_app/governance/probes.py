"""Tests whether connections work, and says what to do if they do not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from django.db import connections as database_connections

from tools_app import governance
from tools_app.access import actions
from tools_app.base import database, ports
from tools_app.base.ports import UnavailableError
from tools_app.catalog import accounts, catalog, clients, connections
from tools_app.governance.actors import Actor
from tools_app.models import Source
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import (
    ApiError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
)
from tools_app.sdk.outside import Origin
from tools_app.text import redaction

log = logging.getLogger("tools_app.catalog.connections")

SECONDS: Final = 10.0
# Anything shorter occurs in every text.
_SHORTEST_SECRET: Final = 4


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The state of a connection: healthy, or what is wrong and what helps."""

    healthy: bool
    words: str
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.words} {self.next_step}".strip()


async def test(identifier: str, *, actor: Actor) -> ProbeResult:
    """Test a connection, and record the result.

    Raises:
        NotFoundError
    """
    actor.require(actions.CONNECTION_TEST)
    account = await database.run(_account, identifier)
    if account.form:
        # Not in a database thread: the source may take minutes.
        result = await asyncio.to_thread(_list_elsewhere, account, await database.run(_origin_of, account))
    else:
        result = await probe(account)
    await database.run(_note, account, result, actor)
    return result


def test_sync(identifier: str, *, actor: Actor) -> ProbeResult:
    """The same for code without an event loop."""
    actor.require(actions.CONNECTION_TEST)
    account = _account(identifier)
    result = _list(account, _origin_of(account)) if account.form else asyncio.run(probe(account))
    _note(account, result, actor)
    return result


def probe_all() -> None:
    """Test every enabled connection, so that problems are known before a call meets them.

    Runs in its own thread when the hub starts: nothing waits for it, and no error escapes.
    """
    try:
        tested = connections.all_of(catalog.current().connection_kinds)
        for account, result in zip(tested, asyncio.run(_probe_each(tested)), strict=True):
            if not result.healthy:
                log.warning("connection %s: %s", accounts.identifier(account), result)
            governance.note_health(account.name, healthy=result.healthy, words=str(result))
    except Exception:
        log.exception("testing the connections failed")
    finally:
        database_connections.close_all()


def _account(identifier: str) -> Account:
    """Raises: NotFoundError, ConfigurationError."""
    return connections.identified(identifier, catalog.current().connection_kinds)


async def _probe_each(accounts: Sequence[Account]) -> list[ProbeResult]:
    return await asyncio.gather(*(probe(account) for account in accounts))


async def probe(account: Account) -> ProbeResult:
    """Send the kind's probe request once. Changes nothing, neither there nor here."""
    if account.fault:
        return ProbeResult(False, f"It cannot be used: {account.fault}.", "Correct it.")
    kind, started_at = account.kind, time.monotonic()
    path, _, query = kind.probe.partition("?")
    try:
        client = clients.client_of(account)
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
    return ProbeResult(True, f"{kind.title} accepted the secret after {(time.monotonic() - started_at) * 1000:.0f} ms.")


def _origin_of(account: Account) -> Origin | None:
    """The source outside to which an account belongs; None if it was removed."""
    source = Source.objects.filter(name=account.pack, removed_at=None).first()
    return source.origin if source is not None else None


def _list_elsewhere(account: Account, origin: Origin | None) -> ProbeResult:
    """In a thread that keeps no connection to the database."""
    try:
        return _list(account, origin)
    finally:
        database_connections.close_all()


def _list(account: Account, origin: Origin | None) -> ProbeResult:
    """Have a source outside list what it has, through this account. Blocks."""
    if account.fault or origin is None:
        return ProbeResult(False, f"It cannot be used: {account.fault or 'its source was removed'}.", "Correct it.")
    started_at = time.monotonic()
    try:
        listing = ports.upstreams().listing(replace(origin, connection=account.name))
    except (UnavailableError, ToolError) as error:
        reason = _without_secrets(str(error), account).rstrip(".")
        return ProbeResult(False, f"{account.pack} cannot be described: {reason}.", "Check its page.")
    milliseconds = (time.monotonic() - started_at) * 1000
    return ProbeResult(True, f"{account.pack} listed {len(listing.tools)} tools after {milliseconds:.0f} ms.")


def _without_secrets(text: str, account: Account) -> str:
    """A message that may repeat what the upstream said."""
    try:
        values = connections.credentials_of(account).secrets
    except ToolError:
        values = ()
    for value in sorted(values, key=len, reverse=True):
        for part in {value, *value.split()}:
            if len(part) >= _SHORTEST_SECRET:
                text = text.replace(part, redaction.MASK)
    return redaction.redacted_text(text)


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


def _note(account: Account, result: ProbeResult, actor: Actor) -> None:
    governance.note_check(account.name, account.pack, healthy=result.healthy, words=str(result), actor=actor)
