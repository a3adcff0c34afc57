"""Streamable HTTP, over the hub's guarded pool: one place, no redirects to others, nothing compressed, all counted.

Each request is a POST of its own, so a broken one fails alone. The stream on which a server of the handshake era
announces changes is opened again whenever it ends.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata
from mcp_types import JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_app.http.network import CONNECT_SECONDS, NotOurOriginError, NotPublicError, OneOrigin, shared_tls
from tools_app.http.public import is_of_the_machine, is_public, names_the_machine
from tools_app.http.sdk_transport import SdkTransport
from tools_app.http.secrecy import Secrets
from tools_app.sdk.accounts import Credentials, is_sendable
from tools_app.sdk.errors import shortened
from tools_app.sdk.outside import Origin
from tools_app.upstream.oauth.token import NoTokenError, Token
from tools_app.upstream.wire import (
    MOST_BYTES,
    Broken,
    Fate,
    Pace,
    TooLong,
    Transport,
    cancellation,
    encoded,
    lines_of,
    masking,
)

if TYPE_CHECKING:
    from tools_app.upstream.oauth.bearer import Bearer

log = logging.getLogger("tools_app.upstream")

MOST_CONNECTIONS: Final = 64
# How long a notification, and the end of a session, may take.
ASIDE_SECONDS: Final = 5.0
MOST_OF_AN_ERROR: Final = 64 * 1024
MOST_REDIRECTS: Final = 3
MOST_WAIT: Final = 24 * 3600.0
# Pauses before the stream of announcements is opened again.
FIRST_PAUSE: Final = 1.0
LAST_PAUSE: Final = 60.0
MOST_RESUMPTIONS: Final = 2
OLD_TRANSPORT: Final = "it speaks only the old HTTP+SSE transport, which this hub does not support"
_SESSION: Final = "mcp-session-id"
_SESSION_WORDS: Final = re.compile("session", re.IGNORECASE)
_STREAM: Final = "text/event-stream"


def checked(origin: Origin) -> None:
    """Check the address of a source.

    Raises:
        Broken: the hub may not connect to it; the message says why.
    """
    url = urlsplit(origin.location)
    host = url.hostname or ""
    if url.scheme not in ("http", "https") or not host or url.username or url.password or url.fragment:
        raise Broken("its address must be a URL like https://host/mcp, without a user or a fragment")
    if url.scheme == "http" and not origin.internal:
        raise Broken("its address must begin with https://; plain http is for sources that are marked as internal")
    if names_the_machine(host):
        raise Broken("its address is link-local or a metadata service, to which the hub never connects")


class HttpTransport(Transport):
    def __init__(self, origin: Origin, credentials: Credentials, bearer: Bearer | None = None) -> None:
        """`bearer`: where the token of each request comes from, if the hub requests tokens itself.

        Raises: Broken, if the hub may not connect to the address; ConfigurationError, for unsendable credentials.
        """
        super().__init__(masking(credentials))
        checked(origin)
        self._bearer = bearer
        # The token in use and the one before, which answers must not repeat.
        self._tokens: tuple[str, ...] = ()
        self._url = httpx2.URL(origin.location).copy_merge_params(dict(credentials.query))
        self._headers = dict(Secrets(credentials.headers).headers)
        closed: Callable[[Any], bool] = is_of_the_machine if origin.internal else _is_not_public
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        self.place = (self._url.host, port)
        network = OneOrigin(self._url.host, port, closed=closed)
        self._sdk = SdkTransport(network, shared_tls(), MOST_CONNECTIONS)
        self._session = ""
        self._version = ""
        # What cancels each.
        self._posts: dict[RequestId, Callable[[], object]] = {}

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        if self._session and not self.lost.is_set():
            try:
                async with asyncio.timeout(ASIDE_SECONDS):
                    await self._drained(await self._request("DELETE"))
            except (*_FAILURES, TimeoutError):
                pass  # the server ends it by itself
        if self._bearer is not None:
            self._bearer.close()
        await self._sdk.aclose()

    # ---- requests

    def send(self, key: int, fate: Fate, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._begin(_Post(key, method, fate), encoded(method, params, key), headers)

    def give_up(self, key: int, fate: Fate) -> None:
        """In the modern era, the end of the request cancels it; before, a message does."""
        cancel = self._posts.get(key)
        if cancel is not None and (self._version in MODERN_PROTOCOL_VERSIONS or fate.sent == "no"):
            cancel()
        elif not self.ended.is_set() and fate.sent != "no":
            self.spawn(self._tell(cancellation(key)), cancel)

    async def _work(self) -> None:
        """Send what the SDK writes."""
        async for message in self._from_session:
            request = message.message
            body = request.model_dump_json(by_alias=True, exclude_unset=True).encode()
            if isinstance(request, JSONRPCRequest):
                headers = message.metadata.headers if isinstance(message.metadata, ClientMessageMetadata) else None
                self._begin(_Post(request.id, request.method, self.opening_fate()), body, headers or {})
            elif isinstance(request, JSONRPCNotification) and request.method == "notifications/initialized":
                # Before the first request.
                await self._tell(body)
                if self._session:
                    self.spawn(self._hear())
            else:
                self.spawn(self._tell(body))

    async def _tell(self, body: bytes) -> None:
        try:
            async with asyncio.timeout(ASIDE_SECONDS):
                await self._drained(await self._request("POST", content=body))
        except (*_FAILURES, TimeoutError):
            pass  # what follows will fail as well, and says why

    def _begin(self, post: _Post, body: bytes, headers: Mapping[str, str]) -> None:
        if post.method == "initialize":
            # What a probe has set does not count.
            self._session = self._version = ""
        else:
            self._version = headers.get(MCP_PROTOCOL_VERSION_HEADER, self._version)
        done = partial(self._posts.pop, post.key, None)
        self._posts[post.key] = self.spawn(self._post(post, body, headers), done)

    async def _post(self, post: _Post, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            response = await self._request("POST", post.fate, content=body, headers=headers)
            try:
                reason = await self._answered(post, response)
            finally:
                await response.aclose()
        except NoTokenError as error:
            # Before it was sent, or after a 401, with which it was not executed.
            fate = post.fate
            fate.sent, fate.status = "no", None
            fate.needs_sign_in, fate.retry_after = error.needs_sign_in, error.retry_after
            reason = error.reason
        except _FAILURES as error:
            reason = _why(error)
        except Exception as error:  # A bug must not end the other requests.
            log.exception("a request to %s failed", self._url.host)
            reason = f"{type(error).__name__} in the hub"
        if reason:
            await self.fail(post.key, post.fate, reason)

    async def _answered(self, post: _Post, response: httpx2.Response) -> str:
        """Read the answer; why there is none, if there is none."""
        fate = post.fate
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            return _unreadable(fate, "its answer is compressed, which the hub did not ask for")
        if response.status_code >= 300 or response.status_code == 202:
            return await self._refused(post, response, kind)
        if post.method == "initialize":
            session = response.headers.get(_SESSION, "")
            self._session = session if is_sendable(session) else ""
        if kind == _STREAM:
            return await self._streamed(post, response)
        if kind != "application/json":
            return _unreadable(fate, f"its answer is not JSON but {shortened(kind) or 'of no type'}")
        try:
            if not await self.receive(await _body(response), post.key):
                return _unreadable(fate, "its answer is not the answer to a request")
        except ValueError:
            return _unreadable(fate, "its answer is not valid JSON-RPC")
        except TooLong as error:
            return _unreadable(fate, f"it sent {error}")
        return ""

    async def _refused(self, post: _Post, response: httpx2.Response, kind: str) -> str:
        fate = post.fate
        status = fate.status = response.status_code
        fate.retry_after = _seconds(response.headers.get("retry-after", ""))
        if status < 400:
            where = f" to {_place(response)}" if "location" in response.headers else ""
            return f"it redirects{where}, which is not followed" if status != 202 else "it gave no answer (HTTP 202)"
        body = await _body(response, MOST_OF_AN_ERROR, is_cut=True)
        text = body[:2000].decode("utf-8", "replace")
        if self._session and (status == 404 or (status == 400 and _SESSION_WORDS.search(text))):
            fate.is_lost = True
            self.lost.set()
            return "it does not know the session any more"
        if kind == "application/json" and status not in (401, 403):
            try:
                if await self.receive(body, post.key):
                    return ""
            except ValueError:
                pass
        return f"HTTP {status}"

    async def _streamed(self, post: _Post, response: httpx2.Response) -> str:
        """Read an answer that is a stream of events. A server that numbers them may end it and continue elsewhere."""
        events, pace = _Events(), Pace()
        for _ in range(MOST_RESUMPTIONS + 1):
            try:
                async for data in events.of(response):
                    if await pace.admits(data) and await self.receive(data, post.key):
                        return ""
                reason = "the connection ended before its answer"
            except ValueError:
                return _unreadable(post.fate, "its answer is not valid JSON-RPC")
            except TooLong as error:
                return _unreadable(post.fate, f"it sent {error}")
            except _FAILURES as error:
                reason = _why(error)
            await response.aclose()
            if not events.last:
                return reason
            await asyncio.sleep(min(events.retry or FIRST_PAUSE, LAST_PAUSE))
            try:
                response = await self._request("GET", headers={"accept": _STREAM, "last-event-id": events.last})
            except _FAILURES:
                return reason
            if response.status_code != 200:
                await response.aclose()
                return reason
        await response.aclose()
        return reason

    # ---- what the server announces

    async def _hear(self) -> None:
        """Hold the stream of announcements open. What was announced between two of them is not known."""
        pause, was_open = FIRST_PAUSE, False
        while not self.lost.is_set():
            began = time.monotonic()
            try:
                response = await self._request("GET", headers={"accept": _STREAM})
                try:
                    if response.status_code == 404 and was_open:
                        self.lost.set()
                    if response.status_code in (400, 404, 405, 406, 501):
                        return  # it has none, or no session
                    if response.status_code == 200:
                        if was_open:
                            self.missed.set()
                        was_open = True
                        await self._hear_all(response)
                finally:
                    await response.aclose()
            except _FAILURES:
                pass
            # Some servers end each stream at once.
            pause = FIRST_PAUSE if time.monotonic() - began > LAST_PAUSE else pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    async def _hear_all(self, response: httpx2.Response) -> None:
        pace = Pace()
        async for data in _Events().of(response):
            if await pace.admits(data):
                try:
                    await self.receive(data)
                except ValueError:
                    continue

    # ---- HTTP

    async def _request(
        self,
        method: str,
        fate: Fate | None = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request, with a token if the hub requests them. The caller closes the response.

        Raises:
            NoTokenError
        """
        token = await self._bearer.current() if self._bearer is not None else None
        response = await self._exchange(method, fate, content, headers, token)
        if token is None or self._bearer is None:
            return response
        if response.status_code != 401:
            self._bearer.accepted(token)
            return response
        # A 401 was certainly not executed. Once: what refuses a new token as well would refuse the next.
        try:
            token = await self._bearer.replacement(token)
        except BaseException:
            await response.aclose()
            raise
        if token is None:
            return response
        await response.aclose()
        return await self._exchange(method, fate, content, headers, token)

    async def _exchange(
        self,
        method: str,
        fate: Fate | None,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        token: Token | None,
    ) -> httpx2.Response:
        """Send a request, and follow redirects within the origin."""
        sent = {"accept": f"application/json, {_STREAM}", "user-agent": "toolhub", **self._headers}
        if content is not None:
            sent["content-type"] = "application/json"
        if self._session:
            sent[_SESSION] = self._session
        if self._version:
            sent[MCP_PROTOCOL_VERSION_HEADER] = self._version
        sent = {**sent, **(headers or {}), "accept-encoding": "identity"}
        if token is not None:
            sent["authorization"] = self._authorization(token)
        url = self._url
        for _ in range(MOST_REDIRECTS):
            request = httpx2.Request(method, url, headers=sent, content=content)
            request.extensions = {"timeout": {"connect": CONNECT_SECONDS}}
            if fate is not None:
                request.extensions["trace"] = _Trace(fate)
            response: httpx2.Response = await self._sdk.handle_async_request(request)
            target = _within(url, response)
            if target is None:
                return response
            await response.aclose()
            url = target
        return response

    def _authorization(self, token: Token) -> str:
        if token.value not in self._tokens:
            self._tokens = (token.value, *self._tokens[:1])
            self._mask = Secrets({f"x-{number}": one for number, one in enumerate(self._tokens)}).masked_body
        return f"Bearer {token.value}"

    async def _drained(self, response: httpx2.Response) -> None:
        """Read the rest of a small response, so that its connection can be used again."""
        try:
            await _body(response, MOST_OF_AN_ERROR)
        finally:
            await response.aclose()

    async def speaks_old_transport(self) -> bool:
        """Whether the server answers a GET as the transport of 2024-11-05 does: with the address for messages."""
        try:
            async with asyncio.timeout(ASIDE_SECONDS):
                response = await self._request("GET", headers={"accept": _STREAM})
                try:
                    async for line in lines_of(aiter(_stream_of(response)), MOST_OF_AN_ERROR):
                        if line.strip():
                            return line.strip() == b"event: endpoint"
                finally:
                    await response.aclose()
        except (*_FAILURES, TimeoutError):
            pass
        return False


