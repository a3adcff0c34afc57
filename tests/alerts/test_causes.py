"""Every cause has its alert, written in its transaction, and no second one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from tests.admin.conftest import approval, error_group
from tests.support.tools import Hub
from tests.support.upstreams import ProgrammableUpstreams, listing, raw_tool
from tools_app import engine, governance
from tools_app.alerts import words
from tools_app.base.ports import UnavailableError
from tools_app.governance.connections import note_health
from tools_app.journal import rows
from tools_app.journal.rows import Failure
from tools_app.models import Alert, Connection, ErrorGroup, ErrorLog, Source, Stop
from tools_app.models.alerts import Event
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sources import outside, sync

TEST = governance.trusted("user:ann")


def events() -> list[str]:
    return list(Alert.objects.order_by("at", "pk").values_list("event", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_call_that_needs_approval_is_an_alert_and_its_repetition_is_none(hub: Hub, alice: Caller) -> None:
    governance.set_ask("echo", True, actor=TEST)
    secret = "sk-live-0123456789abcdef0123456789abcdef"
    for _ in range(3):
        with pytest.raises(ToolError):
            engine.call_sync("echo", {"message": secret}, alice, door="code")
    made = Alert.objects.get()
    assert (made.event, made.tool_name, made.caller_name) == ("approval.requested", "echo", "alice")
    assert secret not in words.sentence(made)
    assert secret not in str(made.details), "arguments stay where they are encrypted"


@pytest.mark.django_db
def test_who_decides_has_seen_it() -> None:
    waiting = approval()
    made = alert_of(waiting.pk)
    governance.refuse_call(waiting.pk, actor=TEST)
    made.refresh_from_db()
    assert made.acknowledged_by == "user:ann"


def alert_of(approval_id: str) -> Alert:
    from tools_app.models.alerts import new_alert

    made = new_alert(Event.APPROVAL_REQUESTED, approval_id, timezone.now(), subject=f"approval:{approval_id}")
    made.save()
    return made


def failure(group: ErrorGroup, seconds: float = 0) -> Failure:
    """What the journal writes of one more error of a kind."""
    moment = timezone.now() + timedelta(seconds=seconds)
    new = ErrorGroup(
        fingerprint=group.fingerprint,
        tool_name=group.tool_name,
        code=group.code,
        place="ConnectError in tracker.py send",
        message="password=hunter2hunter2 was refused",
        count=1,
        first_seen_at=moment,
        last_seen_at=moment,
    )
    error = ErrorLog(
        id=f"{Alert.objects.count()}{ErrorLog.objects.count()}".rjust(32, "0"),
        group_id=group.fingerprint,
        door="mcp",
        code=group.code,
        message="no",
        created_at=moment,
    )
    return Failure(error, new)


@pytest.mark.django_db
def test_the_first_error_of_a_kind_is_an_alert_and_the_next_ones_are_none() -> None:
    new = ErrorGroup(fingerprint="f" * 32, tool_name="echo", code="API_ERROR")
    rows.insert_failures([failure(new)])
    rows.insert_failures([failure(new, 1)])
    made = Alert.objects.get()
    assert made.event == "issue.new"
    assert "hunter2" not in str(made.details), "messages can quote arguments"
    assert words.sentence(made) == "New issue: API_ERROR echo (ConnectError in tracker.py send)"


@pytest.mark.django_db
def test_an_error_that_happens_again_after_it_was_resolved_is_an_alert_each_time() -> None:
    group = error_group()
    for number in (1, 2):
        governance.resolve_errors([group.pk], actor=TEST)
        rows.insert_failures([failure(group, number)])
        rows.insert_failures([failure(group, number + 0.5)])
    assert events() == ["issue.reopened"] * 2
    governance.resolve_errors([group.pk], actor=TEST)
    assert not Alert.objects.filter(acknowledged_at=None).exists(), "who resolves an issue has seen it"


@pytest.mark.django_db
def test_a_failed_transaction_leaves_neither_cause_nor_alert() -> None:
    group = error_group()
    governance.resolve_errors([group.pk], actor=TEST)
    with transaction.atomic():
        rows.insert_failures([failure(group)])
        assert events() == ["issue.reopened"]
        transaction.set_rollback(True)
    assert events() == []
    group.refresh_from_db()
    assert group.resolved_at is not None


@pytest.mark.django_db
def test_a_connection_that_fails_and_recovers_is_one_alert_each() -> None:
    Connection.objects.create(name="main", pack="desk", url="https://desk.example.org")
    for healthy in (True, False, False, True, True):
        note_health("main", healthy=healthy, words="Wrong key")
    assert events() == ["connection.failing", "connection.recovered"]
    failing = Alert.objects.get(event="connection.failing")
    assert words.sentence(failing) == "Connection main is failing: Wrong key"
    assert failing.acknowledged_by == "recovered"


@pytest.mark.django_db
def test_a_kill_switch_is_an_alert_and_so_is_its_end(hub: Hub) -> None:
    governance.stop(Stop.Kind.HUB, actor=TEST, reason="A test")
    governance.stop(Stop.Kind.HUB, actor=TEST)
    governance.resume(Stop.Kind.HUB, actor=TEST)
    governance.resume(Stop.Kind.HUB, actor=TEST)
    assert events() == ["stop.set", "stop.lifted"]


@pytest.mark.django_db
def test_an_emergency_sign_in_is_an_alert_until_another_person_has_reviewed_it(hub: Hub) -> None:
    get_user_model().objects.create_superuser("root", password="a long password of a test")
    governance.open_emergency("root", actor=TEST)
    alert = Alert.objects.get()
    assert (alert.event, alert.severity, alert.acknowledged_at) == ("user.emergency", "error", None)
    assert words.sentence(alert).endswith("opened an emergency sign-in for root. Was it expected?")
    assert words.path(alert) == "/admin/tools_app/auditentry/?action=user.break_glass"
    (entry,) = governance.open_emergencies()
    governance.review_emergency(entry.pk, actor=TEST)
    alert.refresh_from_db()
    assert alert.acknowledged_by == TEST.name


@pytest.fixture
def upstreams(monkeypatch: pytest.MonkeyPatch) -> ProgrammableUpstreams:
    return ProgrammableUpstreams().connect(monkeypatch)


@pytest.fixture
def tracker(hub: Hub) -> Source:
    governance.add_source("tracker", kind="mcp_http", location="https://tracker.example.org/mcp", actor=TEST)
    governance.change_source("tracker", enabled=True, actor=TEST)
    return Source.objects.get(name="tracker")


def describe() -> None:
    provider = outside.provider("tracker")
    assert provider is not None
    sync.sync_source(provider, actor="test")


@pytest.mark.django_db
def test_a_source_that_fails_and_recovers_is_one_alert_each(tracker: Source, upstreams: Any) -> None:
    upstreams.listings["tracker"] = listing()
    describe()
    upstreams.listings["tracker"] = UnavailableError("it refuses connections")
    for _ in range(3):
        describe()
    upstreams.listings["tracker"] = listing()
    for _ in range(2):
        describe()
    assert events() == ["source.failing", "source.recovered"]


@pytest.mark.django_db
def test_versions_that_wait_are_one_alert_for_each_listing_that_has_new_ones(tracker: Source, upstreams: Any) -> None:
    upstreams.listings["tracker"] = listing(*(raw_tool(f"tool{number}") for number in range(60)))
    for _ in range(2):
        describe()
    made = Alert.objects.get()
    assert made.event == "definition.held"
    assert words.sentence(made).startswith("New or changed tools of tracker wait for approval: tracker_tool")
    governance.approve_tools("tracker", actor=TEST)
    upstreams.listings["tracker"] = listing(
        raw_tool("tool0", description="Do something else."), *(raw_tool(f"tool{number}") for number in range(1, 60))
    )
    describe()
    assert events() == ["definition.held"] * 2


@pytest.mark.django_db
def test_a_file_that_cannot_be_loaded_is_an_alert_until_it_is_another(hub: Hub, tmp_path: Any, settings: Any) -> None:
    from tools_app.models.sources import LoadProblem
    from tools_app.sources.sync_alerts import note_described

    folder = Source.objects.create(name="folder", kind=Source.Kind.FOLDER)
    from tools_app.models import SourceStatus

    status = SourceStatus.objects.create(source=folder)
    problem = LoadProblem("/srv/tools/count.py:3", "SyntaxError: invalid syntax")
    note_described(folder, status, [problem], timezone.now())
    status.problems = [[problem.place, problem.reason, problem.tool]]
    note_described(folder, status, [problem], timezone.now())
    made = Alert.objects.get()
    assert made.event == "file.broken"
    assert words.sentence(made) == "A tool cannot be loaded: /srv/tools/count.py:3: SyntaxError: invalid syntax"


@pytest.mark.django_db
def test_names_of_strangers_carry_nothing_invisible_and_no_line_breaks() -> None:
    from tools_app.models.alerts import new_alert

    made = new_alert(
        Event.SOURCE_FAILING, 1, timezone.now(), source="a\u202eb\nc", details={"why": "x\x1b[31m\u200b" * 999}
    )
    assert made.source == "ab c"
    assert len(made.details["why"]) <= 500
    assert not set(made.details["why"]) & {"\x1b", "\u200b", "\n"}
