"""Managing OpenAPI documents from a shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.management.test_source import data, ran, run
from tests.support import shop as shops
from tests.support.shop import Shop, deviate, document
from tools_app import governance
from tools_app.management.commands import doctor
from tools_app.models import Connection, Source, SourceDocument, ToolRecord

pytestmark = pytest.mark.usefixtures("hub")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = tmp_path / "shop.json"
    made.write_text(json.dumps(document(webhooks={"sold": {}})))
    return str(made)


def texts() -> str:
    return "\n".join(diagnosis.text for diagnosis in doctor.diagnoses())


def test_a_preview_shows_what_an_import_would_bring(file: str) -> None:
    shown = ran("source", "preview", file, "--name", "shop")
    assert shown.startswith("Shop 1.0, ")
    assert "base URL: https://shop.example.org/v1\n" in shown
    assert "needs a connection: header X-Api-Key\n" in shown
    assert "operations: 5 of 5 (about " in shown
    assert "orders:\n  GET /orders: shop_list_orders, read, " in shown
    assert "  DELETE /orders/{orderId}: shop_cancel_order, destructive, " in shown
    assert "not supported: GET /basket: " in shown
    assert "note: " in shown
    assert "ebhooks" in shown
    chosen = data("source", "preview", file, "--select", "tag:stock")
    assert [one["key"] for one in chosen["operations"] if one["selected"]] == ["GET /stock/{sku}"]
    assert not Source.objects.filter(kind="openapi").exists()


def test_from_a_file_to_the_tools(file: str) -> None:
    added = ran("source", "add", "shop", "--openapi", file, "--select", "GET *", "--reason", "for the team")
    assert added.startswith("shop is added, and off.\ndocument: Shop 1.0, from a file\n")
    assert "operations: 5 (imported: 3), not supported: 1\nbase URL: https://shop.example.org/v1\n" in added
    assert "needs a connection: header X-Api-Key\nNext: toolhub source test shop" in added
    assert "tools: 3 (about " in ran("source", "test", "shop")
    assert "3 new (shop_" in ran("source", "on", "shop")
    shown = ran("source", "list", "shop")
    assert "new: shop_list_orders (GET /orders)" in shown
    assert "document: Shop 1.0, from a file" in shown
    assert ran("source", "approve", "shop", "--accept-hints").startswith("Approved: ")
    assert ToolRecord.objects.get(name="shop_list_orders").hint_read_only is True
    changed = ran("source", "select", "shop", "GET /orders", "POST /orders")
    assert changed.startswith(
        "Imported from now on: POST /orders.\n"
        "Not imported any more: GET /orders/{orderId}, GET /stock/{sku}.\n1 new (shop_create_order)"
    )
    assert ran("source", "select", "shop", "GET /orders", "POST /orders") == "Nothing has changed.\n"
    assert "Imported from now on: " in ran("source", "select", "shop", "--all")
    assert SourceDocument.objects.get(source__name="shop").selected is None


def test_a_document_is_replaced(file: str) -> None:
    ran("source", "add", "shop", "--openapi", file)
    ran("source", "on", "shop")
    ran("source", "approve", "shop")
    other = document()
    other["info"]["version"] = "2.0"
    other["paths"]["/orders"]["get"]["summary"] = "List some"
    Path(file).write_text(json.dumps(other))
    words = ran("source", "document", "shop", file)
    assert words.startswith("shop has a new document.\ndocument: Shop 2.0, from a file\n")
    assert "changed: shop_list_orders" in ran("source", "list", "shop")


def test_a_document_is_read_from_a_url(shop: Shop) -> None:
    code, _, err = run("source", "add", "shop", "--openapi", shop.document_url)
    assert (code, "must begin with https://" in err) == (1, True)
    added = ran("source", "add", "shop", "--openapi", shop.document_url, "--internal")
    assert f"from {shop.document_url}\n" in added
    assert f"base URL: {shop.base}\n" in added
    assert data("source", "list", "shop")["outside"]["document"]["url"] == shop.document_url


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "shop", "--openapi", "/nowhere/shop.json"], "/nowhere/shop.json cannot be read: No such file"),
        (["add", "shop", "--url", "https://shop.example.org", "--select", "x"], "--select is for OpenAPI documents"),
        (["add", "shop", "--openapi", "FILE", "--per-session"], "are for MCP servers"),
        (["add", "shop", "--openapi", "FILE", "--select", "GET /nothing"], "no operation matches 'GET /nothing'"),
        (["add", "shop", "--openapi", "FILE", "--url", "https://10.0.0.1"], "The address is not public"),
        (["preview", "BROKEN"], "The document is neither JSON nor YAML"),
        (["select", "shop"], "give operations or patterns, or --all"),
        (["select", "shop", "x", "--all"], "give operations or patterns, or --all"),
    ],
)
def test_says_what_is_wrong(file: str, tmp_path: Path, arguments: list[str], words: str) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{")
    names = {"FILE": file, "BROKEN": str(broken)}
    code, _, err = run("source", *(names.get(word, word) for word in arguments))
    assert code in (1, 2)
    assert words in err
    assert not Source.objects.filter(kind="openapi").exists()


def test_the_doctor_says_what_a_document_needs(shop: Shop, file: str) -> None:
    ran("source", "add", "shop", "--openapi", file)
    assert "source shop: needs a connection: header X-Api-Key" in texts()
    secret = {"X-Api-Key": "s3cret"}
    governance.create_connection("main", "shop", form="header", secret=secret, actor=governance.trusted("test"))
    assert "needs a connection" not in texts()
    assert Connection.objects.get(name="main").names == ["X-Api-Key"]
    SourceDocument.objects.update(error="it was not read within 30 s")
    assert "source shop: its document cannot be read again: it was not read within 30 s" in texts()


def test_answers_that_deviate_are_shown(file: str) -> None:
    ran("source", "add", "shop", "--openapi", file)
    assert "deviate" not in texts() + ran("source", "list", "shop")
    deviate()
    assert "source shop: operations whose answers deviate from its document: 1" in texts()
    shown = ran("source", "list", "shop")
    assert "operations whose answers deviate from the document: 1\n" in shown
    assert "  GET /orders: /0/id: string instead of integer (HTTP 200; 3 answers)\n" in shown
