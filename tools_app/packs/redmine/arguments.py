"""What several tools take, and what is refused before anything is sent."""

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
_DATES: Final = "a date, or one behind >= or <=, or two as ><2026-01-01|2026-01-31"


def _among(*valid: str) -> tuple[Any, Any]:
    def check(given: str) -> str:
        names = [name.strip() for name in given.split(",")]
        if wrong := [name for name in names if name not in valid]:
            raise ValueError(f"{wrong[0][:50]!r} is none of {', '.join(valid)}")
        return ",".join(dict.fromkeys(names))

    return AfterValidator(check), Field(description=f"Comma-separated: {', '.join(valid)}.")


def _calendar_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"{text[:30]!r} is no date of the calendar; expected YYYY-MM-DD") from None


def _moment(text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:30]!r} is no date of the calendar; expected {_DATES}") from None


def _filtered_date(given: str) -> str:
    found = _FILTERED_DATE.fullmatch(given.strip())
    if found is None or (found[1] == "><") != (found[3] is not None):
        raise ValueError(f"{given[:30]!r} is no filter by date; expected {_DATES}")
    for moment in (found[2], found[3]):
        if moment is not None:
            _moment(moment)
    return given.strip()


def is_id(given: str) -> bool:
    """Whether this is an id, and no name."""
    return given.isascii() and given.isdecimal()


def _positive(given: str) -> str:
    name = given.strip()
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
Offset = Annotated[int, Field(ge=0, lt=2**31, description="How many to leave out at the start."), OrDigits()]
Limit = Annotated[int, Field(ge=1, le=100, description="How many at most."), OrDigits()]

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
    """The value of a custom field; several for a field that takes several."""

    model_config = ConfigDict(extra="forbid")

    id: Name | None = Field(None, description="Id or name.")
    name: Name | None = Field(None, description="Its name, where there is no id.")
    # Text, or a list of texts: said in words, as many agents cannot read a choice of types.
    value: Annotated[
        _Value | list[_Value],
        WithJsonSchema({"description": "Text, or a list of texts where the field takes several."}),
    ]

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if self.id is None and self.name is None:
            raise ValueError("expected the id or the name of a custom field")
        return self

    @property
    def named(self) -> str:
        """Its id, in digits, or its name."""
        return self.id or self.name or ""

    def sent(self) -> str | list[str | None] | None:
        """The value as Redmine takes it."""
        value = self.value
        return [_sent(each) for each in value] if isinstance(value, list) else _sent(value)


def _sent(value: _Value) -> str | None:
    # Redmine keeps all values as texts, and yes and no as 1 and 0.
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return str(value) if value is not None else None


CustomValues = Annotated[
    list[CustomValue],
    Field(max_length=100, description="Custom fields by name or id; list_custom_fields(project_id) has them."),
]


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was not left out."""
    return {name: value for name, value in values.items() if value is not None}
