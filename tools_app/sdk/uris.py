"""URI templates, level 1 of RFC 6570: `redmine://issues/{id}/notes`."""

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
    """A URI with variables. The value of a variable is one path segment, never several."""

    def __init__(self, text: str) -> None:
        """Raises: ValueError, if the template is not valid or ambiguous."""
        pieces = _BLANK.split(text)
        self.text = text
        self.variables = tuple(pieces[1::2])
        self._literals = pieces[0::2]
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"a URI may have at most {MOST_CHARACTERS:,} characters")
        if not _SCHEME.match(text):
            raise ValueError(f"{text[:100]!r} must begin with scheme://, in lower case")
        for name in self.variables:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{{{name}}} is not a variable name; operators of RFC 6570 are not supported")
        if len(set(self.variables)) < len(self.variables) or len(self.variables) > MOST_VARIABLES:
            raise ValueError(f"a template may have at most {MOST_VARIABLES} variables, each of them once")
        if not all(_LITERAL.fullmatch(literal) for literal in self._literals):
            raise ValueError(f"{text!r} has a character that is not allowed in URIs")
        if not all(self._literals[1:-1]):
            raise ValueError("two variables need text between them")

    def values(self, uri: str) -> dict[str, str] | None:
        """The values of the variables in a URI; None if it does not match the template."""
        first, *following = self._literals
        if len(uri) > MOST_CHARACTERS or not uri.startswith(first):
            return None
        if not self.variables:
            return {} if uri == first else None
        values: dict[str, str] = {}
        begin = len(first)
        for number, (name, literal) in enumerate(zip(self.variables, following, strict=True), 1):
            if number == len(self.variables):
                end = len(uri) - len(literal)
                matches = uri.endswith(literal)
            else:
                end = uri.find(literal, begin + 1)
                matches = end > 0
            value = _read(uri[begin:end]) if matches and end > begin else None
            if value is None:
                return None
            values[name] = value
            begin = end + len(literal)
        return values

    def filled(self, values: Mapping[str, object]) -> str:
        """The URI for these values. Raises: ValueError, if they are not exactly those of the variables."""
        if values.keys() != set(self.variables):
            raise ValueError(f"{self.text} needs {', '.join(self.variables) or 'nothing'}")
        quoted = [quote(str(values[name]), safe="") for name in self.variables]
        return self._literals[0] + "".join(
            value + literal for value, literal in zip(quoted, self._literals[1:], strict=True)
        )


def _read(quoted: str) -> str | None:
    """The value of a variable; None if it could escape its directory when it is used in a path."""
    if not _ENDS.isdisjoint(quoted):
        return None
    try:
        value = unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if _UNSAFE.search(value) else value
