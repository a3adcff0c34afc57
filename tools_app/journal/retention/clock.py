"""Checks whether the clock is plausible: with a clock that jumped ahead, everything would be deleted as too old.

A running hub leaves records: calls by the hour, and each pruning run. A gap longer than `MOST_LEAP` means that either
nothing ran or the clock jumped. Only a person can tell which.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from tools_app.models import CallHour, Chore

# The last time at which the clock was plausible.
CHORE: Final = "clock"
MOST_LEAP: Final = timedelta(days=7)
CURE: Final = "set the clock; if it is right, run `toolhub prunelogs --trust-clock`"


@dataclass(frozen=True, slots=True)
class Leap:
    """A gap in the records that may be a jump of the clock."""

    before: datetime
    after: datetime

    def __str__(self) -> str:
        return (
            f"there are no records between {_utc(self.before)} and {_utc(self.after)}, so the clock may have jumped: "
            "old records are not deleted"
        )


def leap(now: datetime) -> Leap | None:
    """The first gap since the clock was last plausible; None if there is none."""
    believed = Chore.objects.filter(name=CHORE).values_list("done_at", flat=True).first()
    if believed is None:
        # First check of this hub: start from the newest hour of its calls.
        believed = CallHour.everything.order_by("-hour").values_list("hour", flat=True).first()
    if believed is None or now - believed <= MOST_LEAP:
        return None
    hours = CallHour.everything.filter(hour__gt=believed, hour__lt=now)
    moments = [believed, *hours.order_by("hour").values_list("hour", flat=True).distinct(), now]
    return next((Leap(before, after) for before, after in pairwise(moments) if after - before > MOST_LEAP), None)


def believe(now: datetime) -> None:
    Chore.objects.update_or_create(name=CHORE, defaults={"done_at": now})


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
