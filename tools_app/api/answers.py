"""What all answers of the REST door have in common: JSON, UTC, and that nobody keeps a copy."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponse
from pydantic_core import PydanticSerializationError, to_json


def answer(body: Any, status: int = 200) -> HttpResponse:
    """A JSON response. Views build it themselves: ninja would check and copy a result of megabytes first."""
    response = HttpResponse(_dumped(body), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


def timestamp(moment: datetime | None = None) -> str:
    """ISO-8601 in UTC to the millisecond, as JavaScript writes it."""
    shown = (moment or datetime.now(UTC)).astimezone(UTC)
    return f"{shown.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _dumped(body: Any) -> bytes:
    try:
        return to_json(body, inf_nan_mode="null", fallback=str)
    except PydanticSerializationError:
        # The message of an error may hold what an upstream sent: half of a surrogate pair, which UTF-8 cannot say.
        return json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
