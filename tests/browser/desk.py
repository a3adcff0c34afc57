"""A browser at the admin of a real hub: everything a page did wrong while somebody looked at it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, Page, Response

from tests.support.processes import CHECKOUT

AXE: Final = CHECKOUT / "tests/node/node_modules/axe-core/axe.min.js"
# What the law asks of public services in most countries, and what axe calls best practice.
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Links within drawings are none that have a text as their address.
LINKS: Final = """[...document.querySelectorAll('a[href]:not([download])')]
    .map(one => new URL(one.getAttribute('href'), document.baseURI).href)"""
DESKTOP: Final = {"width": 1366, "height": 900}
PHONE: Final = {"width": 360, "height": 740}


@dataclass
class Desk:
    """One person's browser: signed in, with a list of what went wrong in it."""

    context: BrowserContext
    url: str
    page: Page
    troubles: list[str] = field(default_factory=list)
    weight: int = 0
    """Bytes that the pages so far have fetched, as they came over the wire."""

    def open(self, address: str = "/admin/") -> Page:
        """Go there; an answer that is no page is a trouble."""
        response = self.page.goto(self.url + address if address.startswith("/") else address)
        if response is None or response.status >= 400:
            self.troubles.append(f"{address}: HTTP {response.status if response else 'none'}")
        return self.page

    def calm(self) -> None:
        """Nothing went wrong until now.

        Raises:
            AssertionError: something did; and is forgotten.
        """
        troubles, self.troubles[:] = list(self.troubles), []
        assert not troubles, "\n".join(troubles)

    def accessible(self, *without: str) -> None:
        """The page as it stands has nothing that axe objects to, leaving out these rules."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            "options => axe.run({exclude: ['.selector']}, options)",  # Django's own, in two boxes
            {"runOnly": RULES, "rules": {rule: {"enabled": False} for rule in without}, "resultTypes": ["violations"]},
        )
        said = [
            f"{self.page.url}: {one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]} {_reasons(node)}"
            for one in found["violations"]
            for node in one["nodes"][:3]
        ]
        assert not said, "\n".join(said)

    def fits(self) -> None:
        """The page does not scroll sideways."""
        wide, there = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= there, f"{self.page.url} is {wide} wide on a screen of {there}: {self._widest()}"

    def shows_icons(self) -> None:
        """Every icon is in the font: one that is missing is shown as its name."""
        names = self.page.evaluate(
            """() => [...document.querySelectorAll('.material-symbols-outlined')]
                .filter(one => one.scrollWidth > 1.5 * parseFloat(getComputedStyle(one).fontSize))
                .map(one => one.textContent.trim())"""
        )
        assert not names, f"{self.page.url}: no icons: {names}; `python scripts/fonts.py` takes them into the font"

    def _widest(self) -> str:
        return str(
            self.page.evaluate(
                """() => [...document.querySelectorAll('body *')]
                    .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
                    .slice(0, 4).map(one => one.outerHTML.slice(0, 160))"""
            )
        )

    def links(self) -> set[str]:
        """Where one can go from here within the admin, without what changes something."""
        found: list[str] = self.page.evaluate(LINKS)
        here = urlsplit(self.url).netloc
        parts = (urlsplit(one) for one in found)
        return {
            f"{one.path}{'?' + one.query if one.query else ''}"
            for one in parts
            if one.netloc == here and one.path.startswith("/admin/") and "logout" not in one.path
        }


def _reasons(node: dict[str, Any]) -> str:
    return "; ".join(one["message"] for one in [*node["any"], *node["all"], *node["none"]][:2])


@contextmanager
def desk(browser: Browser, url: str, *, user: str = "", password: str = "", **context: Any) -> Iterator[Desk]:
    """A browser that nobody used before, signed in where a user is given."""
    made = browser.new_context(viewport=context.pop("viewport", DESKTOP), locale="en-GB", **context)
    made.set_default_timeout(10_000)
    try:
        page = made.new_page()
        one = Desk(made, url, page)
        _watch(one)
        if user:
            sign_in(page, url, user, password)
        yield one
    finally:
        made.close()


def sign_in(page: Page, url: str, user: str, password: str) -> None:
    page.goto(f"{url}/admin/login/?next=/admin/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(f"{url}/admin/")


def _watch(desk: Desk) -> None:
    """Errors of scripts, refusals of the content security policy, failed requests, requests to elsewhere."""
    here = urlsplit(desk.url).netloc

    def answered(response: Response) -> None:
        parts = urlsplit(response.url)
        if parts.scheme in ("http", "https") and parts.netloc != here:
            desk.troubles.append(f"asked {response.url}")
        elif response.status >= 400 and response.request.resource_type != "document":
            desk.troubles.append(f"{response.url}: HTTP {response.status}")

    def said(message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            desk.troubles.append(f"{desk.page.url}: console: {message.text}")

    def finished(request: Any) -> None:
        with suppress(Error):  # the last ones may end after the browser is closed
            sizes = request.sizes()
            desk.weight += sizes["responseBodySize"] + sizes["responseHeadersSize"]

    desk.page.on("response", answered)
    desk.page.on("console", said)
    desk.page.on("requestfinished", finished)
    desk.page.on("pageerror", lambda error: desk.troubles.append(f"{desk.page.url}: {error}"))


def screenshot(desk: Desk, folder: Path, name: str) -> None:
    desk.page.screenshot(path=folder / f"{name}.png", full_page=True)
