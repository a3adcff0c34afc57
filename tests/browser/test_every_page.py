"""Every page of the admin: it comes, it fits, it can be read by everybody, and asks nobody else for anything."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest
from playwright.sync_api import Browser, StorageState

from tests.browser.conftest import PASSWORD, SitDown, launched
from tests.browser.desk import DESKTOP, PHONE, Desk, desk
from tests.support.processes import Server

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


LISTS = [
    *(
        "toolrecord",
        "call",
        "errorgroup",
        "errorlog",
        "alert",
        "auditentry",
        "agent",
        "process",
        "source",
        "connection",
    ),
    *("apikey", "toolset", "approval", "definition", "stop", "standingapproval", "alertrule", "alertdelivery"),
]


def test_no_column_of_a_list_is_cut_off_at_1280_pixels(sit_down: SitDown, rest: httpx.Client) -> None:
    """The width of small laptops: a list that scrolls sideways there hides its last columns, and does not say so."""
    rest.post("/tools/break_down/call", json={"with_words": "as long as a message of an exception can be " * 3})
    one, too_wide = sit_down(viewport={"width": 1280, "height": 800}), []
    for model in LISTS:
        one.open(f"/admin/tools_app/{model}/{'?state=all' if model == 'errorgroup' else ''}")
        found = one.page.evaluate(
            """() => [...document.querySelectorAll('#result_list')].map(table => {
                let frame = table.parentElement;
                while (frame !== document.body && getComputedStyle(frame).overflowX === 'visible')
                    frame = frame.parentElement;
                return [table.scrollWidth, frame.clientWidth];
            })"""
        )
        too_wide += [f"{model}: {table} in {frame}" for table, frame in found if table > frame]
    assert not too_wide, "\n".join(too_wide)
