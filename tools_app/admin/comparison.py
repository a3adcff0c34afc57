"""Differences between two definitions of a tool, with the labels of the admin.

Differences outside the table of parameters are named here, and shown in the raw diff.
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

# Comparing takes quadratic time, so longer texts are not compared.
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
    # Of operations of OpenAPI documents.
    "_operation": _lazy("Request"),
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
_SCHEMA_ONLY: Final = {
    "inputSchema": _lazy("Parameters, in the JSON Schema only"),
    "outputSchema": _lazy("Response, in the JSON Schema only"),
}
# For other fields the page only says that they differ; the JSON diff shows how.
_IN_FULL: Final = {*_WORDS, HINTS, *SCHEMAS}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff. `kind`: added, removed, kept or place (a diff header)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One added, removed or changed field, with both values; texts are compared line by line."""

    kind: str
    label: str
    before: str = ""
    after: str = ""
    lines: Sequence[DiffLine] = ()

    @property
    def tone(self) -> str:
        return {ADDED: "good", REMOVED: "bad"}.get(self.kind, "warn")

    @property
    def words(self) -> str:
        return {ADDED: _("added"), REMOVED: _("removed")}.get(self.kind, _("changed"))


def compare(before: object, after: object) -> list[FieldDiff]:
    """All differences."""
    return [_in_words(one) for one in differences.between(before, after)[:MOST_DIFFERENCES]]


def lines(
    before: str, after: str, names: tuple[str, str] = ("", ""), *, around: int = 2
) -> tuple[list[DiffLine], bool]:
    """A unified diff, and True if it is truncated."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        return [DiffLine("place", _("Too long to compare."))], True
    diff_lines = [DiffLine(_kind(text), text) for text in difflib.unified_diff(old, new, *names, lineterm="", n=around)]
    return diff_lines[:MOST_DIFFERENCES], len(diff_lines) > MOST_DIFFERENCES


def _in_words(change: differences.Difference) -> FieldDiff:
    if change.field == "description":
        # Long lines are compared by sentence, so that a change is shown with the words around it.
        was, now = (_by_sentence(str(side or "")) for side in (change.before, change.after))
        diff, _more = lines(was, now, around=1)
        return FieldDiff(change.kind, _("Description"), lines=[line for line in diff if line.kind != "place"] or diff)
    if change.field not in _IN_FULL or (change.field in SCHEMAS and not change.piece):
        return FieldDiff(change.kind, str(_SCHEMA_ONLY.get(change.field, change.field.capitalize())))
    return FieldDiff(change.kind, _field_label(change), _text(change.before), _text(change.after))


def _field_label(difference: differences.Difference) -> str:
    if difference.field == HINTS:
        return str(_HINTS.get(difference.piece, difference.piece))
    if difference.field in SCHEMAS:
        value = f"{_VALUES[difference.field]} {difference.piece}"
        return f"{value}: {_ASPECTS[difference.aspect]}" if difference.aspect else value
    return str(_WORDS[difference.field])


def _row(row: SchemaRow) -> str:
    necessity = _("required") if row.required else _("optional")
    summary = ", ".join(filter(None, (row.type, necessity, row.constraints)))
    return f"{summary}: {row.description}" if row.description else summary


def _by_sentence(text: str) -> str:
    return text.replace(". ", ".\n")


def _answer(value: object) -> str:
    return _("yes") if value is True else _("no") if value is False else "–"


def _text(value: object) -> str:
    match value:
        case None:
            text = ""
        case bool():
            text = _answer(value)
        case str():
            text = value
        case SchemaRow():
            text = _row(value)
        case list():
            text = ", ".join(map(_text, value))
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _kind(text: str) -> str:
    if text.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(text[:1], "kept")
