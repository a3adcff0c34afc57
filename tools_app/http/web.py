"""The client for the open web."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urljoin

from tools_app.http import addresses
from tools_app.http.addresses import Base, Params
from tools_app.http.public import Address, is_public
from tools_app.http.responses import ACCEPT, Reads, Response, UpstreamRefusal, UpstreamRequest
from tools_app.http.secrecy import Secrets
from tools_app.http.sockets import Sockets
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamTlsError,
    UpstreamUnavailableError,
    shortened,
)

if TYPE_CHECKING:
    import ssl

    import httpx

    from tools_app.http.network import Resolver

SECONDS: Final = 20.0
MOST_BYTES: Final = 5 * 1024 * 1024
MOST_HOPS: Final = 3
MOST_ADDRESS: Final = 2_000
AT_ONCE: Final = 20
PORTS: Final = frozenset({80, 443})
# The status of a page that is what a conditional request knows already.
NOT_MODIFIED: Final = 304
_CONDITIONS: Final = frozenset({"if-none-match", "if-modified-since"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NOBODYS: Final = Secrets({})
_PATH: Final = "/%:@!$&'()*+,;=~-._"

_ELSEWHERE: Final = "Look for another page."
_LATER: Final = "Try again later, or look for another page."
# Instead of "an operator should …": operators of this hub cannot fix a web page.
_STEPS: Final[dict[type[ToolError], str]] = {
    ToolTimeoutError: _LATER,
    UpstreamInvalidResponseError: _ELSEWHERE,
    UpstreamTlsError: _ELSEWHERE,
    UpstreamUnavailableError: _LATER,
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page, with its final URL after redirects. `data` is text, or as requested with `reads`."""

    url: str
    status: int
    data: Any
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class WebClient:
    """Reads pages at arbitrary public URLs.

    A name is resolved once per connection, all its addresses must be public, and the checked address is the one
    connected to. A few redirects are followed, each with the same checks and never from https to http. Requests carry
    no keys, cookies or call ids. One client serves all calls on one event loop.

    `secrets`: what callers put into headers or parameters nevertheless, and answers and logs do not repeat.
    """

    def __init__(
        self,
        *,
        timeout: float = SECONDS,
        most_bytes: int = MOST_BYTES,
        hops: int = MOST_HOPS,
        ports: frozenset[int] = PORTS,
        user_agent: str = "ToolHub",
        tls: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
        allowed: Callable[[Address], bool] = is_public,
        secrets: Secrets = _NOBODYS,
    ) -> None:
        self.timeout = timeout
        self._secrets = secrets
        self._most_bytes = most_bytes
        self._hops = hops
        self._ports = ports
        self._user_agent = user_agent
        self._sockets = Sockets(lambda: _transport(resolver, allowed, tls))

    async def get(
        self,
        url: str,
        *,
        operation: str,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        reads: Reads = "text",
        seconds: float | None = None,
    ) -> Page:
        """A page, after all redirects. The status of a conditional request can be `NOT_MODIFIED`: without data.

        Raises:
            ToolError: the URL is not public, or the page is not available or not of the requested type.
        """
        if query := addresses.query(params):
            url = f"{url}{'&' if '?' in url else '?'}{query}"
        return await self._follow("GET", url, None, operation, headers or {}, reads, seconds)

    async def post(
        self,
        url: str,
        form: Mapping[str, str],
        *,
        operation: str,
        headers: Mapping[str, str] | None = None,
        reads: Reads = "text",
        seconds: float | None = None,
    ) -> Page:
        """The result of a form. Only for forms that read, as of search engines: a redirect may send it again."""
        content = urlencode(form).encode()
        form_headers = {"content-type": "application/x-www-form-urlencoded"} | dict(headers or {})
        return await self._follow("POST", url, content, operation, form_headers, reads, seconds)

    async def close(self) -> None:
        """Refuse new requests. Running ones finish."""
        await self._sockets.close()

    async def _follow(
        self,
        method: str,
        url: str,
        content: bytes | None,
        operation: str,
        headers: Mapping[str, str],
        reads: Reads,
        seconds: float | None,
    ) -> Page:
        end = time.monotonic() + min(self.timeout, self.timeout if seconds is None else seconds)
        for hops_left in reversed(range(self._hops + 1)):
            place = self._place(url)
            outcome = await self._once(method, place, content, operation, headers, reads, end)
            if isinstance(outcome, Response):
                return Page(str(place), outcome.status, outcome.data, outcome.headers)
            if outcome.status == NOT_MODIFIED and not _CONDITIONS.isdisjoint(map(str.lower, headers)):
                return Page(str(place), NOT_MODIFIED, None, outcome.headers)
            url = _target(place, outcome)
            if not hops_left:
                break
            if outcome.status in (301, 302, 303):
                method, content = "GET", None
            if self._place(url).origin != place.origin:
                # Headers and form were meant for the first origin only.
                headers, content = {}, None
        raise ApiError(
            f"Failed to {operation}: {f'more than {self._hops} redirects' if self._hops else 'it is redirected'}",
            context={"operation": operation},
            next_step="Request the final URL instead.",
        )

    def _place(self, url: str) -> Base:
        """The parsed URL. Its host is checked when it is connected to."""
        parts = addresses.split(url) if len(url) <= MOST_ADDRESS else "is too long"
        if isinstance(parts, str):
            raise InvalidArgumentsError(f"The URL {parts}")
        scheme, host, port, path, rest = parts
        if port not in self._ports:
            raise InvalidArgumentsError(f"The URL has port {port}; only the standard ports are allowed")
        target = quote(path or "/", safe=_PATH) + quote(rest.partition("#")[0], safe=_PATH + "?")
        return Base(scheme, host, port, target)

    async def _once(
        self,
        method: str,
        place: Base,
        content: bytes | None,
        operation: str,
        headers: Mapping[str, str],
        reads: Reads,
        end: float,
    ) -> Response | UpstreamRefusal:
        # Imports httpx: at the first request.
        import httpx

        from tools_app.http.exchange import Exchange

        upstream_request = UpstreamRequest(shortened(place.host), method, operation)
        all_headers = {"user-agent": self._user_agent, "accept": ACCEPT[reads], "accept-encoding": "gzip, deflate"}
        all_headers |= {name.lower(): value for name, value in headers.items()}
        Secrets(all_headers)  # validates the headers
        try:
            request = httpx.Request(method, str(place), headers=all_headers, content=content)
        except httpx.InvalidURL as error:
            raise InvalidArgumentsError("The URL is not valid", detail=error) from error
        seconds = max(0.0, end - time.monotonic())
        exchange = Exchange(upstream_request, request, self._secrets, seconds, self._most_bytes, reads)
        try:
            async with self._sockets as transport:
                return await exchange.over(transport)
        except ToolError as error:
            error.next_step = _STEPS.get(type(error), error.next_step)
            raise


