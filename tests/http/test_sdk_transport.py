"""What the HTTP client of the mcp SDK sends passes the same guard as what tools send."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import httpx2
import pytest

from tests.support.faultd import Faultd, Names
from tools_app.http.network import NotOurOriginError, NotPublicError, OneOrigin, OpenWeb, shared_tls
from tools_app.http.sdk_transport import SdkTransport

pytestmark = pytest.mark.anyio

PUBLIC = ip_address("127.0.0.1")  # what these tests call public


@pytest.fixture
def canary() -> Iterator[Faultd]:
    """A server inside: no request may reach it."""
    with Faultd(host="127.0.0.2") as inside:
        yield inside
    assert inside.connections == 0


def web_client(names: Names, **options: Any) -> httpx2.AsyncClient:
    network = OpenWeb(names, allowed=lambda address: address == PUBLIC)
    return httpx2.AsyncClient(transport=SdkTransport(network, shared_tls(), 4), **options)


async def test_an_answer_is_read_in_pieces_and_its_connection_used_again(upstream: Faultd) -> None:
    before = upstream.connections
    transport = SdkTransport(OneOrigin(upstream.host, upstream.port), shared_tls(), 4)
    async with httpx2.AsyncClient(transport=transport, base_url=upstream.url) as client:
        for _ in range(3):
            async with client.stream("POST", "/ok", json={"a": 1}) as response:
                assert response.status_code == 200
                assert b'"method"' in b"".join([part async for part in response.aiter_bytes()])
    assert upstream.connections == before + 1


@pytest.mark.parametrize(
    "host", ["127.0.0.2", "127.2", "0x7f000002", "2130706434", "[::ffff:127.0.0.2]", "[::1]", "169.254.169.254"]
)
async def test_an_inner_address_is_refused_however_it_is_written(canary: Faultd, host: str) -> None:
    network = OpenWeb()
    async with httpx2.AsyncClient(transport=SdkTransport(network, shared_tls(), 4)) as client:
        with pytest.raises((NotPublicError, OSError)):
            await client.get(f"http://{host}:{canary.port}/")


async def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to(
    upstream: Faultd, canary: Faultd
) -> None:
    for _ in range(25):
        names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
        async with web_client(names) as client:
            assert (await client.get(f"http://rebind.test:{upstream.port}/text")).status_code == 200
            assert names.asked == ["rebind.test"]
        async with web_client(names) as client:
            with pytest.raises(NotPublicError):
                await client.get(f"http://rebind.test:{canary.port}/")


async def test_a_redirect_is_judged_like_any_address(upstream: Faultd, canary: Faultd) -> None:
    names = Names(web_test=[["127.0.0.1"]], inside_test=[["127.0.0.2"]])
    inside = f"http://inside.test:{canary.port}/"
    async with web_client(names, follow_redirects=True) as client:  # house: allow redirects – the guard is tested
        with pytest.raises(NotPublicError):
            await client.get(f"http://web.test:{upstream.port}/redirect:307", params={"to": inside})


async def test_proxies_of_the_environment_are_not_used(
    upstream: Faultd, canary: Faultd, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, canary.url)
    async with web_client(Names(web_test=[["127.0.0.1"]])) as client:
        assert (await client.get(f"http://web.test:{upstream.port}/text")).status_code == 200


async def test_another_origin_than_the_one_set_up_is_not_connected_to(upstream: Faultd, canary: Faultd) -> None:
    transport = SdkTransport(OneOrigin(upstream.host, upstream.port), shared_tls(), 4)
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(NotOurOriginError):
            await client.get(canary.url)


@pytest.mark.parametrize("kind", ["expired", "not-yet-valid", "wrong-host", "self-signed", "unknown", "old-tls"])
async def test_a_bad_certificate_ends_it_before_the_key_is_sent(kind: str) -> None:
    with Faultd(tls=kind) as upstream:
        url = httpx2.URL(upstream.url)
        transport = SdkTransport(OneOrigin(url.host, upstream.port), upstream.trusting, 4)
        async with httpx2.AsyncClient(transport=transport, headers={"Authorization": "Bearer k3y"}) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get(upstream.url)
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("fault", "raised"),
    [("close", httpx2.RemoteProtocolError), ("garbage", httpx2.RemoteProtocolError), ("reset", httpx2.ReadError)],
)
async def test_failures_are_those_of_its_library(
    upstream: Faultd, fault: str, raised: type[httpx2.TransportError]
) -> None:
    transport = SdkTransport(OneOrigin(upstream.host, upstream.port), shared_tls(), 4)
    async with httpx2.AsyncClient(transport=transport, base_url=upstream.url) as client:
        with pytest.raises(raised) as caught:
            await client.get(f"/{fault}")
        assert caught.value.request.url.path == f"/{fault}"
