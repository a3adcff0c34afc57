"""One request and its response, within one deadline. Imported at the first request, since importing httpx is slow."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tools_app.http import bodies, events, failures
from tools_app.http.bodies import UnreadableBody, WebPage
from tools_app.http.network import CONNECT_SECONDS, NotOurOriginError, NotPublicError
from tools_app.http.pool import WAITS
from tools_app.http.responses import Reads, Response, UpstreamRefusal, UpstreamRequest
from tools_app.http.secrecy import Secrets
from tools_app.sdk import heavy, traces
from tools_app.sdk.errors import ToolError
from tools_app.sdk.traces import Span
from tools_app.text import json_text

log = logging.getLogger("tools_app.http")

MOST_SHOWN: Final = 16 * 1024  # of an error's body
_TIMEOUTS: Final = {"timeout": {"connect": CONNECT_SECONDS}}
_LOGGED_HEADERS: Final = (
    "content-type",
    "content-encoding",
    "content-length",
    "location",
    "retry-after",
    "server",
    "date",
)
_HIDDEN_HEADERS: Final = frozenset({"set-cookie"})


@dataclass(slots=True)
class Exchange:
    """One request with its purpose and its limits."""

    upstream_request: UpstreamRequest
    request: httpx.Request
    secrets: Secrets
    seconds: float
    most_bytes: int
    reads: Reads
    # Whether the upstream was chosen by operators: it gets the trace, and is named in it. Hosts of the open web come
    # from arguments.
    is_known: bool = False
    response: httpx.Response | None = None
    size: int = 0  # of its body

    async def over(self, transport: httpx.AsyncBaseTransport) -> Response | UpstreamRefusal:
        """Send the request and read the response.

        Raises:
            ToolError: there is no usable response.
        """
        with traces.client(self.request.method) as span:
            if self.is_known:
                span.carry(self.request.headers)
            try:
                return await self._over(transport)
            finally:
                if span.is_sampled:
                    self._describe(span)

    async def _over(self, transport: httpx.AsyncBaseTransport) -> Response | UpstreamRefusal:
        started_at = time.monotonic()
        events.request_sent(self.request, self.secrets)
        try:
            outcome = await self._within_time(transport)
        except ToolError as problem:
            if (response := self._successful_change(problem)) is None:
                events.no_response(self.upstream_request, self.request, problem, self.secrets)
                raise
            upstream = self.upstream_request.upstream
            log.warning("[%s] the change was made, but its response was lost: %s", upstream, problem.message)
            warning = f"The change was made, but the response of {upstream} could not be read."
            return Response(response.status_code, headers=self._visible_headers(response), warning=warning)
        else:
            if isinstance(outcome, UpstreamRefusal):
                events.request_refused(self.request, outcome)
            return outcome
        finally:
            events.request_ended(self.request, self.response, self.size, time.monotonic() - started_at)

    async def _within_time(self, transport: httpx.AsyncBaseTransport) -> Response | UpstreamRefusal:
        self.request.extensions = {**self.request.extensions, **_TIMEOUTS, WAITS: True}
        try:
            # httpx's timeouts apply to single reads: a slowly dripping body outlives them.
            async with asyncio.timeout(self.seconds):
                try:
                    self.response = await transport.handle_async_request(self.request)
                    return await self._read(self.response)
                finally:
                    if self.response is not None:
                        await self.response.aclose()
        except TimeoutError as error:
            sent = WAITS not in self.request.extensions
            raise failures.too_slow(self.upstream_request, self.seconds, self._detail(), sent=sent) from error
        except UnreadableBody as error:
            raise failures.unreadable(error, self.upstream_request, self._detail()) from error
        except (httpx.HTTPError, OSError, NotPublicError, NotOurOriginError) as error:
            detail = self._detail(f"{type(error).__name__}: {error}")
            raise failures.unreachable(error, self.upstream_request, detail) from error

    async def _read(self, response: httpx.Response) -> Response | UpstreamRefusal:
        headers, stream = response.headers, response.stream
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("the transport is not one for asyncio")
        encoding, kind = headers.get("content-encoding", ""), headers.get("content-type", "")
        if not response.is_success:
            body = await bodies.read_beginning(aiter(stream), encoding, MOST_SHOWN)
            return self._refusal(response, self._log_body(body, kind))
        declared = headers.get("content-length", "")
        async with AsyncExitStack() as slots:
            body_bytes = await bodies.collect(aiter(stream), encoding, declared, self.most_bytes, slots)
            self._log_body(body_bytes, kind)
            # An upstream may echo our key: it is masked for callers, the journal and the cache.
            body = await heavy.by_size(body_bytes, self.secrets.masked_body, body_bytes)
            empty = response.status_code in (204, 205) or self.upstream_request.method == "HEAD"
            if empty or (self.upstream_request.writes and not body.strip()):
                return Response(response.status_code, None, self._visible_headers(response))
            data = await bodies.read(body, self.reads, kind, self.most_bytes)
        return Response(response.status_code, data, self._visible_headers(response), masked=body is not body_bytes)

    def _describe(self, span: Span) -> None:
        url, response = self.request.url, self.response
        span.set("http.request.method", self.request.method)
        if self.is_known:
            span.set("server.address", url.host)
            span.set("server.port", url.port or (443 if url.scheme == "https" else 80))
        if response is not None:
            span.set("http.response.status_code", response.status_code)
            if response.status_code >= 400:
                span.fail(str(response.status_code))

    def _log_body(self, body: bytes, kind: str) -> bytes:
        self.size = len(body)
        events.body(body, kind, self.secrets)
        return body

    def _refusal(self, response: httpx.Response, body: bytes) -> UpstreamRefusal:
        headers = self._visible_headers(response)
        kind = headers.get("content-type", "")
        text = self.secrets.hidden_in(bodies.text(body, kind))
        try:
            value = json_text.parsed(text.encode(errors="replace"), bodies.JSON_BOUNDS)
        except json_text.JsonError:
            value = None
        return UpstreamRefusal(
            request=self.upstream_request,
            status=response.status_code,
            reasons=tuple(failures.words(value, text, kind)),
            body=value,
            headers=headers,
            retry_after=failures.retry_after(headers.get("retry-after", "")),
            detail=self._detail(text),
        )

    def _successful_change(self, problem: ToolError) -> httpx.Response | None:
        """The response if it has confirmed a change and only its body failed."""
        if self.response is None or not self.response.is_success or not self.upstream_request.writes:
            return None
        # An HTML page, such as a login form, confirms nothing.
        return None if isinstance(problem.__cause__, WebPage) else self.response

    def _detail(self, more: str = "") -> str:
        """Request and response, for the error log."""
        lines = [f"{self.request.method} {self.request.url}"]
        if self.response is not None:
            lines.append(f"HTTP {self.response.status_code} {self.response.reason_phrase}")
            headers: Any = self.response.headers
            lines += [f"{name}: {headers[name]}" for name in _LOGGED_HEADERS if name in headers]
        return self.secrets.hidden_in("\n".join([*lines, "", more] if more else lines))

    def _visible_headers(self, response: httpx.Response) -> dict[str, str]:
        """The headers that tools see: names in lower case, without cookies."""
        return {
            name: self.secrets.masked_in(value)
            for name, value in response.headers.items()
            if name not in _HIDDEN_HEADERS
        }
