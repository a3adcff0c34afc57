"""Texts and values of a document, short enough to be listed, and such that they can be stored."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Final

from tools_app.text.budget import written

# Databases refuse NUL, and no encoding has lone surrogates.
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
# Descriptions of many documents are HTML. Only names of tags: `<id>` is a placeholder.
_INLINE: Final = re.compile(r"</?(?:a|b|code|em|i|span|strong|u)(?:\s[^<>]{0,500})?/?>", re.IGNORECASE)
_BLOCKS: Final = re.compile(
    r"</?(?:blockquote|br|dd|div|dl|dt|h[1-6]|li|note|ol|p|pre|table|tbody|td|th|thead|tr|ul)(?:\s[^<>]{0,500})?/?>",
    re.IGNORECASE,
)
_BLANKS: Final = re.compile(r"[ \t]*\n\s*\n\s*")
_SPACES: Final = re.compile(r"[ \t\xa0]+")
_LINES: Final = re.compile(r" ?\n ?")


def text(value: object, most: int, *, line: bool = False) -> str:
    """A text of the document without markup and blanks that say nothing; cut at the end of a word. `line`: in one."""
    return _short(value, most, line) if isinstance(value, str) and value else ""


@lru_cache(4_096)
def _short(value: str, most: int, line: bool) -> str:
    # Components are described again for each operation that uses them.
    # More than this cannot become short enough.
    plain = UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value[: 4 * most + 2_000])
    plain = _BLOCKS.sub(" ", _INLINE.sub("", plain)) if "<" in plain else plain
    plain = _LINES.sub("\n", _SPACES.sub(" ", _BLANKS.sub("\n\n", plain))).strip()
    plain = " ".join(plain.split()) if line else plain
    if len(plain) <= most:
        return plain
    head = plain[: most - 1]
    return f"{head[: max(head.rfind(' '), most // 2)].rstrip()}…"


def fits(value: Any, most: int) -> bool:
    """Whether a schema can hold a value: it can be written and stored, and has at most this number of characters."""
    try:
        encoded = written(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return len(encoded) <= most and not UNSTORABLE.search(encoded)


def is_number(value: object) -> bool:
    """Whether it is a number that others can read."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**64 if isinstance(value, int) else math.isfinite(value)


def is_header(value: str) -> bool:
    """Whether a media type can be part of a header."""
    return len(value) <= 100 and value.isascii() and value.isprintable()
