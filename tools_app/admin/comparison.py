"""What `differences` finds between two definitions of a tool, in the words of the pages.

Differences that a table of parameters cannot show are named, and shown in the raw diff.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.catalog import differences
from tools_app.catalog.differences import ADDED, HINTS, REMOVED, SCHEMAS
from tools_app.catalog.schema_table import SchemaRow

# A comparison takes time with the square of its length: what is longer is said to be, not compared.
MOST_LINES: Final = 2_000
MOST_DIFFERENCES: Final = 300
MOST_CHARACTERS: Final = 500

_WORDS: Final = {
    "name": _lazy("Name"),
    "title": _lazy("Title"),
    "version": _lazy("Version"),
    "category": _lazy("Category"),
    "author": _lazy("Author"),
    "tags": _lazy("Tags"),
    "aliases": _lazy("Aliases"),
    "keywords": _lazy("Search keywords"),
    "dependencies": _lazy("Requires"),
    "deprecated": _lazy("Deprecated"),
    "untrusted": _lazy("May return external content"),
    "escapes": _lazy("Returns external content only in marked fields"),
    "icon": _lazy("Icon"),
}
_HINTS: Final = {
    "readOnlyHint": _lazy("Read-only"),
    "destructiveHint": _lazy("Destructive"),
    "idempotentHint": _lazy("Idempotent"),
    "openWorldHint": _lazy("External access"),
}
_ASPECTS: Final = {
    "type": _lazy("type"),
    "required": _lazy("required"),
    "default": _lazy("default"),
    "constraints": _lazy("constraints"),
    "description": _lazy("description"),
}
_VALUES: Final = {"inputSchema": _lazy("Parameter"), "outputSchema": _lazy("Response")}
_UNSEEN: Final = {
    "inputSchema": _lazy("Parameters, in the JSON Schema only"),
    "outputSchema": _lazy("Response, in the JSON Schema only"),
}
# Of the others a page says that they differ; how, the comparison of the JSON shows.
_IN_FULL: Final = {*_WORDS, HINTS, *SCHEMAS}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference, and what it is: added, removed, kept, or the place."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that was added, removed or changed: from what to what, or line by line where it is a text."""

    kind: str
    what: str
    before: str = ""
    after: str = ""
    lines: Sequence[DiffLine] = ()

    @property
    def tone(self) -> str:
        return {ADDED: "good", REMOVED: "bad"}.get(self.kind, "warn")

    @property
    def words(self) -> str:
        return {ADDED: _("added"), REMOVED: _("removed")}.get(self.kind, _("changed"))


def compared(before: object, after: object) -> list[Difference]:
    """Every difference, said once."""
    return [_in_words(one) for one in differences.between(before, after)[:MOST_DIFFERENCES]]


def lines(
    before: str, after: str, names: tuple[str, str] = ("", ""), *, around: int = 2
) -> tuple[list[DiffLine], bool]:
    """What differs, line by line, and whether there is more of it than is shown."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        return [DiffLine("place", _("Too long to compare."))], True
    found = [DiffLine(_kind(text), text) for text in difflib.unified_diff(old, new, *names, lineterm="", n=around)]
    return found[:MOST_DIFFERENCES], len(found) > MOST_DIFFERENCES


def _in_words(found: differences.Difference) -> Difference:
    if found.field == "description":
        # A long line is compared sentence by sentence: the words around a change are what is read.
        was, now = (_by_sentence(str(side or "")) for side in (found.before, found.after))
        told, _more = lines(was, now, around=1)
        return Difference(found.kind, _("Description"), lines=[line for line in told if line.kind != "place"] or told)
    if found.field not in _IN_FULL or (found.field in SCHEMAS and not found.piece):
        return Difference(found.kind, str(_UNSEEN.get(found.field, found.field.capitalize())))
    return Difference(found.kind, _named(found), _text(found.before), _text(found.after))


def _named(found: differences.Difference) -> str:
    if found.field == HINTS:
        return str(_HINTS.get(found.piece, found.piece))
    if found.field in SCHEMAS:
        value = f"{_VALUES[found.field]} {found.piece}"
        return f"{value}: {_ASPECTS[found.aspect]}" if found.aspect else value
    return str(_WORDS[found.field])


def _row(row: SchemaRow) -> str:
    needed = _("required") if row.required else _("optional")
    told = ", ".join(filter(None, (row.type, needed, row.constraints)))
    return f"{told}: {row.description}" if row.description else told


def _by_sentence(text: str) -> str:
    return text.replace(". ", ".\n")


def _answer(value: object) -> str:
    return _("yes") if value is True else _("no") if value is False else "–"


def _text(value: object) -> str:
    match value:
        case None:
            said = ""
        case bool():
            said = _answer(value)
        case str():
            said = value
        case SchemaRow():
            said = _row(value)
        case list():
            said = ", ".join(map(_text, value))
        case _:
            said = json.dumps(value, ensure_ascii=False, default=str)
    return said if len(said) <= MOST_CHARACTERS else f"{said[:MOST_CHARACTERS]}…"


def _kind(text: str) -> str:
    if text.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(text[:1], "kept")
