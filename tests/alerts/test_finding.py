"""What only time brings about is found once, whoever looks, and however often."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.admin.conftest import approval, call
from tests.support.processes import Home
from tests.support.tools import Hub, database_url
from tools_app import governance
from tools_app.alerts import words
from tools_app.alerts.finding import find
from tools_app.governance.restoring import CHORE
from tools_app.models import Alert, ApiKey, Approval, BudgetUse, Chore, DiskSample
from tools_app.sdk.budgets import Budget

TEST = governance.trusted("test")


def events(now: datetime) -> list[str]:
    """The kinds of alerts, after looking twice."""
    find(now)
    find(now)
    return sorted(Alert.objects.values_list("event", flat=True))


@pytest.mark.django_db
def test_an_approval_is_told_before_it_expires_and_when_it_has() -> None:
    waiting = approval()
    assert events(waiting.asked_at + timedelta(minutes=9)) == []
    assert events(waiting.asked_at + timedelta(minutes=11)) == ["approval.expiring"]
    assert events(waiting.expires_at + timedelta(seconds=1)) == ["approval.expired", "approval.expiring"]


@pytest.mark.django_db
def test_a_decided_approval_does_not_expire() -> None:
    waiting = approval(state=Approval.State.APPROVED)
    assert events(waiting.expires_at + timedelta(seconds=1)) == []


@pytest.mark.django_db
def test_an_approval_of_seconds_is_not_about_to_expire_when_it_is_requested() -> None:
    now = timezone.now()
    approval(asked_at=now, expires_at=now + timedelta(seconds=60))
    assert events(now + timedelta(seconds=30)) == []
    assert events(now + timedelta(seconds=41)) == ["approval.expiring"]


@pytest.mark.django_db
def test_a_key_is_told_a_week_before_it_expires() -> None:
    now = timezone.now()
    key, _ = governance.create_key("agent", actor=TEST, expires_at=now + timedelta(days=30))
    short, _ = governance.create_key("job", actor=TEST, expires_at=now + timedelta(days=1))
    assert events(now + timedelta(days=22)) == []
    assert events(now + timedelta(days=24)) == ["key.expiring"]
    ApiKey.objects.filter(pk=key.pk).update(expires_at=now + timedelta(days=31))
    assert events(now + timedelta(days=25)) == ["key.expiring"] * 2, "another end is another cause"
    assert short.name not in str(list(Alert.objects.values_list("details", flat=True)))


@pytest.mark.django_db
def test_a_missing_backup_is_told_once_for_each_that_was_the_last(settings: Any, tmp_path: Path) -> None:
    now = timezone.now()
    settings.TOOLHUB_BACKUP_DIR = tmp_path
    assert events(now) == ["backup.overdue"]
    Chore.objects.create(name=CHORE, done_at=now - timedelta(hours=1))
    assert events(now) == ["backup.overdue"]
    assert events(now + timedelta(hours=49)) == ["backup.overdue"] * 2


@pytest.mark.django_db
def test_a_full_disk_is_told_once_a_week() -> None:
    now = timezone.now()

    def sample(at: datetime) -> None:
        about = {"measured_at": at, "path": "/srv", "volume": "1", "bytes": 1, "free": 1000, "total": 1 << 40}
        DiskSample.objects.update_or_create(host="a", place="home", at=at, defaults=about)

    for days in (0, 1, 3):
        sample(now + timedelta(days=days))
        assert events(now + timedelta(days=days)) == ["disk.low"]
    sample(now + timedelta(days=8))
    assert events(now + timedelta(days=8)) == ["disk.low"] * 2


NOON = timezone.now().replace(minute=30, second=0, microsecond=0)


@pytest.mark.django_db
def test_an_error_rate_is_told_of_the_tool_its_source_and_the_hub_at_each_level(hub: Hub) -> None:
    for number in range(100):
        call("echo", NOON, status="failed" if number < 6 else "succeeded", code="API_ERROR" if number < 6 else "")
    assert events(NOON) == ["errors.rate"] * 3
    subjects = sorted(Alert.objects.values_list("subject", flat=True))
    assert subjects[0] == "hub:"
    assert subjects[-1] == "tool:echo"
    shown = words.sentence(Alert.objects.get(subject="tool:echo"))
    assert shown == "6% of the calls of echo failed."
    for _ in range(30):
        call("echo", NOON, status="failed", code="API_ERROR")
    assert events(NOON) == ["errors.rate"] * 6, "more than 20 % is another level"
    assert events(NOON + timedelta(minutes=20)) == ["errors.rate"] * 6


@pytest.mark.django_db
def test_few_errors_refusals_and_old_ones_are_no_rate(hub: Hub) -> None:
    for _ in range(4):
        call("echo", NOON, status="failed", code="API_ERROR")
    for _ in range(20):
        call("echo", NOON, status="refused", code="RATE_LIMIT_EXCEEDED")
        call("calculate", NOON - timedelta(hours=3), status="failed", code="API_ERROR")
    assert events(NOON) == []


FIND = """
import django, sys
django.setup()
from django.utils import timezone
from tools_app.alerts.finding import find
print("ready", flush=True)
sys.stdin.readline()
print(find(timezone.now()), flush=True)
"""


@pytest.mark.django_db(transaction=True)
def test_of_several_processes_that_look_at_once_each_cause_has_one_alert(tmp_path: Path) -> None:
    now = timezone.now()
    for _ in range(30):
        approval(asked_at=now - timedelta(minutes=16), expires_at=now - timedelta(minutes=1))
    extra = {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "DATABASE_URL": database_url()}
    environment = Home(tmp_path, extra).environment
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", FIND], env=environment, **pipes) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=30)[0].strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert all(number.isdecimal() for number in said), said
    assert Alert.objects.filter(event="approval.expired").count() == 30


@pytest.mark.django_db
def test_a_budget_is_told_at_80_percent_and_when_it_is_spent_once_a_day_each() -> None:
    key, _ = governance.create_key("worker", budget=Budget(calls_a_day=100, tokens_a_month=1_000), actor=TEST)
    governance.create_toolset("support", calls_a_month=1_000, actor=TEST)
    noon = timezone.localtime().replace(hour=12)
    use = BudgetUse.objects.create(subject=f"key:{key.pk}", day=noon.date(), calls=79)
    BudgetUse.objects.create(subject="toolset:support", day=noon.date(), calls=900)
    assert events(noon) == ["budget.reached"]
    about = Alert.objects.get()
    assert words.sentence(about).startswith("Budget of the toolset support: 80 % of 1,000 calls a month are used.")
    assert words.path(about).endswith("/change/")
    for calls, alerts in ((80, 2), (99, 2), (100, 3), (130, 3)):
        BudgetUse.objects.filter(pk=use.pk).update(calls=calls)
        assert events(noon) == ["budget.reached"] * alerts
    BudgetUse.objects.create(subject=f"key:{key.pk}", day=noon.date() + timedelta(days=1), calls=85)
    if noon.month == (noon + timedelta(days=1)).month:
        assert events(noon + timedelta(days=1)) == ["budget.reached"] * 4
