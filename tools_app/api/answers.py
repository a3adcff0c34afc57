"""Building REST responses: JSON, UTC timestamps and caching headers."""

from __future__ import annotations

import hashlib
import json
import operator
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json


class ResponseSchema(BaseModel):
    """A response: its values are read from the attributes of an object, by field name or `validation_alias`."""

    model_config = ConfigDict(from_attributes=True, alias_generator=AliasGenerator(serialization_alias=to_camel))

    @classmethod
    def of(cls, source: object, /, **computed: Any) -> Self:
        """The response for an object. `computed` are values that it does not have, or that replace its own."""
        return cls.model_validate(_Attributes(source, computed))


class _Attributes:
    """The attributes of an object, after some others."""

    def __init__(self, source: object, computed: dict[str, Any]) -> None:
        self.__dict__.update(computed)
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def omitted_if_empty(description: str | None = None, **options: Any) -> Any:
    """A field that a response has only if it has a value."""
    return Field(default=None, description=description, exclude_if=operator.not_, **options)


def answer(body: Any, status: int = 200) -> HttpResponse:
    """A JSON response. Not built by ninja, which serializes in Python, and would validate a result of megabytes."""
    response = HttpResponse(_json_bytes(body), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


def no_content() -> HttpResponse:
    """A response without a body."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def answer_unless_known(request: HttpRequest, body: Any) -> HttpResponse:
    """A JSON response with an `ETag`, or 304 without a body if `If-None-Match` has the same tag.

    The tag is a hash of the body: the processes behind one address may have loaded different tools or settings.
    """
    response = answer(body)
    tag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    if _matches(request, tag):
        response = HttpResponseNotModified()
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Authorization, X-API-Key, Cookie"
    return response


def timestamp(moment: datetime | None = None) -> str:
    """ISO-8601 in UTC to the millisecond, as JavaScript writes it."""
    in_utc = (moment or datetime.now(UTC)).astimezone(UTC)
    return f"{in_utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


T = TypeVar("T")
# Described, but not validated: values that a newer release may have written, and wire forms that all channels share.
AsIs = Annotated[T, WrapValidator(lambda value, _: value)]
# Null instead of an empty text, with which the database says that there is none.
TextOrNone = Annotated[str | None, BeforeValidator(lambda text: text or None)]
Timestamp = Annotated[str, BeforeValidator(timestamp)]
# An id that is a number in the database.
NumberAsText = Annotated[str, BeforeValidator(str)]


def _matches(request: HttpRequest, tag: str) -> bool:
    tags = parse_etags(request.headers.get("If-None-Match", ""))
    # A proxy that compresses turns the tag into a weak one.
    return "*" in tags or tag in {candidate.removeprefix("W/") for candidate in tags}


def _json_bytes(body: Any) -> bytes:
    try:
        return to_json(body, inf_nan_mode="null", fallback=str)
    except PydanticSerializationError:
        # An error message may contain what an upstream sent: a lone surrogate, which UTF-8 cannot encode.
        return json.dumps(body, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: object) -> object:
    return value.model_dump(by_alias=True) if isinstance(value, BaseModel) else str(value)
