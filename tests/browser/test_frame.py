"""What is around every page: menu, filters, colours, language; by mouse, keyboard and finger, and without scripts."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import PHONE, Desk

TOOLS = "/admin/tools_app/toolrecord/"


def focused(page: Page) -> str:
    return str(
        page.evaluate("(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText).trim()")
    )


def tab_to(page: Page, name: str, most: int = 60) -> None:
    """Press Tab until what is called so has the focus, as somebody without a mouse would."""
    passed = []
    for _ in range(most):
        page.keyboard.press("Tab")
        passed.append(focused(page))
        if re.search(name, passed[-1]):
            return
    raise AssertionError(f"{name!r} is not reached by Tab: {passed}")


def test_the_keyboard_alone_goes_by_the_menu_or_past_it(chief: Desk, page: Page) -> None:
    chief.open("/admin/")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    chief.open("/admin/")
    tab_to(page, "Tools$")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{TOOLS}")
    expect(page.locator("#nav-sidebar a[aria-current=page]")).to_contain_text("Tools")


def test_a_switch_is_pressed_by_the_keyboard_alone(chief: Desk, page: Page) -> None:
    chief.open(f"{TOOLS}?q=weigh")
    switch = page.get_by_role("switch", name="weigh")
    for wanted in ("false", "true"):
        page.locator("#content").focus()
        tab_to(page, "^weigh$")
        page.keyboard.press("Enter")
        expect(switch).to_have_attribute("aria-checked", wanted)


def test_filters_and_the_menu_of_the_user_close_by_escape_and_give_the_focus_back(chief: Desk, page: Page) -> None:
    chief.open(TOOLS)
    opener = page.get_by_role("link", name="Filters", exact=True)
    opener.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Filters")
    expect(panel).to_be_visible()
    expect(opener).to_have_attribute("aria-expanded", "true")
    chief.accessible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(opener).to_be_focused()
    page.locator("summary", has_text="admin").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    chief.accessible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Log out")).to_be_hidden()


def test_on_a_phone_menu_and_filters_open_and_close(sit_down: SitDown) -> None:
    one = sit_down(viewport=PHONE, has_touch=True, is_mobile=True)
    page = one.open(TOOLS)
    menu = page.locator("#hub-menu")
    expect(menu).to_be_hidden()
    page.get_by_role("link", name="Menu").tap()
    expect(menu).to_be_visible()
    one.accessible()
    one.fits()
    page.get_by_role("link", name="Close menu").tap()
    expect(menu).to_be_hidden()
    page.get_by_role("link", name="Filters", exact=True).tap()
    panel = page.get_by_role("complementary", name="Filters")
    expect(panel).to_be_visible()
    one.accessible()
    one.fits()
    page.get_by_role("link", name="Close filters").tap()
    expect(panel).to_be_hidden()
    page.get_by_role("link", name="Menu").tap()
    menu.get_by_role("link", name="Calls").tap()
    page.wait_for_url("**/call/**")
    expect(menu).to_be_hidden()


def test_colours_stay_as_they_were_chosen(chief: Desk, page: Page) -> None:
    chief.open("/admin/")
    dark = re.compile(r"\bdark\b")
    page.locator("summary", has_text="admin").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_class(dark)
    chief.open(TOOLS)
    expect(page.locator("html")).to_have_class(dark)
    page.locator("summary", has_text="admin").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Light").click()
    expect(page.locator("html")).not_to_have_class(dark)
    page.get_by_role("button", name="System").click()
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_class(dark)


def test_the_language_is_changed_and_stays(chief: Desk, page: Page) -> None:
    chief.open("/admin/")
    page.locator("summary", has_text="admin").click()
    page.get_by_role("button", name="日本語").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    chief.accessible()
    chief.open(f"{TOOLS}?q=weigh")
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    # What goes over the wire has no language.
    expect(page.get_by_role("link", name="weigh", exact=True)).to_be_visible()
    page.locator("summary", has_text="admin").click()
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_without_scripts_everything_is_reached_all_the_same(sit_down: SitDown) -> None:
    one = sit_down(java_script_enabled=False, viewport=PHONE)
    page = one.open(TOOLS)
    page.get_by_role("link", name="Menu").click()
    expect(page.locator("#hub-menu")).to_be_visible()
    page.get_by_role("link", name="Close menu").click()
    expect(page.locator("#hub-menu")).to_be_hidden()
    page.get_by_role("link", name="Filters", exact=True).click()
    page.locator("#changelist-filter a[href*='effect=']").first.click()
    page.wait_for_url("**effect=**")
    one.open(f"{TOOLS}?q=weigh")
    for wanted in ("false", "true"):
        page.get_by_role("switch", name="weigh").click()
        expect(page.get_by_role("switch", name="weigh")).to_have_attribute("aria-checked", wanted)
        assert "q=weigh" in page.url


def test_rows_that_are_cards_on_a_phone_say_what_their_numbers_are(sit_down: SitDown) -> None:
    one = sit_down(viewport=PHONE)
    for address in ("connection", "toolset"):
        page = one.open(f"/admin/tools_app/{address}/")
        name = page.locator("#result_list .field-shown_name").first
        assert name.evaluate("one => getComputedStyle(one, '::before').content") == "none"
        one.fits()
    page = one.open("/admin/tools_app/agent/")
    calls = page.locator("#result_list .field-shown_calls").first
    assert calls.evaluate("one => getComputedStyle(one, '::before').content") == '"Calls"'


def test_a_reason_beside_a_connection_does_not_widen_the_page(chief: Desk, page: Page) -> None:
    # One of the demo's connections may only read, which this tool does not.
    chief.open("/admin/tools_app/toolrecord/named/?name=create_issue")
    expect(page.get_by_text("the connection archive is read-only").first).to_be_visible()
    chief.fits()
