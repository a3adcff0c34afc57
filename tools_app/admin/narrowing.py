"""The filter form above long lists: time range, caller and duration. It works without a script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin.filters import SPANS, Field, LinkFilter, SpanFilter, choice
from tools_app.journal import insights
from tools_app.models import ApiKey
from tools_app.models.calls import SLOW_MS

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_CHARACTERS: Final = 100
MOST_KEYS: Final = 20
_ID: Final = re.compile(r"[a-z]{1,8}:.+")
# Choices of “min. duration” in milliseconds; all are covered by the index.
SLOW: Final = (SLOW_MS, 2_500, 5_000, 10_000, 30_000, 60_000)


class TypedFilter(LinkFilter):
    """Entered in the form above the list, and shown among the active filters."""

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
        value = self.value()
        return queryset.filter(caller_id__in=_caller_ids(value)) if value else queryset


class MomentFilter(TypedFilter):
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        at = moment(self.value())
        return [(self.value() or "", f"{timezone.localtime(at):%Y-%m-%d %H:%M}")] if at else []

    def has_output(self) -> bool:
        return moment(self.value()) is not None

    @classmethod
    def field(cls, value: str) -> Field:
        at = moment(value)
        text = f"{timezone.localtime(at):%Y-%m-%dT%H:%M}" if at else ""
        label = f"{str(cls.title).capitalize()} ({timezone.get_current_timezone_name()})"
        return Field(cls.parameter_name, label, "datetime-local", text)


def between(column: str) -> tuple[type[MomentFilter], type[MomentFilter]]:
    """The filters `from` and `until` for a column of times."""

    def bound(parameter: str, name: StrOrPromise, lookup: str) -> type[MomentFilter]:
        class BoundFilter(MomentFilter):
            title = name
            parameter_name = parameter

            def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
                at = moment(self.value())
                return queryset.filter((f"{column}__{lookup}", at)) if at else queryset

        return BoundFilter

    return bound("from", gettext_lazy("from"), "gte"), bound("until", gettext_lazy("until"), "lt")


class SlowFilter(TypedFilter):
    title = gettext_lazy("min. duration")
    parameter_name = "slower"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(one), f"{one / 1000:g} s") for one in SLOW]

    def has_output(self) -> bool:
        return self.value() in list(map(str, SLOW))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None or value not in map(str, SLOW):
            return queryset
        # The first filter repeats the condition of the partial index, so that the database uses it.
        return queryset.filter(duration_ms__gte=SLOW_MS).filter(duration_ms__gte=int(value))

    @classmethod
    def field(cls, value: str) -> Field:
        return choice(
            cls.parameter_name,
            str(cls.title).capitalize(),
            value,
            [("", _("any")), *((str(one), f"{one / 1000:g} s") for one in SLOW)],
        )


def fields(filters: Iterable[object], query: Mapping[str, str]) -> Iterator[Field]:
    """The fields of the form above a list, filled in from the URL."""
    for one in filters:
        if isinstance(one, type) and (issubclass(one, TypedFilter) or issubclass(one, SpanFilter)):
            yield one.field(query.get(one.parameter_name, ""))


def time_range(query: Mapping[str, str]) -> tuple[datetime | None, datetime | None]:
    """What the filters of time in a URL leave: from when on, and until when."""
    begins = [moment(query.get("from"))]
    if (span := query.get("since", "")) in SPANS:
        begins.append(insights.period(span, timezone.now()).since)
    return max((begin for begin in begins if begin is not None), default=None), moment(query.get("until"))


def moment(text: str | None) -> datetime | None:
    """A time from the form or the URL; None if invalid."""
    try:
        parsed_time = datetime.fromisoformat(text or "")
        at = (parsed_time if parsed_time.tzinfo is not None else timezone.make_aware(parsed_time)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # At the limits of datetime, conversion to another time zone would overflow.
    return at if MINYEAR < at.year < MAXYEAR else None


def _caller_ids(text: str) -> list[str]:
    text = text.strip()[:MOST_CHARACTERS]
    if _ID.fullmatch(text):
        return [text]
    keys = ApiKey.objects.filter(name__iexact=text).values_list("pk", flat=True)[:MOST_KEYS]
    users = get_user_model()
    people = users._default_manager.filter((f"{users.USERNAME_FIELD}__iexact", text)).values_list("pk", flat=True)
    return [text, f"local:{text}", *(f"key:{pk}" for pk in keys), *(f"user:{pk}" for pk in people[:MOST_KEYS])]
