"""Connections to HTTP services: one pool for each source, shared by its accounts, each of which is sent per request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tools_app.http import addresses
from tools_app.http.public import is_of_the_machine, is_public, names_the_machine
from tools_app.http.sockets import Sockets
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import ConfigurationError
from tools_app.sdk.outside import Origin
from tools_app.upstream.openapi.findings import Findings
from tools_app.upstream.opening import bearer_of

if TYPE_CHECKING:
    from tools_app.upstream.oauth.bearer import Bearer

MOST_SERVICES: Final = 200
MOST_CONNECTIONS: Final = 64
MOST_BEARERS: Final = 200


@dataclass(frozen=True, slots=True)
class Service:
    """A source at one moment, on one event loop."""

    base: addresses.Base
    sockets: Sockets
    loop: asyncio.AbstractEventLoop
    # Where tokens of OAuth come from, by the mark of the account.
    bearers: dict[str, Bearer] = field(default_factory=dict)

    def bearer(self, account: Account | None, origin: Origin) -> Bearer | None:
        """None: the connection sends no tokens that the hub requests itself."""
        if account is None or (found := self.bearers.get(account.mark)) is None:
            found = bearer_of(account, origin)
            if account is not None and found is not None:
                if len(self.bearers) >= MOST_BEARERS:
                    self.bearers.pop(next(iter(self.bearers)))
                self.bearers[account.mark] = found
        return found


class Services:
    """LRU. A source that has changed gets another pool; the former closes after the requests in flight."""

    def __init__(self) -> None:
        self._services: dict[Origin, Service] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.findings = Findings()

    def of(self, origin: Origin) -> Service:
        """Raises: ConfigurationError: the hub may not connect to its address."""
        service = self._services.pop(origin, None)
        loop = asyncio.get_running_loop()
        if service is None or service.loop is not loop:
            base = _base(origin)
            outdated = [old for old in self._services if old.name == origin.name]
            surplus = max(0, len(self._services) - MOST_SERVICES + 1)
            for old in [*outdated, *list(self._services)[:surplus]]:
                self._drop(old)
            service = Service(base, Sockets(lambda: _transport(base, internal=origin.internal)), loop)
        self._services[origin] = service
        return service

    def _drop(self, origin: Origin) -> None:
        service = self._services.pop(origin, None)
        if service is not None and service.loop is asyncio.get_running_loop():
            task = asyncio.create_task(service.sockets.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self, name: str = "") -> None:
        """End the connections of one source, or of all: on any event loop that still runs."""
        origins = [origin for origin in self._services if name in ("", origin.name)]
        for service in [self._services.pop(origin) for origin in origins]:
            if service.loop is asyncio.get_running_loop():
                await service.sockets.close()
            elif service.loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(service.sockets.close(), service.loop))
        if not name:
            await self.findings.close()
        loop = asyncio.get_running_loop()
        if closing := [task for task in self._closing if task.get_loop() is loop]:
            await asyncio.wait(closing)


def _base(origin: Origin) -> addresses.Base:
    base = addresses.base(origin.location, allow_http=origin.internal)
    if base.scheme == "http" and not origin.internal:
        raise ConfigurationError(
            f"The address of {origin.name} must begin with https://",
            next_step="An operator can change it, or mark the source as internal if its network is trusted.",
        )
    if names_the_machine(base.host):
        raise ConfigurationError(
            f"The address of {origin.name} is link-local or a metadata service, to which the hub never connects"
        )
    return base


def _transport(base: addresses.Base, *, internal: bool) -> Any:
    # Imports httpx: at the first request.
    from tools_app.http.network import OneOrigin, shared_tls
    from tools_app.http.transport import Transport

    closed = is_of_the_machine if internal else _is_not_public
    return Transport(OneOrigin(base.host, base.port, closed=closed), shared_tls(), MOST_CONNECTIONS)


def _is_not_public(address: Any) -> bool:
    return not is_public(address)
