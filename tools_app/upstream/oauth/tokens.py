"""The table of tokens. One process at a time requests a new token, and none holds the database meanwhile.

It claims the row until a moment, sends its request, and stores the answer only over the version that it replaces. The
others wait for the new version. What happens at each interruption: docs/decisions/0058.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets as random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import DatabaseError
from django.db import connections as database_connections
from django.db.models import F, Q
from django.utils import timezone

from tools_app.base import hub, secrets
from tools_app.catalog import connections
from tools_app.models import Connection, Source, SourceStatus, UpstreamToken
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import ConfigurationError
from tools_app.sdk.outside import Origin
from tools_app.upstream.oauth import clients, discovery, protocol
from tools_app.upstream.oauth.protocol import (
    CLIENT_UNKNOWN,
    INVALID_GRANT,
    Grant,
    OAuthError,
    RefusedError,
    Server,
)
from tools_app.upstream.oauth.token import NoTokenError, Token

log = logging.getLogger("tools_app.upstream.oauth")

# How long one process may take, from its claim to the stored token; then another one tries.
CLAIM_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 18.0
STORE_SECONDS: Final = 8.0
# How long a call waits for a token, unless its own time is over before.
WAIT_SECONDS: Final = 45.0
POLL_SECONDS: Final = 0.05
# A new token is requested so long before the end of the old one, or after most of a short life.
EARLY_SECONDS: Final = 60.0
EARLY_SHARE: Final = 0.2
# A token that was issued so recently, and was never accepted, would not be helped by another.
FRESH_SECONDS: Final = 10.0
FIRST_PAUSE: Final = 1.0
LAST_PAUSE: Final = 60.0
SIGN_IN: Final = "sign in again"

Form = Connection.Form


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a row holds encrypted."""

    access: str = field(default="", repr=False)
    refresh: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)

    def sealed(self) -> bytes:
        values = {"access": self.access, "refresh": self.refresh, "client_secret": self.client_secret}
        return secrets.encrypted(json.dumps(values).encode())

    @classmethod
    def of(cls, row: UpstreamToken) -> Tokens:
        """None of them if they cannot be read."""
        text = secrets.decrypted(bytes(row.sealed)) if row.sealed else None
        return cls(**json.loads(text)) if text is not None else cls()


def obtain(account: Account, origin: Origin, refused: int = 0) -> Token:
    """A token, requested now if necessary. Blocks; in a thread that keeps no connection to the database.

    `refused`: the version that the source refuses.

    Raises:
        NoTokenError
    """
    try:
        return _obtain(account, origin, refused)
    except DatabaseError as error:
        log.warning("[%s] its token cannot be read: %s", account.name, error)
        raise NoTokenError("its token cannot be read: the database of the hub is busy", retry_after=1) from error
    finally:
        database_connections.close_all()


def _obtain(account: Account, origin: Origin, refused: int) -> Token:
    end = time.monotonic() + WAIT_SECONDS
    row = _row(account)
    first = row.version
    while True:
        tokens, now = Tokens.of(row), timezone.now()
        is_usable = bool(tokens.access) and row.version > refused
        # One that was requested meanwhile is used, however short its life is.
        if is_usable and (row.version > first or row.renew_at is None or row.renew_at > now):
            return _token(row, tokens)
        has_pause = row.retry_at is not None and row.retry_at > now
        cannot_renew = account.form == Form.OAUTH and (row.needs_sign_in or not tokens.refresh)
        if is_usable and (has_pause or cannot_renew) and (row.expires_at is None or row.expires_at > now):
            return _token(row, tokens)
        if row.needs_sign_in:
            raise NoTokenError(row.error or SIGN_IN, needs_sign_in=True)
        if cannot_renew:
            reason = _without_refresh(row, tokens)
            if row.expires_at is not None and row.expires_at <= now:
                _require_sign_in(row, reason)
            raise NoTokenError(reason, needs_sign_in=True)
        if row.retry_at is not None and has_pause:
            wait = (row.retry_at - now).total_seconds()
            raise NoTokenError(f"its token could not be renewed: {row.error}", retry_after=max(1.0, wait))
        if (claim := _claim(row)) is not None:
            _renew(account, origin, row, tokens, claim)
        elif time.monotonic() > end or hub.current().is_closing:
            raise NoTokenError("another process has not got a new token in time", retry_after=5)
        else:
            time.sleep(POLL_SECONDS)
        row = _row(account)


def last_until(connection: Connection) -> datetime | None:
    """When the token of all callers ends for good, as its server issued none to renew it; None: it can be renewed."""
    row = connection.tokens.filter(caller="").first()
    return row.expires_at if row is not None and not Tokens.of(row).refresh else None


