"""The focus of the keyboard stays where the user is: in what lies over a page, and through what changes by itself."""

from __future__ import annotations

import secrets

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import PHONE, Desk
from tests.browser.test_live import SOON

TOOLS = "/admin/tools_app/toolrecord/"
CALLS = "/admin/tools_app/call/"


def is_within(page: Page, selector: str) -> bool:
    return bool(page.evaluate("one => document.activeElement.closest(one) !== null", selector))


@pytest.mark.parametrize(("opener", "over"), [("Filters", "#changelist-filter"), ("Menu", "#hub-menu")])
def test_tab_does_not_leave_what_lies_over_the_page(sit_down: SitDown, opener: str, over: str) -> None:
    page = sit_down(viewport=PHONE).open(TOOLS)
    link = page.get_by_role("link", name=opener, exact=True)
    link.focus()
    page.keyboard.press("Enter")
    number = page.locator(f"{over} :is(a[href], button, summary):visible").count()
    assert number > 5
    for key in ("Tab", "Shift+Tab"):
        for _ in range(number + 3):
            page.keyboard.press(key)
            assert is_within(page, over), key
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.locator(over).get_by_role("link", name="Close").first.click()
    expect(link).to_be_focused()


def test_the_palette_gives_the_focus_back(chief: Desk, page: Page) -> None:
    chief.open(TOOLS)
    link = page.locator("#result_list tbody a").first
    link.focus()
    for close in ("Escape", "Control+k"):
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox", name="Find")).to_be_focused()
        page.keyboard.press(close)
        expect(link).to_be_focused()
    page.locator("#hub-search").click()
    page.get_by_role("button", name="Close search").click()
    expect(page.locator("#hub-search")).to_be_focused()


def test_what_had_the_focus_has_it_after_a_panel_was_replaced(sit_down: SitDown, rest: httpx.Client) -> None:
    rest.post("/tools/echo/call", json={"message": "before"})
    one = sit_down("operator")
    page = one.open("/admin/")
    link = page.locator("#hub-overview a[href*='/call/'][href*='/change/']").first
    link.focus()
    address = link.get_attribute("href")
    rest.post("/tools/echo/call", json={"message": f"after {secrets.token_hex(3)}"})
    expect(link).not_to_have_attribute("href", address or "", timeout=SOON)
    expect(page.locator(f"#hub-overview a[href='{address}']").first).to_be_focused()
    # A part that only scrolls has it, too.
    card = page.locator("#hub-overview .hub-scroll[tabindex='0']").last
    card.focus()
    newest = link.get_attribute("href")
    rest.post("/tools/echo/call", json={"message": f"after {secrets.token_hex(3)}"})
    expect(link).not_to_have_attribute("href", newest or "", timeout=SOON)
    expect(card).to_be_focused()


def test_a_switch_keeps_the_focus_and_a_search_leads_to_what_it_found(chief: Desk, page: Page) -> None:
    chief.open(TOOLS)
    page.keyboard.press("/")
    page.keyboard.type("weigh")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=weigh**")
    expect(page.locator("#changelist-form")).to_be_focused()
    page.keyboard.press("Tab")
    assert is_within(page, "#changelist-form")
    switch = page.get_by_role("switch", name="weigh")
    for wanted in ("false", "true"):
        switch.focus()
        page.keyboard.press("Space")
        expect(switch).to_have_attribute("aria-checked", wanted)
        expect(switch).to_be_focused()
    chief.open(f"{CALLS}?q=nothing+like+this")
    page.locator("#searchbar").fill("neither this")
    page.keyboard.press("Enter")
    page.wait_for_url("**neither**")
    expect(page.locator("#changelist-form")).to_be_focused()
    assert page.locator("#changelist-form").get_by_role("link", name="Clear filters").is_visible()
    chief.accessible()


def test_menus_close_by_escape_and_a_new_key_has_the_focus(chief: Desk, page: Page) -> None:
    chief.open("/admin/")
    menu = page.locator("summary", has_text="admin")
    menu.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    chief.open("/admin/tools_app/apikey/add/")
    page.get_by_label("Name").fill("focus")
    page.locator("[name=tools][value=all]").check()
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_be_focused()
