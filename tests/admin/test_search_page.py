"""One search over the admin: what it finds, for whom, and what it says where it finds nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.admin.conftest import browser, call, failed_call
from tests.admin.pages import page
from tools_app import governance
from tools_app.models import Connection, Source

pytestmark = pytest.mark.django_db

SEARCH = "/admin/find/"
BEN = governance.trusted("user:ben")


def found(client: Client, text: str) -> dict[str, list[dict[str, str]]]:
    answer = client.get(SEARCH, {"q": text, "format": "json"})
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    return {group["title"]: group["results"] for group in answer.json()["groups"]}


def texts(client: Client, text: str) -> dict[str, list[str]]:
    return {title: [one["text"] for one in results] for title, results in found(client, text).items()}


@pytest.fixture
def records(tools: None) -> None:
    governance.create_key("tracker agent", actor=BEN)
    governance.create_toolset("tracker_readers", names=["echo"], actor=BEN)
    Connection.objects.create(name="tracker", pack="redmine", url="http://127.0.0.1:1")


def test_records_are_found_by_their_names(records: None, chief: Client) -> None:
    matching = found(chief, "TRACKER")
    assert {title: [one["text"] for one in results] for title, results in matching.items()} == {
        "Connections": ["tracker"],
        "API keys": ["tracker agent"],
        "Toolsets": ["tracker_readers"],
        "Search further": [
            "Calls with “TRACKER” in tool, caller, code or error text",
            "Calls with “TRACKER” in arguments, too",
        ],
    }
    for results in matching.values():
        for one in results:
            assert page(chief, one["address"]).status == 200
    assert texts(chief, "calculat")["Tools"] == ["calculate"]
    source = Source.objects.filter(removed_at=None).earliest("pk")
    assert texts(chief, source.name)["Sources"] == [source.name]


def test_keys_are_found_by_their_beginning_only(records: None, chief: Client) -> None:
    key, secret = governance.create_key("laptop", actor=BEN)
    for text in (key.prefix, f"thub_{key.prefix}_…", key.prefix[:4]):
        assert texts(chief, text)["API keys"] == ["laptop"], text
    assert "API keys" not in texts(chief, secret)
    assert secret.rpartition("_")[2] not in chief.get(SEARCH, {"q": key.prefix, "format": "json"}).text


def test_calls_and_errors_are_found_by_their_ids(chief: Client) -> None:
    made, error = failed_call("echo")
    call("echo")
    assert texts(chief, made.pk)["Calls"] == [made.pk]
    assert texts(chief, made.pk[:8].upper())["Calls"] == [made.pk]
    assert texts(chief, error.pk)["Error events"] == [error.pk]
    assert "Calls" not in texts(chief, made.pk[:7])


def test_pages_of_the_menu_are_found(chief: Client) -> None:
    assert found(chief, "api k")["Pages"] == [
        {"text": "API keys", "note": "Settings", "address": "/admin/tools_app/apikey/"}
    ]


def test_a_user_finds_only_what_the_user_may_read(records: None) -> None:
    made, error = failed_call("echo")
    nobody, reader = browser("nobody"), browser("reader", "view_toolrecord")
    for text in ("tracker", "echo", made.pk, error.pk, "call", "key"):
        assert found(nobody, text) == {}, text
    assert set(found(reader, "echo")) == {"Tools"}
    assert found(reader, "tracker") == {}
    summary = reader.get(SEARCH, {"q": "tracker", "format": "json"}).json()["summary"]
    assert summary == "No matches. Searched: pages of the menu; names of: Tools."
    assert Client().get(SEARCH, {"q": "echo", "format": "json"}).status_code == 302


def test_nothing_that_calls_were_given_is_searched(chief: Client) -> None:
    made = call("echo", arguments='{"salary": "beefcafe"}', result='{"salary": "beefcafe"}')
    assert set(found(chief, "beefcafe")) == {"Search further"}
    assert made.pk not in chief.get(SEARCH, {"q": "salary"}).text


def test_an_empty_result_says_what_was_searched(chief: Client) -> None:
    shown = page(chief, SEARCH, q="xyzzy")
    assert (
        "No matches. Searched: pages of the menu; names of: Tools, Sources, Connections, API keys, Toolsets; "
        "ids, from 8 characters on, of: Calls, Error events."
    ) in shown.text
    assert "/admin/tools_app/call/?q=xyzzy" in shown.addresses


def test_the_page_works_without_scripts_and_leads_to_longer_lists(records: None, chief: Client) -> None:
    shown = page(chief, "/admin/")
    assert SEARCH in shown.addresses
    assert shown.one("form", action=SEARCH)["method"] == "get"
    for number in range(8):
        governance.create_toolset(f"many_{number}", names=["echo"], actor=BEN)
    listed = page(chief, SEARCH, q="many")
    assert listed.text.count("many_") == 6
    assert "/admin/tools_app/toolset/?q=many" in listed.addresses
    assert page(chief, SEARCH).all("section") == []


@pytest.mark.parametrize("text", ["\x00", "%", "_", "'\"\\", "x" * 5_000, "<script>alert(1)</script>", "\ud800", "…"])
def test_no_text_breaks_the_search(records: None, chief: Client, text: str) -> None:
    for form in ("json", "html"):
        answer: Any = chief.get(SEARCH, {"q": text.encode(errors="replace").decode(), "format": form})
        assert answer.status_code == 200
    assert "<script>alert" not in chief.get(SEARCH, {"q": text.encode(errors="replace").decode()}).text


def test_a_search_asks_a_bounded_number_of_questions(records: None, chief: Client) -> None:
    found(chief, "tracker")
    with CaptureQueriesContext(connection) as captured:
        found(chief, "beefcafe")
    assert len(captured) <= 14
