"""Ctrl+K: everything by its name, by keyboard, by finger, and without scripts."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import PHONE
from tests.support.tools import eventually

SEARCH = "/admin/find/"


def palette(page: Page) -> None:
    """Open it by keyboard, once its script runs."""
    page.wait_for_load_state("load")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()


def test_a_tool_is_opened_by_keyboard_alone(sit_down: SitDown) -> None:
    one = sit_down("admin")
    page = one.open("/admin/")
    palette(page)
    box = page.get_by_role("combobox", name="Find")
    box.press_sequentially("echo")
    tools = page.get_by_role("group", name="Tools")
    first = tools.get_by_role("option").first
    expect(first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", first.get_attribute("id") or "")
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text(re.compile(r"^\d+ results?$"))
    one.accessible()
    page.keyboard.press("ArrowUp")
    last = page.get_by_role("option").last
    expect(last).to_have_attribute("aria-selected", "true")
    expect(last).to_contain_text("Calls with “echo”")
    page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/toolrecord/[^/]+/change/"))


def test_escape_returns_to_where_the_keyboard_was_and_nothing_is_asserted(sit_down: SitDown) -> None:
    one = sit_down("viewer")
    page = one.open("/admin/tools_app/call/")
    page.wait_for_load_state("load")
    page.locator("#searchbar").focus()
    palette(page)
    page.keyboard.type("xyzzy")
    status = page.get_by_role("dialog").get_by_role("status")
    expect(status).to_contain_text("No matches. Searched: pages of the menu; names of:")
    expect(status).not_to_contain_text("API keys")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#searchbar")).to_be_focused()


def test_a_phone_finds_a_page_by_finger_in_the_dark(sit_down: SitDown) -> None:
    one = sit_down("admin", viewport=PHONE, has_touch=True, color_scheme="dark")
    page = one.open("/admin/")
    page.wait_for_load_state("load")
    page.get_by_role("link", name="Search everything").tap()
    page.get_by_role("combobox", name="Find").fill("issue")
    option = page.get_by_role("group", name="Pages").get_by_role("option", name="Issues")
    expect(option).to_be_visible()
    one.fits()
    one.accessible()
    option.tap()
    page.wait_for_url(re.compile("/errorgroup/"))


def test_without_scripts_the_link_leads_to_a_page(sit_down: SitDown) -> None:
    one = sit_down("admin", java_script_enabled=False)
    page = one.open("/admin/")
    page.get_by_role("link", name="Search everything").click()
    page.get_by_role("searchbox", name="Name, id or page").fill("echo")
    page.get_by_role("main").get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile(re.escape(SEARCH)))
    page.get_by_role("region", name="Tools").get_by_role("link", name="echo", exact=True).click()
    page.wait_for_url(re.compile("/toolrecord/[^/]+/change/"))


def test_calls_are_found_by_a_part_of_their_error_and_sorted_by_duration(sit_down: SitDown) -> None:
    one = sit_down("viewer")
    page = one.open("/admin/tools_app/call/")
    form = page.get_by_role("form", name="Filter")
    form.get_by_label("Order").select_option(label="longest first")
    form.get_by_label("Time").select_option(label="Last 30 days")
    form.get_by_role("button", name="Apply").click()
    page.wait_for_url(re.compile("since=30d"))
    page.locator("#searchbar").fill("nothing that any call says")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=nothing"))
    expect(page.get_by_text("Not searched: arguments and answers.")).to_be_visible()
    assert "since=30d" in page.url
    assert "o=-5" in page.url
    one.accessible()
    page.locator("#searchbar").fill("ERROR")
    page.keyboard.press("Enter")
    expect(page.locator("#result_list tbody tr").first).to_be_visible()
    one.fits()


def test_a_call_is_found_by_an_argument_and_the_search_saved_for_everyone(
    sit_down: SitDown, rest: httpx.Client
) -> None:
    rest.post("/tools/echo/call", json={"message": "order 4711-ambrosia"})
    one = sit_down("admin")
    page = one.open("/admin/tools_app/call/?since=24h")
    page.locator("#searchbar").fill("4711-ambro")
    page.locator("#searchbar").press("Enter")
    expect(page.get_by_text("Not searched: arguments and answers.")).to_be_visible()
    page.get_by_role("link", name="Search arguments, too").click()
    rows = page.locator("tr.data-row")

    def found() -> int:
        page.reload()
        return int(rows.count())

    assert eventually(lambda: found() == 1), "within seconds after the call"
    expect(page.get_by_text("Arguments of calls that ended until")).to_be_visible()
    one.accessible()
    page.get_by_role("textbox", name="Name of the view").fill("Ambrosia orders")
    page.get_by_label("for everyone").check()
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_text("View “Ambrosia orders” saved.")).to_be_visible()
    page.get_by_role("link", name="Saved views").click()
    one.accessible()
    address = page.locator("code[id^=view-]").inner_text()
    viewer = sit_down("viewer", viewport=PHONE, color_scheme="dark")
    seen = viewer.open(address)
    expect(seen).to_have_url(re.compile("in=arguments"))
    expect(seen.get_by_text("Not searched: arguments and answers.")).to_be_visible()
    expect(seen.get_by_text("Search arguments")).to_have_count(0)
    viewer.fits()
    viewer.accessible()
    viewer.open("/admin/tools_app/call/views/")
    viewer.fits()
    viewer.accessible()
    page.get_by_role("button", name="Delete Ambrosia orders").click()
    expect(page.get_by_text("View “Ambrosia orders” deleted.")).to_be_visible()
