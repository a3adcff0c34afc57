"""When the last good backup was made, and whether that is too long ago."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tools_app.base import conf
from tools_app.governance.restoring import CHORE
from tools_app.models import Chore

# A backup that fails is tried again: twice the interval without one is a problem.
_OVERDUE: Final = 2


def last_good() -> datetime | None:
    return Chore.objects.filter(name=CHORE).values_list("done_at", flat=True).first()


def interval() -> timedelta | None:
    """How often a running hub makes one; None: never."""
    return timedelta(hours=conf.value("TOOLHUB_BACKUP_EVERY_HOURS")) if conf.value("TOOLHUB_BACKUP_DIR") else None


def is_overdue(made_at: datetime | None, now: datetime) -> bool:
    every = interval()
    return every is not None and (made_at is None or now - made_at > _OVERDUE * every)
