"""Tokens of connections, as far as changes of connections concern them: deleted, and revoked where they came from."""

from __future__ import annotations

import logging
from functools import partial

from django.db import transaction

from tools_app.catalog import accounts, connections
from tools_app.models import Connection, Source
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.errors import ConfigurationError
from tools_app.upstream.oauth import clients, flow
from tools_app.upstream.oauth.protocol import Server
from tools_app.upstream.oauth.tokens import Tokens

log = logging.getLogger("tools_app.governance.tokens")

Revocations = list[tuple[Server, str, str, str]]


def withdraw(connection: Connection, caller: str | None = None) -> list[str]:
    """Delete the tokens of a connection and the sign-ins that have begun, or the tokens of one caller, in the
    transaction of a change. Returns whose tokens they were.

    After the commit they are revoked as well, if their servers answer within seconds; otherwise they expire there.
    """
    if caller is None:
        connection.sign_ins.all().delete()
    rows = connection.tokens.select_for_update().order_by("caller")
    rows = rows if caller is None else rows.filter(caller=caller)
    source = Source.objects.filter(name=connection.pack).first()
    revocations: Revocations = []
    callers = []
    for row in rows:
        server, tokens = Server.read(row.server), Tokens.of(row)
        secret = tokens.client_secret
        if server.client_kind == clients.ENTERED:
            secret = _entered_secret(connection)
        # With the refresh token, servers revoke its access tokens; a few do not.
        revocations += [
            (server, tokens.refresh, "refresh_token", secret),
            (server, tokens.access, "access_token", secret),
        ]
        callers.append(row.caller or "all callers")
        row.delete()
    if any(server.revocation_endpoint for server, *_ in revocations):
        internal = source is not None and source.internal
        transaction.on_commit(partial(_revoke, connection.name, revocations, internal=internal))
    return callers


def _revoke(name: str, revocations: Revocations, *, internal: bool) -> None:
    try:
        number = flow.revoke(revocations, internal=internal)
    except Exception:
        # The change is made; whatever their server does, these tokens are not used any more.
        log.exception("[%s] its tokens could not be revoked", name)
    else:
        log.info("[%s] tokens revoked: %d", name, number)


def _entered_secret(connection: Connection) -> str:
    try:
        account = accounts.of_row(connection, ConnectionKind.outside(connection.pack))
        return connections.values_now(account).get("client_secret", "")
    except ConfigurationError:
        return ""
