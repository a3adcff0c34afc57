"""Results as uniform documents, so that one reader fits all: JSON, text as a list of lines, XML as elements."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic_core import from_json

from tools_app.answers import markup
from tools_app.text import hygiene
from tools_app.text.budget import written

Kind = Literal["json", "text", "xml"]

_DEEPEST: Final = 200
# How much of a text is parsed for an outline. The rest is only validated if it is XML, which is fast.
_BEGINNING: Final = 256 * 1024

# What needs a closer check: lone surrogates, numbers that may overflow, and escapes that may encode hidden characters.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_LARGE: Final = re.compile(r"[eE]\+?[0-9]{3}")
_SPELLED: Final = re.compile(r"\\[ubfr]|&")


@dataclass(frozen=True, slots=True)
class Document:
    kind: Kind
    value: Any
    # False: `value` is only the beginning.
    whole: bool = True


def beginning_of(data: Any) -> Document:
    """The beginning of a result, for an outline."""
    return _of_text(data, _BEGINNING) if isinstance(data, str) else Document("json", data)


def opened(content: bytes, *, text: bool) -> Document:
    """A stored result, for reading."""
    if not text:
        return Document("json", json.loads(content))
    answer = content.decode()
    document = _of_text(answer)
    if document.kind != "text" and _SPELLED.search(answer):
        # Escapes and references may encode characters that were removed from the text.
        return Document(document.kind, hygiene.cleaned_json(document.value))
    return document


def _of_text(text: str, most: int | None = None) -> Document:
    start = text[:100].lstrip()[:1]
    if start in ("{", "["):
        try:
            if most is not None and len(text) > most:
                return Document("json", _beginning(text, most), whole=False)
            return Document("json", _json(text))
        except (ValueError, RecursionError):
            pass  # It only looked like JSON.
    elif start == "<":
        try:
            root, whole = markup.read(text, deepest=_DEEPEST, most=most)
            return Document("xml", root, whole)
        except markup.MarkupError:
            pass
    return Document("text", text.split("\n"))


def _json(text: str) -> Any:
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite if _LARGE.search(text) else None)
    if _SURROGATE.search(text):
        written(value).encode()
    return value


def _beginning(text: str, most: int) -> Any:
    """The value of the first `most` characters. The rest is not parsed, but the text must not be truncated."""
    if text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:] not in ("{}", "[]"):
        raise ValueError("truncated")
    beginning = text[:most]
    try:
        from_json(beginning, allow_inf_nan=False)
    except ValueError as error:
        if "EOF while parsing" not in str(error):
            raise  # For example data after the end, as in JSON Lines.
    return from_json(beginning, allow_inf_nan=False, allow_partial=True)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("too large")
    return number
