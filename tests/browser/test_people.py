"""People: a colleague is added with a link, chooses a password with it, and is seen, ended and removed again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PASSWORD
from tests.browser.desk import DESKTOP, PHONE, Desk, desk
from tests.support.processes import Server

USERS = "/admin/auth/user/"
OWN = "four unrelated words here"


def judged(one: Desk) -> None:
    one.fits()
    one.accessible()
    one.shows_icons()
    one.calm()


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", DESKTOP), ("dark", DESKTOP), ("dark", PHONE)], ids=["light", "dark", "phone"]
)
def test_a_colleague_is_added_signs_in_and_is_removed(
    browser: Browser, server: Server, scheme: str, size: dict[str, int]
) -> None:
    name = f"olga-{scheme}-{size['width']}"
    with (
        desk(browser, server.url, user="admin", password=PASSWORD, color_scheme=scheme, viewport=size) as chief,
        desk(browser, server.url, color_scheme=scheme, viewport=size) as colleague,
    ):
        page = chief.open(f"{USERS}add/")
        judged(chief)
        page.get_by_label("Username").fill(name)
        page.get_by_label("Operator –").check()
        page.get_by_role("button", name="Add user and create link").click()
        link = page.locator("#secret").inner_text()
        judged(chief)

        theirs = colleague.open(link)
        expect(theirs.get_by_label("New password", exact=True)).to_be_visible()
        assert "#" not in theirs.url, "the code is not left in the address"
        judged(colleague)
        theirs.get_by_label("New password", exact=True).fill("short")
        theirs.get_by_label("New password, again").fill("short")
        theirs.get_by_role("button", name="Set password").click()
        expect(theirs.get_by_text("This password is too short")).to_be_visible()
        judged(colleague)
        theirs.get_by_label("New password", exact=True).fill(OWN)
        theirs.get_by_label("New password, again").fill(OWN)
        theirs.get_by_role("button", name="Set password").click()
        expect(theirs.get_by_text("You can now sign in as")).to_be_visible()
        judged(colleague)
        theirs.get_by_role("link", name="Sign in").click()
        theirs.get_by_label("Username").fill(name)
        theirs.get_by_label("Password").fill(OWN)
        theirs.keyboard.press("Enter")
        theirs.wait_for_url("**/admin/")
        colleague.open("/admin/tools_app/browsersession/?whose=own")
        judged(colleague)

        page = chief.open(USERS)
        judged(chief)
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        judged(chief)
        person = page.url
        page.get_by_role("link", name="Set permissions").click()
        judged(chief)
        chief.open("/admin/tools_app/browsersession/")
        judged(chief)
        page.goto(person)
        page.get_by_role("link", name="Deactivate…").click()
        judged(chief)
        page.get_by_role("button", name="Deactivate").click()
        expect(page.get_by_text("is deactivated. All sessions have ended.")).to_be_visible()
        judged(chief)

        theirs.goto(f"{server.url}/admin/")
        theirs.get_by_label("Username").fill(name)
        theirs.get_by_label("Password").fill(OWN)
        theirs.keyboard.press("Enter")
        expect(theirs.get_by_text("this user is deactivated")).to_be_visible()
        judged(colleague)


def test_a_link_works_without_scripts(browser: Browser, server: Server) -> None:
    with desk(browser, server.url, user="admin", password=PASSWORD) as chief:
        page = chief.open(f"{USERS}add/")
        page.get_by_label("Username").fill("without-scripts")
        page.get_by_label("Viewer –").check()
        page.get_by_role("button", name="Add user and create link").click()
        link = page.locator("#secret").inner_text()
    with desk(browser, server.url, java_script_enabled=False) as one:
        page = one.open(link)
        page.get_by_label("Code").fill(link)
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("New password", exact=True).fill(OWN)
        page.get_by_label("New password, again").fill(OWN)
        page.get_by_role("button", name="Set password").click()
        expect(page.get_by_text("You can now sign in as")).to_be_visible()


def test_a_page_that_is_refused_says_which_role_it_needs(browser: Browser, server: Server) -> None:
    with desk(browser, server.url, user="viewer", password=PASSWORD) as one:
        one.page.goto(f"{server.url}{USERS}")
        expect(one.page.get_by_text("This needs the role admin")).to_be_visible()
        one.accessible()
        one.fits()
