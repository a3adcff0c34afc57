"""One request to a server that a document names, such as an authorization server: guarded, small, and logged nowhere.

`ApiClient` logs bodies at the level trace; what an authorization server answers are secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tools_app.http import addresses
from tools_app.http.public import is_of_the_machine, is_public, names_the_machine

if TYPE_CHECKING:
    import httpx2

SECONDS: Final = 10.0
MOST_BYTES: Final = 256 * 1024
MOST_ADDRESS: Final = 2_000


class PlainError(Exception):
    """There is no answer. The message continues the name of the server, and contains nothing that it sent."""


@dataclass(frozen=True, slots=True)
class PlainResponse:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def fault_of(url: str, *, internal: bool) -> str:
    """Why no request is sent to this address; empty if one is. Names are resolved, and checked, when connecting.

    `internal`: whether private addresses and plain http are permitted.
    """
    parts = addresses.split(url) if len(url) <= MOST_ADDRESS else "is too long"
    if isinstance(parts, str):
        return f"its address {parts}"
    scheme, host, _, _, rest = parts
    if "#" in rest:
        return "its address has a fragment"
    if scheme != "https" and not internal:
        return "its address must begin with https://; plain http is for sources that are marked as internal"
    return "its address is link-local or a metadata service" if names_the_machine(host) else ""


async def send(
    method: str,
    url: str,
    *,
    internal: bool,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    seconds: float = SECONDS,
) -> PlainResponse:
    """Send a request, over a connection of its own. No redirects are followed.

    Raises:
        PlainError
    """
    if fault := fault_of(url, internal=internal):
        raise PlainError(fault)
    # Imported at the first request: most hubs send none.
    import httpx2

    from tools_app.http.network import CONNECT_SECONDS, NotOurOriginError, NotPublicError, OneOrigin, shared_tls
    from tools_app.http.sdk_transport import SdkTransport

    target = httpx2.URL(url)
    closed: Any = is_of_the_machine if internal else _is_not_public
    port = target.port or addresses.PORTS[target.scheme]
    transport = SdkTransport(OneOrigin(target.host, port, closed=closed), shared_tls(), 1)
    sent = {"user-agent": "toolhub", "accept": "application/json", **(headers or {}), "accept-encoding": "identity"}
    request = httpx2.Request(method, target, headers=sent, content=content)
    request.extensions = {"timeout": {"connect": CONNECT_SECONDS}}
    try:
        async with asyncio.timeout(seconds):
            response: httpx2.Response = await transport.handle_async_request(request)
            try:
                return PlainResponse(response.status_code, dict(response.headers), await _body(response))
            finally:
                await response.aclose()
    except TimeoutError:
        raise PlainError(f"it did not answer within {seconds:.0f} s") from None
    except (NotOurOriginError, NotPublicError):
        raise PlainError("its address is not public; mark the source as internal if it is meant to be") from None
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        raise PlainError("it cannot be reached") from None
    except (httpx2.TransportError, OSError):
        raise PlainError("the connection broke") from None
    finally:
        await transport.aclose()


async def _body(response: httpx2.Response) -> bytes:
    """Raises: PlainError."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise PlainError("its answer is compressed, which the hub did not ask for")
    stream: Any = response.stream
    parts: list[bytes] = []
    size = 0
    async for part in stream:
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise PlainError(f"its answer has more than {MOST_BYTES:,} bytes")
    return b"".join(parts)


def _is_not_public(address: Any) -> bool:
    return not is_public(address)
