"""Reading query strings: every parameter known, given once, and exactly of its type."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from django.http import HttpRequest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

MOST_PAGES: Final = 1_000_000
MOST_ON_A_PAGE: Final = 100

_DIGITS: Final = re.compile(r"[0-9]{1,9}")


def _number(value: Any) -> Any:
    # Pydantic itself takes " 1", "+1", "1_0" and "1.0" for whole numbers.
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise PydanticCustomError("whole_number", "no whole number", {"expected": "a whole number"})
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, str) and value not in ("true", "false"):
        raise PydanticCustomError("flag", "no flag", {"expected": "true or false"})
    return value


Page = Annotated[int, Field(ge=1, le=MOST_PAGES), BeforeValidator(_number)]
Limit = Annotated[int, Field(ge=1, le=MOST_ON_A_PAGE), BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Word = Annotated[str, Field(min_length=1, max_length=64)]


def optional() -> Any:
    """A parameter that may be left out. Null cannot be sent in an address, so the API's description is without it."""
    return Field(None, json_schema_extra=_without_null)


def _without_null(schema: dict[str, Any]) -> None:
    schema |= schema.pop("anyOf")[0]


class QueryString(BaseModel):
    """The query parameters of one address."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _as_sent(cls, known: Any, info: ValidationInfo) -> Any:
        # Ninja leaves out what it does not know, and takes the last of several: back to what was sent, so that
        # the one is refused as unknown, and the other as a list.
        request: HttpRequest = (info.context or {})["request"]
        return {name: values[0] if len(values) == 1 else values for name, values in request.GET.lists()}
