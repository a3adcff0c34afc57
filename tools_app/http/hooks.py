"""One POST to a receiver of webhooks: no redirects, one deadline, and only to addresses that were permitted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools_app.http import addresses
from tools_app.http.public import is_of_the_machine, is_public

if TYPE_CHECKING:
    from tools_app.http.network import Resolver

SECONDS: Final = 10.0
MOST_ANSWER: Final = 4_096


class HookError(Exception):
    """There was no answer; the message is for operators, and does not contain the URL, which can be a secret."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    status: int
    text: str

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    internal: bool = False,
    seconds: float = SECONDS,
    resolver: Resolver | None = None,
) -> HookAnswer:
    """Send a body once, and read the beginning of the answer. A redirect is an answer.

    `internal`: private addresses and plain http are permitted, link-local addresses and metadata services are not.

    Raises:
        HookError
    """
    parts = addresses.split(url)
    if isinstance(parts, str):
        raise HookError(f"The URL {parts}")
    scheme, host, port, _, _ = parts
    if scheme != "https" and not internal:
        raise HookError("The URL must begin with https://")
    # Imports httpx: at the first request.
    import httpx

    from tools_app.http import bodies, names
    from tools_app.http.network import CONNECT_SECONDS, NotOurOriginError, OneOrigin, shared_tls
    from tools_app.http.transport import Transport

    closed = is_of_the_machine if internal else lambda address: not is_public(address)
    network = OneOrigin(host, port, resolver or names.of_the_web, closed)
    # Without a pool: the next message may be minutes later.
    transport = Transport(network, shared_tls(), 1)
    try:
        request = httpx.Request("POST", url, headers=dict(headers), content=body)
        request.extensions = {"timeout": {"connect": CONNECT_SECONDS}}
        async with asyncio.timeout(seconds):
            response = await transport.handle_async_request(request)
            try:
                encoding = response.headers.get("content-encoding", "")
                answer = await bodies.read_beginning(aiter(response.stream), encoding, MOST_ANSWER)
            finally:
                await response.aclose()
    except TimeoutError as error:
        raise HookError(f"No answer within {seconds:g} seconds") from error
    except NotOurOriginError as error:
        kind = "link-local or a metadata service" if internal else "not public, and the rule permits no internal one"
        raise HookError(f"The address of the receiver is {kind}") from error
    except httpx.InvalidURL as error:
        raise HookError("The URL is not valid") from error
    except (httpx.HTTPError, OSError) as error:
        raise HookError(f"No connection: {type(error).__name__}") from error
    except bodies.UnreadableBody:
        return HookAnswer(response.status_code, "")
    finally:
        await transport.aclose()
    return HookAnswer(response.status_code, bodies.text(answer, response.headers.get("content-type", "")))
