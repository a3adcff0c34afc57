"""JSON with comments and trailing commas, as editors and MCP clients accept it: its tokens, and plain JSON of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tools_app.text.json_text import JsonError

_TOKEN: Final = re.compile(
    r"""(?P<space> [\s\ufeff]+ | //[^\r\n]* | /\*.*?\*/ )
      | "(?:[^"\\\r\n]|\\.)*" | [{}\[\],:] | [^\s\ufeff{}\[\],:"/]+""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    text: str
    start: int
    end: int


_END: Final = Token("", 0, 0)


def tokens(text: str) -> Iterator[Token]:
    """All but comments and white space.

    Raises:
        JsonError
    """
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise JsonError(f"line {text.count(chr(10), 0, place) + 1}")
        if match["space"] is None:
            yield Token(match[0], *match.span())
        place = match.end()


def plain(all_tokens: Iterable[Token]) -> str:
    """The same value as JSON without comments and trailing commas."""
    return "".join(
        token.text
        for token, follower in pairwise([*all_tokens, _END])
        if not (token.text == "," and follower.text in ("}", "]"))
    )
