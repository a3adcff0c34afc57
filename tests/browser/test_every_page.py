"""Every page of the admin: it comes, it fits, it can be read by everybody, and asks nobody else for anything."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from django.urls import reverse
from playwright.sync_api import Browser, StorageState

from tests.browser.conftest import PASSWORD, SitDown, launched
from tests.browser.desk import DESKTOP, PHONE, Desk, desk
from tests.support.processes import CHECKOUT, Home, Server
from tests.test_matrix import PAGES, address_of
from tests.test_matrix import pages as pages_of_admin

MOST_PAGES = 150
# Pages of one kind are looked at so often: of records the first, of lists the plain one and one that is filtered.
MOST_OF_A_KIND = 1


def kind(address: str) -> str:
    """The same for addresses that lead to pages of one make."""
    path, _, query = address.partition("?")
    path = re.sub(r"/[^/]+/(change|history|try|delete|revoke)/", r"/…/\1/", path)
    return f"{path}{'?' if query else ''}"


def pages(one: Desk) -> Iterator[str]:
    """Opens every kind of page that links lead to, from the first one on."""
    kinds: Counter[str] = Counter()
    seen: set[str] = set()
    waiting = deque(["/admin/"])
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.popleft()
        if kinds[kind(address)] >= MOST_OF_A_KIND or address in seen:
            continue
        kinds[kind(address)] += 1
        seen.add(address)
        one.open(address)
        waiting.extend(sorted(one.links()))
        yield address


@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)], ids=["desk", "phone"])
def test_every_page_can_be_read_by_everybody(
    browser: Browser, server: Server, scheme: str, size: dict[str, int]
) -> None:
    objections = []
    with desk(browser, server.url, user="admin", password=PASSWORD, color_scheme=scheme, viewport=size) as one:
        for _ in pages(one):
            for judge in (one.fits, one.accessible, one.shows_icons, one.calm):
                try:
                    judge()
                except AssertionError as error:
                    objections.append(str(error))
    assert not objections, "\n".join(objections)


MAKE_SUBJECTS = f"""
import json, sys
sys.path.insert(0, {str(CHECKOUT)!r})
from django.contrib.auth.models import User
User.objects.create_superuser("admin", password={PASSWORD!r})
from tests.test_matrix import make_subjects
print(json.dumps(make_subjects()))
"""
# What a page may fetch on the first visit, compressed.
MOST_BYTES = 300_000
# Answers for scripts, and files.
NO_PAGES = re.compile("_export$|_live$|_live_frame$|^jsi18n$|^autocomplete$|^view_on_site$|^logout$|^search$")


@pytest.fixture(scope="module")
def subjects_and_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], Server]]:
    """A hub of its own, with one of each kind that has a page."""
    home = Home(tmp_path_factory.mktemp("every-page"), {}, patience=300)
    assert home.run("migrate").returncode == 0
    made = home.run("shell", "-c", MAKE_SUBJECTS)
    assert made.returncode == 0, made.stderr
    with home.serving() as server:
        yield json.loads(made.stdout.splitlines()[-1]), server


@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)], ids=["desk", "phone"])
def test_every_address_of_the_admin_can_be_read_by_everybody_and_is_light(
    browser: Browser, subjects_and_server: tuple[dict[str, Any], Server], scheme: str, size: dict[str, int]
) -> None:
    """Also those that no link of the demo leads to, and those that are added: they come from the URLs."""
    subjects, server = subjects_and_server
    objections, weights = [], {}
    with desk(browser, server.url, user="admin", password=PASSWORD, color_scheme=scheme, viewport=size) as one:
        session = one.context.new_cdp_session(one.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        for name in sorted(pages_of_admin()):
            address = "" if NO_PAGES.search(name) else address_of(name, subjects)
            if not address or one.page.request.get(f"{server.url}{address}", max_redirects=0).status != 200:
                continue
            one.weight = 0
            one.open(address).wait_for_load_state("load")
            for judge in (one.fits, one.accessible, one.shows_icons, one.calm):
                try:
                    judge()
                except AssertionError as error:
                    objections.append(str(error))
            weights[name] = one.weight
    assert not objections, "\n".join(objections)
    assert len(weights) >= 75, sorted(weights)
    # As on the first visit, with the files that all pages share.
    assert min(weights.values()) > 50_000
    assert {name: weight for name, weight in weights.items() if weight > MOST_BYTES} == {}


def test_the_tools_fetch_little_and_on_the_next_visit_hardly_anything(
    browser: Browser, server: Server, signed_in: Callable[[str], StorageState]
) -> None:
    """Some 70 rows, with style sheets, scripts and fonts; Chromium keeps files between visits by one window."""
    state = signed_in("admin")
    with closing(launched(browser.browser_type)) as fresh, desk(fresh, server.url, storage_state=state) as one:
        weights = []
        for _ in range(2):
            one.weight = 0
            one.open("/admin/tools_app/toolrecord/").wait_for_load_state("networkidle")
            weights.append(one.weight)
        assert one.page.locator("tr.data-row").count() >= 68
    assert weights[0] <= 150_000
    assert weights[1] <= 30_000


# Every list that the URLs of the admin have.
LISTS = sorted(reverse(f"admin:{name}") for name in PAGES if name.endswith("_changelist"))


def test_no_column_of_a_list_is_cut_off_at_1280_pixels(sit_down: SitDown, rest: httpx.Client) -> None:
    """The width of small laptops: a list that scrolls sideways there hides its last columns, and does not say so."""
    rest.post("/tools/break_down/call", json={"with_words": "as long as a message of an exception can be " * 3})
    one, too_wide = sit_down(viewport={"width": 1280, "height": 800}), []
    for address in LISTS:
        one.open(f"{address}{'?state=all' if 'errorgroup' in address else ''}")
        found = one.page.evaluate(
            """() => [...document.querySelectorAll('#result_list')].map(table => {
                let frame = table.parentElement;
                while (frame !== document.body && getComputedStyle(frame).overflowX === 'visible')
                    frame = frame.parentElement;
                return [table.scrollWidth, frame.clientWidth];
            })"""
        )
        too_wide += [f"{address}: {table} in {frame}" for table, frame in found if table > frame]
    assert not too_wide, "\n".join(too_wide)
