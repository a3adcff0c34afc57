"""After a key was created: where clients connect, what they read, and what has arrived with it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from tests.admin.conftest import agent, browser, call
from tests.admin.pages import Page, page
from tests.admin.test_keys import FORM, KEYS, make
from tools_app.models import ApiKey

pytestmark = pytest.mark.django_db

STAFF = ("view_apikey", "add_apikey", "change_apikey", "view_call", "view_agent")
SECRET = re.compile(r"thub_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}")
JSON_OF = {
    "claude-code": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
    "generic": "mcpServers",
    "claude-desktop": "mcpServers",
}


@pytest.fixture
def keeper(db: None) -> Client:
    return browser("keeper", *STAFF)


def created(keeper: Client) -> tuple[Page, str]:
    shown = keeper.post(f"{KEYS}add/", FORM)
    html = shown.content.decode()
    [secret] = set(SECRET.findall(html))
    return Page(html), secret


def text_of(shown: Page, snippet: str) -> str:
    return "".join(shown.one("pre", id=f"snippet-{snippet}").text.removesuffix(" "))


def checked(keeper: Client) -> Page:
    return page(keeper, f"{KEYS}{ApiKey.objects.get().pk}/first-request/")


def test_a_new_key_comes_with_what_each_client_reads(keeper: Client) -> None:
    shown, secret = created(keeper)
    assert "http://testserver/mcp" in shown.text
    assert "http://testserver/v1 " in shown.text
    for client, member in JSON_OF.items():
        entry: dict[str, Any] = json.loads(text_of(shown, client))[member]["toolhub"]
        if client == "claude-desktop":
            # Not among the arguments, which other users of a machine can read.
            assert secret not in " ".join(entry["args"])
            assert entry["env"] == {"TOOLHUB_AUTHORIZATION": f"Bearer {secret}"}
            assert "--allow-http" in entry["args"]
        else:
            assert entry["url"] == "http://testserver/mcp"
            assert entry["headers"] == {"Authorization": f"Bearer {secret}"}
    codex = tomllib.loads(text_of(shown, "codex"))["mcp_servers"]["toolhub"]
    assert codex["http_headers"] == {"Authorization": f"Bearer {secret}"}
    assert f"Authorization: Bearer {secret}" in text_of(shown, "curl")
    ast.parse(text_of(shown, "python"))


def test_the_addresses_are_those_of_the_public_url(keeper: Client) -> None:
    with override_settings(TOOLHUB_PUBLIC_URL="https://hub.example.org/"):
        shown, _secret = created(keeper)
    assert "https://hub.example.org/mcp" in shown.text
    assert "testserver" not in shown.one("div", class_="hub-snippets").text
    assert "--allow-http" not in shown.text


def test_the_page_of_a_key_has_the_same_without_the_secret(keeper: Client) -> None:
    secret = make(keeper)
    shown = page(keeper, f"{KEYS}{ApiKey.objects.get().pk}/change/")
    assert secret not in shown.html
    assert json.loads(text_of(shown, "cursor"))["mcpServers"]["toolhub"]["headers"] == {"Authorization": "Bearer <key>"}
    assert "http://testserver/mcp" in shown.text


def test_the_address_is_on_the_overview_of_a_new_hub_and_among_the_agents(tools: None, chief: Client) -> None:
    assert page(chief, "/admin/").one("code", id="mcp-address").text.strip() == "http://testserver/mcp"
    agents = page(chief, "/admin/tools_app/agent/")
    assert agents.one("code", id="mcp-address").text.strip() == "http://testserver/mcp"


# ---- the first request


def test_says_that_nothing_has_arrived(keeper: Client) -> None:
    shown, _secret = created(keeper)
    key = ApiKey.objects.get()
    call(caller_id=f"key:{key.pk}", started_at=timezone.now() - timedelta(days=1))
    assert "No request with this key yet." in shown.text
    waiting = shown.one("div", id="first-request")
    assert "data-arrived" not in waiting.attributes
    assert "No request with this key yet." in page(keeper, waiting["data-address"]).text


def test_says_which_agent_has_connected(keeper: Client) -> None:
    make(keeper)
    arrived = agent(caller_id=f"key:{ApiKey.objects.get().pk}", client="cursor", version="1.7", door="http")
    shown = checked(keeper)
    assert "cursor 1.7 connected at" in shown.text
    assert f"/admin/tools_app/agent/{arrived.pk}/change/" in shown.addresses
    assert "data-arrived" in shown.one("div", id="first-request").attributes


def test_says_which_call_was_the_first(keeper: Client) -> None:
    make(keeper)
    caller = f"key:{ApiKey.objects.get().pk}"
    first = call("echo", caller_id=caller, door="rest", address="192.0.2.7")
    call("calculate", caller_id=caller, started_at=timezone.now() + timedelta(seconds=1))
    shown = checked(keeper)
    assert "echo, via REST from 192.0.2.7: succeeded" in shown.text
    assert f"/admin/tools_app/call/{first.pk}/change/" in shown.addresses


@pytest.mark.parametrize(
    ("code", "error", "tool", "remedy"),
    [
        ("AUTHENTICATION_ERROR", "The key is not allowed from 192.0.2.7", "", "the allowed addresses"),
        ("NOT_FOUND", "Wrong address: POST /sse", "", "Give the client the address that is shown here."),
        ("AUTHORIZATION_ERROR", "Permission denied: requires scope tools:execute", "echo", "Change the scopes"),
    ],
)
def test_says_why_a_request_was_refused(keeper: Client, code: str, error: str, tool: str, remedy: str) -> None:
    make(keeper)
    caller = f"key:{ApiKey.objects.get().pk}"
    refused = call(
        tool, caller_id=caller, status="refused", code=code, error=error, address="192.0.2.7", started_at=timezone.now()
    )
    shown = checked(keeper)
    assert error in shown.text
    assert remedy in shown.text
    assert "via MCP from 192.0.2.7" in shown.text
    assert f"/admin/tools_app/call/{refused.pk}/change/" in shown.addresses
    # It may be corrected: the page still looks.
    assert "data-arrived" not in shown.one("div", id="first-request").attributes
    call("echo", caller_id=caller)
    assert error not in checked(keeper).text


def test_after_a_rotation_the_wait_begins_again(keeper: Client) -> None:
    make(keeper)
    key = ApiKey.objects.get()
    call(caller_id=f"key:{key.pk}")
    response = keeper.post(f"{KEYS}{key.pk}/rotate/", {"grace": "24", "prefix": key.prefix})
    assert "No request with this key yet." in Page(response.content.decode()).text
    call(caller_id=f"key:{key.pk}", started_at=timezone.now())
    assert "may have been sent with it" in checked(keeper).text


def test_tells_no_more_than_the_user_may_see() -> None:
    keeper = browser("only keys", "view_apikey", "add_apikey")
    make(keeper)
    key = ApiKey.objects.get()
    call("secret_tool", caller_id=f"key:{key.pk}")
    agent(caller_id=f"key:{key.pk}", client="hidden client")
    assert "No request with this key yet." in checked(keeper).text
    ApiKey.objects.update(last_used_at=timezone.now())
    shown = checked(keeper)
    assert "The first request arrived." in shown.text
    assert "secret_tool" not in shown.html
    assert "hidden client" not in shown.html
    assert browser("nobody").get(f"{KEYS}{key.pk}/first-request/").status_code == 403


def test_what_a_client_says_of_itself_is_text(keeper: Client) -> None:
    make(keeper)
    caller = f"key:{ApiKey.objects.get().pk}"
    agent(caller_id=caller, client="<script>x</script>", version="")
    call("", caller_id=caller, status="refused", code="NOT_FOUND", error="Wrong address: POST /<img src=x>")
    shown = checked(keeper)
    assert "<script>x" not in shown.html
    assert "<img src=x>" not in shown.html
