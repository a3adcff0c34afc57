"""Sources outside, from the form that adds one to the first call of its tools."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PASSWORD, SitDown
from tests.browser.desk import PHONE, Desk
from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tests.support.processes import Home, key_in

SOURCES = "/admin/tools_app/source/"
READS = {"readOnlyHint": True}


@pytest.fixture
def upstream() -> Iterator[McpUpstream]:
    with mcp_upstream.running() as running:
        running.tools = [mcp_upstream.tool(f"read_{number}", annotations=READS) for number in range(3)]
        running.instructions = "Always read first."
        yield running


def look(one: Desk) -> None:
    """The page can be read by everybody, and fits."""
    one.accessible()
    one.fits()
    one.shows_icons()


def reloaded_until(page: Page, text: str) -> None:
    """Open the page again until it says this: the hub lists a source in the background."""
    for _ in range(60):
        if page.get_by_text(text).count():
            return
        page.wait_for_timeout(250)
        page.reload()
    raise AssertionError(f"{page.url} does not say {text!r}: {page.locator('#content').inner_text()[:2000]}")


@pytest.mark.parametrize(("name", "size"), [("wiki", None), ("phone", PHONE)], ids=["desk", "phone"])
def test_a_source_is_added_tested_approved_and_called(
    sit_down: SitDown, home: Home, rest: httpx.Client, upstream: McpUpstream, name: str, size: dict[str, int] | None
) -> None:
    one = sit_down(**({"viewport": size, "color_scheme": "dark"} if size else {}))
    page = one.open(SOURCES)
    page.locator("a[href$='/source/add/']").first.click()
    page.get_by_label("Name", exact=True).fill(name)
    expect(page.get_by_text(f"Agents call its tools {name}_…")).to_be_visible()
    expect(page.get_by_label("Command", exact=True)).to_be_hidden()
    page.get_by_label("URL", exact=True).fill(upstream.url)
    look(one)
    page.get_by_role("button", name="Add source").click()
    expect(
        page.get_by_text("The address is not public").or_(page.get_by_text("must begin with https://"))
    ).to_be_visible()
    page.get_by_label("Internal address").check()
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text(f"{name} is added, and off. Test it next.")).to_be_visible()
    look(one)

    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("heading", name="The server answers")).to_be_visible()
    expect(page.get_by_text("Always read first.")).to_be_visible()
    look(one)
    page.get_by_role("link", name=f"Back to {name}").click()
    page.get_by_role("switch", name=name, exact=True).click()
    reloaded_until(page, f"{name}_read_2")
    assert rest.post(f"/tools/{name}_read_1/call", json={}).status_code >= 400, "it waits for approval"

    page.get_by_label("Versions").select_option("all")
    page.get_by_role("button", name="Approve and switch on…").click()
    expect(page.get_by_text(f"Approve 3 versions of {name}?")).to_be_visible()
    look(one)
    page.get_by_label("Accept the claimed hints").check()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("3 versions approved.")).to_be_visible()
    plain = {"Authorization": f"Bearer {key_in(home.run('addkey', f'{name}-plain').stdout)}"}
    refused = rest.post(f"/tools/{name}_read_1/call", json={}, headers=plain)
    assert refused.status_code == 404, "its key has no toolset"

    page.get_by_role("link", name="Create a toolset").click()
    page.locator("input[name=name]").fill(f"{name}-tools")
    page.get_by_role("button", name="Create toolset").click()
    expect(page.get_by_text("Matching tools: 3").or_(page.get_by_text("Matching tools: 4"))).to_be_visible()
    made = home.run("addkey", f"{name}-agent", "--toolset", f"{name}-tools")
    headers = {"Authorization": f"Bearer {key_in(made.stdout)}"}
    called = rest.post(f"/tools/{name}_read_1/call", json={"text": "hi"}, headers=headers)
    assert called.status_code == 200, called.text
    assert upstream.calls == [("read_1", {"text": "hi"})]

    one.open(f"{SOURCES}named/?name={name}")
    page.locator("#tools ~ .hub-tabs").get_by_role("link", name="All").click()
    page.get_by_role("link", name=f"{name}_read_0", exact=True).click()
    expect(page.get_by_label("Read-only")).to_have_value("yes")
    look(one)
    page.goto(page.locator("dd a[href*='/source/named/']").first.evaluate("one => one.href"))
    page.get_by_role("link", name="Remove this source…").click()
    look(one)
    page.get_by_role("button", name=f"Remove {name}").click()
    expect(page.get_by_text(f"{name} is removed, with 3 tools.")).to_be_visible()
    gone = rest.post(f"/tools/{name}_read_1/call", json={}, headers=headers)
    assert gone.status_code == 404


def test_a_command_is_added_without_scripts(sit_down: SitDown) -> None:
    one = sit_down(java_script_enabled=False)
    page = one.open(f"{SOURCES}add/")
    page.get_by_label("Name", exact=True).fill("scripted")
    page.get_by_label("MCP server started by a command").check()
    expect(page.get_by_label("URL", exact=True)).to_be_hidden()
    page.get_by_label("Command", exact=True).fill("npx -y 'my server@1.2.3'")
    page.get_by_role("button", name="Show words").click()
    words = page.get_by_role("list", name="Words of the command")
    expect(words.get_by_role("listitem")).to_have_text(["npx", "-y", "my server@1.2.3"])
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text("This field is required.")).to_be_visible()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text("scripted is added, and off.")).to_be_visible()
    expect(words.get_by_role("listitem")).to_have_text(["npx", "-y", "my server@1.2.3"])