@dataclass(frozen=True, slots=True)
class _Post:
    """A request on its way."""

    key: RequestId
    method: str
    fate: Fate


class _Trace:
    """Notes when the first byte of a request may have left: httpcore2 calls it at each step."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    async def __call__(self, name: str, _: Mapping[str, Any]) -> None:
        if name.endswith("send_request_headers.started"):
            self._fate.sent = "maybe"


class _Events:
    """The data of server-sent events; the id of the last one, and the pause that the server asks for."""

    def __init__(self) -> None:
        self.last = ""
        self.retry: float | None = None

    async def of(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        data: list[bytes] = []
        size = 0
        async for line in lines_of(aiter(_stream_of(response))):
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if any(data):
                    yield b"\n".join(data)
                data, size = [], 0
            elif name == b"data":
                data.append(value)
                # Also of empty lines there can be too many.
                size += len(value) + 1
                if size > MOST_BYTES:
                    raise TooLong(f"an event of more than {MOST_BYTES:,} bytes")
            elif name == b"id" and len(value) < 1000:
                text = value.decode("latin-1")
                self.last = text if is_sendable(text) else ""
            elif name == b"retry" and value.isdigit():
                self.retry = int(value[:9]) / 1000


async def _body(response: httpx2.Response, most: int = MOST_BYTES, *, is_cut: bool = False) -> bytes:
    """The whole body. Above the limit: its beginning if `is_cut`.

    Raises:
        TooLong: it is longer.
    """
    parts: list[bytes] = []
    size = 0
    async for part in _stream_of(response):
        parts.append(part)
        size += len(part)
        if size > most:
            if is_cut:
                break
            raise TooLong(f"an answer of more than {most:,} bytes")
    return b"".join(parts)[:most]


def _stream_of(response: httpx2.Response) -> httpx2.AsyncByteStream:
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise TypeError("the transport is not one for asyncio")
    return response.stream


def _within(url: httpx2.URL, response: httpx2.Response) -> httpx2.URL | None:
    """Where a redirect leads, if it is to the same origin and keeps the method; else None."""
    if response.status_code not in (307, 308) or "location" not in response.headers:
        return None
    try:
        target = url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return None
    is_same = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
    return target if is_same and not target.userinfo else None


def _place(response: httpx2.Response) -> str:
    """The host of a redirect: its path and query may contain secrets."""
    return shortened(urlsplit(response.headers["location"]).netloc.rpartition("@")[2]) or "another address"


def _is_not_public(address: Any) -> bool:
    return not is_public(address)


def _seconds(retry_after: str) -> float | None:
    return min(float(retry_after), MOST_WAIT) if retry_after.isascii() and retry_after.isdigit() else None


def _unreadable(fate: Fate, reason: str) -> str:
    fate.is_unreadable = True
    return reason


_FAILURES: Final = (httpx2.TransportError, OSError, NotOurOriginError, NotPublicError, TooLong, NoTokenError)


def _why(error: BaseException) -> str:
    """The reason of a failure, without addresses and texts of libraries."""
    if isinstance(error, TooLong):
        return f"it sent {error}"
    if isinstance(error, NoTokenError):
        return error.reason
    if isinstance(error, NotOurOriginError | NotPublicError):
        return "its address is not public; mark the source as internal if it is meant to be"
    if isinstance(error, httpx2.ConnectTimeout):
        return "it does not accept connections"
    if isinstance(error, httpx2.ConnectError):
        cause = error.__cause__ or error
        return f"it cannot be reached ({shortened(str(cause) or type(cause).__name__).lower()})"
    if isinstance(error, httpx2.RemoteProtocolError) and "disconnected" not in str(error):
        return "its answer is not valid HTTP"
    return "the connection broke"
