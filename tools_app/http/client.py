"""The client for the upstream of a connection."""

from __future__ import annotations

import copy
import json as jsonlib
import secrets as random
import string
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack
from urllib.parse import urlencode

from tools_app.http import addresses
from tools_app.http.addresses import Params
from tools_app.http.bodies import MOST_BYTES
from tools_app.http.responses import ACCEPT, Reads, Response, UpstreamRefusal, UpstreamRequest
from tools_app.http.secrecy import Secrets
from tools_app.http.sockets import Sockets
from tools_app.sdk.errors import (
    UNSURE_STATUSES,
    AuthorizationError,
    ConfigurationError,
    InvalidArgumentsError,
    ToolError,
)

if TYPE_CHECKING:
    import ssl

    import httpx

    from tools_app.sdk.accounts import ConnectionKind

SECONDS: Final = 30.0
AT_ONCE: Final = 10
# The engine's deadline for the call must fire first: its error says more.
_GRACE: Final = 0.1
# Headers that the client sets; tools must not.
_OURS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "accept-encoding", "cookie"}
)
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HEX: Final = frozenset(string.hexdigits)

Explain = Callable[[UpstreamRefusal], ToolError | None]


class RequestOptions(TypedDict, total=False):
    """Options of a request."""

    resource: str  # type of the resource, for errors: `Workflow`
    resource_id: str | int  # its id; default: the second part of the path
    params: Params
    json: Any
    form: Mapping[str, str]
    content: bytes | str
    content_type: str
    headers: Mapping[str, str]
    suffix: str
    timeout: float
    writes: bool  # False for a POST that only reads
    most_bytes: int  # maximum size of the decompressed response
    outside: bool  # not below the path of the API, and without the secret


class ClientOptions(TypedDict, total=False):
    """Options of the client of an account."""

    timeout: float
    allow_http: bool
    read_only: bool
    link_local: bool


