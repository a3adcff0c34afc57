"""JSON pointers (RFC 6901) to parts of a result."""

from __future__ import annotations

import re
from typing import Any, Final

# Limit for callers. Pointers in pages are shorter, see `PART` and `WHOLE`.
MOST_CHARACTERS: Final = 1_000
# In bytes of JSON: the longest key in pointers of pages, and the longest pointer that pages extend.
PART: Final = 256
WHOLE: Final = 400

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPE: Final = re.compile(r"~(?![01])")


class PointerError(ValueError):
    """The pointer is invalid or points to nothing. The message says how far it resolves."""


def joined(pointer: str, part: str | int) -> str:
    return f"{pointer}/{part}" if isinstance(part, int) else f"{pointer}/{escaped(part)}"


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def parts(pointer: str) -> list[str]:
    """Raises: PointerError."""
    if len(pointer) > MOST_CHARACTERS:
        raise PointerError(f"must have at most {MOST_CHARACTERS:,} characters")
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PointerError('must be empty or start with "/"')
    if _ESCAPE.search(pointer):
        raise PointerError('must write "~" as "~0" and "/" as "~1"')
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def resolve(value: Any, pointer: str) -> Any:
    """The value at the pointer.

    Raises:
        PointerError: there is none.
    """
    reached = ""
    for part in parts(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            raise PointerError(f"leads nowhere after {reached!r}, where there is {_description(value)}")
        reached = joined(reached, part)
    return value


def _description(value: Any) -> str:
    match value:
        case dict():
            return f"an object of {len(value):,}"
        case list():
            return f"an array of {len(value):,}"
        case _:
            return "nothing further"
