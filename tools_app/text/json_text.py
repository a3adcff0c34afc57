"""Strict parsing of untrusted JSON, in bounded time and memory.

Refused, in contrast to Python's parser: NaN and infinities, numbers that overflow, duplicate keys (the last would
win), lone surrogates and NUL (databases refuse them), encodings other than UTF-8. Depth and number of values are
counted before anything is parsed, with scans that run at C speed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Final

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 100_000
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1

_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"
_PLACE: Final = b"__"
_PART: Final = 1024 * 1024
_BRACKETS: Final = bytes(range(256)).translate(None, delete=b"[]{}")
_BLANKS: Final = b" \t\r\n"
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NUL: Final = rb"\u0000"
_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Numbers that can be too large: only with these does the parser call our functions for every number.
_LARGE: Final = re.compile(rb"[0-9]{19}|[eE]\+?[0-9]{3}")
_HALF: Final = re.compile(rb"%s(?!%s)|(?<!%s)%s" % (_HIGH, _LOW, rb"\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F]", _LOW))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for a JSON text.

    `digits`: the maximum length of whole numbers that do not fit into 64 bits. `any_text` accepts a byte order mark,
    NUL and lone surrogates, which some upstreams send: the caller has to clean the texts.
    """

    depth: int = MAX_DEPTH
    values: int = MAX_VALUES
    digits: int = 0
    any_text: bool = False


CLIENTS: Final = Bounds()


class JsonError(ValueError):
    """The text is not acceptable JSON. The message says why, without quoting the text."""


class TooManyValuesError(JsonError):
    """The text has more values than allowed."""


class CharacterError(JsonError):
    """The JSON contains a character that databases and other programs refuse."""


def parsed(body: bytes, bounds: Bounds = CLIENTS) -> Any:
    """The value of a JSON text.

    Raises:
        JsonError: it is not JSON, or exceeds the bounds.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError("not UTF-8") from error
    if text.startswith(_MARK):
        if not bounds.any_text:
            raise JsonError("starts with a byte order mark")
        text = text.removeprefix(_MARK)
    decoder = _decoder(bounds.digits) if _measure(body, bounds) else _QUICK
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise JsonError(f"syntax error in line {error.lineno}, column {error.colno}") from error


def depth(body: bytes) -> int:
    """How deep the value of a JSON text is nested."""
    deepest = level = 0
    for structure in _structure(_without_escapes(body)):
        highest, level = _levels(structure, level)
        deepest = max(deepest, highest)
    return deepest


def _measure(body: bytes, bounds: Bounds) -> bool:
    """Refuse what is too expensive to parse, or what the parser accepts. True: numbers have to be checked one by one.

    Without escapes, every quote begins or ends a string, up to the first syntax error; the parser stops there.
    """
    plain = _without_escapes(body)
    if rb"\u" in plain and not bounds.any_text:
        if _NUL in plain:
            raise CharacterError("a text holds the character NUL")
        if _HALF.search(plain):
            raise CharacterError("a text holds a lone surrogate")
    # Every value has at most two strings, its key and itself.
    if plain.count(b'"') > 4 * bounds.values:
        raise TooManyValuesError(f"more than {bounds.values:,} values")
    containers = plain.count(b"[") + plain.count(b"{")
    if len(plain) <= bounds.values and containers <= bounds.depth and _LARGE.search(plain) is None:
        # Too short for more, whatever of it is inside strings.
        return False
    values = 1
    level = 0
    large = False
    for structure in _structure(plain):
        containers = structure.count(b"[") + structure.count(b"{")
        empty = structure.count(b"[]") + structure.count(b"{}")
        values += structure.count(b",") + containers - empty
        if values > bounds.values:
            raise TooManyValuesError(f"more than {bounds.values:,} values")
        highest, level = _levels(structure, level)
        if highest > bounds.depth:
            raise JsonError(f"nested deeper than {bounds.depth} levels")
        large = large or _LARGE.search(structure) is not None
    return large


def _without_escapes(body: bytes) -> bytes:
    return body.replace(rb"\\", _PLACE).replace(rb"\"", _PLACE)


def _levels(structure: bytes, level: int) -> tuple[int, int]:
    """The highest level of nesting in a part of a text, and the one at its end."""
    *levels, end = accumulate(map(_STEP.__getitem__, structure.translate(None, delete=_BRACKETS)), initial=level)
    return max(end, *levels, 0), end


def _structure(plain: bytes) -> Iterator[bytes]:
    """Everything outside strings and whitespace, in parts: a large text has many strings."""
    start, inside = 0, False
    while start < len(plain):
        end = start + _PART
        if end < len(plain):
            # Cut between two values, so that no number and no empty list is split.
            end = max(plain.rfind(b'"', start, end), plain.rfind(b",", start, end)) + 1 or end
        pieces = plain[start:end].split(b'"')
        yield b'"'.join(pieces[inside::2]).translate(None, delete=_BLANKS)
        inside ^= len(pieces) % 2 == 0
        start = end


def _whole(digits: str, most: int) -> int:
    # Length first: converting thousands of digits is slow, and Python refuses it.
    if len(digits) <= len(str(LOWEST)) and LOWEST <= (number := int(digits)) <= HIGHEST:
        return number
    if len(digits) > most:
        raise JsonError(
            f"a whole number has more than {most} digits" if most else "a whole number does not fit into 64 bits"
        )
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise JsonError("a number is too large")
    return number


def _constant(name: str) -> Any:
    raise JsonError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise JsonError("an object has the same key twice")
    return mapping


_QUICK: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


@lru_cache(4)
def _decoder(digits: int) -> json.JSONDecoder:
    """A decoder that checks every number."""
    whole = partial(_whole, most=digits)
    return json.JSONDecoder(object_pairs_hook=_object, parse_int=whole, parse_float=_fraction, parse_constant=_constant)


def digest(value: Any) -> str:
    """A hash of a JSON value, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
