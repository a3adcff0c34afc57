"""A second factor: set up, asked for, lost, and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal import auth as totp
from playwright.sync_api import Browser, expect

from tests.browser.desk import DESKTOP, PHONE, Desk, desk
from tests.support.processes import Home, Server

PASSWORD = "browser-tests-1"
PICTURES = os.environ.get("TOOLHUB_TEST_PICTURES", "")
LOOKS: list[dict[str, Any]] = [
    {"viewport": DESKTOP, "color_scheme": "light"},
    {"viewport": DESKTOP, "color_scheme": "dark"},
    {"viewport": PHONE, "color_scheme": "light"},
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    extra = {"TOOLHUB_ADMIN_PASSWORD": PASSWORD, "TOOLHUB_ANONYMOUS_RATE_CALLS": "0"}
    with Home(tmp_path_factory.mktemp("hub"), extra).serving() as server:
        yield server


def looks_good(one: Desk, name: str) -> None:
    one.accessible()
    one.fits()
    one.shows_icons()
    if PICTURES:
        scheme = one.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
        width = one.page.evaluate("innerWidth")
        one.page.screenshot(path=Path(PICTURES) / f"factor-{name}-{scheme}-{width}.png", full_page=True)


@pytest.mark.parametrize("look", LOOKS)
def test_set_up_sign_in_with_it_and_remove_it(browser: Browser, hub: Server, look: dict[str, Any]) -> None:
    with desk(browser, hub.url, user="admin", password=PASSWORD, **look) as one:
        page = one.open("/admin/second-factor/")
        looks_good(one, "off")
        page.get_by_role("link", name="Set up an authenticator app").click()
        picture = page.get_by_role("img", name="QR code with the secret below")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.naturalWidth") > 0
        looks_good(one, "set-up")
        secret = (page.locator("code.hub-wrap").text_content() or "").replace(" ", "")
        page.get_by_label("Code").fill(code_of(secret))
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Turn on").click()
        expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
        looks_good(one, "codes")
        recovery = page.locator(".hub-list code").first.text_content() or ""
        page.get_by_role("link", name="I have stored them").click()
        expect(page.get_by_text("10 recovery codes are left")).to_be_visible()
        looks_good(one, "on")
        one.calm()
    with desk(browser, hub.url, **look) as one:
        page = one.open("/admin/tools_app/call/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
        page.get_by_label("Code").fill("no code")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("does not fit")
        looks_good(one, "challenge")
        page.get_by_label("Code").fill(recovery)
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin/tools_app/call/")
        one.open("/admin/second-factor/")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Remove Authenticator app").click()
        expect(page.get_by_text("Your second factor is removed.")).to_be_visible()
        one.calm()


def code_of(secret: str) -> str:
    return str(totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30)))
