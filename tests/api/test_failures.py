"""Groups of errors: seen, resolved and reopened by those who manage tools."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.utils import timezone

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.retention import rows
from tests.retention.rows import NOW
from tests.support.tools import Programmable
from tools_app import governance
from tools_app.models import AuditEntry, ErrorGroup
from tools_app.sdk.errors import ApiError


@pytest.fixture
def ops(make_key: MakeKey) -> str:
    return make_key("ops", scopes=["tools:manage"])


def listed(rest: Rest, query: str = "") -> list[dict[str, Any]]:
    response = rest.get(f"/v1/errors{query}")
    assert response.status_code == 200, response.content
    check_form("ErrorGroupPage", response.json())
    found: list[dict[str, Any]] = response.json()["errors"]
    return found


@pytest.fixture
def operator(rest: Rest, ops: str) -> Rest:
    rest.key = ops
    return rest


def test_shows_what_failed_and_nothing_of_the_inside(rest: Rest, ops: str, programmable: Programmable) -> None:
    programmable.outcomes = [ApiError("The tracker said no", detail="the body of the tracker") for _ in range(2)]
    failed = [rest.call("programmable").json() for _ in range(2)]

    rest.key = ops
    (group,) = listed(rest)
    response = rest.get(f"/v1/errors/{group['id']}")
    detail = response.json()

    check_form("ErrorGroupDetail", detail)
    assert (group["tool"], group["code"], group["message"]) == ("programmable", "API_ERROR", "The tracker said no")
    assert (group["count"], group["state"], group["resolvedAt"]) == (2, "open", None)
    assert group["lastCallId"] == failed[1]["callId"]
    assert {name: detail[name] for name in group} == group
    assert [error["id"] for error in detail["latest"]] == [told["errorId"] for told in reversed(failed)]
    assert detail["latest"][0]["callId"] == failed[1]["callId"]
    assert b"the body of the tracker" not in response.content


def test_a_group_is_resolved_and_reopened_with_a_reason(operator: Rest) -> None:
    group = rows.group(tool_name="echo")

    resolved = operator.post(f"/v1/errors/{group.pk}/resolve", {"reason": "fixed upstream"}).json()
    again = operator.post(f"/v1/errors/{group.pk}/resolve", {})
    reopened = operator.post(f"/v1/errors/{group.pk}/reopen", {}).json()

    assert (resolved["state"], resolved["resolvedBy"]) == ("resolved", "key:ops")
    assert again.json() == resolved
    assert (reopened["state"], reopened["resolvedAt"], reopened["resolvedBy"]) == ("open", None, None)
    entries = AuditEntry.objects.filter(subject=f"error:{group.pk}").order_by("pk")
    assert [(entry.action, entry.actor, entry.reason) for entry in entries] == [
        ("error.resolve", "key:ops", "fixed upstream"),
        ("error.reopen", "key:ops", ""),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "bca"),
        ("?state=open", "bc"),
        ("?state=resolved", "a"),
        ("?tool=echo", "ba"),
        ("?code=TIMEOUT", "c"),
        ("?since=2026-03-01T12:00:01Z", "bc"),
        ("?tool=echo&state=open", "b"),
        ("?tool=%00", ""),
    ],
)
def test_filters_must_all_fit(operator: Rest, query: str, expected: str) -> None:
    made = {
        "a": rows.group(tool_name="echo", resolved_at=NOW),
        "b": rows.group(NOW + timedelta(seconds=2), tool_name="echo"),
        "c": rows.group(NOW + timedelta(seconds=1), tool_name="calculate", code="TIMEOUT"),
    }

    assert [one["id"] for one in listed(operator, query)] == [made[letter].pk for letter in expected]


@pytest.mark.parametrize(
    ("query", "path"),
    [("state=new", "/state"), ("limit=0", "/limit"), ("since=now", "/since"), ("page=1", "/page"), ("code=", "/code")],
)
def test_refuses_any_other_query(operator: Rest, query: str, path: str) -> None:
    told = failure(operator.get(f"/v1/errors?{query}"), 400, "VALIDATION_ERROR")

    assert [problem["path"] for problem in told["details"]] == [path]


def test_pages_follow_each_other(operator: Rest) -> None:
    made = [rows.group(NOW + timedelta(seconds=number)).pk for number in range(3)]

    first = operator.get("/v1/errors?limit=2").json()
    second = operator.get(f"/v1/errors?limit=2&cursor={first['nextCursor']}").json()

    assert [one["id"] for one in first["errors"] + second["errors"]] == list(reversed(made))
    assert second["nextCursor"] is None


@pytest.mark.parametrize("group_id", ["f" * 32, "1", "%00", "x" * 5000, "'--"])
def test_an_unknown_group_is_not_found(operator: Rest, group_id: str) -> None:
    told = [
        failure(operator.get(f"/v1/errors/{group_id}"), 404, "NOT_FOUND"),
        failure(operator.post(f"/v1/errors/{group_id}/resolve", {}), 404, "NOT_FOUND"),
        failure(operator.post(f"/v1/errors/{group_id}/reopen", {}), 404, "NOT_FOUND"),
    ]

    assert {one["error"] for one in told} == {"There is no such error"}


def test_needs_the_scope_for_managing(rest: Rest) -> None:
    group = rows.group()

    for response in (
        rest.get("/v1/errors"),
        rest.get(f"/v1/errors/{group.pk}"),
        rest.get("/v1/errors/unknown"),
        rest.post(f"/v1/errors/{group.pk}/resolve", {}),
        rest.post(f"/v1/errors/{group.pk}/reopen", {}),
    ):
        assert failure(response, 403, "AUTHORIZATION_ERROR")["context"] == {"requiredScope": "tools:manage"}
    assert ErrorGroup.objects.get(pk=group.pk).resolved_at is None


@pytest.mark.parametrize("body", [{"reason": None}, {"reason": "x" * 501}, {"reason": 1}, {"reasons": "x"}, [], None])
def test_refuses_any_other_decision(operator: Rest, body: Any) -> None:
    group = rows.group()

    failure(operator.post(f"/v1/errors/{group.pk}/resolve", json.dumps(body)), 400, "VALIDATION_ERROR")

    assert ErrorGroup.objects.get(pk=group.pk).resolved_at is None


@pytest.mark.parametrize("number", [3, 30])
def test_queries_do_not_grow_with_the_list(operator: Rest, statements: list[str], number: int) -> None:
    groups = [rows.group(NOW + timedelta(seconds=n)) for n in range(number)]
    for _ in range(number):
        rows.error(group=groups[0])
    operator.get("/v1/errors")
    statements.clear()

    assert len(listed(operator)) == number
    assert len(operator.get(f"/v1/errors/{groups[0].pk}").json()["latest"]) == min(number, 20)

    asked = [sql for sql in statements if sql.startswith("SELECT") and "tools_app_error" in sql]
    assert len(asked) == 4
    assert all('"detail"' not in sql for sql in asked)


def test_a_group_is_ignored_for_a_number_of_errors(operator: Rest) -> None:
    group = rows.group(tool_name="echo", count=5)
    response = operator.post(f"/v1/errors/{group.pk}/ignore", {"reason": "Known", "occurrences": 10})
    told = response.json()
    check_form("ErrorGroupDetail", told)
    assert (told["state"], told["mutedBy"], told["muteReason"]) == ("ignored", "key:ops", "Known")
    assert (told["ignoredUntilCount"], told["snoozedUntil"]) == (15, None)
    assert [one["id"] for one in listed(operator, "?state=ignored")] == [group.pk]
    assert listed(operator, "?state=open") == []
    reopened = operator.post(f"/v1/errors/{group.pk}/reopen", {}).json()
    assert (reopened["state"], reopened["mutedAt"], reopened["muteReason"]) == ("open", None, None)


def test_a_group_is_snoozed_until_a_time(operator: Rest) -> None:
    group = rows.group(tool_name="echo")
    until = (timezone.now() + timedelta(hours=3)).replace(microsecond=0)
    told = operator.post(f"/v1/errors/{group.pk}/snooze", {"until": until.isoformat()}).json()
    check_form("ErrorGroupDetail", told)
    assert told["state"] == "snoozed"
    assert datetime.fromisoformat(told["snoozedUntil"]) == until
    assert [one["id"] for one in listed(operator, "?state=snoozed")] == [group.pk]
    with time_machine.travel(until + timedelta(seconds=1)):
        assert [one["state"] for one in listed(operator, "?state=open")] == ["open"]


@pytest.mark.django_db
def test_a_group_is_assigned_and_found_by_its_assignee(operator: Rest) -> None:
    group, _other = rows.group(tool_name="echo"), rows.group(tool_name="echo")
    User.objects.create_superuser("olga")
    told = operator.post(f"/v1/errors/{group.pk}/assign", {"user": "olga"}).json()
    check_form("ErrorGroupDetail", told)
    assert told["assignee"] == "olga"
    assert [one["id"] for one in listed(operator, "?assignee=olga")] == [group.pk]
    assert listed(operator, "?assignee=%00") == []
    assert operator.post(f"/v1/errors/{group.pk}/assign", {"user": None}).json()["assignee"] is None


@pytest.mark.parametrize(
    ("decision", "body", "path"),
    [
        ("ignore", {}, "/reason"),
        ("ignore", {"reason": "  "}, "/reason"),
        ("ignore", {"reason": "x", "occurrences": 0}, "/occurrences"),
        ("snooze", {}, "/until"),
        ("snooze", {"until": "2026-01-01T00:00:00Z"}, "/until"),
        ("snooze", {"until": "tomorrow"}, "/until"),
        ("assign", {}, "/user"),
        ("assign", {"user": "nobody-of-this-name"}, "/user"),
    ],
)
def test_a_decision_that_is_not_complete_is_refused(
    operator: Rest, decision: str, body: dict[str, Any], path: str
) -> None:
    group = rows.group(tool_name="echo")
    told = failure(operator.post(f"/v1/errors/{group.pk}/{decision}", body), 400, "VALIDATION_ERROR")
    assert [problem["path"] for problem in told["details"]] == [path]
    assert listed(operator)[0]["state"] == "open"
    assert not AuditEntry.objects.filter(subject=f"error:{group.pk}").exists()


def test_a_note_is_stored_for_others(operator: Rest) -> None:
    group = rows.group()
    response = operator.post(f"/v1/errors/{group.pk}/notes", {"text": " Asked the vendor "})
    assert response.status_code == 201
    check_form("ErrorGroupDetail", response.json())
    [note] = operator.get(f"/v1/errors/{group.pk}").json()["notes"]
    assert (note["text"], note["author"]) == ("Asked the vendor", "key:ops")
    assert AuditEntry.objects.get(action="error.note").subject == f"error:{group.pk}"
    failure(operator.post(f"/v1/errors/{group.pk}/notes", {"text": " "}), 400, "VALIDATION_ERROR")
    failure(operator.post("/v1/errors/nothing/notes", {"text": "x"}), 404, "NOT_FOUND")


def test_the_number_of_notes_is_limited(operator: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools_app.governance.errors.MOST_NOTES", 1)
    group = rows.group()
    operator.post(f"/v1/errors/{group.pk}/notes", {"text": "first"})
    told = failure(operator.post(f"/v1/errors/{group.pk}/notes", {"text": "second"}), 400, "VALIDATION_ERROR")
    assert "no more can be added" in told["error"]


def test_errors_of_tools_outside_the_toolset_do_not_exist(rest: Rest, make_key: MakeKey) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    inside, outside = rows.group(tool_name="calculate"), rows.group(tool_name="echo")
    rest.key = make_key("maths", scopes=["tools:manage"], toolsets=["maths"])

    assert [one["id"] for one in listed(rest)] == [inside.pk]
    failure(rest.get(f"/v1/errors/{outside.pk}"), 404, "NOT_FOUND")
    failure(rest.post(f"/v1/errors/{outside.pk}/resolve", {}), 404, "NOT_FOUND")
    assert ErrorGroup.objects.get(pk=outside.pk).resolved_at is None
