"""What speaks to upstreams: one client for each account, so that its calls share their sockets."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tools_app.catalog import connections
from tools_app.sdk.accounts import Account

if TYPE_CHECKING:
    from tools_app.http import ApiClient

MOST_CLIENTS: Final = 100


class Clients:
    """Used on one event loop. A client goes when its account has changed, after the requests that it still serves."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Account, ApiClient] = OrderedDict()

    async def of(self, account: Account) -> ApiClient:
        """Raises: ConfigurationError, when the secret of the account cannot be read."""
        client = self._clients.get(account)
        if client is not None:
            self._clients.move_to_end(account)
            return client
        client = connections.client(account)
        # All that is decided here is decided before anything is waited for: others may change the account meanwhile.
        same = [known for known in self._clients if (known.pack, known.name) == (account.pack, account.name)]
        gone = [self._clients.pop(known) for known in same]
        self._clients[account] = client
        while len(self._clients) > MOST_CLIENTS:
            gone.append(self._clients.popitem(last=False)[1])
        for one in gone:
            await one.close()
        return client

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].close()
