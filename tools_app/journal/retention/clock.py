"""Whether the clock can be believed. One that has jumped ahead would have everything deleted at once, for its age.

A hub leaves traces as time passes: calls by the hour, and each run that deletes. Where none is found for longer than
`MOST_LEAP`, either nothing ran or the clock has jumped. Only a person can tell which.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from tools_app.models import CallHour, Chore

# Until when the clock was believed.
CHORE: Final = "clock"
MOST_LEAP: Final = timedelta(days=7)
CURE: Final = "set the clock; if it is right, run `toolhub prunelogs --trust-clock`"


@dataclass(frozen=True, slots=True)
class Leap:
    """A time in which nothing is on record, although the clock says that it has passed."""

    before: datetime
    after: datetime

    def __str__(self) -> str:
        return (
            f"nothing is on record between {_said(self.before)} and {_said(self.after)}, so the clock may have jumped: "
            "what is old is not deleted"
        )


def leap(now: datetime) -> Leap | None:
    """The first leap of the clock since it was believed; None where there is none."""
    believed = Chore.objects.filter(name=CHORE).values_list("done_at", flat=True).first()
    if believed is None:
        # A hub that has never looked: it begins with the newest hour of its calls.
        believed = CallHour.objects.order_by("-hour").values_list("hour", flat=True).first()
    if believed is None or now - believed <= MOST_LEAP:
        return None
    hours = CallHour.objects.filter(hour__gt=believed, hour__lt=now)
    moments = [believed, *hours.order_by("hour").values_list("hour", flat=True).distinct(), now]
    return next((Leap(before, after) for before, after in pairwise(moments) if after - before > MOST_LEAP), None)


def believe(now: datetime) -> None:
    Chore.objects.update_or_create(name=CHORE, defaults={"done_at": now})


def _said(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
