"""What happened: calls, errors, agents; found, explained, taken along as a file, called resolved."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import DESKTOP, PHONE, Desk
from tests.support.agents import Agent
from tests.support.processes import Home

CALLS = "/admin/tools_app/call/"
GROUPS = "/admin/tools_app/errorgroup/"


def test_an_error_is_explained_noted_resolved_and_comes_back(sit_down: SitDown, rest: httpx.Client) -> None:
    rest.post("/tools/break_down/call", json={"with_words": "the spring is gone"})
    one = sit_down("operator")
    page = one.open(f"{GROUPS}?q=break_down")
    page.locator("a[href*='/errorgroup/'][href*='/change/']").first.click()
    address = page.url
    page.get_by_label("Note", exact=True).fill("A new spring is ordered")
    page.get_by_role("button", name="Add note").click()
    expect(page.get_by_text("Note added.")).to_be_visible()
    expect(page.get_by_role("region", name="Notes")).to_contain_text("A new spring is ordered")
    page.get_by_label("Reason").first.fill("repaired")
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("resolved").first).to_be_visible()
    one.open(f"{GROUPS}?q=break_down")
    expect(page.locator("a[href*='/errorgroup/'][href*='/change/']")).to_have_count(0)
    rest.post("/tools/break_down/call", json={"with_words": "the spring is gone"})
    page.goto(address)
    expect(page.get_by_text("regressed").first).to_be_visible()
    one.accessible()


def test_an_issue_is_taken_over_put_off_and_ignored(sit_down: SitDown, rest: httpx.Client) -> None:
    rest.post("/tools/break_down/call", json={"with_words": "the hinge squeaks"})
    one = sit_down("operator")
    page = one.open(f"{GROUPS}?q=break_down&state=all")
    page.locator("a[href*='/errorgroup/'][href*='/change/']").first.click()

    def decide(button: str, **fields: str) -> None:
        fold = page.locator("details.hub-fold").filter(has=page.locator("summary", has_text=button))
        fold.locator("summary").click()
        for name, value in fields.items():
            field = fold.locator(f"[name={name}]:not([type=hidden])")
            field.select_option(value) if name == "hours" else field.fill(value)
        one.accessible()
        fold.get_by_role("button", name=button, exact=True).click()

    page.locator("summary", has_text="Assign").click()
    page.get_by_role("button", name="Assign to me").click()
    expect(page.get_by_text("1 issue: now assigned.")).to_be_visible()
    decide("Snooze", hours="4")
    expect(page.get_by_text("1 issue: now snoozed.")).to_be_visible()
    one.open(f"{GROUPS}?q=break_down")
    expect(page.locator("a[href*='/errorgroup/'][href*='/change/']")).to_have_count(0)
    page.get_by_role("link", name="Snoozed", exact=True).click()
    expect(page.locator("tr.data-row")).to_contain_text(["operator"])
    one.fits()
    page.locator("a[href*='/errorgroup/'][href*='/change/']").first.click()
    decide("Ignore", occurrences="1", reason="It only squeaks")
    expect(page.get_by_text("It only squeaks").first).to_be_visible()
    address = page.url
    rest.post("/tools/break_down/call", json={"with_words": "the hinge squeaks"})
    page.goto(address)
    expect(page.get_by_text("regressed").first).to_be_visible()
    one.fits()
    one.accessible()


def test_calls_are_filtered_and_one_tells_its_whole_story(chief: Desk, page: Page, rest: httpx.Client) -> None:
    rest.post("/tools/weigh/call", json={"grams": "heavy"})
    chief.open(f"{CALLS}?tool=weigh&status=refused")
    rows = page.locator("#result_list tbody tr, #result_list tr.result").filter(has_text="weigh")
    expect(rows.first).to_contain_text("VALIDATION_ERROR")
    page.locator("a[href*='/call/'][href*='/change/']").first.click()
    for words in ("Received", "Not run", "tester"):
        expect(page.get_by_text(words).first).to_be_visible()
    chief.accessible()


def test_a_call_says_first_what_went_wrong_and_leads_to_the_calls_around_it(
    chief: Desk, page: Page, rest: httpx.Client
) -> None:
    for words in ("the first crack", "the second crack"):
        rest.post("/tools/break_down/call", json={"with_words": words})
    chief.open(f"{CALLS}?tool=break_down")
    expect(page.locator("tr.data-row").first).to_contain_text("RuntimeError: the second crack")
    page.locator("a[href*='/call/'][href*='/change/']").first.click()
    outcome = page.get_by_role("region", name="break_down failed")
    expect(outcome).to_contain_text("Cause: RuntimeError: the second crack")
    expect(page.get_by_role("region", name="Arguments")).to_contain_text("the second crack")
    outcome.get_by_role("button", name="Copy the cause").click()
    expect(outcome.get_by_role("status").filter(has_text=re.compile("Copied|Selected"))).to_be_visible()
    outcome.locator("summary").click()
    expect(outcome.locator("pre")).to_contain_text("Traceback")
    chief.accessible()
    around = page.get_by_role("navigation", name="Calls of this tool")
    expect(around).to_contain_text("No later call")
    around.get_by_role("link", name="Previous call").click()
    expect(page.get_by_role("region", name="Arguments")).to_contain_text("the first crack")
    page.get_by_role("navigation", name="Calls of this tool").get_by_role("link", name="Next call").click()
    expect(page.get_by_role("region", name="Arguments")).to_contain_text("the second crack")
    for size in (PHONE, DESKTOP):
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        chief.fits()
        chief.accessible()


def test_calls_are_taken_along_as_a_file_that_no_spreadsheet_calculates(
    chief: Desk, page: Page, rest: httpx.Client, tmp_path: Path
) -> None:
    rest.post("/tools/break_down/call", json={"with_words": "=1+1"})
    chief.open(f"{CALLS}?tool=break_down")
    with page.expect_download() as download:
        page.locator("a[download][href*=csv]").first.click()
    download.value.save_as(tmp_path / "calls.csv")
    with (tmp_path / "calls.csv").open() as file:
        rows = list(csv.reader(file))
    assert len(rows) > 1
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_an_agent_stands_there_while_it_is_connected(chief: Desk, page: Page, home: Home) -> None:
    with Agent(home) as agent:
        agent.connect(20)
        chief.open("/admin/tools_app/agent/")
        expect(page.get_by_text("stdio").first).to_be_visible()
        page.locator("a[href*='/agent/'][href*='/change/']").first.click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        chief.accessible()


def test_every_number_of_the_overview_leads_to_the_list_behind_it(chief: Desk, page: Page) -> None:
    chief.open("/admin/?since=7d")
    tiles = page.locator("ul.hub-tiles a")
    addresses = [tile.get_attribute("href") or "" for tile in tiles.all()]
    assert len(addresses) >= 4
    for address in addresses:
        chief.open(address)
    chief.open("/admin/")
    page.get_by_role("navigation", name="Time").get_by_role("link", name=re.compile("30")).click()
    expect(page.get_by_role("navigation", name="Time").locator("[aria-current=page]")).to_contain_text("30")
