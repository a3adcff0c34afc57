"""Keys, connections and toolsets: what is secret is shown once or never, and what is granted holds at once."""

from __future__ import annotations

from contextlib import suppress

import httpx
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from tests.browser.desk import Desk
from tests.packs.n8n.fake import KEY, N8n
from tests.support.processes import Server

KEYS = "/admin/tools_app/apikey/"


def with_key(server: Server, key: str) -> int:
    return httpx.get(f"{server.url}/v1/tools", headers={"Authorization": f"Bearer {key}"}).status_code


def shown_once(page: Page) -> str:
    expect(page.get_by_text("You won’t be able to see it again.")).to_be_visible()
    text: str = page.locator("#secret").inner_text()
    return text


def test_a_key_is_shown_once_rotated_and_revoked(chief: Desk, page: Page, server: Server) -> None:
    chief.open(f"{KEYS}add/")
    page.get_by_label("Name").fill("walker")
    page.locator("[name=tools][value=all]").check()
    chief.accessible()
    page.get_by_role("button", name="Create key").click()
    first = shown_once(page)
    chief.accessible()
    assert with_key(server, first) == 200
    page.get_by_role("link", name="I have copied it").click()
    page.wait_for_url(f"**{KEYS}*")
    assert first not in page.content()
    with suppress(PlaywrightError):  # the answer to a form that was kept nowhere cannot be shown again
        page.go_back()
    expect(page.locator("body")).not_to_contain_text(first)

    chief.open(f"{KEYS}?q=walker")
    page.get_by_role("link", name="walker").first.click()
    address = page.url
    page.get_by_text("Rotate secret…").click()
    page.get_by_label("Keep the current secret valid").select_option(index=0)
    page.get_by_role("button", name="Rotate walker").click()
    second = shown_once(page)
    assert with_key(server, first) == 401
    assert with_key(server, second) == 200

    page.goto(address)
    page.get_by_text("Revoke key…").click()
    page.get_by_role("button", name="Revoke walker").click()
    expect(page.get_by_text("walker is revoked. Requests with it are refused from now on.")).to_be_visible()
    assert with_key(server, second) == 401


def test_a_connection_is_made_tested_and_deleted_and_never_shows_its_secret(chief: Desk, page: Page) -> None:
    with N8n() as upstream:
        chief.open("/admin/tools_app/connection/add/")
        page.locator("[name=name]").fill("second")
        page.locator("[name=pack]").select_option("n8n")
        page.locator("[name=url]").fill(upstream.url)
        page.locator("[name=secret]").fill("wrong-secret-0123456789")
        page.get_by_role("button", name="Create connection").click()
        expect(page.get_by_text("Connection second created.", exact=False).first).to_be_visible()
        page.get_by_role("button", name="Test connection").click()
        expect(page.get_by_text("failing")).to_be_visible()
        page.locator("[name=secret]").fill(KEY)
        page.get_by_role("button", name="Save connection").click()
        page.get_by_role("button", name="Test connection").click()
        expect(page.get_by_text("active", exact=True)).to_be_visible()
        chief.accessible()
        made = page.url
        for address in (made, "/admin/tools_app/connection/", "/admin/tools_app/auditentry/"):
            chief.open(address)
            assert KEY not in page.content()
            assert "wrong-secret" not in page.content()
        chief.open(made)
        page.get_by_text("Delete this connection…").click()
        page.get_by_role("button", name="Delete second").click()
        page.wait_for_url("**/admin/tools_app/connection/")
        expect(page.locator("main").get_by_role("link", name="second", exact=True)).to_have_count(0)


def test_a_toolset_is_previewed_while_it_is_put_together_and_bounds_a_key(
    chief: Desk, page: Page, server: Server
) -> None:
    chief.open("/admin/tools_app/toolset/add/")
    page.locator("[name=name]").fill("weighing")
    preview = page.locator("#preview")
    everything = preview.inner_text()
    page.locator("[name=packs][value=bench]").check()
    expect(preview.get_by_role("heading")).to_have_text("6 matching tools")
    assert preview.inner_text() != everything
    page.locator("[name=packs][value=bench]").uncheck()
    page.locator("[name=names][value=weigh]").check()
    expect(preview.get_by_role("heading")).to_have_text("1 matching tool")
    chief.accessible()
    page.get_by_role("button", name="Create toolset").click()
    expect(page.get_by_role("heading", name="Matching tools: 1")).to_be_visible()

    chief.open(f"{KEYS}add/")
    page.get_by_label("Name").fill("scales only")
    page.locator("[name=tools][value=some]").check()
    page.get_by_label("weighing").check()
    page.locator("[name=kinds][value=all]").check()
    page.get_by_role("button", name="Create key").click()
    headers = {"Authorization": f"Bearer {shown_once(page)}"}
    # Beside it the one that reads on where an answer was cut, which comes with any.
    listed = httpx.get(f"{server.url}/v1/tools", headers=headers).json()["tools"]
    assert [tool["name"] for tool in listed] == ["read_result", "weigh"]
    assert httpx.post(f"{server.url}/v1/tools/repeat/call", json={"text": "a"}, headers=headers).status_code == 404


def test_a_budget_is_set_on_the_page_of_a_key_and_seen_in_the_list(chief: Desk, page: Page, server: Server) -> None:
    chief.open(f"{KEYS}add/")
    page.get_by_label("Name").fill("thrifty")
    page.locator("[name=tools][value=all]").check()
    page.get_by_label("Budget: calls a day").fill("1")
    page.get_by_role("button", name="Create key").click()
    headers = {"Authorization": f"Bearer {shown_once(page)}"}
    call = {"name": "echo", "parameters": {"message": "hi"}}
    codes = [httpx.post(f"{server.url}/v1/tools/call", json=call, headers=headers).status_code for _ in range(2)]
    assert codes == [200, 429]

    chief.open(f"{KEYS}?q=thrifty")
    expect(page.get_by_text("1 of 1 calls a day")).to_be_visible()
    chief.accessible()
    page.get_by_role("link", name="thrifty").first.click()
    card = page.get_by_role("region", name="Budget")
    expect(card).to_contain_text("100 %")
    chief.accessible()
    page.get_by_label("Budget: calls a day").fill("2")
    page.get_by_role("button", name="Save changes").click()
    assert httpx.post(f"{server.url}/v1/tools/call", json=call, headers=headers).status_code == 200
