"""A clock that has jumped ahead does not empty the journal."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.retention.rows import NOW, call, hour
from tests.support.tools import eventually
from tools_app.journal import retention
from tools_app.journal.retention.clock import CHORE, MOST_LEAP
from tools_app.journal.retention.keeper import CHORE as PRUNE
from tools_app.journal.retention.keeper import Keeper
from tools_app.models import Call, Chore

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


def test_a_hub_without_records_has_no_leap() -> None:
    assert retention.leap(NOW) is None


def test_time_that_left_traces_is_no_leap() -> None:
    retention.believe(NOW)
    for days in range(6, 60, 6):
        hour(NOW + days * DAY)
    assert retention.leap(NOW + 60 * DAY) is None


def test_time_without_traces_is_a_leap() -> None:
    retention.believe(NOW)
    assert retention.leap(NOW + MOST_LEAP) is None
    found = retention.leap(NOW + 500 * DAY)
    assert found is not None
    assert (found.before, found.after) == (NOW, NOW + 500 * DAY)
    assert "between 2026-03-01 12:00 UTC and 2027-07-14 12:00 UTC" in str(found)


def test_calls_after_a_leap_do_not_hide_it() -> None:
    retention.believe(NOW)
    for days in (500, 501, 502):
        hour(NOW + days * DAY)
    found = retention.leap(NOW + 503 * DAY)
    assert found is not None
    assert found.before == NOW


def test_a_hub_that_has_never_looked_begins_with_its_newest_call() -> None:
    hour(NOW - 100 * DAY)
    hour(NOW)
    assert retention.leap(NOW + DAY) is None
    assert retention.leap(NOW + 8 * DAY) is not None


def test_a_clock_that_was_set_back_is_no_leap() -> None:
    retention.believe(NOW)
    assert retention.leap(NOW - 500 * DAY) is None


def test_the_keeper_deletes_nothing_after_a_leap_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    now = timezone.now()
    retention.believe(now - 500 * DAY)
    call(now - 499 * DAY)
    keeper = Keeper(first_seconds=0)
    keeper.start()
    try:
        assert eventually(lambda: "the clock may have jumped" in caplog.text)
    finally:
        keeper.stop()
    assert Call.objects.count() == 1
    assert "run `toolhub prunelogs --trust-clock`" in caplog.text
    assert Chore.objects.get(name=CHORE).done_at < now - 499 * DAY


def test_the_keeper_resumes_when_the_clock_is_plausible() -> None:
    now = timezone.now()
    retention.believe(now)
    call(now - 499 * DAY)
    keeper = Keeper(first_seconds=0)
    keeper.start()
    try:
        assert eventually(lambda: not Call.objects.exists())
    finally:
        keeper.stop()
    assert Chore.objects.get(name=CHORE).done_at >= now
    assert Chore.objects.filter(name=PRUNE).exists()
