"""Coming in: by a password, not by a wrong one, and for a while not at all after too many of those."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PASSWORD
from tests.browser.desk import desk
from tests.support.processes import Server


def test_a_wrong_password_is_told_and_the_right_one_leads_where_one_wanted_to_go(
    browser: Browser, server: Server
) -> None:
    with desk(browser, server.url) as one:
        page = one.open("/admin/tools_app/call/")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        one.accessible()
        page.get_by_label("Username").fill("operator")
        page.get_by_label("Password").fill("not this one")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The user name or the password is wrong.")).to_be_visible()
        one.accessible()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/admin/tools_app/call/")
        one.calm()


def test_too_many_wrong_passwords_lock_that_name_and_no_other(browser: Browser, server: Server) -> None:
    with desk(browser, server.url) as one:
        page = one.open("/admin/login/")
        locked = page.get_by_role("heading", name="Too many attempts")
        for number in range(4):
            page.get_by_label("Username").fill("nobody")
            page.get_by_label("Password").fill(f"guess {number}")
            with page.expect_navigation():
                page.keyboard.press("Enter")
            if locked.is_visible():
                break
        expect(locked).to_be_visible()
        one.accessible()
        page.get_by_role("link", name="Back to sign-in").click()
        page.get_by_label("Username").fill("viewer")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin/")


@pytest.mark.parametrize("address", ["/admin/tools_app/toolrecord/", "/admin/tools_app/apikey/add/", "/v1/docs"])
def test_whoever_is_not_signed_in_is_asked_to(browser: Browser, server: Server, address: str) -> None:
    with desk(browser, server.url) as one:
        one.open(address)
        expect(one.page.get_by_label("Password")).to_be_visible()


def test_signing_out_ends_the_session(browser: Browser, server: Server) -> None:
    with desk(browser, server.url, user="viewer", password=PASSWORD) as one:
        one.page.locator("summary", has_text="viewer").click()
        one.page.get_by_role("button", name="Log out").click()
        expect(one.page.get_by_text("Logged out").first).to_be_visible()
        one.accessible()
        one.open("/admin/")
        expect(one.page.get_by_label("Password")).to_be_visible()
        one.calm()
