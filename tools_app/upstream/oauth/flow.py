"""A sign-in: the authorization code flow with PKCE (RFC 6749, 7636, 8707, 9207). Blocks; used by governance."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets as random
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from tools_app.catalog import connections
from tools_app.sdk.accounts import Account
from tools_app.sdk.outside import Origin
from tools_app.upstream.oauth import clients, discovery, protocol
from tools_app.upstream.oauth.protocol import Grant, OAuthError, Server, place

R = TypeVar("R")

SECONDS: Final = 30.0
# For all tokens of a connection together: an operator waits for it.
REVOKE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that waits for the browser to come back."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    server: Server
    # Of a client that the hub has registered.
    client_secret: str = field(repr=False)


def begin(
    account: Account,
    origin: Origin,
    redirect_uri: str,
    document_url: str,
    former: tuple[Server, str] | None,
) -> Begun:
    """`document_url`: where the hub describes itself, if others can read it. `former`: a registration that still works.

    Raises:
        OAuthError: the source or its authorization server cannot be used like that.
        ConfigurationError: the connection cannot be used.
    """
    values, options = connections.values_now(account, origin), dict(account.options)
    issuer, scopes = str(options.get("issuer", "")), str(options.get("scopes", ""))
    server = _run(discovery.server_of(origin, issuer=issuer, scopes=scopes))
    if not server.authorization_endpoint:
        raise OAuthError(f"{place(server.issuer)} has no page to sign in")
    if not server.supports_pkce:
        raise OAuthError(f"{place(server.issuer)} does not support PKCE with S256, without which a code can be stolen")
    secret = ""
    if client_id := values.get("client_id", ""):
        server = replace(clients.entered(server, client_id, values.get("client_secret", "")), redirect_uri=redirect_uri)
    elif former is not None and _is_same(former[0], server, redirect_uri):
        names = ("client_id", "client_kind", "auth_method", "redirect_uri", "client_expires_at")
        server, secret = replace(server, **{name: getattr(former[0], name) for name in names}), former[1]
    else:
        known = clients.known(server, redirect_uri, document_url, internal=origin.internal)
        server, secret = _run(known)
    state, verifier = random.token_urlsafe(32), random.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    url = protocol.authorization_url(
        server,
        response_type="code",
        client_id=server.client_id,
        redirect_uri=redirect_uri,
        state=state,
        code_challenge=base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        code_challenge_method=discovery.S256,
        scope=server.scopes,
        resource=server.resource,
    )
    return Begun(url, state, verifier, server, secret)


def check_issuer(server: Server, issuer: str) -> None:
    """Whether a redirect is from the server that the browser was sent to: another could exchange codes of this one.

    Raises:
        OAuthError
    """
    if issuer != server.issuer and (issuer or server.names_issuer):
        raise OAuthError(f"the answer is not from {place(server.issuer)}, where the sign-in began")


def finish(account: Account, origin: Origin, server: Server, code: str, verifier: str, client_secret: str) -> Grant:
    """Exchange the code for tokens.

    Raises:
        OAuthError, ConfigurationError
    """
    values = connections.values_now(account, origin)
    if server.client_kind == clients.ENTERED:
        client_secret = values.get("client_secret", "")
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": server.redirect_uri,
        "code_verifier": verifier,
        "resource": server.resource,
    }
    return _run(protocol.granted(server, form, client_secret, internal=origin.internal))


def revoke(revocations: list[tuple[Server, str, str, str]], *, internal: bool) -> int:
    """Revoke tokens as far as their servers answer at once: server, token, kind of token, secret of the client.
    Returns how many were."""

    async def each() -> int:
        tasks = [
            protocol.revoked(server, token, kind, secret, internal=internal, seconds=REVOKE_SECONDS)
            for server, token, kind, secret in revocations
            if server.revocation_endpoint and token
        ]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return sum(not isinstance(outcome, BaseException) for outcome in outcomes)

    return asyncio.run(each())


def _is_same(former: Server, server: Server, redirect_uri: str) -> bool:
    is_ours = former.client_kind == clients.REGISTERED and not clients.has_expired(former)
    return is_ours and (former.issuer, former.redirect_uri) == (server.issuer, redirect_uri)


def _run(work: Coroutine[Any, Any, R]) -> R:
    """Raises: OAuthError, also if it takes too long."""

    async def within() -> R:
        async with asyncio.timeout(SECONDS):
            return await work

    try:
        return asyncio.run(within())
    except TimeoutError:
        raise OAuthError(f"no answer within {SECONDS:.0f} s") from None
