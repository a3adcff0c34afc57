"""HTTP clients for upstreams: one per account, so that the calls of an account share connections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tools_app.catalog import accounts, connections
from tools_app.models.tools import MAX_TIMEOUT_MS
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import ToolError
from tools_app.sdk.reach import ENVIRONMENT

if TYPE_CHECKING:
    from tools_app.http import ApiClient

MOST_CLIENTS: Final = 100

Explain = Callable[[Any], ToolError | None] | None


class Clients:
    """LRU. Used on one event loop. When an account changes, its old client closes after the requests in flight."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Account, ApiClient] = OrderedDict()

    async def of(self, account: Account, explain: Explain) -> ApiClient:
        """Raises: ConfigurationError: the secret of the account cannot be read."""
        client = self._clients.get(account)
        if client is not None:
            self._clients.move_to_end(account)
            return client
        client = client_of(account, explain)
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


def client_of(account: Account, explain: Explain = None) -> ApiClient:
    """A new client for an account, which sends its secret to that upstream only.

    With `explain`, its errors are in the words of the pack, otherwise in those of HTTP.

    Raises:
        ConfigurationError: the secret cannot be read.
    """
    # Imported at the first use: most calls need no upstream, and the import would slow down every start.
    from tools_app.http import ApiClient

    kind = replace(account.kind, explain=explain)
    return ApiClient.of_kind(
        kind,
        account.base,
        connections.secret_of(account),
        name=kind.title if account.name == ENVIRONMENT else f"{kind.title} ({account.name})",
        # Without a timeout of its own, the deadline of the call applies.
        timeout=(account.timeout_ms or MAX_TIMEOUT_MS) / 1000,
        allow_http=account.allow_http,
        read_only=account.read_only,
        link_local=accounts.may_be_link_local(account.base),
    )
