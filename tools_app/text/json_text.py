"""Reading JSON from strangers: strictly, and in time and memory that do not depend on their good will.

What Python's own reader lets pass is refused here: NaN and infinities, numbers that overflow, keys given twice (the
last would win), halves of surrogate pairs and NUL (no database takes them), other encodings than UTF-8. Depth and
number of values are counted before anything is parsed, with scans that run at C speed.
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
# Numbers that may be too large; all others spare the reader a call of ours for every one of them.
_LARGE: Final = re.compile(rb"[0-9]{19}|[eE]\+?[0-9]{3}")
_HALF: Final = re.compile(rb"%s(?!%s)|(?<!%s)%s" % (_HIGH, _LOW, rb"\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F]", _LOW))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of what is taken.

    `digits` are those of a whole number that need not fit into 64 bits. `any_text` takes a byte order mark, NUL and
    halves of surrogate pairs, which programs that nobody here can mend do send: whoever asks for it cleans texts later.
    """

    depth: int = MAX_DEPTH
    values: int = MAX_VALUES
    digits: int = 0
    any_text: bool = False


CLIENTS: Final = Bounds()


class JsonError(ValueError):
    """The text is no JSON that is accepted here. The message says why, and repeats nothing of it."""


class TooManyValuesError(JsonError):
    """It may be JSON, and there is more of it than is taken."""


class CharacterError(JsonError):
    """It is JSON, but a text in it holds what no database and no other program takes."""


def parsed(body: bytes, bounds: Bounds = CLIENTS) -> Any:
    """What a JSON text says.

    Raises:
        JsonError: it is not JSON, or JSON that no honest client sends.
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


def nested_deeper(value: Any, limit: int) -> bool:
    """Whether a value that did not come as text is nested deeper than `limit`."""
    waiting = [(value, 0)]
    while waiting:
        found, depth = waiting.pop()
        if isinstance(found, dict | list | tuple):
            if depth >= limit:
                return True
            parts = found.values() if isinstance(found, dict) else found
            waiting.extend((part, depth + 1) for part in parts)
    return False


def _measure(body: bytes, bounds: Bounds) -> bool:
    """Refuse what would cost too much to parse, and what the parser would let pass. True: numbers need a closer look.

    With escapes out of the way every quote begins or ends a string, up to where the text stops being JSON; what
    comes after that is never parsed.
    """
    plain = body.replace(rb"\\", _PLACE).replace(rb"\"", _PLACE)
    if rb"\u" in plain and not bounds.any_text:
        if _NUL in plain:
            raise CharacterError("a text holds the character NUL")
        if _HALF.search(plain):
            raise CharacterError("a text holds half of a surrogate pair")
    # Every value brings two strings at most, its key and itself.
    if plain.count(b'"') > 4 * bounds.values:
        raise TooManyValuesError(f"more than {bounds.values:,} values")
    values = 1
    depth = 0
    large = False
    for structure in _structure(plain):
        containers = structure.count(b"[") + structure.count(b"{")
        empty = structure.count(b"[]") + structure.count(b"{}")
        values += structure.count(b",") + containers - empty
        if values > bounds.values:
            raise TooManyValuesError(f"more than {bounds.values:,} values")
        *depths, depth = accumulate(map(_STEP.__getitem__, structure.translate(None, delete=_BRACKETS)), initial=depth)
        if max(depth, *depths, 0) > bounds.depth:
            raise JsonError(f"nested deeper than {bounds.depth} levels")
        large = large or _LARGE.search(structure) is not None
    return large


def _structure(plain: bytes) -> Iterator[bytes]:
    """What stands outside of strings and is no blank, a part at a time: the strings of a large text are many."""
    start, inside = 0, False
    while start < len(plain):
        end = start + _PART
        if end < len(plain):
            # Between two values, so that no number and no empty list is cut in two.
            end = max(plain.rfind(b'"', start, end), plain.rfind(b",", start, end)) + 1 or end
        pieces = plain[start:end].split(b'"')
        yield b'"'.join(pieces[inside::2]).translate(None, delete=_BLANKS)
        inside ^= len(pieces) % 2 == 0
        start = end


def _whole(digits: str, most: int) -> int:
    # Length first: turning thousands of digits into a number is slow, and Python refuses to.
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
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonError("an object has the same key twice")
    return found


_QUICK: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


@lru_cache(4)
def _decoder(digits: int) -> json.JSONDecoder:
    """One that looks at every number."""
    whole = partial(_whole, most=digits)
    return json.JSONDecoder(object_pairs_hook=_object, parse_int=whole, parse_float=_fraction, parse_constant=_constant)


def digest(value: Any) -> str:
    """A hash that is the same for the same JSON, in whatever order its keys came."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
