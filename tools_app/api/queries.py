"""Reading query strings: unknown or repeated parameters and type conversions are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Protocol, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

Row = TypeVar("Row", bound=Model)

MOST_PAGES: Final = 1_000_000
MOST_ON_A_PAGE: Final = 100

_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def _number(value: Any) -> Any:
    # Pydantic accepts " 1", "+1", "1_0" and "1.0" as integers.
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise PydanticCustomError("whole_number", "invalid integer", {"expected": "a whole number"})
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, str) and value not in ("true", "false"):
        raise PydanticCustomError("flag", "invalid flag", {"expected": "true or false"})
    return value


def _moment(value: Any) -> Any:
    # Pydantic accepts numbers as Unix timestamps, and a date as its midnight.
    if value is None or isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise _invalid_moment()
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise _invalid_moment() from None


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise _invalid_moment() from None


def _invalid_moment() -> PydanticCustomError:
    return PydanticCustomError("moment", "invalid timestamp", {"expected": "a timestamp like 2026-01-31T12:00:00Z"})


INTEGER: Final = BeforeValidator(_number)
Page = Annotated[int, Field(ge=1, le=MOST_PAGES, description="Page number, starting at 1"), INTEGER]
Limit = Annotated[int, Field(ge=1, le=MOST_ON_A_PAGE, description="Maximum number of items"), INTEGER]
Flag = Annotated[bool, BeforeValidator(_flag)]
Text = Annotated[str, Field(min_length=1)]
Word = Annotated[Text, Field(max_length=64)]
Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_in_utc)]
Cursor = Annotated[Text, Field(max_length=512, description="`nextCursor` of the previous page")]


def optional(description: str | None = None) -> Any:
    """An optional parameter. A query string cannot contain null, so the schema omits it."""
    return Field(None, description=description, json_schema_extra=_without_null)


def _without_null(schema: dict[str, Any]) -> None:
    schema |= schema.pop("anyOf")[0]


def number_in_path(text: str) -> int:
    """The primary key in a path; 0, which no row has, if it is not a number that the database can store."""
    # Not Unicode digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


class Paged(Protocol):
    """A query for one page of a list."""

    page: int
    limit: int


def rows_of(query: Paged) -> slice:
    first = (query.page - 1) * query.limit
    return slice(first, first + query.limit)


def apply_filters(rows: QuerySet[Row], filters: Mapping[str, Any]) -> QuerySet[Row]:
    """The rows that match all filters that are not None. The columns come from our code, only the values are input."""
    if any(isinstance(value, str) and "\0" in value for value in filters.values()):
        return rows.none()  # PostgreSQL refuses NUL in a string.
    return rows.filter(*((column, value) for column, value in filters.items() if value is not None))


class QueryString(BaseModel):
    """The query parameters of one operation."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _as_sent(cls, _: Any, info: ValidationInfo) -> Any:
        # Ninja drops unknown parameters and takes the last of repeated ones. Restore what was sent, so that the former
        # are refused as unknown and the latter as a list.
        request: HttpRequest = (info.context or {})["request"]
        return {name: values[0] if len(values) == 1 else values for name, values in request.GET.lists()}


class Removal(QueryString):
    reason: Annotated[Text, Field(max_length=500)] | None = optional("Recorded in the audit trail")
