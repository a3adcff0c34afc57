from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.support.faultd import Faultd
from tools_app.http import ApiClient

KEY = "s3cr3t-k3y-of-this-test"
# Seconds: less than what the faults take, and much more than the deadlines; the machine may be busy.
SOON = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


@pytest.fixture
def upstream(server: Faultd) -> Faultd:
    """The module's server, with nothing written down yet."""
    server.requests.clear()
    return server


Client = Callable[..., ApiClient]


@pytest.fixture
async def client(upstream: Faultd) -> AsyncIterator[Client]:
    """Makes clients whose base URL is a fault of the server."""
    made: list[ApiClient] = []

    def make(fault: str = "ok", **options: Any) -> ApiClient:
        given: dict[str, Any] = {"name": "Faultd", "secrets": {"X-API-Key": KEY}, "timeout": 5.0} | options
        made.append(ApiClient(f"{upstream.url}/{fault}", **given))
        return made[-1]

    yield make
    for one in made:
        await one.close()
