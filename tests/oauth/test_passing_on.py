"""Credentials of callers stay here: no request to a source, and none to an authorization server, has them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.conftest import make_key
from tests.api.conftest import server as hub_server
from tests.oauth.conftest import ACTOR, by_credentials, by_person, look, sign_in
from tests.support import shop as shops
from tests.support.faultd import Faultd
from tests.support.http_agents import HttpAgent
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tests.support.shop import Shop, document
from tests.support.state import rebuild_catalog
from tools_app import governance, sources
from tools_app.models import ToolRecord, Toolset
from tools_app.sdk.errors import ToolError

__all__ = ["hub_server", "make_key"]

CALLS = 400
AT_ONCE = 8
LIST = "shop_list_orders"
# What callers also send, and proxies might take for theirs.
OTHERS = {"X-Forwarded-For": "203.0.113.7", "Cookie": "session=c4llers", "X-Redmine-Switch-User": "boss"}


@pytest.fixture
def canary() -> Iterator[Faultd]:
    """Another server, to which nothing may be sent."""
    with Faultd() as running:
        yield running


def import_shop(running: Shop, **changes: Any) -> None:
    text = json.dumps(document(running.base, **changes)).encode()
    governance.import_document("shop", text=text, internal=True, actor=ACTOR)
    governance.change_source("shop", enabled=True, actor=ACTOR)
    sources.current().describe("shop", actor="test")
    governance.approve_tools("shop", actor=ACTOR)
    ToolRecord.everything.filter(pack="shop").update(enabled=True)
    rebuild_catalog()


def test_no_request_to_a_source_has_the_credentials_of_a_caller(
    server: McpUpstream, oauth: OAuthServer, hub_server: httpx.Client, canary: Faultd, make_key: Any, settings: Any
) -> None:
    """Through REST and MCP, to MCP servers and HTTP services, with tokens and with fixed keys, and when they fail."""
    settings.TOOLHUB_RATE_CALLS = settings.TOOLHUB_KEY_RATE_CALLS = 0
    by_person()
    sign_in(oauth)
    by_credentials()
    governance.create_connection("fixed", "acme", form="bearer", secret="of-the-connection", actor=ACTOR)
    server.accepts = lambda header: True
    with shops.running() as shop:
        import_shop(shop)
        governance.create_connection("till", "shop", form="header", secret={"X-Api-Key": "of-the-shop"}, actor=ACTOR)
        Toolset.objects.create(name="outside", packs=["acme", "shop"])
        key = make_key("wanderer", connections=["ann", "robot", "fixed", "till"], toolsets=["outside"])
        rebuild_catalog()
        dice = random.Random(7)
        faults: list[dict[str, Any]] = [
            {"status": 401},
            {"status": 500, "body": b"broken"},
            {"status": 307, "headers": {"Location": f"{canary.url}/ok"}},
            {"status": 307, "headers": {"Location": "/mcp/"}},
        ]
        numbers = itertools.count()

        def one(agent: HttpAgent) -> int:
            number = next(numbers)
            name, arguments = dice.choice(
                [("acme_look", {"text": str(number), "connection": one}) for one in ("ann", "robot", "fixed")]
                + [(LIST, {})]
            )
            if number % 20 == 0:
                server.fail("tools/call", **dice.choice(faults))
            if number % 50 == 0:
                oauth.expire()
            if number % 2:
                answer = agent.send(agent.message("tools/call", {"name": name, "arguments": arguments}), **headers)
                return int("isError" in answer.text and '"isError":true' not in answer.text.replace(" ", ""))
            body = {"name": name, "parameters": arguments}
            answer = agent.http.post("/v1/tools/call", json=body, headers=OTHERS)
            return int(answer.status_code == 200)

        headers = {name.replace("-", "_"): value for name, value in OTHERS.items()}
        agents = [HttpAgent(str(hub_server.base_url), key) for _ in range(AT_ONCE)]
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                succeeded = sum(pool.map(one, itertools.islice(itertools.cycle(agents), CALLS)))
        finally:
            for agent in agents:
                agent.http.close()
        assert succeeded > CALLS / 2
        assert shop.calls
        sent = repr(shop.requests)
    sent += repr(server.requests) + repr(server.messages) + repr(oauth.requests)
    assert len(server.requests) > CALLS / 2
    assert "of-the-connection" in sent
    assert "of-the-shop" in sent
    for secret in (key, *OTHERS.values()):
        assert secret not in sent
    assert not canary.requests


def test_nothing_is_sent_to_a_host_that_a_document_names(server: McpUpstream, canary: Faultd) -> None:
    with shops.running() as shop:
        paths = document(shop.base)["paths"]
        paths["/orders"]["servers"] = [{"url": canary.url}]
        paths["/orders"]["get"]["servers"] = [{"url": canary.url}]
        import_shop(shop, paths=paths)
        governance.create_connection("till", "shop", form="bearer", secret="of-the-shop", actor=ACTOR)
        rebuild_catalog()
        look(name="till", tool=LIST)
        assert shop.calls == ["GET /v1/orders"]
    assert not canary.requests


def test_a_huge_answer_of_the_authorization_server_is_not_read(server: McpUpstream, oauth: OAuthServer) -> None:
    by_credentials()
    oauth.fail("/token", status=200, body=bytes(100_000_000))
    with pytest.raises(ToolError) as caught:
        look(name="robot")
    assert "more than 262,144 bytes" in caught.value.message
    assert not server.calls
