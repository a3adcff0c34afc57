"""How much the hub stores, how much room is left, and when the disk will be full at this growth.

The places are measured regularly, and one row a day is kept. Pages and `/health` read these rows, so that a file system
which does not answer delays neither.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from tools_app.base import conf
from tools_app.models import DiskSample
from tools_app.models.figures import DAY, beginning

DATABASE: Final = "database"
EVERY: Final = timedelta(minutes=9)
KEPT: Final = timedelta(days=60)
WINDOW: Final = timedelta(days=7)
# Less is no basis for a forecast.
FEWEST_DAYS: Final = 3
SOON_DAYS: Final = 14
# Both: a small disk that is half full is no problem, and 5 % of a large one are much.
LOW_BYTES: Final = 1 << 29
LOW_SHARE: Final = 0.1
# Files of one place that are measured; more are not expected.
MOST_FILES: Final = 20_000


@dataclass(frozen=True)
class Place:
    """Files and directories that the hub writes, together."""

    name: str
    paths: tuple[Path, ...]
    # Measured as a place of their own.
    without: tuple[Path, ...] = ()

    def size(self) -> int:
        left = MOST_FILES
        total = 0
        waiting = [path for path in self.paths if path.exists()]
        while waiting and left:
            path = waiting.pop()
            left -= 1
            if path in self.without or path.is_symlink():
                continue
            try:
                if path.is_dir():
                    waiting.extend(path.iterdir())
                else:
                    total += path.stat().st_size
            except OSError:
                continue  # It was deleted meanwhile, or belongs to another user.
        return total


@dataclass(frozen=True)
class Volume:
    """A file system, with the places on it; or the database server, of which only the database is known."""

    samples: tuple[DiskSample, ...]
    # Of the same places, at the beginning of the window.
    earlier: tuple[DiskSample, ...]

    @property
    def host(self) -> str:
        return self.samples[0].host

    @property
    def path(self) -> str:
        return self.samples[0].path

    @property
    def places(self) -> str:
        return ", ".join(one.place for one in self.samples)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.samples)

    @property
    def free(self) -> int | None:
        return self.samples[0].free

    @property
    def total(self) -> int | None:
        return self.samples[0].total

    @cached_property
    def growth(self) -> float | None:
        """Bytes a day, of what the hub stores or of all that fills the disk, if that is more. None: not known yet."""
        before = {one.place: one for one in self.earlier}
        pairs = [(before[one.place], one) for one in self.samples if one.place in before]
        days = max(((new.at - old.at) / DAY for old, new in pairs), default=0)
        if days < FEWEST_DAYS:
            return None
        own = sum(new.bytes - old.bytes for old, new in pairs)
        old, new = pairs[0]
        taken = old.free - new.free if old.free is not None and new.free is not None else 0
        return max(own, taken, 0) / days

    @property
    def days_left(self) -> int | None:
        """Until it is full at this growth. None: it does not grow, or that is not known."""
        return int(self.free / self.growth) if self.growth and self.free is not None else None

    @property
    def words(self) -> str:
        """For operators."""
        if self.free is None:
            return f"{self.places}: {size(self.bytes)}; how much room the server has is not known to the hub"
        text = f"{self.path} ({self.places}): {size(self.free)} free"
        if self.days_left is None:
            return text if self.growth is not None else f"{text}; a forecast needs {FEWEST_DAYS} days"
        return f"{text}, full in about {self.days_left:,} days at the growth of the last {WINDOW.days} days"

    @property
    def is_soon_full(self) -> bool:
        if self.free is None or self.total is None:
            return False
        is_low = self.free < min(LOW_BYTES, LOW_SHARE * self.total)
        return is_low or (self.days_left is not None and self.days_left < SOON_DAYS)


def size(number: int) -> str:
    """A number of bytes, in words."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if number >= 1024**power:
            return f"{number / 1024**power:,.1f} {unit}"
    return f"{number} bytes"


def places() -> list[Place]:
    """Where this process writes. The database of a server is not among them."""
    home, backups = conf.home(), conf.value("TOOLHUB_BACKUP_DIR")
    log_file = getattr(settings, "LOGGING", {}).get("file")
    found = []
    if connection.vendor == "sqlite":
        found.append(Place(DATABASE, database_files()))
    own = tuple(Path(one) for one in (backups, log_file) if one)
    if home is not None:
        found.append(Place("home", (home,), without=(*(path for one in found for path in one.paths), *own)))
    if backups:
        found.append(Place("backups", (Path(backups),)))
    if log_file:
        found.append(Place("log", (Path(log_file),)))
    return found


def database_files() -> tuple[Path, ...]:
    name = str(connection.settings_dict["NAME"])
    return tuple(Path(f"{name}{ending}") for ending in ("", "-wal", "-shm"))


def sample(now: datetime, *, at_once: bool = False) -> None:
    """Measure the places of this machine and the database, if that has not been done for some minutes."""
    host, recent = socket.gethostname()[:100], now - EVERY
    if not at_once and DiskSample.objects.filter(host=host, measured_at__range=(recent, now)).exists():
        return
    samples = [*_of_places(host), *_of_server()]
    for one in samples:
        one.at, one.measured_at = beginning(now, DAY), now
    columns = ("measured_at", "path", "volume", "bytes", "free", "total")
    DiskSample.objects.bulk_create(
        samples, update_conflicts=True, unique_fields=("host", "place", "at"), update_fields=columns
    )


def _of_places(host: str) -> Iterator[DiskSample]:
    for place in places():
        path = next((one for one in (place.paths[0], *place.paths[0].parents) if one.exists()), None)
        if path is None:
            continue
        try:
            usage, volume = shutil.disk_usage(path), str(path.stat().st_dev)
        except OSError:
            continue
        yield DiskSample(
            host=host,
            place=place.name,
            path=str(place.paths[0])[:1000],
            volume=volume,
            bytes=place.size(),
            free=usage.free,
            total=usage.total,
        )


def _of_server() -> Iterator[DiskSample]:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            yield DiskSample(place=DATABASE, bytes=cursor.fetchone()[0])


def volumes(now: datetime) -> list[Volume]:
    """The volumes of all machines that were measured within the last day, with what was known a week ago."""
    rows = DiskSample.objects.filter(at__gte=beginning(now, DAY) - WINDOW, measured_at__lte=now).order_by("at", "place")
    newest: dict[tuple[str, str], DiskSample] = {}
    oldest: dict[tuple[str, str], DiskSample] = {}
    for row in rows:
        key = (row.host, row.place)
        # A place that has moved begins anew.
        if key not in oldest or oldest[key].path != row.path:
            oldest[key] = row
        newest[key] = row
    by_volume: dict[tuple[str, str], list[DiskSample]] = {}
    for row in newest.values():
        if row.measured_at >= now - DAY:
            by_volume.setdefault((row.host, row.volume), []).append(row)
    return [
        Volume(tuple(samples), tuple(oldest[one.host, one.place] for one in samples))
        for _, samples in sorted(by_volume.items())
    ]