def _without_refresh(row: UpstreamToken, tokens: Tokens) -> str:
    if not tokens.access:
        return "its tokens cannot be read: sign in again"
    has_expired = row.expires_at is not None and row.expires_at <= timezone.now()
    return f"its token {'has expired' if has_expired else 'is refused'}, and cannot be renewed: {SIGN_IN}"


def _row(account: Account) -> UpstreamToken:
    """Raises: NoTokenError."""
    rows = UpstreamToken.objects.select_related("connection").filter(connection__name=account.name)
    row = rows.filter(caller=account.user).first()
    if row is None and account.form == Form.CLIENT_CREDENTIALS:
        row = _first_row(account)
    if row is not None and bytes(row.connection.sealed) != account.sealed:
        # Another person may have signed in: a session that began before must not get that token.
        raise NoTokenError("its connection has been changed meanwhile", retry_after=1)
    if row is None:
        raise NoTokenError(
            "no person has signed in yet" if not account.user else f"there is no sign-in of {account.user} yet",
            needs_sign_in=True,
        )
    return row


def _first_row(account: Account) -> UpstreamToken | None:
    connection = Connection.objects.filter(name=account.name).first()
    if connection is None:
        return None
    row, _ = UpstreamToken.objects.get_or_create(connection=connection, caller=account.user)
    row.connection = connection
    return row


def _token(row: UpstreamToken, tokens: Tokens) -> Token:
    renew_at = row.renew_at.timestamp() if row.renew_at is not None else None
    obtained_at = row.obtained_at.timestamp() if row.obtained_at is not None else 0.0
    return Token(tokens.access, row.version, renew_at, obtained_at)


def _claim(row: UpstreamToken) -> str | None:
    """The right to request the next version, for a while; None: another process has it."""
    now = timezone.now()
    claim = random.token_hex(16)
    free = Q(refreshing_until=None) | Q(refreshing_until__lte=now)
    until = now + timedelta(seconds=CLAIM_SECONDS)
    rows = UpstreamToken.objects.filter(free, pk=row.pk, version=row.version, needs_sign_in=False)
    if not rows.update(refreshing_until=until, refreshing_by=claim):
        return None
    if row.refreshing_until is not None:
        log.warning("[%s] a process ended while it renewed the token; trying again", row.connection.name)
    return claim


def _renew(account: Account, origin: Origin, row: UpstreamToken, tokens: Tokens, claim: str) -> None:
    """Request the next version, and record the outcome."""
    server = Server.read(row.server)
    try:
        server, grant, client_secret = asyncio.run(_requested(account, origin, server, tokens))
    except RefusedError as error:
        is_final = account.form == Form.OAUTH and error.code in {INVALID_GRANT, *CLIENT_UNKNOWN}
        # The same request would be refused again, until an operator corrects something.
        _record_failure(row, claim, str(error), is_final=is_final, retry_after=LAST_PAUSE)
    except OAuthError as error:
        _record_failure(row, claim, str(error), retry_after=error.retry_after)
    except ConfigurationError as error:
        _record_failure(row, claim, error.message)
    except Exception:
        log.exception("[%s] its token could not be renewed", account.name)
        _record_failure(row, claim, "an error in the hub")
    else:
        refresh = grant.refresh or tokens.refresh
        _store(row, claim, server, grant, Tokens(grant.access, refresh, client_secret))


