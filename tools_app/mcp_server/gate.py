"""Access checks of HTTP requests, made before the body is read."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from mcp.server.streamable_http import check_accept_headers
from starlette.requests import Request
from starlette.types import Scope

from tools_app.access import access, limits
from tools_app.access.limits import LimitStatus
from tools_app.catalog import catalog
from tools_app.mcp_server.refusals import RequestRefused
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, NotFoundError, shortened
from tools_app.sdk.hub_errors import StoppedError

log = logging.getLogger("tools_app.mcp")

NOTHING: Final = "There is nothing at this address"
_ADDRESS: Final = re.compile(r"/mcp(?:/(?P<toolset>[^/]+))?/?")


@dataclass(frozen=True, slots=True)
class Visitor:
    """The key of a request and its URL: `/mcp` or that of a toolset."""

    key: str | None
    toolset: str | None
    # The URL, which is the audience of tokens.
    at: str = ""
    # The client's IP address.
    address: str = ""

    async def caller(self) -> Caller:
        """The current caller: keys are revoked and toolsets change while clients are connected.

        Raises:
            AuthenticationError: the key is not valid, or no longer.
            AuthorizationError: the token has no permissions any more.
            NotFoundError: no such toolset exists for this caller.
            StorageBusyError: the database cannot be read.
        """
        return await self.within(await access.caller_of_key(self.key, self.at, self.address))

    async def within(self, caller: Caller) -> Caller:
        """The caller, restricted to the toolset of this URL."""
        if self.toolset is None:
            return caller
        allowed = caller.reach.toolsets
        exists = self.toolset in (await catalog.fresh()).toolsets
        if not exists or (allowed is not None and self.toolset not in allowed):
            raise NotFoundError(NOTHING)
        return replace(caller, reach=replace(caller.reach, toolsets=frozenset({self.toolset})))


async def admit(request: Request) -> tuple[Visitor, Caller]:
    """Authenticate a request and count it against the rate limit.

    Raises:
        AuthenticationError, AuthorizationError, CircuitOpenError, NotFoundError, RateLimitError, StoppedError,
        StorageBusyError
    """
    at, address = place(request.scope), request.client.host if request.client else ""
    try:
        key = access.read_credential(request.headers.get("x-api-key"), request.headers.get("authorization"))
        caller = await access.caller_of_key(key, at, address)
    except (AuthenticationError, StoppedError):
        _check(await limits.count_stranger(address))
        raise
    _check(await limits.count_caller(caller))
    path = _ADDRESS.fullmatch(request.scope["path"])
    if path is None:
        raise NotFoundError(NOTHING)
    visitor = Visitor(key, path["toolset"], at, address)
    return visitor, await visitor.within(caller)


def place(scope: Scope) -> str:
    """The URL of the request, without its query."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return f"{scope['scheme']}://{host.decode('latin-1').strip()}{scope['path']}"


def check_place(request: Request, origins: Collection[str]) -> None:
    """Refuse pages of other sites than `origins`, also those that use DNS rebinding.

    Raises:
        RequestRefused
    """
    host = request.headers.get("host", "")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        log.warning("refused: %s is none of ALLOWED_HOSTS", shortened(repr(host)))
        raise RequestRefused.because(HTTPStatus.MISDIRECTED_REQUEST, "This host is not served here")
    own = f"{request.scope['scheme']}://{host}"
    for origin in request.headers.getlist("origin"):
        if origin != own and origin not in origins and "*" not in origins:
            log.warning("refused: the origin %s is none of ours", shortened(repr(origin)))
            raise RequestRefused.because(HTTPStatus.FORBIDDEN, "This origin is not allowed")


def check_form(request: Request) -> None:
    """Check that the body is JSON and that the client accepts both kinds of response.

    Raises:
        RequestRefused
    """
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.replace('"', "").strip().lower()
    if media_type.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise RequestRefused.because(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON in UTF-8, as application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused.because(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Compressed messages are not accepted")
    if check_accept_headers(request) != (True, True):
        message = "Accept must name both application/json and text/event-stream"
        raise RequestRefused.because(HTTPStatus.NOT_ACCEPTABLE, message)


def _check(status: LimitStatus | None) -> None:
    if status is not None:
        status.check()
