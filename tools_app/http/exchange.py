"""One request and its answer, within one deadline. Imported with the first request, as httpx takes its time."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tools_app.http import bodies, events, failures
from tools_app.http.bodies import Unreadable, WebPage
from tools_app.http.network import CONNECT_SECONDS, NotOurOriginError, NotPublicError
from tools_app.http.pool import WAITS
from tools_app.http.responses import Reads, Refused, Response, UpstreamRequest
from tools_app.http.secrecy import Secrets
from tools_app.sdk import heavy
from tools_app.sdk.errors import ToolError
from tools_app.text import json_text

log = logging.getLogger("tools_app.http")

MOST_SHOWN: Final = 16 * 1024  # of an error's body
_TIMEOUTS: Final = {"timeout": {"connect": CONNECT_SECONDS}}
_TOLD: Final = ("content-type", "content-encoding", "content-length", "location", "retry-after", "server", "date")
_KEPT_TO_US: Final = frozenset({"set-cookie"})


@dataclass(slots=True)
class Exchange:
    """One request, what it was for, and how much may come of it."""

    upstream_request: UpstreamRequest
    request: httpx.Request
    secrets: Secrets
    seconds: float
    most_bytes: int
    reads: Reads
    response: httpx.Response | None = None
    size: int = 0  # of its body

    async def over(self, transport: httpx.AsyncBaseTransport) -> Response | Refused:
        """What came back: an answer, or a refusal.

        Raises:
            ToolError: nothing came back that can be used.
        """
        begun = time.monotonic()
        events.sending(self.request, self.secrets)
        try:
            outcome = await self._within_time(transport)
        except ToolError as problem:
            if (response := self._done(problem)) is None:
                events.failed(self.upstream_request, self.request, problem, self.secrets)
                raise
            log.warning(
                "[%s] the change was made, and its answer was lost: %s", self.upstream_request.upstream, problem.message
            )
            warning = f"The change was made, but what {self.upstream_request.upstream} said about it could not be read."
            return Response(response.status_code, headers=self._shown(response), warning=warning)
        else:
            if isinstance(outcome, Refused):
                events.refused(self.request, outcome)
            return outcome
        finally:
            events.answered(self.request, self.response, self.size, time.monotonic() - begun)

    async def _within_time(self, transport: httpx.AsyncBaseTransport) -> Response | Refused:
        self.request.extensions = {**_TIMEOUTS, WAITS: True}
        try:
            # Those of httpx are for single steps: a body that drips outlives them.
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
        except Unreadable as error:
            raise failures.unreadable(error, self.upstream_request, self._detail()) from error
        except (httpx.HTTPError, OSError, NotPublicError, NotOurOriginError) as error:
            raise failures.unreachable(
                error, self.upstream_request, self._detail(f"{type(error).__name__}: {error}")
            ) from error

    async def _read(self, response: httpx.Response) -> Response | Refused:
        headers, stream = response.headers, response.stream
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("the transport is not one for asyncio")
        encoding, kind = headers.get("content-encoding", ""), headers.get("content-type", "")
        if not response.is_success:
            shown = await bodies.beginning(aiter(stream), encoding, MOST_SHOWN)
            return self._refused(response, self._seen(shown, kind))
        declared = headers.get("content-length", "")
        async with AsyncExitStack() as held:
            received = await bodies.collected(aiter(stream), encoding, declared, self.most_bytes, held)
            self._seen(received, kind)
            # An upstream may repeat what it was sent: callers, the journal and the cache get it without our key.
            body = await heavy.by_size(received, self.secrets.masked_body, received)
            empty = response.status_code in (204, 205) or self.upstream_request.method == "HEAD"
            if empty or (self.upstream_request.writes and not body.strip()):
                return Response(response.status_code, None, self._shown(response))
            data = await bodies.read(body, self.reads, kind, self.most_bytes)
        return Response(response.status_code, data, self._shown(response), masked=body is not received)

    def _seen(self, body: bytes, kind: str) -> bytes:
        self.size = len(body)
        events.body(body, kind, self.secrets)
        return body

    def _refused(self, response: httpx.Response, body: bytes) -> Refused:
        headers = self._shown(response)
        kind = headers.get("content-type", "")
        text = self.secrets.hidden_in(bodies.text(body, kind))
        try:
            said = json_text.parsed(text.encode(errors="replace"), bodies.JSON_BOUNDS)
        except json_text.JsonError:
            said = None
        return Refused(
            asked=self.upstream_request,
            status=response.status_code,
            said=tuple(failures.words(said, text, kind)),
            body=said,
            headers=headers,
            retry_after=failures.retry_after(headers.get("retry-after", "")),
            detail=self._detail(text),
        )

    def _done(self, problem: ToolError) -> httpx.Response | None:
        """The answer that said that a change was made, if it did before the rest of it went wrong."""
        if self.response is None or not self.response.is_success or not self.upstream_request.writes:
            return None
        # A page for people, such as a login, is not the word of an interface.
        return None if isinstance(problem.__cause__, WebPage) else self.response

    def _detail(self, more: str = "") -> str:
        """For the error log: what was asked for, and what came."""
        lines = [f"{self.request.method} {self.request.url}"]
        if self.response is not None:
            lines.append(f"HTTP {self.response.status_code} {self.response.reason_phrase}")
            found: Any = self.response.headers
            lines += [f"{name}: {found[name]}" for name in _TOLD if name in found]
        return self.secrets.hidden_in("\n".join([*lines, "", more] if more else lines))

    def _shown(self, response: httpx.Response) -> dict[str, str]:
        """The headers that tools see: their names in lower case, and none that is meant for a browser to keep."""
        return {
            name: self.secrets.masked_in(value) for name, value in response.headers.items() if name not in _KEPT_TO_US
        }
