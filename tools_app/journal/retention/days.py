"""Computes the sums of a day from its hours. Usually they are added to with the hours, when calls are counted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Sum, Value

from tools_app.models import CallHour
from tools_app.models.figures import DAY, EVERY, SUMS, beginning


@transaction.atomic
def add_up(moment: datetime) -> None:
    """For the day of this moment. Calls that are counted meanwhile wait for the lock on the old sums."""
    day = beginning(moment, DAY)
    CallHour.sums.filter(hour__gte=day, hour__lt=day + DAY).delete()
    hours = CallHour.objects.filter(hour__gte=day, hour__lt=day + DAY).order_by()
    columns: dict[str, tuple[Any, Any]] = {
        CallHour.Span.TOTAL: (F("hour"), Value(EVERY)),
        CallHour.Span.DAY: (Value(day), F("tool_name")),
    }
    sums = (
        CallHour(
            span=span,
            hour=hour,
            tool_name=tool,
            caller_id=EVERY,
            status=status,
            **dict(zip(SUMS, numbers, strict=True)),
        )
        for span, (start, name) in columns.items()
        for hour, tool, status, *numbers in hours.values_list(start, name, "status").annotate(*map(Sum, SUMS))
    )
    CallHour.sums.bulk_create(sums, batch_size=500, ignore_conflicts=True)
