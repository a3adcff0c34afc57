"""Calls, errors and the audit trail: read, followed from one to the other, and never counted to the end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import VIEWS, browser, call, days_ago, failed_call, process
from tests.admin.pages import Page, page, sent
from tools_app import governance
from tools_app.admin.lists import BoundedPaginator
from tools_app.journal import call_search
from tools_app.models import Approval, AuditEntry, Call, ErrorLog

pytestmark = pytest.mark.django_db

CALLS = "/admin/tools_app/call/"
ERRORS = "/admin/tools_app/errorlog/"
AUDIT = "/admin/tools_app/auditentry/"


def rows(shown: Page) -> list[str]:
    return [" ".join(row.text.split()) for row in shown.all("tr", class_="data-row")]


def test_a_call_is_shown_with_all_that_is_known_of_it(tools: None, chief: Client) -> None:
    made = call("calculate", arguments='{"a": 2, "note": "<b>two</b>"}', duration_ms=1234)
    [row] = rows(page(chief, CALLS))
    assert "calculate succeeded agent key MCP 1,234 ms" in row
    shown = page(chief, f"{CALLS}{made.pk}/change/")
    assert shown.one("pre", class_="hub-pre").text.strip() == '{"a": 2, "note": "<b>two</b>"}'
    assert "1,234 ms" in shown.text
    assert "/admin/tools_app/toolrecord/named/?name=calculate" in shown.addresses


def test_a_call_leads_to_its_error_and_back(tools: None, viewer: Client) -> None:
    made, error = failed_call("echo", detail='File "x.py", line 3\n<script>')
    assert f"{ERRORS}{error.pk}/change/" in page(viewer, CALLS).addresses
    assert f"{ERRORS}{error.pk}/change/" in page(viewer, f"{CALLS}{made.pk}/change/").addresses
    shown = page(viewer, f"{ERRORS}{error.pk}/change/")
    assert f"{CALLS}{made.pk}/change/" in shown.addresses
    assert "/admin/tools_app/toolrecord/named/?name=echo" in shown.addresses
    assert shown.one("pre", class_="hub-pre").text.strip() == 'File "x.py", line 3\n<script>'


def test_a_list_tells_who_answered_and_how_often(viewer: Client) -> None:
    call("first", answered_by="cache")
    call("second", answered_by="replay")
    call("third", status="refused", code="RATE_LIMIT_EXCEEDED", count=1_037)
    call("fourth")
    for address in (CALLS, "/admin/"):
        shown = page(viewer, address)
        text = " | ".join(" ".join(row.text.split()) for row in shown.all("tr"))
        for words in (
            "first succeeded from the cache",
            "second succeeded replayed: same Idempotency-Key",
            "third refused × 1,037",
            "fourth succeeded agent",
        ):
            assert words in text, address


def test_an_interrupted_call_says_that_its_outcome_is_unknown(viewer: Client) -> None:
    unknown = "The process ended during the call. The change may or may not have been applied."
    made = call("echo", status="interrupted", code="INTERRUPTED", error=unknown, duration_ms=None)
    shown = page(viewer, CALLS)
    mark = shown.one("span", class_="hub-mark")
    assert (mark.text.strip(), mark["title"]) == ("interrupted", unknown)
    assert "hub-warn" in mark["class"]
    assert unknown in page(viewer, f"{CALLS}{made.pk}/change/").text


def test_a_page_says_how_many_calls_its_row_stands_for(viewer: Client) -> None:
    made = call("echo", status="refused", code="RATE_LIMIT_EXCEEDED", count=37)
    words = "× 37 Identical refusals within a minute are combined."
    assert words in page(viewer, f"{CALLS}{made.pk}/change/").text
    assert "kept as one" not in page(viewer, f"{CALLS}{call('echo').pk}/change/").text


def test_a_result_is_shown_where_it_is_kept(chief: Client) -> None:
    kept, other = call("echo", result='{"text": "<b>hi</b>"}'), call("echo")
    assert page(chief, f"{CALLS}{kept.pk}/change/").one("pre", class_="hub-pre").text.strip() == kept.result
    labels = page(chief, f"{CALLS}{other.pk}/change/").text
    assert "Response size (bytes)" in labels
    assert "Result Result bytes" not in labels


def test_a_call_names_its_process_while_that_is_known(viewer: Client) -> None:
    one = process(kind="runmcp", pid=77)
    shown = page(viewer, f"{CALLS}{call('echo', process_id=one.pk).pk}/change/")
    assert "runmcp hub-1:77" in shown.text
    assert f"/admin/tools_app/process/{one.pk}/change/" in shown.addresses
    assert "f" * 32 in page(viewer, f"{CALLS}{call('echo', process_id='f' * 32).pk}/change/").text


def test_a_tool_that_never_was_is_no_link_and_neither_is_a_prompt(viewer: Client) -> None:
    call("not_there", status="refused", code="TOOL_NOT_FOUND", error="Tool not found: not_there")
    call("prompt:plan")
    shown = page(viewer, CALLS)
    assert {name for row in rows(shown) for name in ("not_there", "prompt:plan") if name in row} == {
        "not_there",
        "prompt:plan",
    }
    assert not [link for link in shown.addresses if "/named/" in link]


def test_the_stack_is_for_those_who_may_see_errors() -> None:
    made, error = failed_call("echo", detail="the secret stack")
    porter = browser("porter", "view_call")
    for address in (ERRORS, f"{ERRORS}{error.pk}/change/"):
        assert porter.get(address).status_code == 403
    shown = page(porter, f"{CALLS}{made.pk}/change/")
    assert "the secret stack" not in shown.html
    assert error.pk not in shown.html
    listed = page(porter, CALLS)
    assert "API_ERROR" in rows(listed)[0]
    assert not [link for link in listed.addresses if "/errorlog/" in link]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=failed", {"calculate"}),
        ("status=refused", {"echo"}),
        ("status=error", {"calculate"}),
        ("status=nonsense", {"calculate", "echo", "old_tool"}),
        ("code=TOOL_DISABLED", {"echo"}),
        ("door__exact=rest", {"old_tool"}),
        ("since=24h", {"calculate", "echo"}),
        ("since=30d", {"calculate", "echo", "old_tool"}),
        ("since=never", {"calculate", "echo", "old_tool"}),
        ("tool=echo", {"echo"}),
        ("caller=key:9", {"echo"}),
        ("q=calc", {"calculate"}),
        ("q=old_tool", {"old_tool"}),
        ("q=old", {"old_tool"}),
        ("q=OLD_", {"old_tool"}),
        ("q=night", {"echo"}),
        ("q=KEY:9", {"echo"}),
        ("q=disabled", {"echo"}),
        ("q=said no", {"calculate"}),
        ("q=TRACKER", {"calculate"}),
        ("q=100%25", set()),
        ("q=o_d", set()),
        ("q=said no&status=refused", set()),
        ("q=echo&since=24h&caller=key:9", {"echo"}),
        ("tool=echo&status=failed", set()),
    ],
)
def test_calls_are_narrowed_down(tools: None, viewer: Client, query: str, names: set[str]) -> None:
    failed_call("calculate")
    call("echo", status="refused", code="TOOL_DISABLED", caller_id="key:9", caller_name="night shift")
    call("old_tool", days_ago(9), door="rest")
    shown = page(viewer, f"{CALLS}?{query}")
    assert shown.status == 200
    assert {name for name in ("calculate", "echo", "old_tool") for row in rows(shown) if name in row} == names


def test_the_filters_that_hold_can_be_taken_away_one_by_one(viewer: Client) -> None:
    failed_call("echo")
    shown = page(viewer, f"{CALLS}?tool=echo&since=24h&status=failed")
    chips = {
        " ".join(chip.text.split()): chip["href"]
        for chip in shown.all("a", class_="hub-tag")
        if any("hub-filters" in parent.attributes.get("class", "") for parent in chip.parents)
    }
    assert chips["tool: echo ×"] == "?since=24h&status=failed"
    assert chips["time: Last 24 hours ×"] == "?status=failed&tool=echo"
    assert chips["status: Failed ×"] == "?since=24h&tool=echo"


def test_ids_are_found_from_both_sides(viewer: Client) -> None:
    made, error = failed_call("echo")
    call("echo")
    for address in (f"{CALLS}?q={made.pk}", f"{CALLS}?q={error.pk}", f"{ERRORS}?q={error.pk}", f"{ERRORS}?q={made.pk}"):
        assert len(rows(page(viewer, address))) == 1


def test_a_call_is_found_by_the_beginning_of_its_id(viewer: Client) -> None:
    made, _ = call("echo", id="beefcafe" + "0" * 24), call("echo", id="beefcaff" + "0" * 24)
    [row] = page(viewer, f"{CALLS}?q=beefcafe").all("tr", class_="data-row")
    assert made.pk in row.text or any(made.pk in link for link in page(viewer, f"{CALLS}?q=beefcafe").addresses)
    assert rows(page(viewer, f"{CALLS}?q=beefcaf")) == [], "seven characters are a word"


def test_a_search_that_finds_nothing_says_where_it_looked(viewer: Client) -> None:
    call("echo", arguments='{"server": "nginx"}', result='{"up": "nginx"}')
    shown = page(viewer, f"{CALLS}?q=nginx")
    assert rows(shown) == []
    assert "Searched: names of tools, latest names and ids of callers, codes, error texts and ids" in shown.text
    assert "Not searched: arguments and answers." in shown.text
    assert "Searched: Tool, error id or call id." in page(viewer, f"{ERRORS}?q=nginx").text
    assert "Searched:" not in page(viewer, f"{CALLS}?q=echo").text


def test_a_search_says_which_error_texts_it_did_not_read(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools_app.journal.call_search.MOST_ERRORS", 2)
    for age in (1, 2, 3, 4):
        failed_call("echo", days_ago(age), message=f"captcha {age}")
    assert [row.split()[-1] for row in rows(page(viewer, f"{CALLS}?q=captcha"))] == ["1", "2"]
    missed = page(viewer, f"{CALLS}?q=captcha 4")
    assert rows(missed) == []
    for shown in (missed, page(viewer, f"{CALLS}?q=captcha")):
        assert f"Error texts of calls until {timezone.localtime(days_ago(3)):%Y-%m-%d %H:%M} were not" in shown.text
    until = f"{timezone.localtime(days_ago(2.5)):%Y-%m-%dT%H:%M}"
    reached = page(viewer, f"{CALLS}?q=captcha 4&until={until}")
    assert len(rows(reached)) == 1
    assert "were not searched" not in reached.text


def test_a_search_says_that_it_did_not_read_all_names(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools_app.journal.call_search.MOST_MATCHING", 2)
    for number in range(3):
        call(f"tool_{number}")
    shown = page(viewer, f"{CALLS}?q=tool_")
    assert len(rows(shown)) == 2
    assert "Not all tools, callers and codes were searched" in shown.text
    assert "Not all" not in page(viewer, f"{CALLS}?q=tool_2").text


def test_a_text_that_is_part_of_all_names_is_found_in_as_many_as_a_search_reads(viewer: Client) -> None:
    now = timezone.now()
    Call.objects.bulk_create(
        Call(
            id=f"{number:032x}", tool_name=f"xyz_{number}", door="mcp", status="failed", caller_id=f"key:xyz{number}",
            caller_name="xyz", code=f"XYZ_{number}", started_at=now - timedelta(seconds=number),
        )
        for number in range(call_search.MOST_MATCHING + 5)
    )  # fmt: skip
    shown = page(viewer, f"{CALLS}?q=xyz&since=24h&status=failed&door__exact=mcp&from=2020-01-01T00:00")
    assert len(rows(shown)) == 50
    assert "Page 1 of 3" in shown.text
    assert "Not all tools, callers and codes were searched" in shown.text


def test_calls_are_sorted_by_duration(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, duration_ms in (("long", 300), ("none", None), ("middle", 20), ("short", 1)):
        call(name, duration_ms=duration_ms)
    names = ["long", "middle", "short", "none"]
    shown = page(viewer, f"{CALLS}?o=-5&since=24h")
    assert [row.split()[2] for row in rows(shown)] == names
    assert [row.split()[2] for row in rows(page(viewer, f"{CALLS}?o=5"))] == names[::-1]
    assert [row.split()[2] for row in rows(page(viewer, f"{CALLS}?o=-5&q=o"))] == ["long", "short", "none"]
    assert "selected" in shown.one("option", value="-5").attributes
    monkeypatch.setattr(BoundedPaginator, "bound", 1)
    bounded = page(viewer, f"{CALLS}?o=-5")
    assert "long" not in rows(bounded)[0], "sorted among the newest only"
    assert "the newest 1 calls" in bounded.text


def test_a_time_range_stays_from_page_to_page(viewer: Client) -> None:
    Call.objects.bulk_create(_call(number, days_ago(number / 1000)) for number in range(60))
    shown = page(viewer, f"{CALLS}?since=7d&until=2099-01-01T00:00&q=echo&o=-5")
    older = next(link for link in shown.all("a", rel="next"))["href"]
    assert parse_qs(older.removeprefix("?")) == {
        "since": ["7d"], "until": ["2099-01-01T00:00"], "q": ["echo"], "o": ["-5"], "p": ["2"],
    }  # fmt: skip
    assert len(rows(page(viewer, f"{CALLS}{older}"))) == 10
    search = shown.one("form", id="changelist-search")
    kept = {field["name"] for field in shown.all("input") if search in field.parents}
    assert kept >= {"since", "until", "o", "q"}
    ranged = "?since=7d&until=2099-01-01T00%3A00"
    for model in ("call", "errorgroup", "errorlog", "auditentry"):
        assert f"/admin/tools_app/{model}/{ranged}" in shown.addresses
    assert "/admin/?since=7d" in shown.addresses
    assert "/admin/tools_app/toolrecord/" in shown.addresses
    assert f"{CALLS}?since=7d" in page(viewer, "/admin/?since=7d").addresses
    assert "selected" in shown.one("option", value="7d").attributes


def test_newest_come_first(viewer: Client) -> None:
    for age, name in ((3, "third"), (1, "first"), (2, "second")):
        call(name, days_ago(age))
    assert [row.split()[2] for row in rows(page(viewer, CALLS))] == ["first", "second", "third"]


@pytest.mark.parametrize("address", [CALLS, f"{CALLS}?status=failed", f"{CALLS}?q=echo", ERRORS, AUDIT])
def test_no_list_counts_further_than_its_bound(viewer: Client, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(BoundedPaginator, "bound", 120)
    moments = [timezone.now() - timedelta(seconds=number) for number in range(130)]
    Call.objects.bulk_create(_call(number, moment) for number, moment in enumerate(moments))
    ErrorLog.objects.bulk_create(
        ErrorLog(id=f"{number:032x}", tool_name="echo", door="mcp", code="X", message="x", created_at=moment)
        for number, moment in enumerate(moments)
    )
    AuditEntry.objects.bulk_create(AuditEntry(actor="a", action="b", subject="c", at=moment) for moment in moments)
    page(viewer, address)  # The first page reads the catalog as well.
    with CaptureQueriesContext(connection) as captured:
        shown = page(viewer, address)
    counts = [query["sql"] for query in captured if "COUNT(" in query["sql"]]
    assert len(counts) == 1
    assert "LIMIT 121" in counts[0]
    # A search reads the names of tools, callers and codes, how far it can read error texts, and its matches.
    assert len(captured) <= (12 if "call/?q" in address else 9)
    assert "Page 1 of 3 · the newest 120" in shown.text
    last = page(viewer, f"{address}{'&' if '?' in address else '?'}p=3")
    assert len(rows(last)) == 20
    assert "Older →" not in last.text


def _call(number: int, moment: Any) -> Call:
    return Call(
        id=f"{number:032x}", tool_name="echo", door="mcp", status="failed", started_at=moment, caller_id="key:1"
    )


def test_the_pages_are_turned(viewer: Client) -> None:
    Call.objects.bulk_create(_call(number, days_ago(number / 1000)) for number in range(60))
    first = page(viewer, f"{CALLS}?tool=echo")
    assert len(rows(first)) == 50
    older = next(link for link in first.all("a", rel="next"))["href"]
    second = page(viewer, f"{CALLS}{older}")
    assert len(rows(second)) == 10
    assert "Page 2 of 2 · 60 calls" in second.text
    assert second.one("a", rel="prev")["href"] == "?tool=echo&p=1"


@pytest.mark.parametrize(("model", "address"), [(Call, CALLS), (ErrorLog, ERRORS), (AuditEntry, AUDIT)])
def test_a_journal_is_only_read(chief: Client, model: Any, address: str) -> None:
    failed_call("echo")
    AuditEntry.objects.create(actor="a", action="tool.enable", subject="echo")
    one = model.objects.first()
    kept = model.objects.values().first()
    detail = f"{address}{one.pk}/"
    for refused in (f"{address}add/", f"{detail}delete/"):
        assert chief.get(refused).status_code == 403
        assert chief.post(refused, {"post": "yes"}).status_code == 403
    assert chief.post(f"{detail}change/", {"tool_name": "other", "reason": "other", "code": "X"}).status_code == 403
    sent(chief, address, action="delete_selected", _selected_action=[one.pk], post="yes")
    assert model.objects.values().first() == kept
    for shown in (page(chief, address), page(chief, f"{detail}change/")):
        assert not [link for link in shown.addresses if link.endswith(("/add/", "/delete/"))]
        assert shown.all("input", name="_save") + shown.all("button", name="_save") == []


@pytest.mark.parametrize("address", [CALLS, ERRORS, AUDIT, "/admin/tools_app/toolrecord/", "/admin/tools_app/apikey/"])
def test_a_page_needs_its_permission(db: None, address: str) -> None:
    assert browser("nobody").get(address).status_code == 403
    assert browser("everybody", *VIEWS).get(address).status_code == 200
    assert Client().get(address).status_code == 302


@pytest.mark.parametrize(
    ("address", "said"), [(CALLS, "No calls yet"), (ERRORS, "No errors yet"), (AUDIT, "No changes yet")]
)
def test_an_empty_journal_says_what_will_stand_there(viewer: Client, address: str, said: str) -> None:
    assert said in page(viewer, address).text


def test_the_audit_trail_tells_changes_in_words(tools: None, viewer: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("user:bob"), reason="too loud")
    governance.set_policy("echo", {"timeout_ms": 500}, actor=governance.trusted("user:bob"))
    governance.set_policy("echo", {"timeout_ms": None}, actor=governance.trusted("user:bob"))
    key, _ = governance.create_key("laptop", actor=governance.trusted("user:bob"), scopes=["tools:list", "tools:read"])
    governance.revoke_key(key, actor=governance.trusted("user:bob"))
    shown = page(viewer, f"{AUDIT}?q=bob")
    found = " | ".join(rows(shown))
    for words in (
        "user:bob tool.disable echo enabled: on → off too loud",
        "tool.policy echo timeout_ms: 500",
        "tool.policy echo timeout_ms: 500 → nothing",
        "key.create key:laptop scopes: tools:list, tools:read",
        "key.revoke key:laptop revoked_at: 20",
    ):
        assert words in found
    assert len(rows(page(viewer, f"{AUDIT}?action=tool.disable"))) == 1
    assert len(rows(page(viewer, f"{AUDIT}?subject=key:laptop"))) == 2
    assert len(rows(page(viewer, f"{AUDIT}?q=laptop"))) == 2
    entry = AuditEntry.objects.get(action="tool.disable")
    assert '"enabled": [' in page(viewer, f"{AUDIT}{entry.pk}/change/").text


def test_what_was_sent_and_answered_needs_a_permission_of_its_own(viewer: Client) -> None:
    made = call("calculate", arguments='{"salary": 4321}', result='{"taxes": 1234}')
    address = f"/admin/tools_app/call/{made.pk}/change/"
    hidden = page(viewer, address)
    assert hidden.text.count("Hidden – requires the admin role (permission “view_payload”)") == 1
    assert "4321" not in hidden.html + page(viewer, "/admin/tools_app/call/").html
    assert "1234" not in hidden.html
    shown = page(browser("auditor", *VIEWS, "view_payload"), address)
    assert '{"salary": 4321}' in shown.text
    assert '{"taxes": 1234}' in shown.text
    assert "hidden:" not in shown.text


def test_operators_see_payloads_where_a_setting_says_so_and_each_reading_is_noted(tools: None, settings: Any) -> None:
    made = call("calculate", arguments='{"salary": 4321}', result='{"taxes": 1234}')
    address, clients = f"{CALLS}{made.pk}/change/", {}
    for role in ("viewer", "operator"):
        user = User.objects.create_user(f"a-{role}")
        governance.set_role(user, role, actor=governance.trusted("test"))
        clients[role] = Client()
        clients[role].force_login(user)
    assert "4321" not in page(clients["operator"], address).html
    settings.TOOLHUB_OPERATORS_SEE_PAYLOADS = True
    shown = page(clients["operator"], address)
    assert '{"salary": 4321}' in shown.text
    assert '{"taxes": 1234}' in shown.text
    assert "4321" not in page(clients["viewer"], address).html
    entry = AuditEntry.objects.get(action="payload.read")
    assert (entry.actor, entry.subject) == ("user:a-operator", f"call:{made.pk}")
    assert clients["operator"].get(f"{CALLS}export/", {"format": "json", "payloads": "1"}).status_code == 403


# ---- what the fields above a list ask for


def test_calls_are_narrowed_by_time_by_how_slow_and_by_whose_they_are(viewer: Client) -> None:
    key, _ = governance.create_key("night-shift", actor=governance.trusted("test"))
    noon = timezone.now().replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
    call("first", noon, duration_ms=900, caller_id="key:0")
    call("second", noon + timedelta(hours=1), duration_ms=1_000, caller_id=f"key:{key.pk}", caller_name="night-shift")
    call("third", noon + timedelta(hours=2), duration_ms=30_000, caller_id="local:ana", caller_name="ana")
    at = "%Y-%m-%dT%H:%M"
    for query, names in (
        ({"from": f"{noon + timedelta(hours=1):{at}}"}, {"second", "third"}),
        ({"until": f"{noon + timedelta(hours=1):{at}}"}, {"first"}),
        ({"from": f"{noon:{at}}:30+00:00", "until": f"{noon + timedelta(hours=2):{at}}"}, {"second"}),
        ({"from": "soon", "until": "9999-12-31T23:59-23:00"}, {"first", "second", "third"}),
        ({"slower": "1000"}, {"second", "third"}),
        ({"slower": "5000"}, {"third"}),
        ({"slower": "1"}, {"first", "second", "third"}),
        ({"caller": "night-shift"}, {"second"}),
        ({"caller": "ana"}, {"third"}),
        ({"caller": f"key:{key.pk}"}, {"second"}),
        ({"caller": "nobody"}, set()),
    ):
        shown = page(viewer, CALLS, **query)
        assert {name for name in ("first", "second", "third") for row in rows(shown) if name in row} == names, query


def test_the_fields_keep_what_else_the_address_says(viewer: Client) -> None:
    shown = page(viewer, f"{CALLS}?status=failed&q=echo&p=2&caller=ana&slower=5000")
    form = shown.one("form", class_="hub-narrow")
    inside = [element for element in shown.all("input") if form in element.parents]
    given = {element["name"]: element.attributes.get("value", "") for element in inside}
    assert given == {"status": "failed", "q": "echo", "from": "", "until": "", "caller": "ana"}
    assert shown.one("option", value="5000").attributes.keys() >= {"selected"}
    assert "min. duration: 5 s ×" in shown.text


def test_calls_that_were_interrupted_are_found(viewer: Client) -> None:
    call("lost", status="interrupted", code="INTERRUPTED")
    call("found")
    shown = page(viewer, f"{CALLS}?code=INTERRUPTED")
    assert [row for row in rows(shown) if "lost" in row] == rows(shown) != []


# ---- what happened to a call


def test_a_call_says_where_its_time_went(viewer: Client) -> None:
    made = call(
        "list_issues", duration_ms=1_000, queued_ms=100, upstream_ms=700, attempts=3, connection="tracker", door="rest"
    )
    shown = page(viewer, f"{CALLS}{made.pk}/change/")
    assert (
        "Received 0 ms from agent via REST Run 100 ms after validation and queueing "
        "Retried retried after failures, 2 times Upstream 700 ms of which waiting for tracker Responded 1,000 ms"
    ) in shown.text
    drawn = [rect for rect in shown.all("rect") if "hub-fill-" in rect["class"]]
    assert [(rect["x"], rect["width"]) for rect in drawn] == [("0", "100"), ("100", "700"), ("800", "200")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"answered_by": "cache"}, "Not run answered from an earlier result"),
        ({"status": "refused", "code": "TOOL_DISABLED", "error": "Tool is disabled"}, "Not run Tool is disabled"),
        ({"status": "started", "finished_at": None, "duration_ms": None}, "Running not finished"),
        ({"status": "interrupted", "error": "unknown", "duration_ms": None}, "Interrupted unknown"),
        ({"duration_ms": 0, "queued_ms": 0}, "Responded 0 ms"),
    ],
)
def test_a_call_says_why_its_time_is_not_known(viewer: Client, given: dict[str, Any], words: str) -> None:
    shown = page(viewer, f"{CALLS}{call('echo', **given).pk}/change/")
    assert words in shown.text
    assert [rect for rect in shown.all("rect") if "hub-fill-" in rect["class"]] == []


def test_a_call_leads_to_the_approval_that_it_needed(viewer: Client) -> None:
    made, now = call("echo"), timezone.now()
    approval = Approval.objects.create(
        id="a" * 32, tool_name="echo", arguments=b"", asked_at=now, expires_at=now, decided_at=now,
        decided_by="user:ben", call_id=made.pk,
    )  # fmt: skip
    address = f"{CALLS}{made.pk}/change/"
    seen = page(browser("overseer", *VIEWS, "view_approval"), address)
    assert f"/admin/tools_app/approval/{approval.pk}/change/" in seen.addresses
    assert "Approved before the call user:ben" in seen.text
    assert "user:ben" not in page(browser("porter", "view_call"), address).text


def test_who_reads_a_payload_is_on_record_once_an_hour(db: None) -> None:
    made = call("echo", arguments='{"a": 1}')
    address = f"{CALLS}{made.pk}/change/"
    reader, other = (browser(name, *VIEWS, "view_payload") for name in ("reader", "other"))
    for client in (reader, reader, other):
        assert "Your access to this payload has been logged" in page(client, address).text
    page(browser("somebody", *VIEWS), address)
    page(reader, f"{CALLS}{call('echo').pk}/change/")
    entries = AuditEntry.objects.filter(action="payload.read")
    assert sorted(entries.values_list("actor", "subject")) == [
        (f"user:{name}", f"call:{made.pk}") for name in ("other", "reader")
    ]
    entries.update(at=timezone.now() - timedelta(hours=2))
    page(reader, address)
    assert entries.count() == 3
    assert address in page(reader, AUDIT).addresses


def test_a_payload_is_not_shown_where_that_cannot_be_recorded(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    made = call("echo", arguments='{"salary": 4321}')
    monkeypatch.setattr("tools_app.governance.payloads.note_all", fail)
    shown = page(browser("reader", *VIEWS, "view_payload"), f"{CALLS}{made.pk}/change/")
    assert "4321" not in shown.html
    assert "your access cannot be logged right now" in shown.text


def knock(**given: Any) -> Call:
    """A request that was refused for want of a valid key."""
    values = {
        "caller_kind": "", "caller_id": "", "caller_name": "", "status": "refused", "code": "AUTHENTICATION_ERROR",
        "error": "The key is unknown, revoked or expired", "address": "192.0.2.7", "client": "evil <b>agent</b>/1.0",
        "key_prefix": "AbCd1234",
    }  # fmt: skip
    return call("", **values | given)


def test_a_refused_authentication_says_where_it_came_from(viewer: Client) -> None:
    made = knock(count=12)
    listed = page(viewer, CALLS)
    [row] = rows(listed)
    assert "192.0.2.7 · thub_AbCd1234_…" in row
    assert not [link for link in listed.addresses if link == CALLS and link in row]
    shown = page(viewer, f"{CALLS}{made.pk}/change/")
    assert "Received 0 ms from 192.0.2.7 via MCP Not run The key is unknown, revoked or expired" in shown.text
    for words in ("192.0.2.7", "evil <b>agent</b>/1.0", "thub_AbCd1234_…"):
        assert words in shown.text
    assert "<b>agent" not in shown.html


def test_a_refused_key_leads_to_its_page_for_those_who_see_keys(viewer: Client) -> None:
    key, _ = governance.create_key("old one", actor=governance.trusted("test"))
    made = knock(caller_kind="key", caller_id=f"key:{key.pk}", caller_name="old one", key_prefix=key.prefix)
    address = f"/admin/tools_app/apikey/{key.pk}/change/"
    shown = page(viewer, f"{CALLS}{made.pk}/change/")
    assert address in shown.addresses
    assert f"thub_{key.prefix}_…" in shown.text
    porter = page(browser("porter", "view_call"), f"{CALLS}{made.pk}/change/")
    assert address not in porter.addresses
    assert "old one" in porter.text


def test_a_refusal_of_which_nothing_is_known_makes_a_whole_sentence(viewer: Client) -> None:
    made = knock(address="", client="", key_prefix="")
    assert "Received 0 ms from unknown caller via MCP" in page(viewer, f"{CALLS}{made.pk}/change/").text
    assert "none, or not a key of this hub" in page(viewer, f"{CALLS}{knock(key_prefix='').pk}/change/").text


# ---- what somebody changed


def test_an_entry_shows_what_a_list_lost_and_got(viewer: Client) -> None:
    governance.create_toolset("mine", names=["a", "b"], actor=governance.trusted("user:ben"))
    governance.change_toolset(
        "mine", names=["b", "c"], description="Mine", actor=governance.trusted("user:ben"), reason="spring"
    )
    entry = AuditEntry.objects.get(action="toolset.change")
    shown = page(viewer, f"{AUDIT}{entry.pk}/change/")
    table = " ".join(shown.one("table", class_="hub-table").text.split())
    assert "names a, b - a b, c + c" in table
    assert "description" in table
    assert f"{AUDIT}?actor=user%3Aben" in shown.addresses
    assert f"{AUDIT}?subject=toolset%3Amine" in shown.addresses


def test_entries_are_narrowed_by_actor_and_time(viewer: Client) -> None:
    for actor in ("user:ben", "user:ana"):
        governance.create_toolset(actor.removeprefix("user:"), actor=governance.trusted(actor))
    AuditEntry.objects.filter(actor="user:ana").update(at=days_ago(3))
    yesterday = f"{days_ago(1):%Y-%m-%dT%H:%M}"
    for query, subject in (({"actor": "user:ana"}, "ana"), ({"from": yesterday}, "ben"), ({"until": yesterday}, "ana")):
        [row] = rows(page(viewer, AUDIT, **query))
        assert f"toolset:{subject}" in row
