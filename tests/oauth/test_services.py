"""Services of OpenAPI documents behind an authorization server: their operations are called with its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.oauth.conftest import ACTOR, by_credentials, look
from tests.support import shop as shops
from tests.support.oauth_server import OAuthServer
from tests.support.shop import Shop, document
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import governance, sources
from tools_app.models import ToolRecord
from tools_app.sdk.errors import ToolError

LIST, CREATE = "acme_list_orders", "acme_create_order"


@pytest.fixture
def shop(hub: Hub, oauth: OAuthServer) -> Iterator[Shop]:
    with shops.running() as running:
        text = json.dumps(document(running.base)).encode()
        governance.import_document("acme", text=text, internal=True, actor=ACTOR)
        governance.change_source("acme", enabled=True, actor=ACTOR)
        sources.current().describe("acme", actor="test")
        governance.approve_tools("acme", actor=ACTOR)
        ToolRecord.everything.filter(pack="acme").update(enabled=True)
        by_credentials(token_url=f"{oauth.issuer}/token")
        rebuild_catalog()
        running.accepts = oauth.accepts
        yield running


def test_a_token_is_requested_once_and_sent_with_each_call(shop: Shop, oauth: OAuthServer) -> None:
    for _ in range(3):
        assert look(name="robot", tool=LIST) == {"orders": []}
    assert [path for path, _ in oauth.requests] == ["/token"]
    assert shop.calls == ["GET /v1/orders"] * 3


def test_a_refused_token_is_renewed_and_the_call_runs_once(shop: Shop, oauth: OAuthServer) -> None:
    look(name="robot", tool=LIST)
    oauth.expire()
    assert look(name="robot", tool=CREATE, body={"sku": "A", "count": 1})["id"] == "1"
    assert shop.calls == ["GET /v1/orders", "POST /v1/orders", "POST /v1/orders"]
    assert len(shop.orders) == 1
    assert [path for path, _ in oauth.requests] == ["/token", "/token"]


def test_a_service_that_refuses_every_token_is_not_asked_again_and_again(shop: Shop, oauth: OAuthServer) -> None:
    shop.accepts = lambda _: False
    with pytest.raises(ToolError, match="does not accept"):
        look(name="robot", tool=LIST)
    assert len(shop.calls) <= 2
    assert len(oauth.requests) <= 2


def test_without_a_token_nothing_is_sent(shop: Shop, oauth: OAuthServer) -> None:
    governance.create_connection("lost", "acme", form="client_credentials", actor=ACTOR,
                                 secret={"client_id": "entered", "client_secret": "s3cret-of-client"},
                                 options={"token_url": f"{oauth.issuer}/nowhere"})  # fmt: skip
    with pytest.raises(ToolError) as caught:
        look(name="lost", tool=CREATE, body={"sku": "A", "count": 1})
    assert caught.value.nothing_done
    assert shop.calls == []
