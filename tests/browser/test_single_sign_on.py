"""Coming in through the sign-in service: there and back, refused there, refused here, and while it is down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.desk import DESKTOP, PHONE, Desk, desk
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.processes import Home, Server
from tests.support.provider_process import running

PICTURES = os.environ.get("TOOLHUB_TEST_PICTURES", "")
LOOKS: list[dict[str, Any]] = [
    {"viewport": DESKTOP, "color_scheme": "light"},
    {"viewport": DESKTOP, "color_scheme": "dark"},
    {"viewport": PHONE, "color_scheme": "light"},
]


@dataclass
class Site:
    home: Home
    server: Server
    provider: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub that takes no passwords."""
    people = [
        {"sub": "u-1", "preferred_username": "anna", "groups": ["admins"]},
        {"sub": "u-2", "preferred_username": "ben", "groups": ["others"]},
    ]
    home = Home(tmp_path_factory.mktemp("hub"), {"TOOLHUB_ANONYMOUS_RATE_CALLS": "0"})
    with running(*people) as provider:
        home.extra |= {
            "TOOLHUB_SSO_ISSUER": provider,
            "TOOLHUB_SSO_CLIENT_ID": CLIENT_ID,
            "TOOLHUB_SSO_CLIENT_SECRET": CLIENT_SECRET,
            "TOOLHUB_SSO_ROLES": "admins=admin",
            "TOOLHUB_PASSWORD_SIGN_IN": "false",
        }
        with home.serving() as server:
            yield Site(home, server, provider)


def looks_good(one: Desk, name: str) -> None:
    one.accessible()
    one.fits()
    one.shows_icons()
    if PICTURES:
        scheme = one.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
        width = one.page.evaluate("innerWidth")
        one.page.screenshot(path=Path(PICTURES) / f"{name}-{scheme}-{width}.png")


@pytest.mark.parametrize("look", LOOKS)
def test_the_link_leads_there_and_back_to_the_page_that_was_wanted(
    browser: Browser, site: Site, look: dict[str, Any]
) -> None:
    with desk(browser, site.server.url, **look) as one:
        page = one.open("/admin/tools_app/call/")
        expect(page.get_by_label("Password")).to_have_count(0)
        looks_good(one, "login")
        one.calm()
        page.get_by_role("link", name="Sign in with 127.0.0.1").click()
        page.get_by_role("button", name="u-1").click()
        page.wait_for_url("**/admin/tools_app/call/")
        # The page of the provider is not ours.
        one.troubles[:] = [trouble for trouble in one.troubles if site.provider not in trouble]
        one.calm()


@pytest.mark.parametrize("look", LOOKS)
def test_who_has_no_access_is_told_why_and_whom_to_ask(browser: Browser, site: Site, look: dict[str, Any]) -> None:
    with desk(browser, site.server.url, **look) as one:
        page = one.open("/admin/")
        page.get_by_role("link", name="Sign in with 127.0.0.1").click()
        page.get_by_role("button", name="u-2").click()
        expect(page.get_by_role("heading", name="Sign-in failed")).to_be_visible()
        expect(page.get_by_text("You are signed in as ben, but none of your groups")).to_be_visible()
        looks_good(one, "no-access")
        page.get_by_role("link", name="Back to sign-in").click()
        expect(page.get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_an_emergency_link_asks_and_signs_in(browser: Browser, site: Site, look: dict[str, Any]) -> None:
    done = site.home.run("breakglass", "admin")
    assert done.returncode == 0, done.stderr
    path = done.stdout.split()[0]
    with desk(browser, site.server.url, **look) as one:
        page = one.open(path)
        looks_good(one, "emergency")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/admin/")
        expect(page.get_by_text("opened an emergency sign-in for admin").first).to_be_visible()
        looks_good(one, "overview")
        one.calm()
        page.goto(site.server.url + path)
        expect(page.get_by_text("This link was used already")).to_be_visible()
        looks_good(one, "emergency-used")


def test_both_ways_are_on_one_page_where_both_are_allowed(browser: Browser, site: Site) -> None:
    with site.home.serving(TOOLHUB_PASSWORD_SIGN_IN="true") as server:
        for look in LOOKS:
            with desk(browser, server.url, **look) as one:
                page = one.open("/admin/login/")
                expect(page.get_by_label("Password")).to_be_visible()
                expect(page.get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()
                looks_good(one, "both")
                one.calm()
