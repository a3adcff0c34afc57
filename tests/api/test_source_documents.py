"""OpenAPI documents as sources over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support import shop as shops
from tests.support.shop import Shop, deviate, document
from tools_app import governance
from tools_app.models import AuditEntry, Source, SourceDocument, ToolRecord

pytestmark = pytest.mark.usefixtures("hub")

TEXT = json.dumps(document())
NEW = {"name": "shop", "kind": "openapi", "document": TEXT}


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        yield running


@pytest.fixture
def adder(make_key: MakeKey) -> str:
    return make_key("adder", scopes=["sources:manage", "tools:manage"])


@pytest.fixture
def root(make_key: MakeKey) -> str:
    return make_key("root", scopes=["admin:*"])


def patch(rest: Rest, path: str, key: str, **body: Any) -> Any:
    return rest.send("PATCH", path, json.dumps(body), key=key)


def test_a_preview_stores_nothing(rest: Rest, adder: str) -> None:
    response = rest.post("/v1/sources/preview", {"document": TEXT, "name": "shop", "select": ["GET *"]}, key=adder)
    assert response.status_code == 200
    shown = response.json()
    check_form("DocumentPreview", shown)
    assert (shown["title"], shown["version"], shown["untrusted"]) == ("Shop", "1.0", True)
    by_key = {one["key"]: one for one in shown["operations"]}
    assert (by_key["GET /orders"]["name"], by_key["GET /orders"]["access"]) == ("shop_list_orders", "read")
    assert [key for key, one in by_key.items() if one["selected"]] == [
        "GET /orders", "GET /orders/{orderId}", "GET /stock/{sku}",
    ]  # fmt: skip
    assert shown["tokens"] == sum(one["tokens"] for one in by_key.values() if one["selected"])
    assert shown["unsupported"][0]["key"] == "GET /basket"
    assert shown["servers"] == {"choices": ["https://shop.example.org/v1"], "proposal": "https://shop.example.org/v1"}
    assert shown["needs"] == [{"scheme": "key", "form": "header", "names": ["X-Api-Key"]}]
    assert not Source.objects.filter(kind="openapi").exists()


def test_adds_a_document_as_a_draft(rest: Rest, adder: str) -> None:
    response = rest.post("/v1/sources", {**NEW, "select": ["tag:stock"], "reason": "for the team"}, key=adder)
    assert response.status_code == 201, response.content
    detail = response.json()
    check_form("SourceDetail", detail)
    assert (detail["kind"], detail["location"], detail["state"]) == ("openapi", "https://shop.example.org/v1", "off")
    shown = detail["outside"]["document"]
    assert (shown["url"], shown["title"], shown["operations"], shown["unsupported"]) == (None, "Shop", 5, 1)
    assert shown["selected"] == ["GET /stock/{sku}"]
    assert AuditEntry.objects.get(action="source.create").reason == "for the team"


def test_answers_that_deviate_are_shown_until_the_source_is_reconnected(rest: Rest, root: str) -> None:
    assert rest.post("/v1/sources", NEW, key=root).json()["outside"]["document"]["answerFindings"] == []
    deviate()
    detail = rest.get("/v1/sources/shop", key=root).json()
    check_form("SourceDetail", detail)
    (finding,) = detail["outside"]["document"]["answerFindings"]
    assert {name: finding[name] for name in ("operation", "status", "difference", "count")} == {
        "operation": "GET /orders", "status": 200, "difference": "/0/id: string instead of integer", "count": 3,
    }  # fmt: skip
    assert finding["firstAt"] == finding["lastAt"]
    again = rest.post("/v1/sources/shop/reconnect", {}, key=root).json()
    assert again["outside"]["document"]["answerFindings"] == []


def test_a_server_has_no_document_and_a_document_no_sessions(rest: Rest, adder: str) -> None:
    server = {"name": "wiki", "location": "https://wiki.example.org/mcp"}
    for wrong, path in (
        ({**server, "document": TEXT}, "/document"),
        ({**server, "documentUrl": "https://shop.example.org/x"}, "/documentUrl"),
        ({**server, "select": ["x"]}, "/select"),
        ({**NEW, "perSession": True}, "/perSession"),
        ({**NEW, "declares": ["roots"]}, "/declares"),
        ({"name": "shop", "kind": "openapi"}, "/document"),
    ):
        response = rest.post("/v1/sources", wrong, key=adder)
        assert response.status_code == 400, wrong
        assert response.json()["details"][0]["path"] == path
    assert not Source.objects.filter(created_by__gt="").exists()


def test_the_choice_of_base_urls_is_in_the_error(rest: Rest, adder: str) -> None:
    text = json.dumps(document(servers=[{"url": "https://a.example.org"}, {"url": "https://b.example.org"}]))
    response = rest.post("/v1/sources", {**NEW, "document": text}, key=adder)
    assert response.status_code == 400
    assert "names these base URLs: https://a.example.org, https://b.example.org" in response.json()["error"]
    chosen = {**NEW, "document": text, "location": "https://b.example.org"}
    assert rest.post("/v1/sources", chosen, key=adder).status_code == 201


def test_operations_are_listed_and_selected(rest: Rest, adder: str, root: str) -> None:
    rest.post("/v1/sources", NEW, key=adder)
    shown = rest.get("/v1/sources/shop/operations", key=adder)
    check_form("DocumentPreview", shown.json())
    assert all(one["selected"] for one in shown.json()["operations"])
    again = rest.get("/v1/sources/shop/operations", key=adder, **{"If-None-Match": shown.headers["ETag"]})
    assert again.status_code == 304
    changed = patch(rest, "/v1/sources/shop/operations", adder, select=["GET /orders"])
    assert changed.json()["outside"]["document"]["selected"] == ["GET /orders"]
    refused = patch(rest, "/v1/sources/shop/operations", adder, select=["GET /nothing"])
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "/select")
    assert patch(rest, "/v1/sources/shop/operations", adder).status_code == 400, "null is a choice of its own"
    cleared = patch(rest, "/v1/sources/shop/operations", adder, select=None)
    assert cleared.json()["outside"]["document"]["selected"] is None
    for path in ("/v1/sources/none/operations", "/v1/sources/no\0ne/operations"):
        assert rest.get(path, key=root).status_code == 404


def test_a_document_is_replaced(rest: Rest, adder: str, root: str) -> None:
    rest.post("/v1/sources", NEW, key=root)
    other = json.dumps(document(info={"title": "Shop", "version": "2.0"}))
    response = rest.post("/v1/sources/shop/document", {"document": other, "reason": "new"}, key=adder)
    assert response.status_code == 200
    assert response.json()["outside"]["document"]["version"] == "2.0"
    rest.send("PATCH", "/v1/sources/shop", json.dumps({"enabled": True}), key=root)
    rest.post("/v1/sources/shop/describe", {}, key=root)
    # The key has set the document itself.
    failure(rest.post("/v1/sources/shop/approve", {}, key=adder), 403, "AUTHORIZATION_ERROR")
    assert len(rest.post("/v1/sources/shop/approve", {}, key=root).json()["approved"]) == 5
    assert ToolRecord.objects.filter(source__name="shop", enabled=True).count() == 0


def test_a_url_must_be_public_unless_an_administrator_permits_it(rest: Rest, adder: str, root: str, shop: Shop) -> None:
    new = {"name": "shop", "kind": "openapi", "documentUrl": shop.document_url}
    assert rest.post("/v1/sources", new, key=adder).status_code == 400
    assert rest.post("/v1/sources", {**new, "internal": True}, key=adder).status_code == 403
    preview = {"documentUrl": shop.document_url, "internal": True}
    assert rest.post("/v1/sources/preview", preview, key=adder).status_code == 403
    assert shop.conditions == []
    assert rest.post("/v1/sources", {**new, "internal": True}, key=root).status_code == 201
    assert SourceDocument.objects.get().address == shop.document_url


def test_only_documents_have_operations(rest: Rest, root: str) -> None:
    url = "https://wiki.example.org/mcp"
    governance.add_source("wiki", kind="mcp_http", location=url, actor=governance.trusted("test"))
    assert rest.get("/v1/sources/wiki/operations", key=root).status_code == 409
    assert rest.post("/v1/sources/wiki/document", {"document": TEXT}, key=root).status_code == 409
