"""What the service gets of a connection, and that nobody else gets it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.upstream.openapi.conftest import Service, in_header, query
from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.errors import ApiError, ConfigurationError, ToolError
from tools_app.sdk.operation import Operation

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-of-this-test"
LOOK = Operation("GET", "/things")


def account(form: str, values: dict[str, str], *, epoch: int = 1) -> Account:
    kind = ConnectionKind.outside("shop")
    return Account("main", "shop", kind, "", secret=json.dumps(values), form=form, names=tuple(values), epoch=epoch)


HEADER = account("header", {"X-Api-Key": SECRET, "X-Tenant": "a"})
QUERY = account("query", {"api_key": SECRET, "a b": "c&d"})


@pytest.mark.parametrize(
    ("used", "headers", "target"),
    [
        (HEADER, {"x-api-key": SECRET, "x-tenant": "a"}, "/ok/things"),
        (account("bearer", {"token": SECRET}), {"authorization": f"Bearer {SECRET}"}, "/ok/things"),
        (account("basic", {"user": "u", "password": "p"}), {"authorization": "Basic dTpw"}, "/ok/things"),
        (QUERY, {}, f"/ok/things?api_key={SECRET}&a%20b=c%26d"),
    ],
)
async def test_the_form_of_the_connection_decides(
    service: Service, used: Account, headers: dict[str, str], target: str
) -> None:
    seen = await service.request(LOOK, account=used)
    assert seen.target == target
    own = {"host", "user-agent", "accept", "accept-encoding", "content-length"}
    assert {name: value for name, value in seen.headers.items() if name not in own} == headers


async def test_a_call_without_a_connection_sends_none(service: Service) -> None:
    seen = await service.request(LOOK)
    assert set(seen.headers) == {"host", "user-agent", "accept", "accept-encoding"}


async def test_a_caller_cannot_replace_what_the_connection_sends(service: Service) -> None:
    operation = Operation("GET", "/things", (in_header(name="X-API-KEY"), query(name="api_key"), query(explode=True)))
    arguments = {"X-API-KEY": "mine", "api_key": "mine", "color": {"api_key": "mine", "b": "c"}}
    assert (await service.request(operation, arguments, account=HEADER)).headers["x-api-key"] == SECRET
    seen = await service.request(operation, {**arguments, "X-API-KEY": ""}, account=QUERY)
    assert seen.target == f"/ok/things?b=c&api_key={SECRET}&a%20b=c%26d"


async def test_a_connection_to_a_former_address_is_not_used(service: Service) -> None:
    with pytest.raises(ConfigurationError, match="has been changed"):
        await service.call(LOOK, account=account("bearer", {"token": SECRET}, epoch=2))
    assert not service.server.requests
    assert service.sent == ["no"]


@pytest.mark.parametrize("used", [HEADER, QUERY, account("bearer", {"token": SECRET})])
async def test_an_echoed_secret_is_masked(service: Service, used: Account) -> None:
    assert SECRET not in json.dumps(await service.call(LOOK, account=used))

    async def refuse(wire: Any) -> None:
        await wire.answer(json.dumps({"message": f"bad key {SECRET}"}).encode(), status="400 Bad Request")

    service.server.answer("echo", refuse)
    with pytest.raises(ToolError, match="bad key") as caught:
        await service.at("echo").call(LOOK, account=used)
    assert SECRET not in repr(caught.value.as_dict())
    assert SECRET not in str(caught.value.detail)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("used", [HEADER, QUERY])
async def test_redirects_are_not_followed(service: Service, status: int, used: Account) -> None:
    async def move(wire: Any) -> None:
        place = "http://user:pw@elsewhere.example/a?key=1"
        await wire.answer(b"", status=f"{status} Moved", headers=[f"Location: {place}"])

    service.server.answer("move", move)
    with pytest.raises(ApiError, match="redirects to http://elsewhere.example/a, which is not followed") as caught:
        await service.at("move").call(LOOK, account=used)
    assert len(service.server.requests) == 1
    assert not caught.value.retryable
    assert caught.value.context["statusCode"] == status


@pytest.mark.parametrize(
    ("security", "needs"),
    [
        ((), ""),
        (((("apiKey", "X-Key", "header"),),), ": a key in the header X-Key"),
        (((("http", "bearer", ""),), (("oauth2", "", ""),)), ": HTTP bearer or OAuth 2"),
        (((("apiKey", "a", "query"), ("apiKey", "b", "cookie")),), ": a key in the query a with a key in the cookie b"),
    ],
)
async def test_a_missing_connection_is_named(service: Service, security: Any, needs: str) -> None:
    operation = Operation("GET", "/things", security=security)
    with pytest.raises(ApiError) as caught:
        await service.at("status:401").call(operation)
    assert caught.value.message.startswith(
        f"shop requires authentication{needs}. This call used no connection (HTTP 401"
    )
    assert "Ask an operator" in caught.value.next_step


async def test_a_connection_that_is_refused_is_for_an_operator(service: Service) -> None:
    with pytest.raises(ApiError, match="Authentication failed: shop does not accept the secret") as caught:
        await service.at("status:401").call(LOOK, account=HEADER)
    assert not caught.value.retryable
    assert caught.value.nothing_done


# ---- where requests go


@pytest.mark.parametrize(
    ("location", "internal", "why"),
    [
        ("http://127.0.0.1:1", False, "must begin with https"),
        ("http://shop.example", False, "https"),
        ("http://169.254.169.254/latest", True, "metadata"),
        ("https://user:pw@shop.example", True, "user name"),
        ("https://shop.example/a?b", True, "must end before"),
        ("ftp://shop.example", True, "must begin with"),
    ],
)
async def test_addresses_that_the_hub_does_not_connect_to(
    service: Service, location: str, internal: bool, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        await moved(service, location, internal=internal).call(LOOK)


def moved(service: Service, location: str, *, internal: bool) -> Service:
    return replace(service, origin=replace(service.origin, location=location, internal=internal))


async def test_private_addresses_are_for_internal_sources(service: Service) -> None:
    with pytest.raises(ToolError, match="its address is not public") as caught:
        await moved(service, f"https://127.0.0.1:{service.server.port}/ok", internal=False).call(LOOK)
    assert caught.value.nothing_done
    assert not service.server.requests
    assert service.sent[-1] == "no"
