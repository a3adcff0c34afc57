"""OpenAPI documents in the admin: previewed, imported, replaced; operations that are selected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.admin.pages import Page, page, sent
from tests.admin.test_sources_outside import client
from tests.support import shop as shops
from tests.support.shop import Shop, deviate, document
from tools_app import governance, sources
from tools_app.models import AuditEntry, Source, SourceDocument

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

SOURCES = "/admin/tools_app/source/"
IMPORT = f"{SOURCES}add-document/"
TEXT = json.dumps(document())


@pytest.fixture
def admin(db: None) -> Client:
    return client("admin")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        yield running


def upload(text: str = TEXT) -> SimpleUploadedFile:
    return SimpleUploadedFile("shop.json", text.encode())


def previewed(browser: Client, **values: Any) -> Page:
    return sent(browser, IMPORT, **{"name": "shop", "upload": upload()} | values)


def hidden(shown: Page) -> dict[str, str]:
    fields = (one.attributes for one in shown.all("input", type="hidden"))
    return {one["name"]: one["value"] for one in fields if one["name"] != "csrfmiddlewaretoken"}


def confirmed(browser: Client, shown: Page, **values: Any) -> Page:
    return sent(browser, IMPORT, **hidden(shown) | {"scope": "some", "confirmed": "1", "location": ""} | values)


def imported(**parts: Any) -> Source:
    return governance.import_document("shop", text=TEXT.encode(), actor=governance.trusted("test"), **parts)


def test_a_document_is_uploaded_looked_at_and_imported(admin: Client) -> None:
    assert IMPORT in page(admin, f"{SOURCES}add/").addresses
    form = page(admin, IMPORT)
    assert form.one("input", name="upload")["type"] == "file"
    shown = previewed(admin)
    assert not Source.objects.filter(name="shop").exists(), "nothing is stored"
    assert not SourceDocument.objects.exists()
    keys = [one["value"] for one in shown.all("input", name="operation")]
    assert sorted(keys) == [
        "DELETE /orders/{orderId}", "GET /orders", "GET /orders/{orderId}", "GET /stock/{sku}", "POST /orders",
    ]  # fmt: skip
    assert not any("checked" in one.attributes for one in shown.all("input", name="operation")), "nothing is selected"
    assert [one["value"] for one in shown.all("input", name="tag")] == ["orders", "stock"]
    for text in ("Shop 1.0", "headers: X-Api-Key", "GET /basket", "shop_cancel_order", "destroys", "reads"):
        assert text in shown.text, text
    assert shown.one("input", name="location")["value"] == "https://shop.example.org/v1"
    done = confirmed(admin, shown, operation=["GET /orders", "GET /stock/{sku}"], reason="for the team",
                     location="https://shop.example.org/v1")  # fmt: skip
    assert done.messages == ["shop is added, and off. Test it next."]
    source = Source.objects.get(name="shop")
    assert (source.kind, source.location, source.enabled) == ("openapi", "https://shop.example.org/v1", False)
    stored = SourceDocument.objects.get(source=source)
    assert (stored.text, stored.selected) == (TEXT.encode(), ["GET /orders", "GET /stock/{sku}"])
    assert AuditEntry.objects.get(action="source.create").reason == "for the team"
    for text in ("2 of 5", "uploaded by user:admin", "headers: X-Api-Key"):
        assert text in done.text, text


def test_all_of_a_tag_or_everything_is_selected(admin: Client) -> None:
    shown = previewed(admin)
    confirmed(admin, shown, tag="orders", operation="GET /stock/{sku}")
    assert len(SourceDocument.objects.get().selected or ()) == 5
    governance.remove_source("shop", actor=governance.trusted("test"))
    confirmed(admin, previewed(admin, name="second"), scope="all")
    assert SourceDocument.objects.get().selected is None


def test_what_is_refused_is_said_and_what_was_selected_is_kept(admin: Client) -> None:
    shown = previewed(admin)
    again = confirmed(admin, shown)
    assert "Select at least one operation." in again.text
    again = confirmed(admin, shown, operation="GET /orders", location="http://10.0.0.1")
    assert "The URL must begin with https://" in again.text
    ticked = [one["value"] for one in again.all("input", name="operation") if "checked" in one.attributes]
    assert ticked == ["GET /orders"]
    assert again.one("input", name="location")["value"] == "http://10.0.0.1"
    assert not Source.objects.filter(name="shop").exists()
    assert confirmed(admin, again, operation="GET /orders", location="https://a.example.org").messages


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"upload": ""}, "one of them"),
        ({"document": TEXT}, "one of them"),
        ({"name": "My Shop"}, "2 to 16 lowercase letters"),
        ({"upload": "", "document": "{"}, "The document is neither JSON nor YAML"),
        ({"upload": "", "document": '{"swagger": "2.0"}'}, "Convert it"),
        ({"upload": "", "document_url": "https://10.0.0.1/x"}, "The address is not public"),
        ({"upload": "", "carried": "AAAA"}, "The document is damaged"),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_in_its_form(
    admin: Client, values: dict[str, Any], words: str
) -> None:
    shown = previewed(admin, **values)
    assert words in shown.text
    assert shown.one("input", name="upload")["type"] == "file"


def test_a_document_is_pasted(admin: Client) -> None:
    shown = previewed(admin, upload="", document=TEXT)
    confirmed(admin, shown, operation="GET /orders", location="https://shop.example.org/v1")
    assert SourceDocument.objects.get().text == TEXT.encode()


def test_a_document_with_a_url_is_compared_with_the_one_that_was_shown(admin: Client, shop: Shop) -> None:
    values = {"upload": "", "document_url": shop.document_url, "internal": "on"}
    shown = previewed(admin, **values)
    assert "carried" not in hidden(shown)
    shop.document["info"]["version"] = "2.0"
    again = confirmed(admin, shown, operation="GET /orders", location=shop.base)
    assert "The document has changed since it was shown" in again.text
    assert "Shop 2.0" in again.text
    confirmed(admin, again, operation="GET /orders", location=shop.base)
    stored = SourceDocument.objects.get()
    assert (stored.address, stored.source.internal, stored.source.location) == (shop.document_url, True, shop.base)


def test_a_hostile_document_is_shown_as_text(admin: Client) -> None:
    text = TEXT.replace("List the orders", "<script>alert(1)</script>").replace('"Shop"', '"<b>Shop"')
    shown = previewed(admin, upload=upload(text))
    assert "<script>alert(1)" not in shown.html
    assert "<b>Shop" not in shown.html


def test_other_operations_are_selected_later(admin: Client) -> None:
    source = imported(select=["GET /orders"])
    address = f"{SOURCES}{source.pk}/operations/"
    assert address in page(admin, f"{SOURCES}{source.pk}/change/").addresses
    shown = page(admin, address)
    ticked = [one["value"] for one in shown.all("input", name="operation") if "checked" in one.attributes]
    assert ticked == ["GET /orders"]
    done = sent(admin, address, scope="some", operation=["GET /stock/{sku}"], reason="other")
    assert done.messages == [
        "1 operation is imported from now on. 1 operation is not imported any more: its calls are refused from the "
        "next list on, and the list after it retires the tool."
    ]
    assert AuditEntry.objects.get(action="source.select").reason == "other"
    assert sent(admin, address, scope="some", operation=["GET /stock/{sku}"]).messages == ["Nothing changed."]
    assert "Select at least one operation." in " ".join(sent(admin, address, scope="some").messages)
    assert sent(admin, address, scope="all").messages == ["4 operations are imported from now on."]


def test_the_page_says_what_becomes_of_an_operation_that_is_not_selected_any_more(admin: Client) -> None:
    source = imported(select=["GET /orders", "GET /stock/{sku}"])
    who = governance.trusted("test")
    governance.change_source("shop", enabled=True, actor=who)
    governance.describe_source("shop", actor=who)
    sent(admin, f"{SOURCES}{source.pk}/operations/", scope="some", operation=["GET /orders"])
    address = f"{SOURCES}{source.pk}/change/?tools=absent"
    governance.describe_source("shop", actor=who)
    shown = page(admin, address).text
    assert "shop_get_stock" in shown
    assert "not listed any more" in shown
    assert "Calls are refused. It is retired if the next list lacks it, too." in shown
    governance.describe_source("shop", actor=who)
    names = [link.text.strip() for link in page(admin, address).all("a", class_="hub-name")]
    assert "shop_get_stock" not in names


def test_a_document_is_replaced(admin: Client) -> None:
    source = imported()
    governance.change_source("shop", enabled=True, actor=governance.trusted("test"))
    sources.current().describe("shop", actor="test")
    governance.approve_tools("shop", actor=governance.trusted("test"))
    address = f"{SOURCES}{source.pk}/document/"
    assert address in page(admin, f"{SOURCES}{source.pk}/change/").addresses
    done = sent(admin, address, upload=upload(TEXT.replace("List the orders", "List some")), reason="1.1")
    assert done.messages == ["shop has a new document. Changed operations wait for approval."]
    sources.current().describe("shop", actor="test")
    shown = page(admin, f"{SOURCES}{source.pk}/change/")
    assert "changed" in shown.text
    (version,) = governance.waiting_versions(source)
    assert "List some" in page(admin, f"/admin/tools_app/definition/{version.definition.pk}/change/").text


def test_a_changed_request_is_shown_where_it_is_approved(admin: Client) -> None:
    source = imported()
    governance.change_source("shop", enabled=True, actor=governance.trusted("test"))
    sources.current().describe("shop", actor="test")
    governance.approve_tools("shop", actor=governance.trusted("test"))
    other = document()
    other["security"] = []
    governance.replace_document("shop", text=json.dumps(other).encode(), actor=governance.trusted("test"))
    sources.current().describe("shop", actor="test")
    versions = governance.waiting_versions(source)
    assert len(versions) == 5, "nothing but what is sent has changed"
    shown = page(admin, f"/admin/tools_app/definition/{versions[0].definition.pk}/change/")
    assert "Request" in shown.text
    assert "X-Api-Key" in shown.text


def test_answers_that_deviate_are_on_the_page_of_the_source(admin: Client) -> None:
    address = f"{SOURCES}{imported().pk}/change/"
    assert "deviate" not in page(admin, address).text
    deviate(number=1_200)
    shown = page(admin, address).text
    assert "GET /orders : /0/id: string instead of integer" in shown
    assert "HTTP 200, 1,200 answers, last" in shown


def test_a_broken_document_replaces_none(admin: Client) -> None:
    address = f"{SOURCES}{imported().pk}/document/"
    assert "The document is neither JSON nor YAML" in sent(admin, address, upload=upload("{")).text


def test_the_origin_of_a_document_is_its_base_url(admin: Client) -> None:
    source = imported()
    shown = page(admin, f"{SOURCES}{source.pk}/origin/")
    assert "Base URL" in shown.text
    for field in ("per_session", "declares", "command"):
        assert not shown.all("input", name=field) + shown.all("select", name=field), field
    done = sent(admin, f"{SOURCES}{source.pk}/origin/", location="https://other.example.org/v2", pin_defaults="on")
    assert "has a new origin" in " ".join(done.messages)
    assert Source.objects.get(name="shop").location == "https://other.example.org/v2"


def test_a_document_is_read_with_the_connection_that_an_administrator_selects(admin: Client) -> None:
    source = imported()
    who = governance.trusted("test")
    governance.create_connection("main", "shop", form="header", secret={"X-Api-Key": "s3cret-value"}, actor=who)
    address = f"{SOURCES}{source.pk}/origin/"
    assert "The hub reads the document with this account" in page(admin, address).text
    sent(admin, address, location=source.location, connection="main", pin_defaults="on")
    source.refresh_from_db()
    assert (source.connection is not None and source.connection.name, source.epoch) == ("main", 1)
    assert "main" in page(admin, f"{SOURCES}{source.pk}/change/").text


def test_only_documents_have_operations(admin: Client) -> None:
    actor = governance.trusted("test")
    source = governance.add_source("wiki", kind="mcp_http", location="https://wiki.example.org/mcp", actor=actor)
    for view in ("operations", "document"):
        assert admin.get(f"{SOURCES}{source.pk}/{view}/").status_code == 404
        assert f"{SOURCES}{source.pk}/{view}/" not in page(admin, f"{SOURCES}{source.pk}/change/").addresses


def test_operators_do_not_import(operator: Client) -> None:
    source = imported()
    assert operator.get(IMPORT).status_code == 403
    for view in ("operations", "document"):
        assert operator.get(f"{SOURCES}{source.pk}/{view}/").status_code == 403
    shown = page(operator, f"{SOURCES}{source.pk}/change/")
    assert f"{SOURCES}{source.pk}/operations/" not in shown.addresses
    assert "2 of 5" not in shown.text
    assert "all 5" in shown.text
