"""Error groups: what an operator looks at first, calls resolved, and sees again when it comes back."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.admin.conftest import browser, days_ago, error_group, failed_call
from tests.admin.pages import Page, page, sent
from tests.support.tools import Programmable
from tools_app import engine, governance
from tools_app.journal import rows as journal_rows
from tools_app.models import AuditEntry, ErrorGroup, ErrorHour
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ApiError

pytestmark = pytest.mark.django_db

GROUPS = "/admin/tools_app/errorgroup/"
ERRORS = "/admin/tools_app/errorlog/"


def rows(shown: Page) -> list[str]:
    return [" ".join(row.text.split()) for row in shown.all("tr", class_="data-row")]


def resolved(tool: str, **given: Any) -> ErrorGroup:
    group = error_group(tool, **given)
    governance.resolve_errors([group.pk], actor=governance.trusted("user:alice"))
    return group


# ---- the list


def test_open_groups_stand_there_newest_first(tools: None, viewer: Client) -> None:
    error_group("calculate", days_ago(2), count=12_874, first_seen_at=days_ago(9))
    error_group("echo", days_ago(1), code="TIMEOUT", message="Execution timeout after 500ms", place="")
    resolved("gone")
    first, second = rows(page(viewer, GROUPS))
    assert first.endswith("TIMEOUT echo Execution timeout after 500ms 1 0 in 14 days, 0 today 1 day ago open")
    assert second.endswith(
        "API_ERROR calculate The tracker said no ConnectError in tracker.py send 12,874 "
        "0 in 14 days, 0 today 1 week ago open"
    )


def test_a_group_says_in_words_what_became_of_it(viewer: Client) -> None:
    error_group("calculate", reopened_at=days_ago(3))
    resolved("echo")
    shown = rows(page(viewer, f"{GROUPS}?state=all"))
    assert shown[0].endswith("resolved just now by user:alice")
    assert f"regressed since {days_ago(3):%Y-%m-%d}" in shown[1]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"calculate", "echo"}),
        ("state=resolved", {"old_tool"}),
        ("state=all", {"calculate", "echo", "old_tool"}),
        ("state=nonsense", {"calculate", "echo"}),
        ("code=TIMEOUT", {"echo"}),
        ("since=24h", {"calculate"}),
        ("since=30d", {"calculate", "echo"}),
        ("tool=echo", {"echo"}),
        ("q=calc", {"calculate"}),
        ("q=timeo", {"echo"}),
        ("q=Execution", {"echo"}),
        ("q=after", set()),
        ("q=old_tool", set()),
        ("q=old_tool&state=all", {"old_tool"}),
    ],
)
def test_groups_are_narrowed_down(tools: None, viewer: Client, query: str, names: set[str]) -> None:
    error_group("calculate")
    error_group("echo", days_ago(9), code="TIMEOUT", message="Execution timeout after 500ms")
    resolved("old_tool")
    shown = page(viewer, f"{GROUPS}?{query}")
    assert {name for name in ("calculate", "echo", "old_tool") for row in rows(shown) if name in row} == names


def test_the_tabs_keep_what_else_narrows_the_list(viewer: Client) -> None:
    error_group("echo")
    shown = page(viewer, f"{GROUPS}?tool=echo&state=resolved&p=1")
    [tabs] = shown.all("nav", class_="hub-tabs")
    links = {link.text.strip(): link for link in shown.all("a") if tabs in link.parents}
    assert {title: link["href"] for title, link in links.items()} == {
        "Open": "?tool=echo",
        "Ignored": "?tool=echo&state=ignored",
        "Snoozed": "?tool=echo&state=snoozed",
        "Resolved": "?tool=echo&state=resolved",
        "All": "?tool=echo&state=all",
    }
    assert [title for title, link in links.items() if "aria-current" in link.attributes] == ["Resolved"]


def test_a_group_is_found_by_each_of_its_ids(viewer: Client) -> None:
    group = error_group("echo")
    made, error = failed_call("echo", group=group)
    error_group("echo")
    for term in (group.pk, group.last_call_id, made.pk, error.pk):
        assert len(rows(page(viewer, f"{GROUPS}?q={term}"))) == 1, term


def test_an_empty_list_says_what_will_stand_there(viewer: Client) -> None:
    resolved("echo")
    assert "No open issues" in page(viewer, GROUPS).text


def test_the_number_leads_to_the_errors_of_the_group(viewer: Client) -> None:
    group = error_group("echo")
    failed_call("echo", group=group, message="This one")
    failed_call("echo", message="Another one")
    [address] = [link for link in page(viewer, GROUPS).addresses if link.startswith(ERRORS) and "group=" in link]
    shown = page(viewer, address)
    assert len(rows(shown)) == 1
    assert "This one" in rows(shown)[0]
    assert "issue: API_ERROR echo ×" in shown.text


def test_more_groups_cost_no_more_queries(tools: None, operator: Client) -> None:
    def queries(count: int) -> int:
        for _ in range(count - ErrorGroup.objects.count()):
            error_group("echo")
        with CaptureQueriesContext(connection) as captured:
            assert len(rows(page(operator, GROUPS))) == count
        return len(captured)

    page(operator, GROUPS)  # The first page reads the catalog as well.
    few, many = queries(2), queries(40)
    assert few == many <= 14


def test_more_errors_cost_the_page_no_more_queries(operator: Client) -> None:
    def queries(count: int) -> int:
        for _ in range(count):
            failed_call("echo", group=group)
        with CaptureQueriesContext(connection) as captured:
            page(operator, f"{GROUPS}{group.pk}/change/")
        return len(captured)

    group = error_group("echo")
    page(operator, f"{GROUPS}{group.pk}/change/")
    few, many = queries(1), queries(30)
    assert few == many <= 15


# ---- the page


def test_the_page_shows_what_only_operators_may_read_of_the_newest_error(tools: None, viewer: Client) -> None:
    group = error_group("echo", code="TOOL_EXECUTION_ERROR")
    failed_call("echo", days_ago(1), group=group, detail="Traceback: the older one")
    failed_call("echo", group=group, detail="HTTP 502: <b>out of paper</b>")
    address = f"{GROUPS}{group.pk}/change/"
    shown = page(viewer, address)
    assert [block.text.strip() for block in shown.all("pre")] == ["HTTP 502: <b>out of paper</b>"]
    assert "Advice sent to the caller:" in shown.text
    outsider = page(browser("outsider", "view_errorgroup"), address)
    assert "out of paper" not in outsider.html
    assert "of the latest error" not in outsider.text


def test_the_page_tells_all_about_the_group(tools: None, viewer: Client) -> None:
    group = error_group("echo", count=41, reopened_at=days_ago(1))
    _, error = failed_call("echo", group=group, message="It broke")
    shown = page(viewer, f"{GROUPS}{group.pk}/change/")
    for words in ("API_ERROR echo", "regressed since", "Occurrences 41", "ConnectError in tracker.py send", "It broke"):
        assert words in shown.text
    assert f"{ERRORS}{error.pk}/change/" in shown.addresses
    assert f"{ERRORS}?group={group.pk}" in shown.addresses
    assert f"/admin/tools_app/call/{group.last_call_id}/change/" in shown.addresses
    assert "/admin/tools_app/toolrecord/named/?name=echo" in shown.addresses
    assert shown.all("button", name="decision") == []
    assert "correct the errors" not in shown.text


def test_an_error_leads_to_its_group(viewer: Client) -> None:
    group = error_group("echo", count=3)
    _, error = failed_call("echo", group=group)
    shown = page(viewer, f"{ERRORS}{error.pk}/change/")
    assert f"{GROUPS}{group.pk}/change/" in shown.addresses
    assert "API_ERROR echo × 3 open" in shown.text


def test_an_error_outlives_its_group_in_peace(viewer: Client) -> None:
    _, error = failed_call("echo", group=None)
    type(error).objects.filter(pk=error.pk).update(group="0" * 32)
    assert page(viewer, f"{ERRORS}{error.pk}/change/").status == 200
    assert page(viewer, f"{ERRORS}?group={'0' * 32}").status == 200


def test_what_somebody_may_not_see_is_no_link(db: None) -> None:
    group = error_group("echo")
    _, error = failed_call("echo", group=group, message="It broke")
    clerk = browser("clerk", "view_errorgroup")
    for address in (GROUPS, f"{GROUPS}{group.pk}/change/"):
        shown = page(clerk, address)
        assert shown.status == 200
        assert "It broke" not in shown.text
        assert not [link for link in shown.addresses if "/errorlog/" in link]
    reader = page(browser("reader", "view_errorlog"), f"{ERRORS}{error.pk}/change/")
    assert not [link for link in reader.addresses if "/errorgroup/" in link]


# ---- deciding


def test_a_group_is_resolved_and_reopened_on_its_page(operator: Client) -> None:
    group = error_group("echo")
    address = f"{GROUPS}{group.pk}/change/"
    button = page(operator, address).one("button", name="decision")
    form = next(parent for parent in button.parents if parent.tag == "form")
    shown = sent(operator, form["action"], decision=button["value"], reason=" The tracker is back ")
    assert shown.messages == ["1 issue: now resolved."]
    group.refresh_from_db()
    assert group.resolved_at is not None
    assert group.resolved_by == "user:operator"
    assert "error.resolve" in shown.text
    assert "by user:operator: The tracker is back" in shown.text

    button = shown.one("button", name="decision")
    assert button["value"] == "reopen"
    assert sent(operator, form["action"], decision="reopen").messages == ["1 issue: now open."]
    assert ErrorGroup.objects.filter(resolved_at=None, resolved_by="").exists()


@pytest.mark.django_db(transaction=True)
def test_what_happens_again_is_open_again(programmable: Programmable, operator: Client, alice: Caller) -> None:
    def fail() -> None:
        programmable.outcomes.append(ApiError("The tracker said no"))
        with pytest.raises(ApiError):
            engine.call_sync("programmable", {}, alice, door="code")

    fail()
    fail()
    group = ErrorGroup.objects.get()
    assert "API_ERROR programmable The tracker said no 2" in rows(page(operator, GROUPS))[0]
    sent(operator, f"{GROUPS}{group.pk}/decide/", decision="resolve")
    assert rows(page(operator, GROUPS)) == []
    fail()
    [row] = rows(page(operator, GROUPS))
    assert "The tracker said no 3" in row
    assert "regressed since" in row
    journal_rows.fold()
    shown = page(operator, "/admin/")
    assert "3 Calls 3 Errors" in shown.text
    assert "1 Open issues" in shown.text


def test_a_page_that_is_out_of_date_changes_nothing(operator: Client) -> None:
    group = resolved("echo")
    shown = sent(operator, f"{GROUPS}{group.pk}/decide/", decision="resolve")
    assert shown.messages == ["Nothing changed. 1 issue was already resolved."]
    assert AuditEntry.objects.filter(action="error.resolve").count() == 1


def test_many_groups_are_resolved_with_one_reason(operator: Client) -> None:
    chosen = [error_group("calculate").pk, error_group("echo").pk, resolved("old_tool").pk]
    other = error_group("other")
    asked = sent(operator, f"{GROUPS}?state=all", action="resolve", _selected_action=chosen)
    assert "Resolve 3 issues?" in asked.text
    assert ErrorGroup.objects.filter(resolved_at=None).count() == 3
    marked = [field["value"] for field in asked.all("input", name="_selected_action")]
    assert sorted(marked) == sorted(chosen)
    [form] = [form for form in asked.all("form") if form.attributes.get("action", "").startswith(GROUPS)]
    shown = sent(
        operator, form["action"], action="resolve", _selected_action=marked, confirmed="1", reason="The tracker is back"
    )
    assert shown.messages == ["2 issues: now resolved. 1 issue was already resolved."]
    assert list(ErrorGroup.objects.filter(resolved_at=None)) == [other]
    reasons = AuditEntry.objects.filter(reason="The tracker is back").values_list("actor", flat=True)
    assert list(reasons) == ["user:operator"] * 2

    shown = sent(operator, f"{GROUPS}?state=all", action="reopen", _selected_action=chosen[:1], confirmed="1")
    assert shown.messages == ["1 issue: now open."]


def test_all_that_the_filters_let_through_can_be_resolved_at_once(operator: Client) -> None:
    for _ in range(60):
        error_group("echo")
    error_group("calculate")
    first = ErrorGroup.objects.filter(tool_name="echo")[0].pk
    data = {"action": "resolve", "_selected_action": [first], "select_across": "1"}
    asked = sent(operator, f"{GROUPS}?tool=echo", **data)
    assert "Resolve 60 issues?" in asked.text
    assert "and 50 more" in asked.text
    assert asked.one("input", name="select_across")["value"] == "1"
    sent(operator, f"{GROUPS}?tool=echo", **data, confirmed="1")
    assert [group.tool_name for group in ErrorGroup.objects.filter(resolved_at=None)] == ["calculate"]


def test_deciding_needs_its_permission_and_a_post(viewer: Client) -> None:
    group = error_group("echo")
    decide = f"{GROUPS}{group.pk}/decide/"
    assert viewer.post(decide, {"decision": "resolve"}).status_code == 403
    assert page(viewer, GROUPS).all("select", name="action") == []
    sent(viewer, GROUPS, action="resolve", _selected_action=[group.pk], confirmed="1")
    assert Client().post(decide, {"decision": "resolve"}).status_code == 302
    assert browser("nobody").get(GROUPS).status_code == 403
    decider = browser("decider", "change_errorgroup")
    assert decider.get(decide).status_code == 405
    assert decider.post(decide, {"decision": "forget"}).status_code == 400
    assert decider.post(f"{GROUPS}nothing/decide/", {"decision": "resolve"}).status_code == 404
    assert ErrorGroup.objects.filter(resolved_at=None).count() == 1
    assert decider.post(decide, {"decision": "resolve"}).status_code == 302
    assert not ErrorGroup.objects.filter(resolved_at=None).exists()


def test_the_form_carries_the_token_against_forgery(chief: Client) -> None:
    group = error_group("echo")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = chief.cookies
    decide = f"{GROUPS}{group.pk}/decide/"
    shown = page(strict, f"{GROUPS}{group.pk}/change/")
    form = next(parent for parent in shown.one("button", name="decision").parents if parent.tag == "form")
    token = next(field["value"] for field in shown.all("input", name="csrfmiddlewaretoken") if form in field.parents)
    assert strict.post(decide, {"decision": "resolve"}).status_code == 403
    assert strict.post(decide, {"decision": "resolve", "csrfmiddlewaretoken": token}).status_code == 302


def test_a_busy_database_is_said_instead_of_breaking_the_page(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    group = error_group("echo")
    monkeypatch.setattr("tools_app.governance.actors.note_all", fail)
    shown = sent(operator, f"{GROUPS}{group.pk}/decide/", decision="resolve")
    assert shown.messages[0].startswith("The database is not writable right now")
    assert ErrorGroup.objects.filter(resolved_at=None).exists()


def test_nothing_but_its_state_can_be_changed(chief: Client) -> None:
    group = error_group("echo")
    kept = ErrorGroup.objects.values().get()
    detail = f"{GROUPS}{group.pk}/"
    for refused in (f"{GROUPS}add/", f"{detail}delete/"):
        assert chief.get(refused).status_code == 403
        assert chief.post(refused, {"post": "yes"}).status_code == 403
    assert chief.post(f"{detail}change/", {"message": "other", "count": "0"}).status_code == 403
    sent(chief, GROUPS, action="delete_selected", _selected_action=[group.pk], post="yes")
    assert ErrorGroup.objects.values().get() == kept


# ---- ignoring, snoozing, assigning


def forms(shown: Page, decision: str) -> list[str]:
    """Where the forms of this decision are sent to."""
    fields = shown.all("input", name="decision", value=decision)
    return [next(one for one in field.parents if one.tag == "form")["action"] for field in fields]


def test_an_issue_is_ignored_for_a_number_of_errors_and_says_why(operator: Client, viewer: Client) -> None:
    group = error_group("echo", count=4)
    address = f"{GROUPS}{group.pk}/change/"
    [action] = forms(page(operator, address), "ignore")
    refused = sent(operator, action, decision="ignore", occurrences="100")
    assert refused.messages == ["A reason is required to ignore an issue."]
    shown = sent(operator, action, decision="ignore", occurrences="100", reason="The <b>supplier</b> knows")
    assert shown.messages == ["1 issue: now ignored."]
    assert "ignored until 100 more errors by user:operator" in shown.text
    assert "The <b>supplier</b> knows" in shown.text
    assert rows(page(viewer, GROUPS)) == []
    [row] = rows(page(viewer, f"{GROUPS}?state=ignored"))
    assert "ignored until 100 more errors by user:operator" in row
    assert forms(page(viewer, address), "ignore") == []

    [action] = forms(shown, "reopen")
    assert sent(operator, action, decision="reopen").messages == ["1 issue: now open."]
    assert len(rows(page(viewer, GROUPS))) == 1


def test_an_issue_is_snoozed_and_nothing_alarms_meanwhile(operator: Client) -> None:
    group = error_group("echo")
    assert "1 unresolved issue." in page(operator, "/admin/").text
    [action] = forms(page(operator, f"{GROUPS}{group.pk}/change/"), "snooze")
    shown = sent(operator, action, decision="snooze", hours="1")
    assert shown.messages == ["1 issue: now snoozed."]
    group.refresh_from_db()
    assert group.muted_until is not None
    assert f"snoozed until {group.muted_until:%Y-%m-%d %H:%M:%S} by user:operator" in shown.text
    overview = page(operator, "/admin/").text
    assert "unresolved issue" not in overview
    assert "0 Open issues" in overview
    assert len(rows(page(operator, f"{GROUPS}?state=snoozed"))) == 1
    with time_machine.travel(group.muted_until):
        assert len(rows(page(operator, GROUPS))) == 1
        assert "1 unresolved issue." in page(operator, "/admin/").text


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"decision": "ignore", "reason": "x", "occurrences": "many"}, "must be a whole number"),
        ({"decision": "ignore", "reason": "x", "occurrences": "0"}, "must be from 1 to 1,000,000"),
        ({"decision": "ignore", "reason": "x", "occurrences": "9" * 30}, "must be a whole number"),
        ({"decision": "snooze"}, "Choose how long"),
        ({"decision": "snooze", "hours": "99999"}, "Choose how long"),
        ({"decision": "assign", "user": "vera"}, "no active user"),
    ],
)
def test_values_that_no_form_offers_change_nothing(operator: Client, values: dict[str, str], told: str) -> None:
    group = error_group("echo")
    before = ErrorGroup.objects.values().get()
    shown = sent(operator, f"{GROUPS}{group.pk}/decide/", **values)
    assert told in shown.messages[0]
    assert ErrorGroup.objects.values().get() == before


def test_an_issue_is_assigned_and_found_by_its_assignee(operator: Client, viewer: Client) -> None:
    group, other = error_group("echo"), error_group("calculate")
    shown = page(operator, f"{GROUPS}{group.pk}/change/")
    offered = {option["value"] for option in shown.all("option") if shown.one("select", name="user") in option.parents}
    assert {"", "operator"} <= offered
    assert "viewer" not in offered
    to_choose, to_me = forms(shown, "assign")
    assert sent(operator, to_me, decision="assign", user="operator").messages == ["1 issue: now assigned."]
    for query, found in (("%3Ame", group), ("operator", group), ("%3Anone", other)):
        [row] = rows(page(operator, f"{GROUPS}?assignee={query}"))
        assert found.tool_name in row, query
    assert rows(page(viewer, f"{GROUPS}?assignee=%3Ame")) == []
    assert rows(page(operator, GROUPS))[1].endswith("open assigned to operator")
    again = page(operator, f"{GROUPS}{group.pk}/change/")
    assert len(forms(again, "assign")) == 1, "it is theirs already"
    assert sent(operator, to_choose, decision="assign", user="").messages == ["1 issue: now assigned."]
    assert not ErrorGroup.objects.exclude(assignee=None).exists()


@pytest.mark.parametrize(
    ("action", "values", "state"),
    [
        ("ignore", {"reason": "The supplier knows"}, "ignored"),
        ("snooze", {"hours": "4"}, "snoozed"),
        ("assign", {"user": "operator"}, "assigned"),
    ],
)
def test_many_issues_are_decided_with_one_form(
    operator: Client, action: str, values: dict[str, str], state: str
) -> None:
    chosen = [error_group("calculate").pk, error_group("echo").pk]
    asked = sent(operator, GROUPS, action=action, _selected_action=chosen)
    assert f"{action.capitalize()} 2 issues?" in asked.text
    assert AuditEntry.objects.filter(action=f"error.{action}").count() == 0
    names = {one["name"] for tag in ("input", "select") for one in asked.all(tag) if "name" in one.attributes}
    assert set(values) <= names
    shown = sent(operator, GROUPS, action=action, _selected_action=chosen, confirmed="1", **values)
    assert shown.messages == [f"2 issues: now {state}."]
    again = sent(operator, f"{GROUPS}?state=all", action=action, _selected_action=chosen, confirmed="1", **values)
    expected = ["2 issues: now snoozed."] if action == "snooze" else ["Nothing changed. 2 issues stay as they are."]
    assert again.messages == expected
    assert AuditEntry.objects.filter(action=f"error.{action}").count() == (4 if action == "snooze" else 2)


# ---- what is known of a group


def test_a_note_is_kept_and_shown_to_whoever_comes_next(operator: Client, viewer: Client) -> None:
    group = error_group("echo")
    address = f"{GROUPS}{group.pk}/change/"
    [form] = [
        form for form in page(operator, address).all("form") if form.attributes.get("action", "").endswith("/note/")
    ]
    shown = sent(operator, form["action"], text=" Asked the vendor:\n<b>4711</b> ")
    assert shown.messages == ["Note added."]
    assert "user:operator Asked the vendor: <b>4711</b>" in " ".join(page(viewer, address).text.split())
    entry = AuditEntry.objects.get(action="error.note")
    assert (entry.subject, entry.changes["note"]) == (f"error:{group.pk}", [None, "Asked the vendor:\n<b>4711</b>"])
    assert not [form for form in page(viewer, address).all("form") if "/note/" in form.attributes.get("action", "")]
    assert viewer.post(form["action"], {"text": "x"}).status_code == 403


@pytest.mark.parametrize("text", ["", "  ", "x" * 2_001])
def test_a_note_has_its_limits(operator: Client, text: str) -> None:
    group = error_group("echo")
    shown = sent(operator, f"{GROUPS}{group.pk}/note/", text=text)
    assert shown.messages == ["A note has 1 to 2,000 characters."]
    assert not group.notes.exists()


def test_a_group_shows_how_often_it_happens(viewer: Client) -> None:
    group = error_group("echo")
    for days, count in ((0, 3), (1, 4), (13, 1), (14, 9)):
        hour = days_ago(days).replace(minute=0, second=0, microsecond=0)
        ErrorHour.objects.create(group=group, hour=hour, count=count)
    assert "8 in 14 days, 3 today" in page(viewer, GROUPS).text
    shown = page(viewer, f"{GROUPS}{group.pk}/change/")
    assert "Errors by day" in shown.text


def test_a_group_shows_whom_it_happened_to(viewer: Client) -> None:
    group = error_group("echo")
    for _ in range(2):
        failed_call("echo", group=group, caller_id="key:7", caller_name="night-shift")
    failed_call("echo", group=group, caller_id="local:ana", caller_name="ana", caller_kind="local")
    failed_call("echo", group=error_group("other"), caller_id="key:9", caller_name="else")
    shown = page(viewer, f"{GROUPS}{group.pk}/change/")
    assert "night-shift key 2 ana local 1" in shown.text
    assert "/admin/tools_app/call/?caller=key%3A7" in shown.addresses
    assert "key%3A9" not in shown.html


@pytest.mark.django_db(transaction=True)
def test_failures_are_counted_by_the_hour(programmable: Programmable, alice: Caller) -> None:
    for _ in range(3):
        programmable.outcomes.append(ApiError("The tracker said no"))
        with pytest.raises(ApiError):
            engine.call_sync("programmable", {}, alice, door="code")
    assert sum(ErrorHour.objects.values_list("count", flat=True)) == 3
    assert set(ErrorHour.objects.values_list("group_id", flat=True)) == {ErrorGroup.objects.get().pk}
