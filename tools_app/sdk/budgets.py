"""Budgets: how many calls and tokens a day and a month. Pure: callers pass in what is used, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, time, timedelta
from typing import Final

MOST: Final = 10**12


@dataclass(frozen=True, slots=True)
class Used:
    """What is used of a budget, today and this month."""

    calls_a_day: int = 0
    tokens_a_day: int = 0
    calls_a_month: int = 0
    tokens_a_month: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a budget: a number of calls or tokens (`unit`) for each day or month (`period`)."""

    unit: str
    period: str
    most: int
    used: int
    resets_at: datetime

    @property
    def percent(self) -> int:
        """Rounded down: 100 only when it is spent."""
        return self.used * 100 // self.most

    @property
    def is_spent(self) -> bool:
        return self.used >= self.most


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a budget. None: no limit of that kind."""

    calls_a_day: int | None = None
    tokens_a_day: int | None = None
    calls_a_month: int | None = None
    tokens_a_month: int | None = None

    def __bool__(self) -> bool:
        return bool(self.as_dict())

    def as_dict(self) -> dict[str, int]:
        """The limits that there are, by name."""
        return {name: most for name, most in asdict(self).items() if most is not None}

    def within(self, other: Budget) -> bool:
        """Whether it has every limit of another, and none is higher."""
        mine = self.as_dict()
        return all(name in mine and mine[name] <= most for name, most in other.as_dict().items())

    def limits(self, used: Used, now: datetime) -> Sequence[Limit]:
        """Its limits, with what is used of each. `now` is in the time zone of its days."""
        found = []
        for name, most in self.as_dict().items():
            unit, _, period = name.split("_")
            found.append(Limit(unit, period, most, getattr(used, name), resets_at(period, now)))
        return found


PARTS: Final = tuple(field.name for field in fields(Budget))


def resets_at(period: str, now: datetime) -> datetime:
    """The midnight at which a day or a month ends, in the time zone of `now`."""
    if period == "day":
        next_day = now.date() + timedelta(days=1)
    else:
        next_day = (now.date().replace(day=1) + timedelta(days=31)).replace(day=1)
    return datetime.combine(next_day, time(), now.tzinfo)