def _target(place: Base, refusal: UpstreamRefusal) -> str:
    """Where a refusal redirects to.

    Raises:
        ToolError: it is not a redirect, or one that is not safe to follow.
    """
    location = refusal.headers.get("location", "") if refusal.status in _REDIRECTS else ""
    if not location:
        raise _refusal(refusal)
    url = urljoin(str(place), location)
    if place.scheme == "https" and not url.lower().startswith("https:"):
        raise InvalidArgumentsError(f"{shortened(place.host)} redirects from https to http")
    return url


def _refusal(refusal: UpstreamRefusal) -> ApiError:
    """The error for a status code of a web page: no account and no base URL are involved."""
    upstream_request, upstream = refusal.request, refusal.request.upstream
    match refusal.status:
        case 401 | 407:
            reason, next_step = f"{upstream} requires a login", _ELSEWHERE
        case 403 | 451:
            reason, next_step = f"{upstream} denies access to this page", _ELSEWHERE
        case 404 | 410:
            reason, next_step = f"there is no such page at {upstream}", "Check the URL, or look for another page."
        case 408 | 429 | 502 | 503 | 504:
            reason, next_step = f"{upstream} is busy or not available now", _LATER
        case status:
            reason, next_step = f"{upstream} answered with status {status}", _LATER if status >= 500 else _ELSEWHERE
    return ApiError(
        f"Failed to {upstream_request.operation}: {reason}",
        detail=refusal.detail,
        context=upstream_request.context(statusCode=refusal.status, errorDetails=", ".join(refusal.reasons) or None),
        next_step=next_step,
        retry_after=refusal.retry_after,
    )


def _transport(
    resolver: Resolver | None, allowed: Callable[[Address], bool], tls: ssl.SSLContext | None
) -> httpx.AsyncBaseTransport:
    from tools_app.http import names
    from tools_app.http.network import OpenWeb, shared_tls
    from tools_app.http.transport import Transport

    return Transport(OpenWeb(resolver or names.of_the_web, allowed), tls or shared_tls(), AT_ONCE)
