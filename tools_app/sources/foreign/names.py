"""Names and URIs in this hub for what sources outside offer. Once given, a name is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from tools_app.sdk.names import DefinitionError, folded
from tools_app.sdk.resource import OWN_SCHEME
from tools_app.sdk.uris import UriTemplate

# Claude accepts 64 characters, including the prefix `mcp__toolhub__`.
MOST_CHARACTERS: Final = 50
_DIGITS: Final = 8
_OTHERS: Final = re.compile(r"[^a-z0-9_-]+")
_VARIABLE: Final = re.compile(r"(\{[^{}]*\})")


class Names:
    """The names of one source, as (kind, original name) → name. All begin with its prefix."""

    def __init__(self, prefix: str, stored: Mapping[tuple[str, str], str]) -> None:
        self._prefix, self._stored = prefix, stored
        self._taken = {(kind, folded(name)) for (kind, _), name in stored.items()}

    def of(self, kind: str, original: str, label: str = "", *, unique: bool = True) -> str:
        """The name, made from the label if there is one. For kinds whose names need not be unique, it depends on
        nothing but the original."""
        if unique and (stored := self._stored.get((kind, original))):
            return stored
        plain = (label or original).lower()
        slug = _OTHERS.sub("_", plain).strip("_-")
        name = f"{self._prefix}_{slug}"
        is_taken = unique and (kind, folded(name)) in self._taken
        digits = _DIGITS
        while slug != plain or len(name) > MOST_CHARACTERS or is_taken:
            digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:digits]
            room = MOST_CHARACTERS - len(self._prefix) - len(digest) - 2
            name = "_".join(filter(None, (self._prefix, slug[:room].rstrip("_-"), digest)))
            if not (unique and (kind, folded(name)) in self._taken):
                break
            digits += 2
        if unique:
            self._taken.add((kind, folded(name)))
        return name


def uri_of(source: str, original: str) -> str:
    """The URI of a resource in this hub: two sources may use the same URI."""
    return f"{OWN_SCHEME}//{source}/{quote(original, safe='')}"


def template_of(source: str, original: str) -> str:
    """The same for a template, with its variables in place.

    Raises:
        DefinitionError: this hub cannot match URIs with it.
    """
    pieces = _VARIABLE.split(original)
    escaped = (piece if number % 2 else quote(piece, safe="") for number, piece in enumerate(pieces))
    text = f"{OWN_SCHEME}//{source}/{''.join(escaped)}"
    try:
        template = UriTemplate(text)
    except ValueError as error:
        raise DefinitionError(f"its URI template cannot be used: {error}") from error
    if not template.variables:
        raise DefinitionError("its URI template has no variables")
    return text
