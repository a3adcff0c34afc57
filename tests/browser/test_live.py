"""Pages that are open follow what happens, with one stream for a browser."""

from __future__ import annotations

import re
import secrets

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.browser import desk as desks
from tests.browser.conftest import PASSWORD, SitDown
from tests.support.processes import Server
from tools_app.admin.live import stream

CALLS = "/admin/tools_app/call/"
APPROVALS = "/admin/tools_app/approval/"
TABS = 10
# From a change to what the page shows: a second until it is read, two until the page asks, and the requests.
SOON = 15_000


def requests_of(context: BrowserContext, ending: str) -> list[Request]:
    """The requests from now on whose path ends like this."""
    sent: list[Request] = []
    context.on("request", lambda request: sent.append(request) if request.url.split("?")[0].endswith(ending) else None)
    return sent


def test_the_badge_the_tiles_and_the_banner_follow_in_ten_tabs_with_one_stream(
    sit_down: SitDown, rest: httpx.Client
) -> None:
    one = sit_down("operator")
    streams = requests_of(one.context, stream.PATH)
    one.open("/admin/")
    tabs = [one.context.new_page() for _ in range(TABS - 1)]
    for tab in tabs:
        tab.goto(f"{one.url}{CALLS}")
    # Tabs of a headless browser are all visible, which is the hard case: all of them would open a stream.
    expect(one.page.locator("#hub-badge-approvals")).to_have_count(1)
    one.page.wait_for_function("localStorage.getItem('toolhub.live') !== null")
    before = len(streams)
    assert rest.post("/stops", json={"kind": "hub", "reason": "a drill"}).status_code < 300
    try:
        for tab in (one.page, *tabs):
            expect(tab.get_by_text("The hub is stopped.")).to_be_visible(timeout=SOON)
    finally:
        rest.post("/stops/resume", json={"kind": "hub"})
    for tab in (one.page, *tabs):
        expect(tab.get_by_text("The hub is stopped.")).to_have_count(0, timeout=SOON)
    assert len(streams) - before <= 1, "the others learn it from the page that has the stream"


def test_calls_appear_once_the_list_is_live(sit_down: SitDown, rest: httpx.Client) -> None:
    one = sit_down("viewer")
    page = one.open(f"{CALLS}?q=echo")
    rows = page.locator("#result_list tbody tr")
    first = rows.first.inner_text()
    name = f"echo_{secrets.token_hex(3)}"
    rest.post("/tools/echo/call", json={"message": name})
    switch = page.get_by_role("button", name="Live")
    expect(switch).to_have_attribute("aria-pressed", "false")
    page.wait_for_timeout(4_000)
    assert rows.first.inner_text() == first, "without the switch, rows stay where they are"
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(rows.first).not_to_have_text(first, timeout=SOON)
    one.accessible()
    one.fits()


def test_a_list_to_decide_on_says_that_it_has_changed_and_moves_no_button(
    sit_down: SitDown, rest: httpx.Client
) -> None:
    one = sit_down("operator")
    page = one.open(APPROVALS)
    before = page.locator("#hub-rows").inner_html()
    badge = page.locator("#hub-badge-approvals").inner_text()
    rest.patch("/tools/leave_line", json={"ask": True})
    try:
        rest.post("/tools/leave_line/call", json={"line": f"live {secrets.token_hex(3)}"})
        news = page.get_by_role("link", name="This list has changed. Show the changes")
        expect(news).to_be_visible(timeout=SOON)
        expect(page.locator("#hub-badge-approvals")).not_to_have_text(badge or "0", timeout=SOON)
        assert re.sub(r"<time.*?</time>", "", page.locator("#hub-rows").inner_html()) == re.sub(
            r"<time.*?</time>", "", before
        )
        one.accessible()
        news.click()
        left = page.locator("time[data-countdown]").first
        expect(left).to_have_text(re.compile(r"^\d+:\d\d$"))
    finally:
        rest.patch("/tools/leave_line", json={"ask": False})


def test_nothing_is_asked_any_more_after_the_session_has_ended(browser: Browser, server: Server) -> None:
    with desks.desk(browser, server.url, user="viewer", password=PASSWORD) as one:
        one.page.wait_for_function("localStorage.getItem('toolhub.live') !== null")
        other = one.context.new_page()
        other.goto(f"{one.url}{CALLS}")
        asked = requests_of(one.context, "")
        other.evaluate(
            "fetch('/admin/logout/', {method: 'POST', body: new URLSearchParams({csrfmiddlewaretoken: "
            "document.querySelector('[name=csrfmiddlewaretoken]').value})})"
        )
        other.close()
        # The stream ends, the browser tries again, and the page asks once more, and is sent to the sign-in.
        one.page.wait_for_timeout(stream.SESSION_SECONDS * 1_000 + 10_000)
        number = len(asked)
        one.page.wait_for_timeout(15_000)
        assert len(asked) == number, [request.url for request in asked[number:]]


def test_without_streams_the_page_asks(sit_down: SitDown, rest: httpx.Client) -> None:
    one = sit_down("operator")
    one.context.route(re.compile(re.escape(stream.PATH)), lambda route: route.fulfill(status=503))
    page: Page = one.open("/admin/")
    assert rest.post("/stops", json={"kind": "hub", "reason": "a drill"}).status_code < 300
    try:
        expect(page.get_by_text("The hub is stopped.")).to_be_visible(timeout=3 * SOON)
    finally:
        rest.post("/stops/resume", json={"kind": "hub"})
    one.troubles.clear()
