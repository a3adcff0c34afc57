"""Building REST responses: JSON, UTC timestamps and caching headers."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json


class Shown(BaseModel):
    """A response schema, for OpenAPI only: views build their responses themselves."""

    model_config = ConfigDict(alias_generator=to_camel)


def answer(body: Any, status: int = 200) -> HttpResponse:
    """A JSON response. Not built by ninja, which would validate and copy a result of megabytes first."""
    response = HttpResponse(_json_bytes(body), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
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


def _matches(request: HttpRequest, tag: str) -> bool:
    tags = parse_etags(request.headers.get("If-None-Match", ""))
    # A proxy that compresses turns the tag into a weak one.
    return "*" in tags or tag in {candidate.removeprefix("W/") for candidate in tags}


def _json_bytes(body: Any) -> bytes:
    try:
        return to_json(body, inf_nan_mode="null", fallback=str)
    except PydanticSerializationError:
        # An error message may contain what an upstream sent: a lone surrogate, which UTF-8 cannot encode.
        return json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
