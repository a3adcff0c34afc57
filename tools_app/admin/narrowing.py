"""The fields above a long list: from when to when, whose, and how slow. A form of its own, sent without a script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin.filters import FollowedFilter
from tools_app.models import ApiKey
from tools_app.models.calls import SLOW_MS

MOST_CHARACTERS: Final = 100
MOST_KEYS: Final = 20
_ID: Final = re.compile(r"[a-z]{1,8}:.+")
# What “slower than” offers, in milliseconds. None is less than what there is an index for.
SLOW: Final = (SLOW_MS, 2_500, 5_000, 10_000, 30_000, 60_000)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form."""

    name: str
    label: str
    type: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()


class TypedFilter(FollowedFilter):
    """Typed into the form above the list, and shown among the filters that hold."""

    parameter_name: str

    @classmethod
    def field(cls, value: str) -> Field:
        """The form field, with its current value from the URL."""
        return Field(cls.parameter_name, str(cls.title).capitalize(), "text", value)


class CallerFilter(TypedFilter):
    """A caller by its id, or by the name of a key or of a person."""

    title = gettext_lazy("caller")
    parameter_name = "caller"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset.filter(caller_id__in=_caller_ids(chosen)) if chosen else queryset


class MomentFilter(TypedFilter):
    column: str
    """The time that is compared."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        moment = _moment(self.value())
        return [(self.value() or "", f"{timezone.localtime(moment):%Y-%m-%d %H:%M}")] if moment else []

    def has_output(self) -> bool:
        return _moment(self.value()) is not None

    @classmethod
    def field(cls, value: str) -> Field:
        moment = _moment(value)
        shown = f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}" if moment else ""
        label = f"{str(cls.title).capitalize()} ({timezone.get_current_timezone_name()})"
        return Field(cls.parameter_name, label, "datetime-local", shown)


def between(moment: str) -> tuple[type[MomentFilter], type[MomentFilter]]:
    """The filters `from` and `until` for a column of times."""

    class FromFilter(MomentFilter):
        title = gettext_lazy("from")
        parameter_name = "from"
        column = moment

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            found = _moment(self.value())
            return queryset.filter((f"{self.column}__gte", found)) if found else queryset

    class UntilFilter(MomentFilter):
        title = gettext_lazy("until")
        parameter_name = "until"
        column = moment

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            found = _moment(self.value())
            return queryset.filter((f"{self.column}__lt", found)) if found else queryset

    return FromFilter, UntilFilter


class SlowFilter(TypedFilter):
    title = gettext_lazy("min. duration")
    parameter_name = "slower"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(one), f"{one / 1000:g} s") for one in SLOW]

    def has_output(self) -> bool:
        return self.value() in list(map(str, SLOW))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None or chosen not in map(str, SLOW):
            return queryset
        # The first of them are the words of the index, without which the database would not look into it.
        return queryset.filter(duration_ms__gte=SLOW_MS).filter(duration_ms__gte=int(chosen))

    @classmethod
    def field(cls, value: str) -> Field:
        choices = (("", _("any")), *((str(one), f"{one / 1000:g} s") for one in SLOW))
        return Field(cls.parameter_name, str(cls.title).capitalize(), "select", value, choices)


def fields(filters: Iterable[object], query: Mapping[str, str]) -> Iterator[Field]:
    """The form above a list with these filters, as its address has filled it in."""
    for one in filters:
        if isinstance(one, type) and issubclass(one, TypedFilter):
            yield one.field(query.get(one.parameter_name, ""))


def _moment(text: str | None) -> datetime | None:
    """A time as browsers and addresses write it. One that cannot be is none."""
    try:
        found = datetime.fromisoformat(text or "")
        moment = (found if found.tzinfo is not None else timezone.make_aware(found)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # At the ends of time, what it is elsewhere cannot be said.
    return moment if MINYEAR < moment.year < MAXYEAR else None


def _caller_ids(text: str) -> list[str]:
    text = text.strip()[:MOST_CHARACTERS]
    if _ID.fullmatch(text):
        return [text]
    keys = ApiKey.objects.filter(name__iexact=text).values_list("pk", flat=True)[:MOST_KEYS]
    users = get_user_model()
    people = users._default_manager.filter((f"{users.USERNAME_FIELD}__iexact", text)).values_list("pk", flat=True)
    return [text, f"local:{text}", *(f"key:{pk}" for pk in keys), *(f"user:{pk}" for pk in people[:MOST_KEYS])]
