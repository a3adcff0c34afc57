"""Doing something some days ago."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import DateTimeField, F, Model
from django.utils import timezone

# What history.py writes has its times already.
_WRITTEN_ELSEWHERE: Final = frozenset({"call", "callhour", "pendingcount", "errorlog", "process", "agent"})
# The database stamps rows in milliseconds, Python in microseconds.
_PRECISION: Final = timedelta(milliseconds=2)


@contextmanager
def days_ago(now: datetime, days: float) -> Iterator[datetime]:
    """Date the rows written in this block back by a number of days: every timestamp that was set during the block."""
    moment, begin = now - timedelta(days=days), timezone.now()
    yield moment
    during = (begin - _PRECISION, timezone.now())
    models: list[type[Model]] = [User, *apps.get_app_config("tools_app").get_models()]
    for model in models:
        if model._meta.model_name in _WRITTEN_ELSEWHERE:
            continue
        rows: Any = model._default_manager
        for column in [field.name for field in model._meta.fields if isinstance(field, DateTimeField)]:
            written = rows.filter(**{f"{column}__range": during})  # house: allow lookup – columns of a model
            written.update(**{column: F(column) - (begin - moment)})
