"""Addresses with blanks in them: `redmine://issues/{id}/notes`, as RFC 6570 has them at its first level."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

MOST_CHARACTERS: Final = 2_000
MOST_VARIABLES: Final = 8

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}://")
_BLANK: Final = re.compile(r"\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LITERAL: Final = re.compile(r"[!#-;=?-\[\]_a-z~]*")
_ENDS: Final = frozenset("/?#")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f]|(?:^|[/\\])\.{1,2}(?:[/\\]|$)|^[/\\]")


class UriTemplate:
    """A URI, with as many blanks as it likes. A blank holds one piece of a path, never several."""

    def __init__(self, text: str) -> None:
        """Raises: ValueError, saying what cannot be read or would be ambiguous."""
        pieces = _BLANK.split(text)
        self.text = text
        self.variables = tuple(pieces[1::2])
        self._literals = pieces[0::2]
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"a URI of more than {MOST_CHARACTERS:,} characters")
        if not _SCHEME.match(text):
            raise ValueError(f"{text[:100]!r} must begin like scheme://, in lower case")
        for name in self.variables:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{{{name}}} is no name in braces; operators of RFC 6570 are not known here")
        if len(set(self.variables)) < len(self.variables) or len(self.variables) > MOST_VARIABLES:
            raise ValueError(f"at most {MOST_VARIABLES} variables, each of them once")
        if not all(_LITERAL.fullmatch(literal) for literal in self._literals):
            raise ValueError(f"{text!r} has a character that no URI has")
        if not all(self._literals[1:-1]):
            raise ValueError("something must stand between two variables")

    def values(self, uri: str) -> dict[str, str] | None:
        """What fills the blanks in a URI of this form; None when it is of another."""
        first, *following = self._literals
        if len(uri) > MOST_CHARACTERS or not uri.startswith(first):
            return None
        if not self.variables:
            return {} if uri == first else None
        found: dict[str, str] = {}
        begin = len(first)
        for number, (name, literal) in enumerate(zip(self.variables, following, strict=True), 1):
            if number == len(self.variables):
                end = len(uri) - len(literal)
                fits = uri.endswith(literal)
            else:
                end = uri.find(literal, begin + 1)
                fits = end > 0
            value = _read(uri[begin:end]) if fits and end > begin else None
            if value is None:
                return None
            found[name] = value
            begin = end + len(literal)
        return found

    def filled(self, values: Mapping[str, object]) -> str:
        """Raises: ValueError, when it is not exactly these that it has blanks for."""
        if values.keys() != set(self.variables):
            raise ValueError(f"{self.text} needs {', '.join(self.variables) or 'nothing'}")
        written = [quote(str(values[name]), safe="") for name in self.variables]
        return self._literals[0] + "".join(
            value + literal for value, literal in zip(written, self._literals[1:], strict=True)
        )


def _read(written: str) -> str | None:
    """The value that stands for a blank; None for what could lead elsewhere, once somebody makes a path of it."""
    if not _ENDS.isdisjoint(written):
        return None
    try:
        value = unquote(written, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if _UNSAFE.search(value) else value