async def _requested(account: Account, origin: Origin, server: Server, tokens: Tokens) -> tuple[Server, Grant, str]:
    """Raises: OAuthError, ConfigurationError, TimeoutError."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            if account.form == Form.CLIENT_CREDENTIALS:
                return await _by_credentials(account, origin, server)
            return await _by_refresh(account, origin, server, tokens)
    except TimeoutError:
        raise OAuthError(f"no new token within {REQUEST_SECONDS:.0f} s") from None


async def _by_credentials(account: Account, origin: Origin, server: Server) -> tuple[Server, Grant, str]:
    values, options = connections.values_now(account, origin), dict(account.options)
    scopes = str(options.get("scopes", ""))
    if not server.token_endpoint:
        if token_url := str(options.get("token_url", "")):
            server = Server(token_endpoint=token_url, scopes=scopes)
        else:
            server = await discovery.server_of(origin, issuer=str(options.get("issuer", "")), scopes=scopes)
    secret = values["client_secret"]
    server = clients.entered(server, values["client_id"], secret)
    form = {"grant_type": "client_credentials", "scope": server.scopes, "resource": server.resource}
    return server, await protocol.granted(server, form, secret, internal=origin.internal), ""


async def _by_refresh(account: Account, origin: Origin, server: Server, tokens: Tokens) -> tuple[Server, Grant, str]:
    secret = tokens.client_secret
    if server.client_kind == clients.ENTERED:
        secret = connections.values_now(account, origin).get("client_secret", "")
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh, "resource": server.resource}
    try:
        grant = await protocol.granted(server, form, secret, internal=origin.internal)
    except RefusedError as error:
        if error.code not in CLIENT_UNKNOWN or server.client_kind != clients.REGISTERED:
            raise
        log.warning("[%s] the authorization server forgot the hub; registering again", account.name)
        server, secret = await clients.registered(server, server.redirect_uri, internal=origin.internal)
        grant = await protocol.granted(server, form, secret, internal=origin.internal)
    return server, grant, secret if server.client_kind != clients.ENTERED else ""


def _store(row: UpstreamToken, claim: str, server: Server, grant: Grant, tokens: Tokens) -> None:
    """Store a new version. The old refresh token may be void already: a busy database is asked again for a while."""
    values = {**stored_values(server, grant, tokens), "version": row.version + 1}
    end = time.monotonic() + STORE_SECONDS
    while True:
        try:
            rows = UpstreamToken.objects.filter(pk=row.pk, version=row.version, refreshing_by=claim)
            if rows.update(**values):
                log.info("[%s] token renewed, version %d", row.connection.name, row.version + 1)
            else:
                log.info("[%s] a renewed token came too late: another one was stored", row.connection.name)
        except DatabaseError:
            database_connections.close_all()
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS * 4)
        else:
            return


def stored_values(server: Server, grant: Grant, tokens: Tokens) -> dict[str, Any]:
    """The columns of a row with new tokens, without its version."""
    now = timezone.now()
    lifetime = grant.lifetime
    early = min(EARLY_SECONDS, lifetime * EARLY_SHARE) if lifetime is not None else 0.0
    return {
        "sealed": tokens.sealed(),
        "server": server.as_dict(),
        "scopes": grant.scopes or server.scopes,
        "obtained_at": now,
        "renew_at": now + timedelta(seconds=lifetime - early) if lifetime is not None else None,
        "expires_at": now + timedelta(seconds=lifetime) if lifetime is not None else None,
        "refreshing_until": None,
        "refreshing_by": "",
        "failures": 0,
        "retry_at": None,
        "error": "",
        "needs_sign_in": False,
    }


def _record_failure(
    row: UpstreamToken, claim: str, reason: str, *, is_final: bool = False, retry_after: float | None = None
) -> None:
    """The claim ends, so that another process can try later; never, if a person has to sign in."""
    name, now = row.connection.name, timezone.now()
    log.warning("[%s] its token could not be renewed: %s", name, reason)
    pause = min(FIRST_PAUSE * 2 ** min(row.failures, 10), LAST_PAUSE)
    values: Mapping[str, Any] = {
        "error": f"{reason}: {SIGN_IN}"[:500] if is_final else reason[:500],
        "needs_sign_in": is_final,
        "failures": F("failures") + 1,
        "retry_at": now + timedelta(seconds=min(max(pause, retry_after or 0), LAST_PAUSE)),
        "refreshing_until": None,
        "refreshing_by": "",
    }
    # Not in one transaction: governance locks these rows in the other order.
    rows = UpstreamToken.objects.filter(pk=row.pk, version=row.version, refreshing_by=claim)
    if rows.update(**values) and is_final:
        note_sign_in(row, str(values["error"]))


def _require_sign_in(row: UpstreamToken, reason: str) -> None:
    """A token has ended that nothing renews."""
    rows = UpstreamToken.objects.filter(pk=row.pk, version=row.version, needs_sign_in=False)
    if rows.update(needs_sign_in=True, error=reason):
        note_sign_in(row, reason)


def note_sign_in(row: UpstreamToken, reason: str) -> None:
    """Show operators that a person has to sign in again. The tools stay listed."""
    if row.caller:
        return  # It concerns one caller, who is told so.
    now = timezone.now()
    Connection.objects.filter(pk=row.connection_id).update(checked_at=now, healthy=False, health=reason[:500])
    described = Source.objects.filter(connection_id=row.connection_id, removed_at=None)
    statuses = SourceStatus.objects.filter(source__in=described)
    statuses.exclude(availability=SourceStatus.Availability.SIGN_IN).update(
        availability=SourceStatus.Availability.SIGN_IN, error=reason[:1000], since=now
    )
