"""Scheduled backups: one process makes each, the newest are kept, and their age is shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.backup.conftest import Backed
from tools_app.governance.restoring import CHORE
from tools_app.management.commands import doctor
from tools_app.models import Chore
from tools_app.setup.backup import schedule, status

HOUR = timedelta(hours=1)
SCHEDULED = """
import time
from pathlib import Path
import django
django.setup()
from tools_app.setup.backup.schedule import Scheduler
scheduler = Scheduler(first_seconds=0)
scheduler.start()
deadline = time.monotonic() + 50
while (Path({folder!r}) / "toolhub-auto-20200101-000000.backup").exists():
    assert time.monotonic() < deadline
    time.sleep(0.1)
scheduler.stop()
"""


@pytest.fixture
def scheduled(settings: Any, tmp_path: Path) -> None:
    settings.TOOLHUB_BACKUP_DIR = tmp_path
    settings.TOOLHUB_BACKUP_EVERY_HOURS = 2


@pytest.mark.django_db
def test_nothing_is_due_without_a_directory() -> None:
    assert not schedule.claim(timezone.now())
    assert not status.is_overdue(None, timezone.now())


@pytest.mark.django_db
def test_one_process_makes_a_backup_when_it_is_due(scheduled: None) -> None:
    now = timezone.now()
    assert schedule.claim(now)
    assert not schedule.claim(now), "another process makes it"
    assert schedule.claim(now + HOUR), "it failed"
    Chore.objects.create(name=CHORE, done_at=now + HOUR)
    assert not schedule.claim(now + 3 * HOUR - timedelta(seconds=1))
    assert schedule.claim(now + 3 * HOUR)


@pytest.mark.django_db
def test_a_time_in_the_future_does_not_prevent_backups(scheduled: None) -> None:
    now = timezone.now()
    Chore.objects.create(name=CHORE, done_at=now + 1_000 * HOUR)
    Chore.objects.create(name=schedule.BEGUN, done_at=now + 1_000 * HOUR)
    assert schedule.claim(now)


@pytest.mark.django_db
def test_the_doctor_reports_scheduled_backups_that_fail(scheduled: None) -> None:
    assert not doctor._of_backups().is_good
    good = Chore.objects.create(name=CHORE, done_at=timezone.now() - 3 * HOUR)
    assert doctor._of_backups().is_good
    good.done_at = timezone.now() - 5 * HOUR
    good.save()
    assert not doctor._of_backups().is_good


def test_a_running_hub_makes_them_and_keeps_the_newest(hub: Backed, tmp_path: Path) -> None:
    folder = tmp_path / "scheduled"
    folder.mkdir()
    for name in ("toolhub-auto-20200101-000000.backup", "toolhub-auto-20200102-000000.backup", "toolhub-my-own.backup"):
        (folder / name).touch()
    hub.home.extra |= {"TOOLHUB_BACKUP_DIR": str(folder), "TOOLHUB_BACKUP_KEEP": "2"}
    done = hub.home.python(SCHEDULED.format(folder=str(folder)))
    assert done.returncode == 0, done.stderr
    done = hub.home.run("backup", "--scheduled")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3
    assert "toolhub-my-own.backup" in names
    assert "toolhub-auto-20200102-000000.backup" not in names
    entries = hub.store.query("SELECT actor FROM tools_app_auditentry WHERE action = 'backup.create'")
    assert entries == [("hub",), ("hub",)]
    assert hub.store.query("SELECT count(*) FROM tools_app_chore WHERE name = 'backup'") == [(1,)]
