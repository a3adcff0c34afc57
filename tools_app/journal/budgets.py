"""What is used of budgets: read here, written by the commit of each call that counts (`rows.spend`).

Days and months are those of the hub's time zone. Tokens are estimated from the size of the answer, as everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import add
from typing import Final

from django.utils import timezone

from tools_app.models import BudgetUse
from tools_app.sdk.budgets import Budget, Limit, Used

# This month and the one before.
KEPT: Final = timedelta(days=62)
# Percent from which on operators are told.
ALMOST: Final = 80


def used(subjects: Collection[str], now: datetime) -> dict[str, Used]:
    """What is used of these budgets, today and this month. One query; what is not used is omitted."""
    today = timezone.localdate(now)
    days = BudgetUse.objects.filter(subject__in=subjects, day__gte=today.replace(day=1), day__lte=today)
    sums: dict[str, list[int]] = {}
    for subject, day, *numbers in days.values_list("subject", "day", "calls", "tokens"):
        added = [*(numbers if day == today else (0, 0)), *numbers]
        sums[subject] = list(map(add, sums.get(subject, [0] * len(added)), added))
    return {subject: Used(*numbers) for subject, numbers in sums.items()}


def limits(budgets: Mapping[str, Budget | None], now: datetime) -> dict[str, Sequence[Limit]]:
    """The limits of budgets by subject, with what is used of them; of no budget, none. At most one query."""
    with_budget = {subject: budget for subject, budget in budgets.items() if budget is not None}
    numbers = used(with_budget, now) if with_budget else {}
    local_now = timezone.localtime(now)
    return {
        subject: budget.limits(numbers.get(subject, Used()), local_now) if budget is not None else ()
        for subject, budget in budgets.items()
    }


def fullest(found: Iterable[Limit]) -> Limit | None:
    """The limit of which the largest share is used."""
    return max(found, key=lambda limit: limit.used / limit.most, default=None)
