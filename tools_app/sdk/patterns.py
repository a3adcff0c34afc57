"""Regular expressions of operators, matched in linear time: no text of a stranger can make one take long."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tools_app.sdk.schemas import SchemaError, compiled


def fault(pattern: str) -> str:
    """Why a pattern cannot be used; empty if it can."""
    try:
        _compiled(pattern)
    except SchemaError as error:
        return str(error)
    return ""


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. One that cannot be used occurs nowhere."""
    try:
        return bool(_compiled(pattern).is_valid(text))
    except SchemaError:
        return False


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """Raises: SchemaError."""
    return compiled({"type": "string", "pattern": pattern})
