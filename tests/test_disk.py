"""How much is stored, how much room is left, and when a disk will be full."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from tools_app.journal import disk, retention
from tools_app.journal.disk import Place, Volume
from tools_app.management.commands import doctor
from tools_app.models import DiskSample
from tools_app.models.figures import DAY, beginning

pytestmark = pytest.mark.django_db(transaction=True)

GIB = 1 << 30


def sample(
    days_ago: int, stored: float, free: float | None, *, place: str = "database", host: str = "a", **changes: Any
) -> None:
    """One of the past; sizes in GiB."""
    now = timezone.now()
    about: dict[str, Any] = {"path": "/srv/hub", "volume": "1", "total": 100 * GIB if free is not None else None}
    DiskSample.objects.create(
        host=host,
        place=place,
        at=beginning(now, DAY) - days_ago * DAY,
        measured_at=now - days_ago * DAY,
        bytes=int(stored * GIB),
        free=int(free * GIB) if free is not None else None,
        **about | changes,
    )


def only() -> Volume:
    [volume] = disk.volumes(timezone.now())
    return volume


def test_forecasts_when_the_disk_is_full_at_the_growth_of_the_last_week() -> None:
    sample(30, 1, 99)
    sample(7, 10, 80)
    sample(3, 11, 79)
    sample(0, 17, 70)
    volume = only()
    assert volume.growth == pytest.approx(10 * GIB / 7), "the disk is filled by others, too"
    assert volume.days_left == 49
    assert not volume.is_soon_full
    assert volume.words.endswith("70.0 GiB free, full in about 49 days at the growth of the last 7 days")


def test_the_growth_of_the_hub_counts_if_others_deleted_more() -> None:
    sample(5, 10, 20)
    sample(0, 15, 40)
    assert only().days_left == 40


def test_warns_two_weeks_before_the_disk_is_full() -> None:
    sample(7, 10, 20)
    sample(0, 17, 13.5)
    assert (only().days_left, only().is_soon_full) == (13, True)
    DiskSample.objects.filter(at__gte=beginning(timezone.now(), DAY)).update(free=15 * GIB)
    assert (only().days_left, only().is_soon_full) == (15, False)


@pytest.mark.parametrize("days_ago", [1, 2])
def test_raises_no_alarm_on_little_data(days_ago: int) -> None:
    sample(days_ago, 1, 99)
    sample(0, 90, 10)
    volume = only()
    assert (volume.growth, volume.days_left, volume.is_soon_full) == (None, None, False)
    assert volume.words.endswith("10.0 GiB free; a forecast needs 3 days")


def test_a_disk_that_does_not_grow_is_never_full() -> None:
    sample(7, 10, 20)
    sample(0, 9, 21)
    volume = only()
    assert (volume.growth, volume.days_left, volume.is_soon_full) == (0, None, False)
    assert volume.words == "/srv/hub (database): 21.0 GiB free"


def test_warns_at_once_if_little_is_free() -> None:
    sample(0, 1, 0.4)
    assert only().is_soon_full
    DiskSample.objects.update(total=GIB)
    assert not only().is_soon_full, "40 % of a small disk"


def test_places_on_one_file_system_are_one_volume() -> None:
    for place in ("backups", "database"):
        sample(5, 1, 20, place=place)
        sample(0, 2, 20, place=place)
    sample(0, 1, 50, place="log", volume="2", path="/var/log/hub")
    one, other = disk.volumes(timezone.now())
    assert (one.places, one.bytes, one.days_left) == ("backups, database", 4 * GIB, 50)
    assert (other.places, other.free) == ("log", 50 * GIB)


def test_a_place_that_has_moved_begins_anew() -> None:
    sample(7, 1, 99, path="/old")
    sample(0, 90, 10)
    assert only().growth is None


def test_a_machine_that_measures_no_more_is_not_shown() -> None:
    sample(2, 1, 99, host="gone")
    sample(0, 1, 99)
    assert only().host == "a"


def test_the_room_of_a_database_server_is_unknown() -> None:
    sample(7, 1, None, host="", path="", volume="")
    sample(0, 8, None, host="", path="", volume="")
    volume = only()
    assert (volume.growth, volume.days_left, volume.is_soon_full) == (GIB, None, False)
    assert volume.words == "database: 8.0 GiB; how much room the server has is not known to the hub"


def test_measures_the_places_of_this_hub_once_in_some_minutes(tmp_path: Path, settings: Any) -> None:
    settings.TOOLHUB_HOME = str(tmp_path)
    settings.TOOLHUB_BACKUP_DIR = str(tmp_path / "backups")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "a.backup").write_bytes(b"x" * 1000)
    (tmp_path / "secret_key").write_bytes(b"x" * 64)
    now = timezone.now()
    disk.sample(now)
    by_place = {one.place: one for one in DiskSample.objects.all()}
    assert by_place.keys() == {"database", "home", "backups"}
    assert (by_place["backups"].bytes, by_place["home"].bytes) == (1000, 64)
    assert by_place["database"].bytes > 100_000
    assert (by_place["database"].free is None) == (connection.vendor == "postgresql")
    assert 0 < (by_place["home"].free or 0) < (by_place["home"].total or 0)
    (tmp_path / "secret_key").write_bytes(b"x" * 65)
    disk.sample(now + timedelta(minutes=5))
    assert DiskSample.objects.get(place="home").bytes == 64
    disk.sample(now + timedelta(minutes=10))
    rows = DiskSample.objects.filter(place="home")
    assert rows.order_by("at").last().bytes == 65  # type: ignore[union-attr]
    disk.sample(now + timedelta(minutes=11), at_once=True)
    assert rows.count() == len({beginning(one.measured_at, DAY) for one in rows})


def test_a_place_is_measured_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(b"x" * 10)
    (tmp_path / "link").symlink_to("/")
    assert Place("", (tmp_path, tmp_path / "missing")).size() == 100
    assert Place("", (tmp_path,), without=(tmp_path / "3",)).size() == 90
    monkeypatch.setattr(disk, "MOST_FILES", 5)
    assert Place("", (tmp_path,)).size() <= 40


def test_old_samples_are_deleted() -> None:
    sample(61, 1, 99)
    sample(59, 1, 99)
    assert retention.prune(timezone.now()).counts["disk samples"] == 1


def test_a_keeper_measures(settings: Any, tmp_path: Path) -> None:
    from tests.support.tools import eventually

    settings.TOOLHUB_HOME = str(tmp_path)
    keeper = retention.Keeper(first_seconds=0)
    keeper.start()
    try:
        assert eventually(lambda: DiskSample.objects.filter(place="home").exists(), 10)
    finally:
        keeper.stop()


def test_the_doctor_warns(hub: Any) -> None:
    sample(7, 10, 20)
    sample(0, 17, 10)
    [one] = [one for one in doctor.diagnoses() if one.text.startswith("disk of")]
    assert not one.is_good
    assert "full in about 7 days" in one.text
    assert "toolhub data" in one.advice


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 * GIB, "5.0 GiB")]
)
def test_sizes_in_words(number: int, words: str) -> None:
    assert disk.size(number) == words


def test_the_command_shows_what_is_stored(hub: Any) -> None:
    out = io.StringIO()
    call_command("data", stdout=out)
    text = out.getvalue()
    assert "TOOLHUB_KEEP_FIGURES_DAYS=730; removed by: forget, retention" in text
    assert "encrypted (TOOLHUB_ENCRYPTION_KEY)" in text
