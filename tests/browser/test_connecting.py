"""From a new key to its first request: the texts for clients work as they are, and the page notices what arrives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import Desk, screenshot
from tests.support.processes import Server

KEYS = "/admin/tools_app/apikey/"
PHONE = {"width": 360, "height": 740}


def create(one: Desk, name: str) -> Page:
    one.open(f"{KEYS}add/")
    one.page.get_by_label("Name").fill(name)
    one.page.locator("[name=tools][value=all]").check()
    one.page.get_by_role("button", name="Create key").click()
    expect(one.page.get_by_role("heading", name=f"API key for {name}")).to_be_visible()
    return one.page


def secret_on(page: Page) -> str:
    text: str = page.locator("#secret").inner_text()
    return text


def test_the_page_notices_the_first_request(chief: Desk, server: Server) -> None:
    page = create(chief, "waited for")
    waiting = page.get_by_role("region", name="First request")
    expect(waiting).to_contain_text("Waiting for the first request…")
    secret = secret_on(page)
    headers = {"Authorization": f"Bearer {secret}"}
    httpx.post(f"{server.url}/sse", headers=headers, json={})
    expect(waiting).to_contain_text("Wrong address: POST /sse", timeout=15_000)
    expect(waiting).to_contain_text("Give the client the address that is shown here.")
    chief.accessible()
    call = f"{server.url}/v1/tools/weigh/call"
    assert httpx.post(call, headers=headers, json={"grams": 3}, timeout=30).is_success
    expect(waiting).to_contain_text("weigh, via REST from 127.0.0.1: succeeded", timeout=15_000)
    expect(waiting).not_to_contain_text("Waiting")
    expect(waiting).not_to_contain_text("Wrong address")
    chief.accessible()

    # As a user would: what is copied is what runs.
    page.locator("summary", has_text="Python").click()
    text = page.locator("#snippet-python").text_content() or ""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert "weigh" in done.stdout
    page.locator("summary", has_text="curl").click()
    curl = page.locator("#snippet-curl").text_content() or ""
    done = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
    assert '"activate_workflow"' in done.stdout


def test_it_stops_when_the_page_is_hidden_and_when_the_session_ends(sit_down: SitDown) -> None:
    one = sit_down("admin")
    page = create(one, "hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "first-request" in request.url else None)
    page.wait_for_timeout(5_000)
    assert asked
    page.evaluate("""() => {
        Object.defineProperty(document, 'hidden', {value: true, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    page.wait_for_timeout(500)
    asked.clear()
    page.wait_for_timeout(5_000)
    assert not asked
    one.context.clear_cookies()
    page.evaluate("""() => {
        Object.defineProperty(document, 'hidden', {value: false, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    expect(page.get_by_role("region", name="First request")).to_contain_text("Cannot check: sign in again.")
    asked.clear()
    page.wait_for_timeout(5_000)
    assert not asked


def test_it_is_done_with_buttons_and_without_scripts(sit_down: SitDown, server: Server, tmp_path: Path) -> None:
    one = sit_down()
    page = create(one, "copied")
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy MCP").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{server.url}/mcp"
    page.locator("summary", has_text="Cursor").click()
    page.get_by_role("button", name="Copy Cursor").click()
    assert secret_on(page) in page.evaluate("navigator.clipboard.readText()")

    plain = sit_down(java_script_enabled=False)
    page = create(plain, "plain")
    page.locator("summary", has_text="Codex").click()
    expect(page.locator("#snippet-codex")).to_contain_text("[mcp_servers.toolhub]")
    with plain.context.expect_page() as opened:
        page.get_by_role("link", name="Check now").click()
    expect(opened.value.get_by_text("No request with this key yet.")).to_be_visible()
    # The key is still on the page that is left open.
    httpx.get(f"{server.url}/v1/tools", headers={"Authorization": f"Bearer {secret_on(page)}"})
    opened.value.get_by_role("link", name="Check again").click()
    expect(opened.value.get_by_text("The first request arrived.")).to_be_visible(timeout=20_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_fits_and_is_accessible(
    sit_down: SitDown, scheme: str, viewport: dict[str, int] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = sit_down(color_scheme=scheme, **({"viewport": viewport} if viewport else {}))
    create(one, f"seen {scheme} {viewport is None}")
    screenshot(one, tmp_path_factory.getbasetemp(), f"created-{scheme}-{'phone' if viewport else 'desktop'}")
    one.accessible()
    one.fits()
