"""A CSV file of keys to create: its columns are options of `toolhub addkey`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools_app.management.hub_command import REFUSED, Abort
from tools_app.sdk.errors import shortened

MOST_KEYS: Final = 1_000
MOST_BYTES: Final = 1024 * 1024
# With several values, with one, with yes or no.
_SEVERAL: Final = ("toolset", "scope", "connection", "address", "budget")
_ONE: Final = ("rate", "expires", "ask")
_YES_OR_NO: Final = ("read-only", "no-destructive")
COLUMNS: Final = ("name", *_SEVERAL, *_ONE, *_YES_OR_NO)
_YES: Final = {"yes": True, "no": False, "": False}


def rows(file: str) -> list[tuple[int, dict[str, str]]]:
    """The keys of a file, each with the number of its line.

    Raises:
        Abort
    """
    try:
        reader = csv.DictReader(io.StringIO(_text(file), newline=""), strict=True)
        found = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Abort(f"{file} is not CSV in UTF-8: {error}", REFUSED) from error
    columns = reader.fieldnames or ()
    if unknown := [column for column in columns if column not in COLUMNS]:
        raise Abort(f"{file} has an unknown column {shortened(unknown[0])!r}; there are {', '.join(COLUMNS)}", REFUSED)
    if "name" not in columns:
        raise Abort(f"{file} has no column 'name' in its first line", REFUSED)
    if not 0 < len(found) <= MOST_KEYS:
        raise Abort(f"{file} must have 1 to {MOST_KEYS:,} keys", REFUSED)
    return found


def words(row: Mapping[str, Any]) -> list[str]:
    """A key as the arguments of `toolhub addkey`.

    Raises:
        ValueError
    """
    if None in row or None in row.values():
        raise ValueError("it must have as many values as the first line")
    options = [(name, value) for name in _SEVERAL for value in row.get(name, "").split()]
    options += [(name, value) for name in _ONE if (value := row.get(name, "").strip())]
    answers = {name: row.get(name, "").strip().lower() for name in _YES_OR_NO}
    if wrong := [name for name, answer in answers.items() if answer not in _YES]:
        raise ValueError(f"{wrong[0]} must be yes or no")
    flags = [f"--{name}" for name, answer in answers.items() if _YES[answer]]
    return [*(f"--{name}={value}" for name, value in options), *flags, "--", row["name"]]


def _text(file: str) -> str:
    """Raises: Abort, UnicodeDecodeError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise Abort(f"{file} cannot be read: {error.strerror}", REFUSED) from error
    if len(content) > MOST_BYTES:
        raise Abort(f"{file} is larger than 1 MiB", REFUSED)
    return content.decode("utf-8-sig")


def written(made: Sequence[tuple[str, str]]) -> str:
    """Names and keys, as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("name", "key"), *made])
    return text.getvalue()
