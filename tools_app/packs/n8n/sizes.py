"""Sizes of values for agents, and truncation."""

from __future__ import annotations

import json
from typing import Any, Final

# Bytes for data in an answer. No answer of this pack exceeds 25,000 tokens (three bytes each); the rest is for the
# wrapper, the guidance and what a client adds.
ANSWER: Final = 72_000
# Bytes of a summary: 1,000 tokens, less the wrapper.
SUMMARY: Final = 2_880

# Limits from loose to strict: characters of a text, entries of a list or object, levels of nesting.
_STEPS: Final = ((20_000, 500, 40), (5_000, 200, 20), (1_000, 50, 12), (300, 20, 8), (100, 8, 5), (30, 4, 3))
_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def size(value: Any) -> int:
    """Bytes of a value as JSON."""
    return len(_encoded(value).encode(errors="replace"))


def fitted(value: Any, most: int) -> Any:
    """The value, truncated to at most `most` bytes: texts lose their ends, lists their last entries.

    A placeholder marks what is missing. `most` must allow for a short sentence.
    """
    if size(value) <= most:
        return value
    for letters, entries, levels in _STEPS:
        less = _cut(value, letters, entries, levels)
        if size(less) <= most:
            return less
    return "… too large to be shown"


def words(text: str, most: int) -> str:
    """A text, truncated to at most `most` bytes of JSON."""
    if size(text) <= most + 2:
        return text
    low, high = 0, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) + 1 <= most else (low, middle - 1)
    return f"{text[:low]}…"


def _cut(value: Any, letters: int, entries: int, levels: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= letters else f"{value[:letters]}… ({len(value):,} characters)"
    if not isinstance(value, list | dict):
        return value
    if levels == 0:
        return f"… ({len(value):,} entries)"
    more = len(value) - entries
    if isinstance(value, list):
        parts: Any = [_cut(each, letters, entries, levels - 1) for each in value[:entries]]
        return [*parts, f"… {more:,} more"] if more > 0 else parts
    parts = {_cut(key, letters, 0, 0): _cut(value[key], letters, entries, levels - 1) for key in list(value)[:entries]}
    return {**parts, "…": f"{more:,} more"} if more > 0 else parts
