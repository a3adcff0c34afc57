"""Nested arguments in the console: fields that are added and removed, by keyboard, without scripts and on a phone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SitDown
from tests.browser.desk import Desk, screenshot
from tests.browser.test_trying import tried

PHONE = {"width": 360, "height": 740}


def test_a_nested_call_is_entered_without_json(chief: Desk) -> None:
    page = tried(chief, "take_order")
    page.get_by_role("button", name="Add item to items").click()
    sku = page.locator("[name='argument-items/0/sku']")
    expect(sku).to_be_focused()
    page.get_by_role("button", name="Add item to items").click()
    expect(page.locator("[name='argument-items/1/sku']")).to_be_focused()
    sku.fill("ABC-1")
    page.locator("[name='argument-items/1/sku']").fill("wrong")
    page.locator("[name='argument-address/street']").fill("Main Street")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("[name='argument-items/1/sku']")).to_be_focused()
    expect(page.locator(".hub-console-at-fault .hub-console-wrong")).to_be_visible()
    chief.accessible()
    page.get_by_role("button", name="Remove item items[1]").click()
    expect(page.locator("[name='argument-items/1/sku']")).to_have_count(0)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    expect(page.get_by_role("tabpanel").first).to_contain_text("Main Street")
    expect(page.get_by_text("tokens", exact=False).first).to_be_visible()
    chief.accessible()


def test_broken_json_stays_as_it_was_typed(chief: Desk) -> None:
    page = tried(chief, "take_order")
    page.locator("[name='argument-payment']").fill('{"iban": DE}')
    page.get_by_role("button", name="Edit as JSON").click()
    box = page.get_by_label("Arguments (JSON)")
    assert '"payment": {"iban": DE}' in box.input_value()
    page.get_by_text("Parameters", exact=True).click()
    expect(page.get_by_role("cell", name="[A-Z]{3}", exact=False).first).to_be_visible()
    box.fill("")
    page.get_by_role("button", name="Insert skeleton").click()
    expect(box).to_have_value(re.compile("street"))
    assert json.loads(box.input_value()) == {"address": {"street": ""}, "items": [{"sku": ""}]}
    chief.accessible()


def test_items_are_added_without_scripts(sit_down: SitDown) -> None:
    one = sit_down(java_script_enabled=False)
    page = tried(one, "take_order")
    page.get_by_role("button", name="Add item to items").click()
    page.locator("[name='argument-items/0/sku']").fill("ABC-1")
    page.locator("[name='argument-address/street']").fill("Main Street")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_fits_and_is_accessible(
    sit_down: SitDown, scheme: str, viewport: dict[str, int] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = sit_down(color_scheme=scheme, **({"viewport": viewport} if viewport else {}))
    page = tried(one, "take_order")
    page.get_by_role("button", name="Add item to items").click()
    page.locator("summary", has_text="billing").click()
    screenshot(one, Path(tmp_path_factory.getbasetemp()), f"order-{scheme}-{'phone' if viewport else 'desktop'}")
    one.accessible()
    one.fits()
