"""The open web, and nothing else: checked on the address that is connected to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.conftest import SOON
from tests.support.faultd import Faultd, Names
from tools_app.http import WebClient
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    ToolError,
    ToolTimeoutError,
    UpstreamUnavailableError,
)

pytestmark = pytest.mark.anyio

PLACE = ip_address("127.0.0.1")  # stands for a public address in these tests


@pytest.fixture
def canary() -> Iterator[Faultd]:
    """An internal server that no request may reach."""
    with Faultd(host="127.0.0.2") as inside:
        yield inside
    assert inside.connections == 0


@pytest.fixture
async def web(upstream: Faultd, canary: Faultd) -> AsyncIterator[WebClient]:
    names = Names(web_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]], inside_test=[["127.0.0.2"]])
    client = WebClient(
        timeout=2.0,
        resolver=names,
        allowed=lambda address: address == PLACE,
        ports=frozenset({80, 443, upstream.port, canary.port}),
    )
    yield client
    await client.close()


async def failed(coroutine: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await coroutine
    return caught.value


async def test_reads_a_page_and_says_nothing_of_who_asks(web: WebClient, upstream: Faultd) -> None:
    page = await web.get(f"http://web.test:{upstream.port}/html?a=1", params={"q": "a b"}, operation="read page")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Please log in" in page.data
    (seen,) = upstream.requests
    assert seen.target == "/html?a=1&q=a%20b"
    assert seen.headers.keys() == {"host", "user-agent", "accept", "accept-encoding"}
    assert seen.headers["host"] == f"web.test:{upstream.port}"


async def test_asks_with_a_form(web: WebClient, upstream: Faultd) -> None:
    page = await web.post(f"http://web.test:{upstream.port}/challenge", {"q": "a"}, operation="search the web")
    assert page.status == 202
    assert upstream.requests[0].body == b"q=a"


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.2:{port}/", "http://127.2:{port}/", "http://0x7f000002:{port}/", "http://2130706434:{port}/"),
        *(
            "http://0177.0.0.2:{port}/",
            "http://[::ffff:127.0.0.2]:{port}/",
            "http://localhost:{port}/",
            "http://0:{port}/",
        ),
        *("http://localhost.:{port}/", "http://[::1]:{port}/", "http://169.254.169.254/latest", "http://10.0.0.1/"),
    ],
)
async def test_an_inner_address_is_refused_however_it_is_written(canary: Faultd, url: str) -> None:
    web = WebClient(ports=frozenset({80, canary.port}))
    error = await failed(web.get(url.format(port=canary.port), operation="read page"))
    assert error.message.endswith(("is not on the open web", "is not valid", "its host name has no address"))


@pytest.mark.parametrize(
    "url",
    [
        *("http://ok@127.0.0.2/", "http://web.test\\@127.0.0.2/", "http://web.test:22/", "http://web.test:0/"),
        *("http://we\tb.test/", "http:///etc/passwd", "file:///etc/passwd", "gopher://web.test/", "web.test", ""),
        *(
            "http://[fe80::1%25eth0]/",
            "http://web.test:25/",
            "http://web.test:99999/",
            "javascript:alert(1)",
            "http://",
        ),
        *("http://web.test/" + "a" * 3000, "http://web.test/\u2028", "//web.test/", "http://\x00web.test/"),
    ],
)
async def test_an_odd_address_is_refused_before_anything_is_asked(url: str) -> None:
    names = Names(web_test=[["127.0.0.1"]])
    assert isinstance(await failed(WebClient(resolver=names).get(url, operation="x")), InvalidArgumentsError)
    assert names.asked == []


async def test_a_name_is_resolved_once_for_a_connection(upstream: Faultd, canary: Faultd) -> None:
    """What is checked is connected to: a second look at the name, which could say something else, is never taken."""
    ports = frozenset({canary.port, upstream.port})
    for _ in range(25):
        names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
        web = WebClient(resolver=names, allowed=lambda address: address == PLACE, ports=ports)
        await web.get(f"http://rebind.test:{upstream.port}/text", operation="x")
        assert names.asked == ["rebind.test"]
        await web.close()
        again = WebClient(resolver=names, allowed=lambda address: address == PLACE, ports=ports)
        assert isinstance(
            await failed(again.get(f"http://rebind.test:{canary.port}/", operation="x")), InvalidArgumentsError
        )


async def test_one_inner_address_among_others_is_one_too_many(upstream: Faultd, canary: Faultd) -> None:
    names = Names(mixed_test=[["127.0.0.1", "127.0.0.2"]])
    web = WebClient(resolver=names, allowed=lambda address: address == PLACE, ports=frozenset({upstream.port}))
    assert isinstance(
        await failed(web.get(f"http://mixed.test:{upstream.port}/", operation="x")), InvalidArgumentsError
    )
    assert upstream.requests == []


async def test_another_address_is_tried_where_one_does_not_answer(upstream: Faultd) -> None:
    names = Names(two_test=[["127.0.0.3", "127.0.0.1"]])
    web = WebClient(resolver=names, allowed=lambda _: True, ports=frozenset({upstream.port}))
    assert (await web.get(f"http://two.test:{upstream.port}/text", operation="x")).data == "Grüße"
    await web.close()


async def test_an_unknown_host_name_is_reported(web: WebClient) -> None:
    error = await failed(web.get("http://gone.test/", operation="x"))
    assert isinstance(error, UpstreamUnavailableError)
    assert error.message == "Network error: gone.test cannot be found: its host name has no address"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_through_the_same_checks(
    web: WebClient, upstream: Faultd, canary: Faultd, status: int
) -> None:
    start = f"http://web.test:{upstream.port}/redirect:{status}?to="
    page = await web.get(start + quote("/text?a=1#part"), operation="x")
    assert (page.url, page.data) == (f"http://web.test:{upstream.port}/text?a=1", "Grüße")
    for target in (canary.url, f"http://inside.test:{canary.port}/", "http://web.test:22/", "file:///etc/passwd"):
        assert isinstance(await failed(web.get(start + quote(target), operation="x")), InvalidArgumentsError)


async def test_a_redirect_to_another_host_drops_body_and_referrer(web: WebClient, upstream: Faultd) -> None:
    to = quote(f"http://other.test:{upstream.port}/text")
    start = f"http://web.test:{upstream.port}/redirect:307?to={to}"
    await web.post(start, {"q": "private"}, operation="x", headers={"Referer": "http://web.test/"})
    first, second = upstream.requests
    assert (first.body, second.body) == (b"q=private", b"")
    assert "referer" not in second.headers


async def test_a_redirect_in_circles_ends(web: WebClient, upstream: Faultd) -> None:
    upstream_name = f"http://web.test:{upstream.port}/redirect:302?to="
    to = "/loop"
    for _ in range(6):
        to = "/redirect:302?to=" + quote(to, safe="")
    begun = time.monotonic()
    error = await failed(web.get(upstream_name + quote(to, safe=""), operation="read page"))
    assert isinstance(error, ApiError)
    assert error.message == "Failed to read page: more than 3 redirects"
    assert len(upstream.requests) == 4
    assert time.monotonic() - begun < SOON


async def test_one_deadline_holds_for_all_hops(web: WebClient, upstream: Faultd) -> None:
    start = f"http://web.test:{upstream.port}/redirect:302?to=" + quote("/drip-body")
    begun = time.monotonic()
    error = await failed(web.get(start, operation="x", seconds=0.3))
    assert isinstance(error, ToolTimeoutError)
    assert time.monotonic() - begun < SOON


async def test_no_redirect_leads_from_https_to_http(canary: Faultd) -> None:
    with Faultd(tls="good") as secure:
        web = WebClient(
            tls=secure.trusting,
            resolver=Names(localhost=[["127.0.0.1"]]),
            allowed=lambda _: True,
            ports=frozenset({secure.port, canary.port}),
        )
        assert (await web.get(f"{secure.url}/text", operation="x")).data == "Grüße"
        error = await failed(web.get(f"{secure.url}/redirect:302?to={quote(canary.url)}", operation="x"))
        assert "from https to http" in error.message
        await web.close()


async def test_too_much_is_not_read(web: WebClient, upstream: Faultd) -> None:
    error = await failed(web.get(f"http://web.test:{upstream.port}/bomb:gzip", operation="read page"))
    assert error.code == "UPSTREAM_INVALID_RESPONSE"
