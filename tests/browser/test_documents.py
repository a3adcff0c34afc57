"""OpenAPI documents, from the form that imports one to the first call of its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import PHONE
from tests.browser.test_sources import look, reloaded_until
from tests.support import shop as shops
from tests.support.processes import Home, key_in
from tests.support.shop import Shop

SOURCES = "/admin/tools_app/source/"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        yield running


def chosen(page: Page, *keys: str) -> None:
    for key in keys:
        page.get_by_label(f"Select {key}", exact=True).check()


@pytest.mark.parametrize(("name", "size"), [("webshop", None), ("phoneshop", PHONE)], ids=["desk", "phone"])
def test_a_document_is_imported_and_its_operations_are_called(
    sit_down: SitDown,
    home: Home,
    rest: httpx.Client,
    shop: Shop,
    tmp_path: Path,
    name: str,
    size: dict[str, int] | None,
) -> None:
    one = sit_down(**({"viewport": size, "color_scheme": "dark"} if size else {}))
    page = one.open(f"{SOURCES}add/")
    page.get_by_role("link", name="Import an OpenAPI document instead").click()
    page.get_by_label("Name", exact=True).fill(name)
    look(one)
    page.get_by_label("URL of the document").fill(shop.document_url)
    page.get_by_role("button", name="Show operations").click()
    expect(page.get_by_text("The URL must begin with https://")).to_be_visible()
    page.get_by_label("Internal address").check()
    page.get_by_role("button", name="Show operations").click()
    expect(page.get_by_role("heading", name="Select operations of Shop")).to_be_visible()
    expect(page.get_by_label("Base URL")).to_have_value(shop.base)
    expect(page.get_by_text("headers: X-Api-Key")).to_be_visible()
    look(one)

    # A tag, one of its operations less, and another that is searched for.
    selected = page.locator("[data-count]")
    page.get_by_label("All of orders").check()
    expect(selected).to_have_text("4")
    page.get_by_label("Select DELETE /orders/{orderId}").uncheck()
    expect(page.get_by_label("All of orders")).not_to_be_checked()
    page.get_by_label("Search").last.fill("count stock")
    expect(page.get_by_label("Select GET /orders", exact=True)).to_be_hidden()
    chosen(page, "GET /stock/{sku}")
    expect(selected).to_have_text("4")
    page.get_by_label("Search").last.fill("")
    expect(page.get_by_label("Select GET /orders", exact=True)).to_be_checked()
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text(f"{name} is added, and off. Test it next.")).to_be_visible()
    expect(page.get_by_text("4 of 5")).to_be_visible()
    look(one)

    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_text(f"{name}_get_stock")).to_be_visible()
    page.get_by_role("link", name=f"Back to {name}").click()
    page.get_by_role("switch", name=name, exact=True).click()
    reloaded_until(page, f"{name}_get_stock")
    page.get_by_label("Versions").select_option("all")
    page.get_by_role("button", name="Approve and switch on…").click()
    page.get_by_label("Accept the claimed hints").check()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("4 versions approved.")).to_be_visible()
    made = home.run(
        "shell",
        "-c",
        f"from tools_app import governance as g; g.create_toolset({name!r}, packs=[{name!r}], actor=g.trusted('test'))",
    )
    assert made.returncode == 0, made.stderr
    key = key_in(home.run("addkey", f"{name}-agent", "--toolset", name).stdout)
    headers = {"Authorization": f"Bearer {key}"}
    called = rest.post(f"/tools/{name}_create_order/call", json={"body": {"sku": "tea", "count": 2}}, headers=headers)
    assert called.status_code == 200, called.text
    assert shop.orders["1"]["sku"] == "tea"

    # Another selection, and another version of the document.
    page.get_by_role("link", name="Operations", exact=True).click()
    expect(page.get_by_label("Select GET /stock/{sku}")).to_be_checked()
    look(one)
    page.get_by_label("Select GET /stock/{sku}").uncheck()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("1 operation is not imported any more")).to_be_visible()
    page.get_by_role("link", name="Replace document").click()
    look(one)
    changed = shops.document()
    changed["paths"]["/orders"]["get"]["summary"] = "List them all"
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(changed))
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Replace document").click()
    expect(page.get_by_text(f"{name} has a new document.")).to_be_visible()
    reloaded_until(page, "Calls are refused until the change is approved.")


def test_a_document_is_imported_without_scripts(sit_down: SitDown) -> None:
    one = sit_down(java_script_enabled=False)
    page = one.open(f"{SOURCES}add-document/")
    page.get_by_label("Name", exact=True).fill("plainshop")
    page.get_by_label("Text", exact=True).fill(json.dumps(shops.document()))
    page.get_by_role("button", name="Show operations").click()
    expect(page.get_by_label("Search").last).to_be_hidden()
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text("Select at least one operation.")).to_be_visible()
    page.get_by_label("All of orders").check()
    chosen(page, "GET /stock/{sku}")
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text("plainshop is added, and off.")).to_be_visible()
    expect(page.get_by_text("5 of 5")).to_be_visible()
