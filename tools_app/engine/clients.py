"""HTTP clients for upstreams: one per account, so that the calls of an account share connections."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tools_app.catalog import connections
from tools_app.sdk.accounts import Account

if TYPE_CHECKING:
    from tools_app.http import ApiClient

MOST_CLIENTS: Final = 100


class Clients:
    """LRU. Used on one event loop. When an account changes, its old client closes after the requests in flight."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Account, ApiClient] = OrderedDict()

    async def of(self, account: Account) -> ApiClient:
        """Raises: ConfigurationError: the secret of the account cannot be read."""
        client = self._clients.get(account)
        if client is not None:
            self._clients.move_to_end(account)
            return client
        client = connections.client(account)
        # No await before the new client is stored: otherwise another call could change the account meanwhile.
        outdated = [old for old in self._clients if (old.pack, old.name) == (account.pack, account.name)]
        evicted = [self._clients.pop(old) for old in outdated]
        self._clients[account] = client
        while len(self._clients) > MOST_CLIENTS:
            evicted.append(self._clients.popitem(last=False)[1])
        for old_client in evicted:
            await old_client.close()
        return client

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].close()
