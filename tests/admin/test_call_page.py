"""The page of a call: what went wrong and with what comes first, and the calls around it are one step away."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import browser, call, error_group, failed_call
from tests.admin.pages import Page, page
from tools_app.admin import call_page
from tools_app.models import Call, ErrorLog

pytestmark = pytest.mark.django_db

CALLS = "/admin/tools_app/call/"
MOST_QUERIES = 30


def shown(client: Client, made: Call) -> Page:
    return page(client, f"{CALLS}{made.pk}/change/")


def order(text: str, *parts: str) -> bool:
    places = [text.index(part) for part in parts]
    return places == sorted(places)


def test_error_cause_arguments_and_answer_come_before_the_rest(chief: Client) -> None:
    group = error_group("calculate", count=7)
    made, error = failed_call(
        "calculate", group=group, message="It broke", detail="Traceback\nKeyError: 'south'",
        arguments='{"place": "south"}', result='{"partly": true}', queued_ms=1,
    )  # fmt: skip
    ErrorLog.objects.filter(pk=error.pk).update(cause="KeyError: 'south'")
    found = shown(chief, made)
    assert order(
        found.text, "API_ERROR It broke", "Cause: KeyError: 'south'", "API_ERROR calculate × 7 open",
        '{"place": "south"}', '{"partly": true}', "Timeline", "No earlier call",
        "Definition hash",
    )  # fmt: skip
    copied = {button["data-copies"] for button in found.all("button") if "data-copies" in button.attributes}
    assert copied == {"call-error", "call-cause", "call-trace", "call-arguments", "call-result"}
    assert copied <= {one["id"] for tag in ("span", "code", "pre") for one in found.all(tag) if "id" in one.attributes}
    assert f"/admin/tools_app/errorgroup/{group.pk}/change/" in found.addresses


def test_what_somebody_may_not_see_of_an_error_is_not_there(viewer: Client) -> None:
    group = error_group("calculate")
    made, error = failed_call("calculate", group=group, message="It broke", detail="the inside")
    ErrorLog.objects.filter(pk=error.pk).update(cause="KeyError: 'south'")
    clerk = browser("clerk", "view_call")
    for text in (shown(clerk, made).html, page(clerk, CALLS).html):
        assert "It broke" in text
        assert not [part for part in ("the inside", "south", "/errorgroup/") if part in text]
    reader = shown(browser("reader", "view_call", "view_errorlog"), made)
    assert "south" in reader.text
    assert "/errorgroup/" not in reader.html
    assert "KeyError: 'south'" in page(viewer, CALLS).text


def test_the_list_of_calls_says_the_cause_with_one_query(viewer: Client) -> None:
    def queries(number: int) -> int:
        for _ in range(number):
            _, error = failed_call("echo")
            ErrorLog.objects.filter(pk=error.pk).update(cause="OSError: no route")
        with CaptureQueriesContext(connection) as captured:
            assert page(viewer, CALLS).text.count("OSError: no route") == Call.objects.count()
        return len(captured)

    page(viewer, CALLS)
    assert queries(2) == queries(30)


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("", ""),
        ('{"a":1}', '{"a":1}'),
        (json.dumps({"name": "é" * 60}, ensure_ascii=False), '{\n  "name": "' + "é" * 60 + '"\n}'),
        ('{"name": "' + "x" * 60 + "… (cut)", '{"name": "' + "x" * 60 + "… (cut)"),
        ("[" * 100_000, "[" * 100_000),
        ("[" + "9" * 5_000 + "]", "[" + "9" * 5_000 + "]"),
    ],
    ids=["empty", "short", "long", "cut", "deep", "number"],
)
def test_json_is_formatted_and_everything_else_stays_as_it_is(text: str, formatted: str) -> None:
    assert call_page.formatted(text) == formatted


def test_long_payloads_are_folded_and_escaped(chief: Client) -> None:
    long = json.dumps({f"row {number}": "<script>" for number in range(100)})
    found = shown(chief, call("echo", arguments=long, result='{"short": 1}'))
    opened = ["open" in fold.attributes for fold in found.all("details", class_="hub-fold")]
    assert opened == [False, True]
    assert '": "<script>' not in found.html
    assert "&lt;script&gt;" in found.html


def test_the_calls_before_and_after_are_of_the_same_tool_or_caller(viewer: Client) -> None:
    now = timezone.now()
    first = call("echo", now - timedelta(minutes=4), caller_id="key:1")
    of_caller = call("calculate", now - timedelta(minutes=3), caller_id="key:2")
    middle = call("echo", now - timedelta(minutes=2), caller_id="key:2")
    last = call("echo", now - timedelta(minutes=1), caller_id="key:3")
    sides = {one.title: (one.earlier, one.later) for one in call_page._neighbours(middle)}
    assert sides == {"Calls of this tool": (first, last), "Calls of this caller": (of_caller, None)}
    found = shown(viewer, middle)
    for other in (first, of_caller, last):
        assert f"{CALLS}{other.pk}/change/" in found.addresses
    assert "No later call" in found.text
    assert "/admin/tools_app/call/?tool=echo" in found.addresses
    assert "/admin/tools_app/call/?caller=key%3A2" in found.addresses


def test_calls_of_the_same_moment_are_walked_through_one_by_one(viewer: Client) -> None:
    moment = timezone.now()
    made = sorted((call("echo", moment) for _ in range(5)), key=lambda one: one.pk)
    one, walked = made[0], [made[0]]
    while (later := call_page._around(Call.objects.all(), one)[1]) is not None:
        assert call_page._around(Call.objects.all(), later)[0] == one
        one = later
        walked.append(one)
    assert walked == made


def test_a_longer_journal_costs_the_page_no_more_queries(chief: Client) -> None:
    def queries(number: int) -> int:
        for _ in range(number):
            made, _ = failed_call("echo", group=error_group("echo"), arguments="{}")
        shown(chief, made)
        with CaptureQueriesContext(connection) as captured:
            shown(chief, made)
        return len(captured)

    few, many = queries(2), queries(50)
    assert few == many <= MOST_QUERIES
