"""Test an entry of a client's configuration by doing what the client would do."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, Any, Final

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tools_app.management.hub_command import Abort

PATIENCE_SECONDS: Final = 30.0
_REFUSALS: Final = {
    401: "it rejects the new API key. Is it this hub, with the same database and SECRET_KEY?",
    403: "access is denied. Is there a proxy that blocks requests?",
    404: "there is no MCP server at this address, or no such toolset. It must end with /mcp or /mcp/<toolset>",
    421: "the host name is not allowed. Add it to ALLOWED_HOSTS of the hub",
}


for _noisy in ("httpx2", "mcp"):  # Their errors are reported here.
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class ConnectionTest:
    tools: int
    seconds: float


class CheckFailed(Abort):
    """The test failed; `reason` includes what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the connection test failed: {reason.rstrip('.')}. Nothing was changed; --no-check skips the test"
        )


def check_entry(entry: dict[str, Any]) -> ConnectionTest:
    """Connect as the client would, and count its tools.

    Raises:
        CheckFailed
    """
    begun = time.monotonic()
    if "url" in entry:
        tools = asyncio.run(_over_http(entry["url"], entry.get("headers") or entry["http_headers"]))
    else:
        tools = asyncio.run(_over_stdio(entry))
    return ConnectionTest(tools, time.monotonic() - begun)


def check_hub(url: str) -> None:
    """Check that a hub answers (with 401) before a key is created.

    Raises:
        CheckFailed
    """
    try:
        answer = httpx2.post(url, timeout=PATIENCE_SECONDS)
    except httpx2.TransportError as error:
        raise _no_answer_error(url) from error
    if answer.status_code != HTTPStatus.UNAUTHORIZED:
        raise _refusal_error(url, answer.status_code)


async def _over_stdio(entry: dict[str, Any]) -> int:
    with tempfile.TemporaryDirectory() as elsewhere, tempfile.TemporaryFile("w+", errors="replace") as stderr:
        # Clients pass on a minimal environment, and start servers in any directory.
        server = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=entry.get("env"), cwd=elsewhere
        )
        try:
            return await _tools(stdio_client(server, errlog=stderr))
        except OSError as error:
            raise CheckFailed(f"{entry['command']} cannot be started ({error.strerror})") from error
        except TimeoutError as error:
            raise CheckFailed(f"it did not answer within {PATIENCE_SECONDS:.0f} s. {_last_words(stderr)}") from error
        except MCPError as error:
            raise CheckFailed(_last_words(stderr) or error.message) from error


async def _over_http(url: str, headers: dict[str, str]) -> int:
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS, event_hooks={"response": [note]}) as http:
        try:
            return await _tools(streamable_http_client(url, http_client=http))
        except (httpx2.TransportError, MCPError, TimeoutError) as error:
            raise (_refusal_error(url, statuses[-1], str(error)) if statuses else _no_answer_error(url)) from error


async def _tools(transport: Any) -> int:
    """Initialize, list all tools and count them."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Client(transport, mode="legacy") as client:
            count, cursor = 0, None
            while True:
                page = await client.list_tools(cursor=cursor)
                count += len(page.tools)
                if (cursor := page.next_cursor) is None:
                    return count
    except BaseExceptionGroup as error:
        # The SDK's task groups wrap the error.
        group: BaseException = error
        while isinstance(group, BaseExceptionGroup):
            group = group.exceptions[0]
        raise group from None


def _last_words(stderr: IO[str]) -> str:
    """The last line that the hub wrote to stderr, or the last line of any output."""
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read().splitlines() if line.strip()]
    own = [line.removeprefix("toolhub: ") for line in lines if line.startswith("toolhub: ")]
    return (own or lines or [""])[-1]


def _no_answer_error(url: str) -> CheckFailed:
    return CheckFailed(f"no answer from {url}. Start the hub: toolhub serve")


def _refusal_error(url: str, status: int, otherwise: str = "it is not a hub") -> CheckFailed:
    return CheckFailed(f"{url} answers {status}: {_REFUSALS.get(status, otherwise)}")
