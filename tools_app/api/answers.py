"""What all answers of the REST door have in common: JSON, UTC, and who may keep a copy."""

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
    """What an answer holds, for its description: views build their answers themselves."""

    model_config = ConfigDict(alias_generator=to_camel)


def answer(body: Any, status: int = 200) -> HttpResponse:
    """A JSON response. Views build it themselves: ninja would check and copy a result of megabytes first."""
    response = HttpResponse(_dumped(body), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


def answer_unless_known(request: HttpRequest, body: Any) -> HttpResponse:
    """The same with an `ETag`, or 304 without a body when that is what the client has already.

    The tag is taken from the answer itself: processes that have loaded different tools, or read different settings,
    can stand behind one address.
    """
    response = answer(body)
    tag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    if _has(request, tag):
        response = HttpResponseNotModified()
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Authorization, X-API-Key, Cookie"
    return response


def timestamp(moment: datetime | None = None) -> str:
    """ISO-8601 in UTC to the millisecond, as JavaScript writes it."""
    shown = (moment or datetime.now(UTC)).astimezone(UTC)
    return f"{shown.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _has(request: HttpRequest, tag: str) -> bool:
    known = parse_etags(request.headers.get("If-None-Match", ""))
    # A proxy that compresses makes a tag a weak one.
    return "*" in known or tag in {one.removeprefix("W/") for one in known}


def _dumped(body: Any) -> bytes:
    try:
        return to_json(body, inf_nan_mode="null", fallback=str)
    except PydanticSerializationError:
        # The message of an error may hold what an upstream sent: half of a surrogate pair, which UTF-8 cannot say.
        return json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
