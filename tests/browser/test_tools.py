"""The tools: found, switched, tagged and given their limits; the next call of any door feels it."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import DESKTOP, PHONE, Desk
from tests.browser.test_frame import tab_to

LIST = "/admin/tools_app/toolrecord/"
# A page has 100 tools, and those that are chosen here are not among the first.
BACKWARDS = f"{LIST}?o=-2"


def called(rest: httpx.Client, tool: str, **arguments: object) -> str:
    """What became of a call: a code, or nothing."""
    return str(rest.post(f"/tools/{tool}/call", json=arguments).json().get("code", ""))


def shown(page: Page) -> list[str]:
    """The tools that the list shows."""
    names: list[str] = page.locator("a.hub-name").all_inner_texts()
    return names


def choose(page: Page, *tools: str) -> None:
    for tool in tools:
        page.locator("tr", has=page.get_by_role("link", name=tool, exact=True)).locator("input.action-select").check()


def run(page: Page, action: str) -> None:
    page.get_by_label("Select action to run").select_option(label=action)
    page.get_by_role("button", name="Run", exact=True).click()


def test_a_switch_keeps_place_and_filters_and_holds_for_the_next_call(
    chief: Desk, page: Page, rest: httpx.Client
) -> None:
    assert called(rest, "weigh", grams=3) == ""
    chief.open(f"{LIST}?effect=reads")
    assert page.url.endswith("?effect=reads")
    switch = page.get_by_role("switch", name="weigh", exact=True)
    switch.scroll_into_view_if_needed()
    before = switch.bounding_box()
    switch.click()
    expect(page.get_by_text("weigh is off. Calls are refused from now on.")).to_be_attached()
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(switch).to_be_focused()
    after = switch.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 4
    assert "effect=reads" in page.url
    assert called(rest, "weigh", grams=3) == "TOOL_DISABLED"
    page.keyboard.press("Space")
    expect(page.get_by_text("weigh is on. Calls are accepted from now on.")).to_be_attached()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert called(rest, "weigh", grams=3) == ""


def test_search_and_filters_narrow_the_list_and_are_taken_off_one_by_one(chief: Desk, page: Page) -> None:
    chief.open(LIST)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox").or_(page.locator("#searchbar"))).to_be_focused()
    page.keyboard.type("issue")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=issue**")
    found = shown(page)
    assert found
    page.get_by_role("link", name="Filters", exact=True).click()
    page.locator("#changelist-filter a[href*='effect=']").first.click()
    page.wait_for_url("**effect=**")
    narrowed = shown(page)
    assert set(narrowed) < set(found)
    page.get_by_role("link", name=re.compile("^Remove the filter")).first.click()
    page.wait_for_url(lambda address: "effect=" not in address)
    assert shown(page) == found


def test_many_are_switched_after_a_question_and_undone_by_a_press(chief: Desk, page: Page, rest: httpx.Client) -> None:
    tools = ["list_issues", "get_issue", "list_projects", "update_issue", "stock_level", "find_articles", "get_order"]
    tools += ["list_late_orders", "list_users", "sales_report", "repeat"]
    chief.open(BACKWARDS)
    choose(page, *tools)
    run(page, "Switch off")
    expect(page.get_by_role("heading", name="Switch off 11 tools?")).to_be_visible()
    chief.accessible()
    assert called(rest, "repeat", text="a") == ""
    page.get_by_label("Reason").fill("stocktaking")
    page.get_by_role("button", name="Switch off").click()
    expect(page.get_by_text("11 tools switched off.")).to_be_visible()
    assert called(rest, "repeat", text="a") == "TOOL_DISABLED"
    page.get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_text("11 tools switched on.")).to_be_visible()
    assert called(rest, "repeat", text="a") == ""
    chief.open("/admin/tools_app/auditentry/?q=stocktaking")
    expect(page.get_by_text("stocktaking").first).to_be_visible()


def test_a_few_are_switched_off_without_a_question(chief: Desk, page: Page) -> None:
    chief.open(f"{LIST}?q=leave_line")
    choose(page, "leave_line")
    run(page, "Switch off")
    expect(page.get_by_text("1 tool switched off.")).to_be_visible()
    expect(page.get_by_role("switch", name="leave_line")).to_have_attribute("aria-checked", "false")
    page.get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_role("switch", name="leave_line")).to_have_attribute("aria-checked", "true")


def test_a_tag_is_given_and_taken_away(chief: Desk, page: Page) -> None:
    chief.open(f"{LIST}?q=weigh")
    choose(page, "weigh")
    run(page, "Add a tag…")
    page.get_by_role("combobox", name="Tag").fill("scales")
    page.get_by_role("button", name="Add the tag").click()
    expect(page.get_by_text("1 tool tagged scales.")).to_be_visible()
    page.get_by_role("link", name="weigh", exact=True).click()
    page.get_by_role("link", name="scales (added by an operator)").click()
    page.wait_for_url("**/toolrecord/?*")
    assert shown(page) == ["weigh"]
    choose(page, "weigh")
    run(page, "Remove a tag…")
    page.get_by_role("combobox", name="Tag").fill("scales")
    page.get_by_role("button", name="Remove the tag").click()
    expect(page.get_by_text("scales removed from 1 tool.")).to_be_visible()


def test_the_page_of_a_tool_tells_figures_parameters_and_history(chief: Desk, page: Page) -> None:
    chief.open(f"{LIST}named/?name=stock_level")
    for heading in ("What agents see", "Figures", "Recent calls", "Recent errors", "Definitions", "Access"):
        expect(page.get_by_role("heading", name=heading, level=2)).to_be_visible()
    assert page.locator("svg.hub-plot-area").count() >= 1
    page.get_by_role("region", name="Figures").get_by_role("link").last.click()
    expect(page.get_by_role("region", name="Figures").locator("[aria-current=true]")).to_have_count(1)
    parameters = page.get_by_role("table").filter(has_text="warehouse")
    expect(parameters.first).to_contain_text("north")
    page.get_by_text("What agents receive").click()
    expect(page.locator("pre", has_text="inputSchema").first).to_be_visible()


def test_a_policy_is_changed_and_told_with_where_it_comes_from(chief: Desk, page: Page) -> None:
    chief.open(f"{LIST}named/?name=weigh")
    page.locator("input[name=timeout_ms]").fill("1")
    page.get_by_role("button", name="Save policy").click()
    expect(page.locator("#policy .errorlist, #policy .errors, #policy [role=alert]").first).to_be_visible()
    page.locator("input[name=timeout_ms]").fill("4000")
    page.get_by_role("button", name="Save policy").click()
    expect(page.locator("dl.hub-figures", has_text="4,000 ms").first).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("timeout")
    page.locator("input[name=timeout_ms]").fill("")
    page.get_by_role("button", name="Save policy").click()
    expect(page.locator("dl.hub-figures", has_text="4,000 ms")).to_have_count(0)


def test_a_viewer_is_shown_no_switch_and_no_button(sit_down: SitDown) -> None:
    one = sit_down("viewer")
    for address in (
        LIST, f"{LIST}named/?name=weigh", "/admin/tools_app/stop/", "/admin/tools_app/errorgroup/",
        "/admin/tools_app/approval/", "/admin/tools_app/agent/", "/admin/tools_app/auditentry/", "/admin/",
    ):  # fmt: skip
        one.open(address)
        buttons = one.page.locator("main button:visible, main input[type=submit]:visible")
        allowed = {"Search", "Apply", "Copy MCP", ""}
        said = {button.get_attribute("aria-label") or button.inner_text().strip() for button in buttons.all()}
        assert said <= allowed, (address, said)
        assert one.page.get_by_role("switch").count() == 0
        assert one.page.locator("main input.action-select").count() == 0
    for address in ("/admin/tools_app/apikey/", "/admin/tools_app/connection/", "/admin/auth/user/"):
        answer = one.page.goto(one.url + address)
        assert answer is not None
        assert answer.status == 403


def test_an_operator_switches_but_makes_no_keys(sit_down: SitDown) -> None:
    one = sit_down("operator")
    one.open(BACKWARDS)
    expect(one.page.get_by_role("switch", name="weigh", exact=True)).to_be_visible()
    expect(one.page.get_by_role("link", name="Keys")).to_have_count(0)
    answer = one.page.goto(f"{one.url}/admin/tools_app/apikey/add/")
    assert answer is not None
    assert answer.status == 403


def test_what_can_be_done_with_chosen_rows_pushes_none_of_them_away(sit_down: SitDown) -> None:
    for size in (DESKTOP, PHONE):
        one = sit_down(viewport=size)
        page = one.open(f"{LIST}?q=weigh")
        box = page.locator("input.action-select").first
        before = box.bounding_box()
        box.check()
        actions = page.get_by_label("Select action to run")
        expect(actions).to_be_in_viewport()
        assert box.bounding_box() == before
        # And by the keyboard it is on from the row, not back.
        box.focus()
        tab_to(page, "^Run$")
        one.accessible()
