"""The configuration of Codex, edited as text: tables of other servers, comments and white space stay unchanged.

An edit is checked by reading its result: what it cannot do without another effect, it refuses.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any, Final

_HEADER: Final = re.compile(r"\s*\[(?!\[)(?P<key>.+)\]\s*(?:#.*)?")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class EditError(ValueError):
    """The text cannot be edited."""


class TomlText:
    """`member` is the table that holds the servers by name.

    Raises:
        EditError
    """

    def __init__(self, text: str, member: str) -> None:
        self.text, self.member = text, member
        self._parsed = _loaded(text)
        entries = self._parsed.get(member, {})
        if not isinstance(entries, dict):
            raise EditError(f"its {member!r} is not a table")
        self.entries: dict[str, Any] = entries

    def with_entry(self, name: str, entry: dict[str, Any]) -> str:
        text = self.without_entry(name) if name in self.entries else self.text
        newline = "\r\n" if "\r\n" in self.text else "\n"
        before = text.rstrip("\r\n")
        added = written((self.member, name), entry).replace("\n", newline)
        result = before + (2 * newline if before else "") + added + newline
        expected = copy.deepcopy(self._parsed)
        expected.setdefault(self.member, {})[name] = entry
        return self._checked(result, expected)

    def without_entry(self, name: str) -> str:
        kept: list[str] = []
        pending: list[str] = []
        is_removed = False
        for line in self.text.splitlines(keepends=True):
            match = _HEADER.fullmatch(line.rstrip("\r\n"))
            if match is not None and (path := _path(match["key"])):
                if is_removed:
                    # Comments above the next table belong to it.
                    first = next((i for i, one in enumerate(pending) if one.strip()), len(pending))
                    kept += pending[first:]
                pending = []
                is_removed = path[:2] == [self.member, name]
            if not is_removed:
                kept.append(line)
            elif not line.strip() or line.lstrip().startswith("#"):
                pending.append(line)
            else:
                pending = []
        expected = copy.deepcopy(self._parsed)
        del expected[self.member][name]
        return self._checked("".join(kept), expected)

    def _checked(self, text: str, expected: dict[str, Any]) -> str:
        parsed = _loaded(text)
        for value in (parsed, expected):
            if not value.get(self.member):
                value.pop(self.member, None)
        if parsed != expected:
            raise EditError("its tables are written in a way that this command does not edit: change it by hand")
        return text


def _loaded(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EditError(f"it is not TOML ({error})") from error


def _path(key: str) -> list[str]:
    """The parts of the name of a table; empty if the line is none."""
    try:
        value: Any = tomllib.loads(f"[{key}]")
    except tomllib.TOMLDecodeError:
        return []
    path = []
    while isinstance(value, dict) and value:
        ((name, value),) = value.items()
        path.append(name)
    return path


def written(path: tuple[str, ...], table: dict[str, Any]) -> str:
    """A table with its tables below."""
    lines = [f"[{'.'.join(map(_key, path))}]"]
    for name, value in table.items():
        if not isinstance(value, dict):
            # Strings of JSON, and lists of them, are written alike in TOML.
            lines.append(f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}")
    for name, value in table.items():
        if isinstance(value, dict):
            lines += ["", written((*path, name), value)]
    return "\n".join(lines)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