class ApiClient:
    """Sends requests to one upstream and turns failures into `ToolError`s.

    Created once for a connection and used by all its calls on one event loop: the connection pool belongs to the loop
    of the first request, and neither another loop nor a forked process can use it. `for_call` returns a view for one
    call with its deadline and id.

    `secrets` are authentication headers; they are sent to this origin only and appear nowhere else. `explain` can turn
    a refusal into a more specific error; if it returns None, the status code decides. `below` is a path that is
    appended to the base URL unless it has it, `suffix` ends every path. Link-local addresses, such as a cloud's
    metadata service, are refused unless `link_local` is set.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str,
        secrets: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        below: str = "",
        suffix: str = "",
        timeout: float = SECONDS,
        allow_http: bool = False,
        read_only: bool = False,
        link_local: bool = False,
        most_bytes: int = MOST_BYTES,
        at_once: int = AT_ONCE,
        explain: Explain | None = None,
        user_agent: str = "ToolHub",
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base = addresses.base(base_url, below=below, allow_http=allow_http)
        self.name = name
        self.read_only = read_only
        self.timeout = timeout
        self._secrets = Secrets(secrets or {})
        self._headers = {"user-agent": user_agent} | {key.lower(): value for key, value in (headers or {}).items()}
        self._suffix = suffix
        self._root = self.base.path.removesuffix(f"/{below.strip('/')}")
        self._most_bytes = most_bytes
        self._explain = explain
        self._sockets = Sockets(lambda: transport or _transport(self.base, tls, at_once, link_local))
        self._remaining: Callable[[], float] | None = None
        # Number of requests that may have changed something (of one call, in a view by `for_call`).
        self._changes = 0
        # Total duration of its requests (of one call, in a view by `for_call`).
        self.seconds = 0.0
        # A cache for packs, shared by all calls of this account. A changed secret creates a new client.
        self.memory: dict[object, Any] = {}

    @classmethod
    def of_kind(
        cls, kind: ConnectionKind, address: str, secret: str, *, name: str = "", **options: Unpack[ClientOptions]
    ) -> ApiClient:
        """A client for an upstream of this kind, which sends the secret to no other host.

        Raises:
            ConfigurationError: the address or the secret cannot be used.
        """
        return cls(
            address,
            name=name or kind.title,
            below=kind.path,
            suffix=kind.suffix,
            secrets={kind.header: f"{kind.prefix}{secret}"},
            explain=kind.explain,
            **options,
        )

    def __repr__(self) -> str:
        return f"<ApiClient {self.name} at {self.base.origin}>"

    def for_call(self, call_id: str, remaining: Callable[[], float]) -> ApiClient:
        """A view of the client for one call, with its deadline, and its id in headers for the upstream's log."""
        own = copy.copy(self)
        own._remaining = remaining
        own._changes = 0
        own.seconds = 0.0
        own._headers = self._headers | {"x-request-id": call_id}
        if len(call_id) == 32 and _HEX.issuperset(call_id):
            own._headers["traceparent"] = f"00-{call_id.lower()}-{random.token_hex(8)}-00"
        return own

    # ---- what tools use

    async def get(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> Any:
        """The parsed JSON; None for `204 No Content`."""
        return (await self.request("GET", *path, operation=operation, **options)).data

    async def get_text(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> str:
        """A text, HTML page or XML document, as text."""
        return (await self.request("GET", *path, operation=operation, reads="text", **options)).data or ""

    async def get_bytes(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> bytes:
        """A file, as bytes."""
        return (await self.request("GET", *path, operation=operation, reads="bytes", **options)).data or b""

    async def post(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> Response:
        return await self.request("POST", *path, operation=operation, **options)

    async def put(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> Response:
        return await self.request("PUT", *path, operation=operation, **options)

    async def patch(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> Response:
        return await self.request("PATCH", *path, operation=operation, **options)

    async def delete(self, *path: str | int, operation: str, **options: Unpack[RequestOptions]) -> Response:
        return await self.request("DELETE", *path, operation=operation, **options)

    async def request(
        self, method: str, *path: str | int, operation: str, reads: Reads = "json", **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request. Each part of the path is encoded as one segment.

        `operation` names the action, for errors: `update workflow`. A change that succeeded but whose response cannot
        be read is a success with a warning.

        Raises:
            ToolError: the message is for the caller of the tool; the upstream's own text is in the detail, for the log.
        """
        upstream_request = self._upstream_request(method, path, operation, options)
        if self.read_only and upstream_request.writes:
            raise AuthorizationError(
                f"Permission denied: the connection to {self.name} is read-only",
                next_step="An operator can allow changes through this connection.",
            )
        # Imports httpx: at the first request.
        from tools_app.http.exchange import Exchange

        request = self._http_request(upstream_request, path, reads, options)
        seconds = options.get("timeout", self.timeout)
        if self._remaining is not None:
            seconds = min(seconds, self._remaining() + _GRACE)
        most_bytes = options.get("most_bytes", self._most_bytes)
        exchange = Exchange(upstream_request, request, self._secrets, seconds, most_bytes, reads, is_known=True)
        started_at = time.monotonic()
        # Counted before sending: if the request is cancelled, its outcome is unknown.
        self._changes += upstream_request.writes and self._remaining is not None
        try:
            async with self._sockets as transport:
                outcome = await exchange.over(transport)
        except ToolError as error:
            self._weigh(upstream_request, error)
            raise
        finally:
            self.seconds += time.monotonic() - started_at
        if isinstance(outcome, Response):
            return outcome
        refusal = self._refusal(outcome)
        self._weigh(upstream_request, refusal)
        raise refusal

    async def close(self) -> None:
        """Refuse new requests. Running ones finish; the last one closes the sockets."""
        await self._sockets.close()

    # ---- how it is sent

    def _upstream_request(
        self, method: str, path: tuple[str | int, ...], operation: str, options: RequestOptions
    ) -> UpstreamRequest:
        resource = options.get("resource", "")
        resource_id = options.get("resource_id", path[1] if resource and len(path) > 1 else "")
        method = method.upper()
        writes = options.get("writes", method not in _SAFE)
        return UpstreamRequest(self.name, method, operation, resource, str(resource_id), writes)

    def _http_request(
        self, upstream_request: UpstreamRequest, path: tuple[str | int, ...], reads: Reads, options: RequestOptions
    ) -> httpx.Request:
        import httpx

        label = f"{upstream_request.resource} ID" if upstream_request.resource else "Every part of the path"
        parts = "".join(f"/{addresses.segment(part, label)}" for part in path)
        is_outside = options.get("outside", False)
        path_before = self._root if is_outside else self.base.path
        target = f"{path_before}{parts}{options.get('suffix', self._suffix)}" or "/"
        if query := addresses.query(options.get("params")):
            target = f"{target}?{query}"
        content, content_type = _content(options)
        headers = self._headers | {"accept": ACCEPT[reads], "accept-encoding": "gzip, deflate"}
        if content_type:
            headers["content-type"] = content_type
        headers |= self._tool_headers(options.get("headers", {}))
        pairs = [*headers.items(), *([] if is_outside else self._secrets.headers)]
        try:
            request = httpx.Request(upstream_request.method, self.base.origin + target, headers=pairs, content=content)
        except httpx.InvalidURL as error:
            raise ConfigurationError("The base URL of this connection is not valid", detail=error) from error
        if request.url.raw_path != target.encode("ascii"):
            raise InvalidArgumentsError("The path cannot be sent as it is")
        return request

    def _tool_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        lowercase_headers = {name.lower(): value for name, value in headers.items()}
        if reserved_names := lowercase_headers.keys() & (_OURS | {name for name, _ in self._secrets.headers}):
            raise ValueError(f"a tool may not set the header {min(reserved_names)}")
        Secrets(lowercase_headers)  # validates the headers
        return lowercase_headers

    def _weigh(self, upstream_request: UpstreamRequest, error: ToolError) -> None:
        """Set `nothing_done` of an error: only if no request of this call can have changed anything."""
        harmless = not upstream_request.writes or error.nothing_done
        self._changes -= harmless and upstream_request.writes and self._remaining is not None
        error.nothing_done = harmless and not self._changes

    def _refusal(self, refusal: UpstreamRefusal) -> ToolError:
        from tools_app.http import failures

        error = (self._explain(refusal) if self._explain is not None else None) or failures.refusal(refusal)
        if error.detail is None:
            error.detail = refusal.detail
        if refusal.status not in UNSURE_STATUSES:
            error.nothing_done = True
        elif refusal.request.writes and error.retryable:
            error.leave_outcome_open()
        return error


def _content(options: RequestOptions) -> tuple[bytes | None, str]:
    """The body and its type.

    Raises:
        InvalidArgumentsError: the value cannot be represented as JSON.
    """
    if "json" in options:
        try:
            text = jsonlib.dumps(options["json"], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode(), "application/json"
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgumentsError("A value cannot be sent as JSON", detail=error) from error
    if "form" in options:
        return urlencode(options["form"]).encode(), "application/x-www-form-urlencoded"
    content = options.get("content")
    kind = options.get("content_type", "text/plain; charset=utf-8" if isinstance(content, str) else "")
    return (content.encode() if isinstance(content, str) else content), kind


def _transport(
    base: addresses.Base, tls: ssl.SSLContext | None, at_once: int, link_local: bool
) -> httpx.AsyncBaseTransport:
    from tools_app.http.network import OneOrigin, shared_tls
    from tools_app.http.transport import Transport

    origin = OneOrigin(base.host, base.port)
    if link_local:
        origin = OneOrigin(base.host, base.port, closed=lambda _: False)
    return Transport(origin, tls or shared_tls(), at_once)
