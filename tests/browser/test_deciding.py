"""What operators decide: whether a call may run, and whether anything runs at all."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import Desk
from tests.support.processes import Home

APPROVALS = "/admin/tools_app/approval/"
STOPS = "/admin/tools_app/stop/"


def asked(rest: httpx.Client, line: str, approval: str = "") -> httpx.Response:
    headers = {"Toolhub-Approval": approval} if approval else {}
    return rest.post("/tools/leave_line/call", json={"line": line}, headers=headers)


def left(home: Home, line: str) -> int:
    file = home.path / "lines.txt"
    return file.read_text().splitlines().count(line) if file.exists() else 0


@pytest.fixture
def asks(chief: Desk, page: Page) -> Iterator[None]:
    """The tool that leaves lines asks an operator first, while the test lasts."""

    def choose(wanted: bool) -> None:
        chief.open("/admin/tools_app/toolrecord/named/?name=leave_line")
        page.locator("#policy [name=ask]").set_checked(wanted)
        page.get_by_role("button", name="Save policy").click()
        expect(page.locator(".hub-messages")).not_to_be_empty()

    choose(True)
    yield
    choose(False)


def open_approval(one: Desk, approval: str) -> Page:
    one.open(APPROVALS)
    one.page.locator(f"a[href*='{approval}']").first.click()
    return one.page


@pytest.mark.usefixtures("asks")
def test_a_call_waits_for_an_operator_and_runs_once(sit_down: SitDown, rest: httpx.Client, home: Home) -> None:
    refused = asked(rest, "approved line").json()
    assert refused["code"] == "APPROVAL_REQUIRED"
    approval = refused["context"]["approvalId"]
    one = sit_down("operator")
    page = open_approval(one, approval)
    expect(page.locator("pre")).to_contain_text("approved line")
    one.accessible()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("Approved. The agent may run this call of leave_line once.")).to_be_visible()
    assert asked(rest, "another line", approval).json()["code"] == "APPROVAL_INVALID"
    assert asked(rest, "approved line", approval).status_code == 200
    assert asked(rest, "approved line", approval).json()["code"] == "APPROVAL_INVALID"
    assert left(home, "approved line") == 1
    assert left(home, "another line") == 0


@pytest.mark.usefixtures("asks")
def test_a_refusal_tells_the_caller_why(sit_down: SitDown, rest: httpx.Client, home: Home) -> None:
    approval = asked(rest, "refused line").json()["context"]["approvalId"]
    page = open_approval(sit_down("operator"), approval)
    page.get_by_label("Reason").first.fill("not on a Friday")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("This call of leave_line is rejected.")).to_be_visible()
    told = asked(rest, "refused line", approval).json()
    assert told["code"] == "APPROVAL_REFUSED"
    assert told["context"]["reason"] == "not on a Friday"
    assert left(home, "refused line") == 0


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_call_is_approved_in_its_row_and_others_like_it_in_advance(
    sit_down: SitDown, rest: httpx.Client, home: Home, scripts: bool
) -> None:
    line = f"row {scripts}"
    one = sit_down("operator", java_script_enabled=scripts)
    asked(rest, line)
    page = one.open(APPROVALS)
    row = page.get_by_role("row").filter(has_text=line)
    expect(row.locator("pre")).to_contain_text(line)
    if scripts:
        one.accessible()
        one.fits()
    row.get_by_role("checkbox").focus()
    with page.expect_navigation():  # the form of the list is sent, without an action
        page.keyboard.press("Enter")
    assert asked(rest, line).json()["code"] == "APPROVAL_REQUIRED", "Enter in a checkbox approves nothing"
    one.open(APPROVALS)
    row.get_by_role("button", name="Approve the call of leave_line").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Approved. The agent may run this call of leave_line once.")).to_be_visible()
    assert asked(rest, line).status_code == 200

    pending = asked(rest, f"{line} again").json()["context"]["approvalId"]
    open_approval(one, pending)
    page.get_by_text("Approve calls like this one…").click()
    page.get_by_label("Which values of line are covered").select_option("any value")
    page.get_by_label("Number of calls").fill("2")
    if scripts:
        one.accessible()
        one.fits()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Covers 2 calls of leave_line")).to_contain_text("line is any value")
    if scripts:
        one.accessible()
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_text("Granted. These calls run without asking.")).to_be_visible()
    assert [asked(rest, f"{line} {n}").status_code for n in range(3)] == [200, 200, 403]
    page.reload()
    expect(page.get_by_text("2 of 2 calls used")).to_be_visible()
    if scripts:
        one.accessible()
        one.fits()
        one.open("/admin/tools_app/standingapproval/")
        one.accessible()
        one.fits()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_the_hub_is_stopped_and_goes_on(sit_down: SitDown, rest: httpx.Client, home: Home, scripts: bool) -> None:
    one = sit_down("operator", java_script_enabled=scripts)
    page = one.open(STOPS)
    try:
        page.get_by_role("button", name="Stop Hub").click()
        asked = page.get_by_role("region", name="Stop the whole hub?")
        expect(asked).to_contain_text("callable tools")
        expect(asked).to_contain_text("(MCP)")
        if scripts:
            one.accessible()
            one.fits()
        assert rest.post("/tools/weigh/call", json={"grams": 1}).status_code == 200, "nothing is stopped by one click"
        asked.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Stop Hub").click()
        asked.get_by_role("button", name="Stop the whole hub").click()
        expect(asked, "the browser asks for a reason").to_be_visible()
        asked.get_by_label("Reason").fill("fire drill")
        asked.get_by_role("button", name="Stop the whole hub").click()
        banner = page.get_by_role("alert").filter(has_text="The hub is stopped.")
        expect(banner).to_contain_text("fire drill")
        if scripts:
            one.accessible()
        refused = rest.post("/tools/weigh/call", json={"grams": 1})
        assert refused.status_code >= 400
        assert "fire drill" in refused.text
        one.open("/admin/")
        expect(banner).to_be_visible()
        banner.get_by_role("link", name="Kill switches").click()
        page.get_by_role("button", name="Resume Hub").click()
        expect(banner).to_have_count(0)
        assert rest.post("/tools/weigh/call", json={"grams": 1}).status_code == 200
    finally:
        home.run("resume", "hub")


def test_a_key_is_stopped_by_the_keyboard_alone_and_goes_on(sit_down: SitDown, rest: httpx.Client) -> None:
    page = sit_down("operator").open(STOPS)
    page.get_by_label("Reason for stopping tester").focus()
    page.keyboard.type("odd calls")
    page.keyboard.press("Enter")
    asked = page.get_by_role("region", name="Stop tester?").get_by_label("Reason")
    expect(asked).to_be_focused()
    expect(asked).to_have_value("odd calls")
    page.keyboard.press("Enter")
    resume = page.get_by_role("button", name="Resume tester")
    expect(resume).to_be_visible()
    assert "odd calls" in rest.post("/tools/weigh/call", json={"grams": 1}).text
    resume.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Stop tester")).to_be_visible()
    assert rest.post("/tools/weigh/call", json={"grams": 1}).status_code == 200
