"""Argument types that tools share, and their validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from tools_app.sdk.signatures import OrDigits, OrNumber

_MOMENT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?Z?)?"
_FILTERED_DATE: Final = re.compile(rf"(>=|<=|><)?({_MOMENT})(?:\|({_MOMENT}))?")
_WHOLE: Final = re.compile("-?[0-9]+")
_DATES: Final = "a date, also after >= or <=, or a range as ><2026-01-01|2026-01-31"


def _among(*valid: str) -> tuple[Any, Any]:
    def check(text: str) -> str:
        names = [name.strip() for name in text.split(",")]
        if wrong := [name for name in names if name not in valid]:
            raise ValueError(f"{wrong[0][:50]!r} is not one of {', '.join(valid)}")
        return ",".join(dict.fromkeys(names))

    return AfterValidator(check), Field(description=f"Comma-separated: {', '.join(valid)}.")


def _calendar_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"{text[:30]!r} is not a valid date; expected YYYY-MM-DD") from None


def _moment(text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:30]!r} is not a valid date; expected {_DATES}") from None


def _filtered_date(text: str) -> str:
    match = _FILTERED_DATE.fullmatch(text.strip())
    if match is None or (match[1] == "><") != (match[3] is not None):
        raise ValueError(f"{text[:30]!r} is not a date filter; expected {_DATES}")
    for moment in (match[2], match[3]):
        if moment is not None:
            _moment(moment)
    return text.strip()


def is_id(text: str) -> bool:
    """Whether this is an id, not a name."""
    return text.isascii() and text.isdecimal()


def _positive(text: str) -> str:
    name = text.strip()
    if _WHOLE.fullmatch(name) and not 0 < int(name) < 2**31:
        raise ValueError("expected an id from 1, or a name")
    return name


Id = Annotated[int, Field(ge=1, lt=2**31), OrDigits()]
# An id, as a number or in digits, or a name.
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"\S"), OrNumber(), AfterValidator(_positive)]
Day = Annotated[
    str,
    Field(json_schema_extra={"format": "date"}),
    AfterValidator(_calendar_date),
]
DateFilter = Annotated[str, Field(max_length=60), AfterValidator(_filtered_date)]
Offset = Annotated[int, Field(ge=0, lt=2**31, description="Number to skip."), OrDigits()]
Limit = Annotated[int, Field(ge=1, le=100, description="Page size."), OrDigits()]

IssueInclude = Annotated[
    str,
    *_among("children", "attachments", "relations", "changesets", "journals", "watchers", "allowed_statuses"),
]
IssuesInclude = Annotated[str, *_among("attachments", "relations")]
ProjectInclude = Annotated[
    str, *_among("trackers", "issue_categories", "enabled_modules", "time_entry_activities", "issue_custom_fields")
]
UserInclude = Annotated[str, *_among("memberships", "groups")]


_Value = str | bool | int | float | None


class CustomValue(BaseModel):
    """The value of a custom field; a list for a multi-value field."""

    model_config = ConfigDict(extra="forbid")

    id: Name | None = Field(None, description="Id or name.")
    name: Name | None = Field(None, description="If no id.")
    # The type is described in words, as many agents cannot read a union of types.
    value: Annotated[
        _Value | list[_Value],
        WithJsonSchema({"description": "Text; a list for multi-value fields."}),
    ]

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if self.id is None and self.name is None:
            raise ValueError("expected the id or the name of a custom field")
        return self

    @property
    def key(self) -> str:
        """Its id as digits, or its name."""
        return self.id or self.name or ""

    def sendable(self) -> str | list[str | None] | None:
        """The value in Redmine's format."""
        value = self.value
        return [_as_text(each) for each in value] if isinstance(value, list) else _as_text(value)


def _as_text(value: _Value) -> str | None:
    # Redmine stores all values as text, and booleans as 1 and 0.
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return str(value) if value is not None else None


CustomValues = Annotated[
    list[CustomValue],
    Field(max_length=100, description="By name or id, from list_custom_fields(project_id)."),
]


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
