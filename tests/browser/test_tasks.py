"""What daily tasks cost in the admin: clicks and page loads, as docs/admin-tasks.md says."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PASSWORD, SitDown
from tests.browser.test_live import SOON
from tests.support.processes import CHECKOUT, Home

PAGE: Final = CHECKOUT / "docs/admin-tasks.md"
# Number, task, clicks before, clicks now, page loads now.
ROW: Final = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


class Walk:
    """A person at the overview, whose clicks and page loads are counted. Typing and choosing from a list is neither."""

    def __init__(self, page: Page, url: str, rest: httpx.Client, tools: Path) -> None:
        self.page, self.url, self.rest, self.tools = page, url, rest, tools
        self.name = f"task-{secrets.token_hex(3)}"
        self.clicks = self.loads = 0
        page.on("framenavigated", self._navigated)

    def _navigated(self, frame: object) -> None:
        self.loads += frame == self.page.main_frame

    def begin(self, address: str = "/admin/") -> Page:
        self.page.goto(self.url + address)
        self.page.wait_for_load_state("load")
        self.clicks = self.loads = 0
        return self.page

    def click(self, what: Locator) -> None:
        self.clicks += 1
        what.click()
        self.page.wait_for_load_state("load")

    def menu(self, name: str) -> None:
        self.click(self.page.locator("#nav-sidebar").get_by_role("link", name=re.compile(rf"^{name}( \d+)?$")))

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("main").get_by_role("link", name=name, exact=True).first)

    def press(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True).first)

    def found(self, text: str) -> None:
        """What was typed into the search box of a list."""
        self.page.locator("#searchbar").fill(text)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(f"**q={text}**")
        self.page.wait_for_load_state("load")

    def create_key(self, name: str) -> None:
        self.menu("API keys")
        self.click(self.page.get_by_role("link", name=re.compile("Add API key", re.IGNORECASE)).first)
        self.page.get_by_label("Name").fill(name)
        self.click(self.page.locator("[name=tools][value=all]"))
        self.press("Create key")


def log_in(walk: Walk) -> None:
    walk.page.context.clear_cookies()
    page = walk.begin("/admin/login/?next=/admin/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", PASSWORD)
    walk.click(page.locator("form button[type=submit]").last)
    expect(page.locator("#hub-overview")).to_be_visible()


def create_a_key(walk: Walk) -> None:
    page = walk.begin()
    walk.create_key(walk.name)
    expect(page.locator("#secret")).to_be_visible()


def connect_an_agent(walk: Walk) -> None:
    """From the page of the new key: a text for a client, copied."""
    walk.begin()
    walk.create_key(walk.name)
    walk.clicks = walk.loads = 0
    walk.click(walk.page.get_by_role("region", name="Connect a client").get_by_role("button").first)


def watch_a_call_arrive(walk: Walk) -> None:
    walk.rest.post("/tools/echo/call", json={"message": "before"})
    page = walk.begin()
    newest = page.locator("#hub-overview a[href*='/call/'][href*='/change/']").first
    before = newest.get_attribute("href") or ""
    walk.rest.post("/tools/echo/call", json={"message": walk.name})
    expect(newest).not_to_have_attribute("href", before, timeout=SOON)


def switch_a_tool_off(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Tools")
    switch = page.get_by_role("switch").first
    walk.click(switch)
    expect(page.get_by_role("switch").first).to_have_attribute("aria-checked", "false")
    clicks, loads = walk.clicks, walk.loads
    page.get_by_role("switch").first.click()
    expect(page.get_by_role("switch").first).to_have_attribute("aria-checked", "true")
    walk.clicks, walk.loads = clicks, loads


def find_why_a_call_failed(walk: Walk) -> None:
    walk.rest.post("/tools/break_down/call", json={"with_words": walk.name})
    page = walk.begin()
    walk.click(
        page.get_by_role("region", name="Open issues").locator("a[href*='/errorgroup/'][href*='/change/']").first
    )
    expect(page.get_by_text("Traceback", exact=False).first).to_be_visible()


def limit_a_tool(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Tools")
    walk.found("repeat")
    walk.link("repeat")
    for name, value in (("timeout_ms", "5000"), ("rate_calls", "100"), ("rate_seconds", "60")):
        page.locator(f"#policy [name={name}]").fill(value)
    walk.press("Save policy")
    expect(page.locator(".hub-messages")).to_contain_text("repeat")


def require_approval(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Tools")
    walk.found("leave_line")
    walk.link("leave_line")
    walk.click(page.locator("#policy [name=ask]"))
    walk.press("Save policy")
    expect(page.locator(".hub-messages")).to_contain_text("leave_line")
    walk.rest.patch("/tools/leave_line", json={"ask": False})


def approve_a_call(walk: Walk) -> None:
    walk.rest.patch("/tools/leave_line", json={"ask": True})
    try:
        walk.rest.post("/tools/leave_line/call", json={"line": walk.name})
        page = walk.begin()
        walk.menu("Approvals")
        row = page.get_by_role("row").filter(has_text=walk.name)
        walk.click(row.get_by_role("button", name="Approve").first)
        expect(page.get_by_text("Approved. The agent may run this call of leave_line once.")).to_be_visible()
    finally:
        walk.rest.patch("/tools/leave_line", json={"ask": False})


def make_a_toolset_and_a_key_for_it(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Toolsets")
    walk.click(page.get_by_role("link", name=re.compile("Add toolset", re.IGNORECASE)).first)
    page.locator("[name=name]").fill(walk.name)
    walk.click(page.locator("[name=packs][value=redmine]"))
    walk.click(page.locator("[name=read_only]"))
    walk.press("Create toolset")
    expect(page.get_by_role("heading", name=re.compile("Matching tools"))).to_be_visible()
    walk.menu("API keys")
    walk.click(page.get_by_role("link", name=re.compile("Add API key", re.IGNORECASE)).first)
    page.get_by_label("Name").fill(walk.name)
    walk.click(page.locator("[name=tools][value=some]"))
    walk.click(page.get_by_label(walk.name))
    walk.press("Create key")
    expect(page.locator("#secret")).to_be_visible()


def connect_an_account_and_test_it(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Connections")
    walk.click(page.get_by_role("link", name=re.compile("Add connection", re.IGNORECASE)).first)
    page.locator("[name=name]").fill(walk.name)
    page.locator("[name=pack]").select_option("redmine")
    page.locator("[name=url]").fill("http://127.0.0.1:9")
    page.locator("[name=secret]").fill("wrong-secret-0123456789")
    walk.press("Create connection")
    walk.press("Test connection")
    expect(page.get_by_text("failing")).to_be_visible()


def see_who_did_what(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Audit entries")
    expect(page.locator("#result_list")).to_be_visible()


def revoke_a_key(walk: Walk) -> None:
    page = walk.begin()
    walk.create_key(walk.name)
    walk.begin()
    walk.menu("API keys")
    walk.found(walk.name)
    walk.link(walk.name)
    walk.click(page.get_by_text("Revoke key…"))
    walk.press(f"Revoke {walk.name}")
    expect(page.get_by_text(f"{walk.name} is revoked.", exact=False)).to_be_visible()


def stop_everything_and_resume(walk: Walk) -> None:
    page = walk.begin()
    try:
        walk.menu("Kill switches")
        walk.click(page.get_by_role("button", name=re.compile("^Stop")).first)
        confirm = page.locator("input[name=confirm], input[name=word]")
        if confirm.count():
            confirm.first.fill("STOP")
        with suppress(AssertionError):
            page.get_by_label("Reason").first.fill("a drill")
        walk.click(page.get_by_role("button", name=re.compile("^Stop")).first)
        expect(page.get_by_text("The hub is stopped.")).to_be_visible()
        walk.click(page.get_by_role("button", name=re.compile("^Resume")).first)
        expect(page.get_by_text("The hub is stopped.")).to_have_count(0)
    finally:
        walk.rest.post("/stops/resume", json={"kind": "hub"})


def find_a_broken_file(walk: Walk) -> None:
    file = walk.tools / f"broken_{walk.name[-6:]}.py"
    file.write_text("def of what\n")
    try:
        page = walk.begin()
        reason = page.locator(".hub-answer li.hub-bad a").filter(has_text=file.name)
        expect(reason).to_be_visible(timeout=2 * SOON)
        walk.clicks = walk.loads = 0
        walk.click(reason)
        expect(page.get_by_text(file.name).first).to_be_visible()
    finally:
        file.unlink()


def find_calls_by_error_text(walk: Walk) -> None:
    walk.rest.post("/tools/break_down/call", json={"with_words": walk.name})
    page = walk.begin()
    walk.menu("Calls")
    walk.found("break_down")
    expect(page.locator("#result_list")).to_contain_text("break_down")


def export_calls(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Calls")
    with page.expect_download():
        walk.click(page.locator("a[download][href*=csv]").first)


def try_a_tool(walk: Walk) -> None:
    page = walk.begin("/admin/tools_app/toolrecord/named/?name=repeat")
    walk.link("Test tool")
    page.get_by_label(re.compile("^text")).first.fill("hello")
    walk.press("Run")
    expect(page.get_by_text("hello").first).to_be_visible()


def add_a_colleague(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Users")
    walk.click(page.get_by_role("link", name=re.compile("Add user", re.IGNORECASE)).first)
    page.get_by_label("Username").fill(walk.name)
    walk.click(page.locator("[name=role][value=operator]"))
    walk.press("Add user and create link")
    expect(page.locator("#secret")).to_be_visible()


def see_who_used_what(walk: Walk) -> None:
    page = walk.begin()
    walk.menu("Usage")
    with page.expect_download():
        walk.click(page.get_by_role("link", name="Export as CSV"))


TASKS: Final[dict[int, Callable[[Walk], None]]] = {
    2: log_in,
    3: create_a_key,
    4: connect_an_agent,
    5: watch_a_call_arrive,
    6: switch_a_tool_off,
    7: find_why_a_call_failed,
    8: limit_a_tool,
    9: require_approval,
    10: approve_a_call,
    11: make_a_toolset_and_a_key_for_it,
    12: connect_an_account_and_test_it,
    13: see_who_did_what,
    14: revoke_a_key,
    15: stop_everything_and_resume,
    17: find_a_broken_file,
    18: find_calls_by_error_text,
    19: export_calls,
    20: try_a_tool,
    21: add_a_colleague,
    22: see_who_used_what,
}


def test_tasks_cost_what_the_page_about_them_says(sit_down: SitDown, rest: httpx.Client, home: Home) -> None:
    said = {int(number): (int(clicks), int(loads)) for number, _, _, clicks, loads in ROW.findall(PAGE.read_text())}
    one = sit_down()
    measured = {}
    for number, task in TASKS.items():
        walk = Walk(one.page, one.url, rest, Path(home.environment["TOOLHUB_TOOLS_DIR"]))
        if number == 2:
            one.context.clear_cookies()
        task(walk)
        measured[number] = (walk.clicks, walk.loads)
    assert measured == said
