"""Issues that operators ignore, snooze and assign: what that changes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.db import connection
from django.utils import timezone

from tests.admin.conftest import error_group
from tools_app import governance
from tools_app.admin.live import feed
from tools_app.journal import insights, rows
from tools_app.journal.rows import Failure
from tools_app.models import Alert, AuditEntry, ErrorGroup, ErrorLog
from tools_app.models.alerts import Event, note_alert
from tools_app.sdk.errors import AuthorizationError, ValidationError

pytestmark = pytest.mark.django_db

TEST = governance.trusted("user:alice")
State = ErrorGroup.State


def happens_again(group: ErrorGroup, times: int = 1) -> None:
    """As the journal writes it: with the columns of a new group."""
    for _ in range(times):
        now, number = timezone.now(), ErrorLog.objects.count()
        kept = {name: getattr(group, name) for name in ("fingerprint", "tool_name", "code", "place", "message")}
        fresh = ErrorGroup(**kept, count=1, first_seen_at=now, last_seen_at=now, last_call_id=f"c{number}")
        rows.insert_failures([Failure(ErrorLog(id=f"e{number}", group_id=group.pk, created_at=now), fresh)])
    group.refresh_from_db()


def ignored(group: ErrorGroup, occurrences: int | None = None) -> None:
    governance.ignore_errors([group.pk], actor=TEST, reason="Known", occurrences=occurrences)


def snoozed(group: ErrorGroup, until: datetime | None = None) -> None:
    governance.snooze_errors([group.pk], until or timezone.now() + timedelta(hours=1), actor=TEST)


def state(group: ErrorGroup) -> State:
    """As the row says it, and as a query finds it: these must agree."""
    group.refresh_from_db()
    now = timezone.now()
    found = [one for one in State if ErrorGroup.objects.in_state(one, now).filter(pk=group.pk).exists()]
    assert found == [group.state_at(now)]
    assert ErrorGroup.objects.open(now).filter(pk=group.pk).exists() == (found == [State.OPEN])
    return found[0]


def events() -> list[str]:
    return [event.removeprefix("issue.") for event in Alert.objects.order_by("at").values_list("event", flat=True)]


# ---- ignored


def test_an_ignored_issue_stays_ignored_however_often_it_happens() -> None:
    group = error_group()
    ignored(group)
    happens_again(group, 3)
    assert (state(group), group.count, group.reopened_at) == (State.IGNORED, 4, None)
    assert (group.muted_by, group.mute_reason) == ("user:alice", "Known")
    assert events() == []


def test_an_issue_is_ignored_until_a_number_of_errors_and_then_open_with_one_alert() -> None:
    group = error_group(count=10)
    ignored(group, 3)
    happens_again(group, 2)
    assert (state(group), events()) == (State.IGNORED, [])
    happens_again(group)
    assert (state(group), group.count, events()) == (State.OPEN, 13, ["reopened"])
    assert group.reopened_at == group.last_seen_at
    assert (group.muted_at, group.muted_by, group.mute_reason, group.muted_until_count) == (None, "", "", None)
    happens_again(group)
    assert (state(group), events()) == (State.OPEN, ["reopened"])


def test_a_batch_that_reaches_the_number_ends_it_as_well() -> None:
    group = error_group()
    ignored(group, 2)
    now = timezone.now()
    fresh = [
        ErrorGroup(fingerprint=group.pk, code=group.code, count=1, first_seen_at=now, last_seen_at=now)
        for _ in range(3)
    ]
    errors = [ErrorLog(id=f"b{number}", group_id=group.pk, created_at=now) for number in range(3)]
    rows.insert_failures([Failure(error, one) for error, one in zip(errors, fresh, strict=True)])
    assert (state(group), group.count) == (State.OPEN, 4)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_ignoring_needs_a_reason(reason: str) -> None:
    group = error_group()
    with pytest.raises(ValidationError) as raised:
        governance.ignore_errors([group.pk], actor=TEST, reason=reason)
    assert [problem.path for problem in raised.value.problems] == ["/reason"]
    assert (state(group), AuditEntry.objects.count()) == (State.OPEN, 0)


@pytest.mark.parametrize("occurrences", [-1, 0, 1_000_001])
def test_the_number_of_errors_has_limits(occurrences: int) -> None:
    group = error_group()
    with pytest.raises(ValidationError):
        ignored(group, occurrences)
    assert state(group) is State.OPEN


# ---- snoozed


def test_a_snoozed_issue_is_open_again_by_itself() -> None:
    group = error_group()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        snoozed(group)
        clock.shift(timedelta(minutes=59))
        happens_again(group)
        assert (state(group), events(), insights.open_error_groups()) == (State.SNOOZED, [], 0)
        clock.shift(timedelta(minutes=1))
        assert (state(group), events(), insights.open_error_groups()) == (State.OPEN, [], 1)
        happens_again(group)
        assert (state(group), events()) == (State.OPEN, ["reopened"])
        assert (group.muted_at, group.muted_until) == (None, None)


def test_pages_are_told_when_a_snooze_ends() -> None:
    group = error_group()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        snoozed(group)
        asleep = feed._issues()
        clock.shift(timedelta(hours=2))
        assert feed._issues() != asleep


def test_a_snooze_can_be_changed_and_says_from_when_to_when() -> None:
    group, now = error_group(), timezone.now()
    first, second = now + timedelta(hours=1), now + timedelta(days=1)
    snoozed(group, first)
    snoozed(group, second)
    assert governance.snooze_errors([group.pk], second, actor=TEST) == []
    changes = AuditEntry.objects.filter(action="error.snooze").order_by("pk").values_list("changes", flat=True)
    assert [one["snoozed_until"] for one in changes] == [
        [None, first.isoformat()],
        [first.isoformat(), second.isoformat()],
    ]


@pytest.mark.parametrize("away", [timedelta(0), timedelta(days=-1), timedelta(days=367)])
def test_a_snooze_ends_in_the_future_and_not_too_late(away: timedelta) -> None:
    group = error_group()
    with pytest.raises(ValidationError):
        snoozed(group, timezone.now() + away)
    assert state(group) is State.OPEN


# ---- what they have in common


@pytest.mark.parametrize("mute", [ignored, snoozed])
def test_a_muted_issue_is_not_counted_as_open_and_its_alert_is_closed(mute: Callable[[ErrorGroup], None]) -> None:
    group, other = error_group(), error_group()
    note_alert(Event.ISSUE_NEW, group.pk, timezone.now(), subject=f"issue:{group.pk}")
    note_alert(Event.ISSUE_NEW, other.pk, timezone.now(), subject=f"issue:{other.pk}")
    mute(group)
    assert insights.open_error_groups() == 1
    assert Alert.objects.get(acknowledged_at=None).subject == f"issue:{other.pk}"


@pytest.mark.parametrize("mute", [ignored, snoozed])
def test_resolving_and_reopening_end_a_mute(mute: Callable[[ErrorGroup], None]) -> None:
    for decide, becomes in ((governance.resolve_errors, State.RESOLVED), (governance.reopen_errors, State.OPEN)):
        group = error_group()
        mute(group)
        was = state(group)
        assert decide([group.pk], actor=TEST) == [group.pk]
        assert state(group) is becomes
        assert group.muted_at is None
        assert AuditEntry.objects.order_by("-pk")[0].changes["state"] == [was.value, None]
        assert decide([group.pk], actor=TEST) == []


@pytest.mark.parametrize("mute", [ignored, snoozed])
def test_a_resolved_issue_is_not_muted_and_comes_back(mute: Callable[[ErrorGroup], None]) -> None:
    group = error_group()
    mute(group)
    governance.resolve_errors([group.pk], actor=TEST)
    mute(group)
    assert state(group) is State.RESOLVED
    happens_again(group)
    assert (state(group), events()) == (State.OPEN, ["reopened"])


def test_of_many_only_those_change_that_can() -> None:
    open_one, asleep, gone, quiet = (error_group() for _ in range(4))
    snoozed(asleep)
    governance.resolve_errors([gone.pk], actor=TEST)
    ignored(quiet)
    every = [open_one.pk, asleep.pk, gone.pk, quiet.pk]
    changed = governance.ignore_errors(every, actor=TEST, reason="The supplier knows")
    assert sorted(changed) == sorted([open_one.pk, asleep.pk])
    assert state(asleep) is State.IGNORED
    assert asleep.muted_until is None
    entries = AuditEntry.objects.filter(reason="The supplier knows")
    assert {entry.subject for entry in entries} == {f"error:{open_one.pk}", f"error:{asleep.pk}"}
    assert {entry.changes["ignored_until"][1] for entry in entries} == {"for good"}


@pytest.mark.parametrize("decide", ["ignore_errors", "snooze_errors", "assign_errors"])
def test_every_decision_needs_the_permission(decide: str) -> None:
    group = error_group()
    viewer = User.objects.create_user("vera", is_staff=True)
    viewer.groups.add(Group.objects.get(name="viewer"))
    arguments: dict[str, dict[str, Any]] = {
        "ignore_errors": {"reason": "Known"},
        "snooze_errors": {"until": timezone.now() + timedelta(hours=1)},
        "assign_errors": {"username": "nobody-of-this-name"},
    }
    with pytest.raises(AuthorizationError):
        getattr(governance, decide)([group.pk], actor=governance.of_user(viewer), **arguments[decide])
    assert state(group) is State.OPEN
    assert not AuditEntry.objects.filter(subject=f"error:{group.pk}").exists()


# ---- assigned


def person(name: str, role: str = "operator", **values: Any) -> User:
    user = User.objects.create_user(name, is_staff=True, **values)
    user.groups.add(Group.objects.get(name=role))
    return user


def test_an_issue_is_assigned_and_given_back() -> None:
    group, olga = error_group(), person("olga")
    assert governance.assign_errors([group.pk], "olga", actor=TEST, reason="On call") == [group.pk]
    assert governance.assign_errors([group.pk], "olga", actor=TEST) == []
    group.refresh_from_db()
    assert group.assignee == olga
    happens_again(group)
    assert group.assignee == olga
    governance.assign_errors([group.pk], None, actor=TEST)
    entries = AuditEntry.objects.filter(action="error.assign").order_by("pk")
    assert [entry.changes["assignee"] for entry in entries] == [[None, "olga"], ["olga", None]]
    assert [entry.reason for entry in entries] == ["On call", ""]


def test_only_active_people_who_may_resolve_issues_are_assigned() -> None:
    person("olga")
    person("adam", "admin")
    person("vera", "viewer")
    person("gone", is_active=False)
    User.objects.create_superuser("root")
    User.objects.create_user("outside")
    assert [one.get_username() for one in governance.assignees()] == ["adam", "olga", "root"]
    group = error_group()
    for name in ("vera", "gone", "outside", "unknown", "o\x00"):
        with pytest.raises(ValidationError, match="no active user"):
            governance.assign_errors([group.pk], name, actor=TEST)


def test_an_issue_outlives_its_assignee() -> None:
    group, olga = error_group(), person("olga")
    governance.assign_errors([group.pk], "olga", actor=TEST)
    olga.delete()
    group.refresh_from_db()
    assert group.assignee is None


def test_assigning_many_costs_no_more_queries() -> None:
    person("olga")

    def queries(number: int) -> int:
        pks = [error_group().pk for _ in range(number)]
        before = len(connection.queries_log)
        connection.force_debug_cursor = True
        try:
            governance.assign_errors(pks, "olga", actor=TEST)
            return len(connection.queries_log) - before
        finally:
            connection.force_debug_cursor = False

    assert queries(2) == queries(40)
