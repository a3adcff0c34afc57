"""Sign-ins of connections at authorization servers: begun and finished by the same user, in the same browser session.

Requests to the authorization server are sent outside of transactions. No audit entry and no error contains a secret.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from tools_app.access import actions, issuer
from tools_app.base import conf, secrets
from tools_app.catalog import accounts
from tools_app.governance.actors import Actor, changing, id_of
from tools_app.governance.connection_secrets import wrong
from tools_app.governance.tokens import withdraw
from tools_app.models import ApiKey, Connection, SignIn, Source, UpstreamToken
from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    ConfigurationError,
    NotFoundError,
    UpstreamUnavailableError,
    shortened,
)
from tools_app.sdk.outside import Origin
from tools_app.sources import outside
from tools_app.upstream.oauth import clients, flow
from tools_app.upstream.oauth.protocol import OAuthError, Server, place
from tools_app.upstream.oauth.tokens import Tokens, stored_values

# From the redirect to the authorization server until the browser comes back.
SECONDS: Final = 600
CALLBACK: Final = "admin:tools_app_connection_signed_in"
DOCUMENT: Final = "api:oauth_client"
MOST_CODE: Final = 4_000
MOST_BEGUN: Final = 100
MOST_CALLER: Final = 100
_AGAIN: Final = "Begin the sign-in again on the page of the connection."


@dataclass(frozen=True, slots=True)
class Browser:
    """The session that begins a sign-in, and where the authorization server sends it back to."""

    session: str = field(repr=False)
    redirect_uri: str
    # Where the hub describes itself as a client; empty if other machines cannot read it.
    document_url: str = ""


def browser(session: str, requested_url: str) -> Browser:
    """The browser of a request. `requested_url`: the hub as the request addresses it, if it has no public URL."""
    own_url = public_url()
    base = own_url or requested_url.rstrip("/")
    document_url = f"{own_url}{reverse(DOCUMENT)}" if own_url.startswith("https://") else ""
    return Browser(session, f"{base}{reverse(CALLBACK)}", document_url)


def public_url() -> str:
    """The URL of the hub for other machines; empty if it is not set."""
    url: str = conf.value("TOOLHUB_PUBLIC_URL")
    return url.rstrip("/")


def client_document() -> dict[str, Any] | None:
    """What describes the hub to authorization servers; None if it has no public URL."""
    own = browser("", "")
    return clients.document(own.document_url, own.redirect_uri) if own.document_url else None


@dataclass(frozen=True, slots=True)
class Redirect:
    """What the authorization server has appended to the redirect URI."""

    state: str = field(repr=False)
    code: str = field(default="", repr=False)
    issuer: str = ""
    error: str = ""


def begin_sign_in(name: str, *, browser: Browser, actor: Actor, caller: str = "") -> str:
    """Begin a sign-in. Returns the URL for the browser. `caller`: whose sign-in it is; empty: of all callers.

    Raises:
        NotFoundError
        ValidationError: the connection has no sign-in, or none of its own for this caller.
        ConfigurationError, UpstreamUnavailableError: the message says what is wrong with the server.
    """
    actor.require(actions.CONNECTION_SIGN_IN)
    connection, account, origin = _connected(name)
    _check_caller(account, caller)
    former = _former(connection)
    try:
        begun = flow.begin(account, origin, browser.redirect_uri, browser.document_url, former)
    except OAuthError as error:
        raise _failed(name, error) from error
    _check_server(connection, begun.server)
    now = timezone.now()
    SignIn.objects.filter(created_at__lt=now - timedelta(seconds=SECONDS)).delete()
    if SignIn.objects.count() >= MOST_BEGUN:
        raise ConfigurationError("Too many sign-ins have begun and not ended", next_step="Wait for ten minutes.")
    SignIn.objects.create(
        state_hash=_hash(begun.state),
        connection=connection,
        caller=caller,
        user=id_of(actor),
        session_hash=_hash(browser.session),
        sealed=secrets.encrypted(json.dumps([begun.verifier, begun.client_secret]).encode()),
        server=begun.server.as_dict(),
        redirect_uri=browser.redirect_uri,
        created_at=now,
    )
    return begun.url


@sensitive_variables()
def finish_sign_in(redirect: Redirect, *, browser: Browser, actor: Actor) -> str:
    """Store the tokens of a sign-in that this user began in this session. Returns the name of the connection.

    Raises:
        AuthorizationError: it did not begin here, or was used already, or is from another server.
        ConfigurationError, UpstreamUnavailableError: the server refuses it.
    """
    actor.require(actions.CONNECTION_SIGN_IN)
    begun = _taken(redirect.state, browser, actor)
    connection, account, origin = _connected(begun.connection.name)
    server = Server.read(begun.server)
    plain = secrets.decrypted(bytes(begun.sealed))
    if plain is None:
        raise _refused("it cannot be read any more")
    verifier, client_secret = json.loads(plain)
    try:
        flow.check_issuer(server, redirect.issuer)
    except OAuthError as error:
        raise _refused(str(error)) from error
    if redirect.error or not redirect.code or len(redirect.code) > MOST_CODE:
        reason = shortened(redirect.error) if redirect.error.isprintable() and redirect.error else "there is no code"
        raise _refused(f"the authorization server says {reason}")
    try:
        grant = flow.finish(account, origin, server, redirect.code, verifier, client_secret)
    except OAuthError as error:
        raise _failed(connection.name, error) from error
    tokens = Tokens(grant.access, grant.refresh, client_secret)
    _store(connection.name, account, origin, begun, stored_values(server, grant, tokens), actor)
    return connection.name


def sign_out(name: str, *, actor: Actor, caller: str | None = None, reason: str = "") -> list[str]:
    """Delete the tokens of a connection, or of one caller, and revoke them. Returns whose they were.

    Raises:
        NotFoundError
    """
    with changing(actions.CONNECTION_SIGN_OUT, actor, reason) as change:
        connection = Connection.objects.select_for_update().filter(name=name).first()
        if connection is None:
            raise NotFoundError(f"There is no connection {shortened(name)!r}")
        callers = withdraw(connection, caller)
        if callers:
            _seal_again(connection)
            connection.save(update_fields=["sealed", "updated_at"])
            change.note(f"connection:{name}", {"signed_in": [callers, []]})
    return callers


def _store(name: str, account: Account, origin: Origin, begun: SignIn, values: dict[str, Any], actor: Actor) -> None:
    with changing(actions.CONNECTION_SIGN_IN, actor) as change:
        connection = Connection.objects.select_for_update().get(name=name)
        source = Source.objects.filter(name=connection.pack, removed_at=None).first()
        if bytes(connection.sealed) != account.sealed or source is None or source.epoch != origin.epoch:
            # It was changed while the browser was away: the tokens may be for another server.
            raise _refused("the connection was changed meanwhile")
        row, _ = UpstreamToken.objects.select_for_update().get_or_create(connection=connection, caller=begun.caller)
        signed_in = {"signed_in_by": actor.name[:150], "signed_in_at": timezone.now()}
        for column, value in {**values, **signed_in, "version": row.version + 1}.items():
            setattr(row, column, value)
        row.save()
        _seal_again(connection)
        if not begun.caller:
            connection.checked_at, connection.healthy, connection.health = None, None, ""
        connection.save()
        server = Server.read(row.server)
        about = {"issuer": server.issuer, "client": server.client_kind, "scopes": row.scopes, "of": begun.caller}
        change.note(f"connection:{name}", {part: [None, value] for part, value in about.items() if value})
        if source.connection_id == connection.pk:
            outside.list_again(source.name)


def _seal_again(connection: Connection) -> None:
    """Encrypt the values anew: sessions and cached answers depend on the result, and must not outlive a sign-in."""
    plain = secrets.decrypted(bytes(connection.sealed)) if connection.sealed else None
    if plain is not None:
        connection.sealed = secrets.encrypted(plain)


def _taken(state: str, browser: Browser, actor: Actor) -> SignIn:
    """The sign-in with this state, for once.

    Raises:
        AuthorizationError
    """
    rows = SignIn.objects.filter(
        state_hash=_hash(state),
        session_hash=_hash(browser.session),
        user=id_of(actor),
        redirect_uri=browser.redirect_uri,
        created_at__gt=timezone.now() - timedelta(seconds=SECONDS),
    )
    begun = rows.select_related("connection").first()
    # Of two that come at once, one deletes it.
    if begun is None or not SignIn.objects.filter(pk=begun.pk).delete()[0]:
        raise _refused("it did not begin in this browser, was used already, or took more than ten minutes")
    return begun


def _connected(name: str) -> tuple[Connection, Account, Origin]:
    """A connection with a sign-in, its account, and its source.

    Raises:
        NotFoundError, ValidationError, ConfigurationError
    """
    connection = Connection.objects.filter(name=name).first()
    if connection is None:
        raise NotFoundError(f"There is no connection {shortened(name)!r}")
    if connection.form != Connection.Form.OAUTH:
        raise wrong("form", "Only connections of the form oauth have a sign-in")
    source = Source.objects.filter(name=connection.pack, removed_at=None).first()
    if source is None or source.origin is None:
        raise ConfigurationError(f"There is no source {connection.pack} any more")
    return connection, accounts.of_row(connection, ConnectionKind.outside(connection.pack)), source.origin


def _check_caller(account: Account, caller: str) -> None:
    """Raises: ValidationError."""
    if not caller:
        return
    if not account.is_per_user:
        raise wrong("caller", "This connection has one sign-in, which all of its callers use")
    kind, _, own = caller.partition(":")
    number = int(own) if own.isascii() and own.isdigit() and len(own) < 10 else None
    match kind:
        case "key":
            is_known = number is not None and ApiKey.objects.filter(pk=number).exists()
        case "user":
            is_known = number is not None
        case "local":
            is_known = bool(own) and own.isprintable()
        case "token":
            # Of the issuer that is trusted now.
            subject = caller.rpartition("@")[0]
            is_known = Caller(kind, subject, "", issuer=issuer.trusted_issuer()).identity == caller
        case _:
            is_known = False
    if not is_known or len(caller) > MOST_CALLER:
        raise wrong("caller", f"There is no caller {shortened(caller)!r}")


def _check_server(connection: Connection, server: Server) -> None:
    """A client that was entered is known to one server. Its secret is not sent to another that the source names later.

    Raises:
        ConfigurationError
    """
    if server.client_kind != clients.ENTERED:
        return
    for row in connection.tokens.exclude(sealed=b""):
        former = Server.read(row.server)
        if former.issuer != server.issuer:
            raise ConfigurationError(
                f"The source now names {place(server.issuer)} as its authorization server, but the client of "
                f"{connection.name} was entered for {place(former.issuer)}",
                next_step="If that is right, delete the tokens of the connection, enter a client of the new server, "
                "and sign in again.",
            )


def _former(connection: Connection) -> tuple[Server, str] | None:
    """A registration that still works: that of a sign-in that does. Otherwise the hub registers again."""
    for row in connection.tokens.filter(needs_sign_in=False).exclude(sealed=b""):
        server = Server.read(row.server)
        if server.client_kind == clients.REGISTERED:
            return server, Tokens.of(row).client_secret
    return None


def _failed(name: str, error: OAuthError) -> UpstreamUnavailableError:
    return UpstreamUnavailableError(f"The connection {name} cannot be signed in: {error}", next_step=_AGAIN)


def _refused(reason: str) -> AuthorizationError:
    return AuthorizationError(f"The sign-in was refused: {reason}", next_step=_AGAIN)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
