"""An upstream without a valid certificate learns nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.http.conftest import KEY
from tests.support.faultd import Faultd
from tests.support.tools import eventually
from tools_app.http import ApiClient
from tools_app.http.network import shared_tls
from tools_app.sdk.errors import UpstreamTlsError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("expired", "expired"),
        ("not-yet-valid", "not yet valid"),
        ("wrong-host", "Hostname mismatch"),
        ("self-signed", "self-signed"),
        ("unknown", "issuer"),
        ("old-tls", "securely"),
    ],
)
async def test_a_bad_certificate_ends_it_before_the_key_is_sent(kind: str, reason: str) -> None:
    with Faultd(tls=kind) as upstream:
        api = ApiClient(upstream.url, name="n8n", secrets={"X-API-Key": KEY}, tls=upstream.trusting)
        with pytest.raises(UpstreamTlsError) as caught:
            await api.get("ok", operation="x")
        await api.close()
    assert reason.lower() in caught.value.message.lower()
    assert "n8n" in caught.value.message
    assert not caught.value.retryable
    assert upstream.requests == []


async def test_a_good_one_is_trusted_by_those_who_know_its_authority() -> None:
    with Faultd(tls="good") as upstream:
        api = ApiClient(upstream.url, name="n8n", tls=upstream.trusting)
        assert (await api.get("ok", operation="x"))["method"] == "GET"
        stranger = ApiClient(upstream.url, name="n8n")
        with pytest.raises(UpstreamTlsError, match="has an invalid certificate"):
            await stranger.get("ok", operation="x")
        await api.close()
        await stranger.close()


@pytest.mark.parametrize("turns", range(0, 40, 2))
async def test_hanging_up_while_both_sides_agree_on_tls_leaves_nothing_behind(turns: int) -> None:
    with Faultd(tls="good") as upstream:
        api = ApiClient(upstream.url, name="n8n", tls=upstream.trusting, at_once=1)
        call = asyncio.create_task(api.get("ok", operation="x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(2):
            call.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(call, return_exceptions=True)
        assert (await api.get("ok", operation="x"))["method"] == "GET"
        await api.close()
        assert await asyncio.to_thread(eventually, lambda: upstream.open == 0, 10)


async def test_http_on_an_https_port_is_reported() -> None:
    with Faultd() as plain:
        api = ApiClient(plain.url.replace("http:", "https:"), name="n8n")
        with pytest.raises(UpstreamTlsError, match="cannot be reached securely"):
            await api.get("ok", operation="x")
        await api.close()


def test_nothing_older_than_tls_1_2_is_spoken() -> None:
    context = shared_tls()
    assert context.minimum_version.name == "TLSv1_2"
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert context is shared_tls()
