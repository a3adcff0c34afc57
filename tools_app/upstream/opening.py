"""How a connection to a source is made: its credentials, its transport, and the time that it may take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tools_app.base import database
from tools_app.catalog import connections
from tools_app.http.secrecy import Secrets
from tools_app.models import Connection, Source
from tools_app.sdk.accounts import Account, Credentials, is_sendable
from tools_app.sdk.errors import ToolError
from tools_app.sdk.outside import Origin
from tools_app.upstream.http import HttpTransport
from tools_app.upstream.lines import LineTransport
from tools_app.upstream.links import Link, opened
from tools_app.upstream.wire import Broken, Transport, masking

if TYPE_CHECKING:
    from tools_app.upstream.oauth.bearer import Bearer
    from tools_app.upstream.oauth.token import Token

CONNECT_SECONDS: Final = 30.0
# The first start of a child may have to download it.
START_SECONDS: Final = 180.0

Eras = MutableMapping[Origin, str]


@asynccontextmanager
async def connected(
    origin: Origin,
    account: Account | None,
    eras: Eras,
    on_change: Callable[[], None],
) -> AsyncIterator[Link]:
    """An open connection to a source.

    Raises:
        Broken: there is none; the message says why. May be in an exception group.
    """
    try:
        # Now, since what they refer to may have changed. May read files and the database.
        credentials = Credentials()
        if account is not None:
            credentials = await database.run(connections.credentials_of, account, origin)
        transport = await _transport(origin, account, credentials)
    except ToolError as error:
        raise Broken(error.message) from error
    seconds = CONNECT_SECONDS if isinstance(transport, HttpTransport) else START_SECONDS
    async with opened(
        transport, era=eras.get(origin, ""), seconds=seconds, on_change=on_change, declares=origin.declares
    ) as link:
        eras[origin] = link.version
        yield link


async def _transport(origin: Origin, account: Account | None, credentials: Credentials) -> Transport:
    match origin.kind:
        case Source.Kind.MCP_HTTP:
            return HttpTransport(origin, credentials, bearer_of(account, origin))
        case Source.Kind.MCP_STDIO:
            return await _to_child(origin, credentials)
    raise Broken(f"a source of type {origin.kind} is not connected to")


def bearer_of(account: Account | None, origin: Origin) -> Bearer | None:
    """Where the tokens of a connection come from; None if it sends no tokens that the hub requests itself."""
    if account is None or account.form not in Connection.OAUTH:
        return None
    # Imported late: most connections have another form.
    from tools_app.upstream.oauth.bearer import Bearer

    return Bearer(account, origin)


def with_token(credentials: Credentials, token: Token) -> Credentials:
    return replace(credentials, headers={**credentials.headers, "Authorization": f"Bearer {token.value}"})


def secrets_of(credentials: Credentials) -> Secrets:
    """What masks the values of a connection in all that comes back."""
    values = [value if is_sendable(value) else quote(value, safe="") for value in credentials.secrets]
    return Secrets({f"x-{number}": value for number, value in enumerate(values) if is_sendable(value)})


async def _to_child(origin: Origin, credentials: Credentials) -> Transport:
    # Imported late: most hubs start no children.
    from tools_app.upstream import children

    try:
        reader, writer = await children.open_stream(origin, credentials.environment, seconds=START_SECONDS)
    except children.NotUpYet as error:
        raise Broken(str(error) or "it has not started yet", is_starting=True) from error
    except children.CannotStart as error:
        raise Broken(str(error)) from error
    return LineTransport(reader, writer, masking(credentials))
