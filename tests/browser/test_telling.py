"""Alert rules: from the form to a message at a real receiver, and to the log of what was sent."""

from __future__ import annotations

import time

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import PHONE, Desk
from tests.support.receivers import Receiver
from tests.support.tools import eventually

RULES = "/admin/tools_app/alertrule/"
ALERTS = "/admin/tools_app/alert/"


def test_a_rule_is_made_tested_and_tells_of_a_call_that_waits(chief: Desk, page: Page, rest: httpx.Client) -> None:
    with Receiver() as receiver:
        chief.open(f"{RULES}add/")
        chief.accessible()
        page.locator("[name=name]").fill("on call")
        page.locator("[name=url]").fill(receiver.url)
        page.get_by_label("Approval requested").check()
        page.get_by_role("button", name="Create alert rule").click()
        expect(page.get_by_text("The URL must begin with https://", exact=False)).to_be_visible()

        page.locator("[name=name]").fill("on call")
        page.locator("[name=url]").fill(receiver.url)
        page.locator("[name=internal]").check(force=True)
        page.get_by_label("Approval requested").check()
        page.get_by_role("button", name="Create alert rule").click()
        expect(page.get_by_text("You won’t be able to see it again.")).to_be_visible()
        chief.accessible()
        assert page.locator("#secret").inner_text().startswith("whsec_")
        page.get_by_role("link", name="I have copied it").click()

        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("The test was sent. Answer: 200 ok")).to_be_visible()
        assert [request.json["type"] for request in receiver.seen] == ["test"]
        assert "hooks/T0" not in page.content(), "the URL is a secret"
        made = page.url

        assert rest.patch("/tools/calculate", json={"ask": True}).status_code == 200
        try:
            begun = time.time()
            parameters = {"operation": "add", "a": 2, "b": begun}
            call = rest.post("/tools/call", json={"name": "calculate", "parameters": parameters})
            assert call.json()["code"] == "APPROVAL_REQUIRED"
            assert eventually(lambda: len(receiver.seen) == 2, 30)
        finally:
            rest.patch("/tools/calculate", json={"ask": False})
        (item,) = receiver.seen[1].json["alerts"]
        assert (item["event"], item["tool"]) == ("approval.requested", "calculate")

        chief.open(made)
        messages = page.locator("section", has=page.locator("#messages"))
        expect(messages.get_by_text("approval.requested")).to_be_visible()
        expect(messages.get_by_text("sent")).to_have_count(2)
        chief.accessible()
        chief.open(f"{ALERTS}?event=approval.requested&tool=calculate")
        chief.accessible()
        page.get_by_role("link", name="wants to call calculate", exact=False).first.click()
        expect(page).to_have_url(f"{chief.url}{item['link']}")

        chief.open(f"{ALERTS}{item['id']}/change/")
        chief.accessible()
        page.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_text("1 alert acknowledged.")).to_be_visible()

        receiver.status = 500
        chief.open(made)
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("The test failed: HTTP 500", exact=False)).to_be_visible()
        chief.open()
        expect(page.get_by_text("Alert rule on call cannot send: HTTP 500", exact=False)).to_be_visible()
        chief.open("/admin/tools_app/alertdelivery/")
        chief.accessible()
    chief.open(made)
    page.get_by_text("Delete this alert rule…").click()
    page.get_by_role("button", name="Delete on call").click()
    page.wait_for_url(f"**{RULES}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_alerts_and_rules_fit_on_a_phone(sit_down: SitDown, scheme: str) -> None:
    desk = sit_down("admin", viewport=PHONE, color_scheme=scheme)
    for address in (ALERTS, f"{ALERTS}?state=all", RULES, f"{RULES}add/", "/admin/tools_app/alertdelivery/"):
        desk.open(address)
        desk.accessible()
        assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
