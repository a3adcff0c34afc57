"""Passkeys, with an authenticator that Chromium pretends to have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.browser.desk import PHONE, Desk, desk
from tests.browser.test_second_factor import LOOKS, PASSWORD
from tests.support.processes import Home, Server

PICTURES = os.environ.get("TOOLHUB_TEST_PICTURES", "")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    extra = {"TOOLHUB_ADMIN_PASSWORD": PASSWORD, "TOOLHUB_ANONYMOUS_RATE_CALLS": "0"}
    with Home(tmp_path_factory.mktemp("hub"), extra).serving() as server:
        yield server


@pytest.fixture
def url(hub: Server) -> str:
    """By its name: browsers refuse passkeys at addresses of numbers."""
    return hub.url.replace("127.0.0.1", "localhost")


def looks_good(one: Desk, name: str) -> None:
    one.accessible()
    one.fits()
    one.shows_icons()
    if PICTURES:
        scheme = one.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
        width = one.page.evaluate("innerWidth")
        one.page.screenshot(path=Path(PICTURES) / f"passkey-{name}-{scheme}-{width}.png", full_page=True)


class Virtual:
    """An authenticator of the browser at a desk."""

    def __init__(self, one: Desk) -> None:
        self._session: CDPSession = one.context.new_cdp_session(one.page)
        self._session.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasUserVerification": True, "isUserVerified": True}
        made = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        self._id = {"authenticatorId": made["authenticatorId"]}

    def credentials(self) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = self._session.send("WebAuthn.getCredentials", self._id)["credentials"]
        return kept

    def keep(self, credential: dict[str, Any]) -> None:
        self._session.send("WebAuthn.addCredential", {**self._id, "credential": credential})


def enter_password(page: Page) -> None:
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()


def remove_all(page: Page, url: str) -> None:
    page.goto(f"{url}/admin/second-factor/")
    page.get_by_label("Password with which").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Password")).to_have_value(PASSWORD)  # nothing was sent
    page.get_by_role("button", name="Remove laptop").click()
    expect(page.get_by_text("Your second factor is removed.")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_make_a_passkey_sign_in_with_it_and_remove_it(browser: Browser, url: str, look: dict[str, Any]) -> None:
    with desk(browser, url, user="admin", password=PASSWORD, **look) as one:
        authenticator = Virtual(one)
        page = one.open("/admin/second-factor/")
        page.get_by_role("link", name="Add a passkey").click()
        looks_good(one, "name")
        page.get_by_label("Name of the device").fill("laptop")
        page.get_by_label("Password with which").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Make passkey")).to_be_visible()
        looks_good(one, "make")
        page.get_by_role("button", name="Make passkey").click()
        expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
        [credential] = authenticator.credentials()
        page.get_by_role("link", name="I have stored them").click()
        expect(page.get_by_text("passkey for localhost")).to_be_visible()
        looks_good(one, "on")
        page.get_by_role("link", name="Add a passkey").click()
        page.get_by_label("Name of the device").fill("laptop again")
        page.get_by_label("Password with which").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Make passkey").click()
        expect(page.get_by_role("status").filter(has_text="has a passkey of yours already")).to_be_visible()
        one.calm()
    with desk(browser, url, **look) as one:
        authenticator = Virtual(one)
        page = one.open("/admin/tools_app/call/")
        enter_password(page)
        looks_good(one, "challenge")
        authenticator.keep(credential)
        page.get_by_role("button", name="Use passkey").press("Enter")
        page.wait_for_url("**/admin/tools_app/call/")
        remove_all(page, url)
        one.calm()


def test_cancelled_unsupported_and_without_script(browser: Browser, url: str, hub: Server) -> None:
    with desk(browser, url, user="admin", password=PASSWORD, viewport=PHONE) as one:
        Virtual(one)
        page = one.open("/admin/second-factor/passkey/")
        page.get_by_label("Name of the device").fill("laptop")
        page.get_by_label("Password with which").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Make passkey").click()
        recovery = page.locator(".hub-list code").first.text_content() or ""
        assert len(recovery) == 10
        with desk(browser, url) as other:
            # This authenticator does not have the passkey: the browser answers as if the person had cancelled.
            Virtual(other)
            asked = other.open("/admin/")
            enter_password(asked)
            asked.get_by_role("button", name="Use passkey").click()
            expect(asked.get_by_text("That was cancelled, or took too long.")).to_be_visible()
            expect(asked.get_by_role("button", name="Use passkey")).to_be_enabled()
            looks_good(other, "cancelled")
            other.calm()
        with desk(browser, url) as other:
            other.page.add_init_script("delete window.PublicKeyCredential")
            asked = other.open("/admin/")
            enter_password(asked)
            expect(asked.get_by_text("This browser cannot use passkeys.")).to_be_visible()
            expect(asked.get_by_role("button", name="Use passkey")).to_be_hidden()
            looks_good(other, "unsupported")
            other.calm()
        with desk(browser, hub.url) as other:
            asked = other.open("/admin/")
            enter_password(asked)
            expect(asked.get_by_text("Your passkeys belong to localhost.")).to_be_visible()
            looks_good(other, "elsewhere")
            asked.goto(f"{hub.url}/admin/second-factor/passkey/")
            other.calm()
        with desk(browser, url, java_script_enabled=False) as other:
            asked = other.open("/admin/")
            enter_password(asked)
            expect(asked.get_by_text("Your second factor is a passkey, which needs JavaScript.")).to_be_visible()
            asked.get_by_label("Recovery code").fill(recovery)
            asked.keyboard.press("Enter")
            expect(asked).to_have_url(f"{url}/admin/")
        remove_all(page, url)
        one.calm()
    with desk(browser, hub.url, user="admin", password=PASSWORD, viewport=PHONE) as one:
        page = one.open("/admin/second-factor/passkey/")
        expect(page.get_by_text("only at an address with https and a host name")).to_be_visible()
        looks_good(one, "insecure")
        one.calm()
