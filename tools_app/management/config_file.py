"""A client's configuration file, edited as text: other entries, comments and white space stay unchanged."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

BACKUP: Final = ".before-toolhub"
_TOKEN: Final = re.compile(
    r"""(?P<space> [\s\ufeff]+ | //[^\r\n]* | /\*.*?\*/ )
      | "(?:[^"\\\r\n]|\\.)*" | [{}\[\],:] | [^\s\ufeff{}\[\],:"/]+""",
    re.VERBOSE | re.DOTALL,
)

_REST_OF_LINE: Final = re.compile(r"[ \t]*\r?\n")


class ConfigFileError(Exception):
    """The file cannot be read or changed; the message says why."""


class _EditError(ValueError):
    """The text cannot be edited."""


class Token(NamedTuple):
    text: str
    start: int
    end: int


class Member(NamedTuple):
    """A member of an object, as indexes of tokens: its name, and the first and last token of its value."""

    name: int
    value: int
    last: int


@dataclass(frozen=True)
class ConfigFile:
    """`member` is the object at the top that holds the servers by name."""

    path: Path
    member: str

    @property
    def target(self) -> Path:
        """The file itself, where `path` is a link to it."""
        return Path(os.path.realpath(self.path))

    @property
    def backup(self) -> Path:
        return self.target.with_name(self.target.name + BACKUP)

    def entries(self) -> dict[str, Any]:
        """The servers in it.

        Raises:
            ConfigFileError
        """
        return self._text().entries

    def put(self, name: str, entry: dict[str, Any], *, private: bool) -> bool:
        """Add or replace a server. Returns True if there was a file before, which now has a backup.

        `private`: remove the read permission of other users.

        Raises:
            ConfigFileError
        """
        return self._write(self._text().with_entry(name, entry), private=private)

    def remove(self, name: str) -> None:
        """Raises: Unfit."""
        self._write(self._text().without_entry(name), private=False)

    def _text(self) -> _Text:
        try:
            text = self.target.read_bytes().decode()
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigFileError(f"{self.path} cannot be read: {_reason(error)}") from error
        try:
            return _Text(text if text.strip() else "{}\n", self.member)
        except (_EditError, RecursionError) as error:
            raise ConfigFileError(f"{self.path} is not changed: {error}") from error

    def _write(self, text: str, *, private: bool) -> bool:
        """Replace the file atomically: readers see the old or the new one."""
        target, draft = self.target, None
        try:
            mode = target.stat().st_mode & 0o777 if (existed := target.exists()) else 0o644
            target.parent.mkdir(parents=True, exist_ok=True)
            if existed:
                shutil.copyfile(target, _create_private(self.backup))
            descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(mode & 0o600 if private else mode)
            Path(draft).replace(target)
        except OSError as error:
            if draft is not None:
                with contextlib.suppress(OSError):
                    Path(draft).unlink(missing_ok=True)
            raise ConfigFileError(f"{self.path} cannot be written: {_reason(error)}") from error
        return existed


def _create_private(path: Path) -> Path:
    """Create an empty file that only its owner can read: the configuration may contain keys of other servers."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


class _Text:
    """JSON text, possibly with comments and trailing commas.

    Raises:
        _EditError
    """

    def __init__(self, text: str, member: str) -> None:
        self.text, self.member = text, member
        self.tokens = list(_tokens(text))
        plain = "".join(
            token.text
            for token, follower in zip(self.tokens, [*self.tokens[1:], None], strict=True)
            if not (token.text == "," and follower is not None and follower.text in "}]")
        )
        try:
            parsed = json.loads(plain, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise _EditError(f"it is not JSON ({error.msg})") from error
        entries = parsed.get(member, {}) if isinstance(parsed, dict) else None
        if not isinstance(entries, dict):
            raise _EditError(f"it is not an object whose {member!r} is an object")
        self.entries: dict[str, Any] = entries

    def with_entry(self, name: str, entry: dict[str, Any]) -> str:
        root = self._members(0)
        if self.member not in root:
            return self._with_member(0, root, self.member, {name: entry}, depth=1)
        servers = root[self.member].value
        members = self._members(servers)
        if name not in members:
            return self._with_member(servers, members, name, entry, depth=2)
        start, end = self.tokens[members[name].value].start, self.tokens[members[name].last].end
        return self.text[:start] + self._as_json(entry, depth=2) + self.text[end:]

    def without_entry(self, name: str) -> str:
        entry_member = self._members(self._members(0)[self.member].value)[name]
        start, end = self.tokens[entry_member.name].start, self.tokens[entry_member.last].end
        before, after = self.tokens[entry_member.name - 1], self.tokens[entry_member.last + 1]
        if after.text == ",":
            end = after.end
        head, tail = self.text[:start], self.text[end:]
        if _REST_OF_LINE.match(tail):  # Remove the line, which would be empty.
            head = head.rstrip(" \t").removesuffix("\n").removesuffix("\r")
        if after.text != "," and before.text == ",":
            head = head[: before.start] + head[before.end :]
        return head + tail

    def _with_member(self, start: int, members: dict[str, Member], name: str, value: Any, *, depth: int) -> str:
        """The text with a new member at the end of the object that starts at token `start`."""
        end = self._end(start)
        before = self.tokens[end - 1]
        head, tail = self.text[: self.tokens[end].start], self.text[self.tokens[end].start :]
        if members and before.text != ",":
            head = f"{head[: before.end]},{head[before.end :]}"
        newline = self._newline + self._indent * depth
        line = f"{newline}{json.dumps(name, ensure_ascii=False)}: {self._as_json(value, depth=depth)}"
        if before.text == ",":  # The file uses trailing commas.
            line += ","
        return head.rstrip() + line + newline.removesuffix(self._indent) + tail

    def _as_json(self, value: Any, *, depth: int) -> str:
        lines = json.dumps(value, indent=self._indent, ensure_ascii=False).split("\n")
        return (self._newline + self._indent * depth).join(lines)

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _indent(self) -> str:
        match = re.search(r'\n([ \t]+)"', self.text)
        return match[1] if match else "  "

    def _members(self, start: int) -> dict[str, Member]:
        members = {}
        place = start + 1
        while self.tokens[place].text != "}":
            last = self._end(place + 2)
            members[json.loads(self.tokens[place].text)] = Member(place, place + 2, last)
            place = last + 1
            if self.tokens[place].text == ",":
                place += 1
        return members

    def _end(self, place: int) -> int:
        """The last token of the value that starts at token `place`."""
        depth = 0
        while True:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(self.tokens[place].text, 0)
            if depth == 0:
                return place
            place += 1


def _tokens(text: str) -> Iterable[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            line = text.count("\n", 0, place) + 1
            raise _EditError(f"it is not JSON (line {line})")
        if match["space"] is None:
            yield Token(match[0], *match.span())
        place = match.end()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _EditError("one of its objects has a duplicate key")
    return members


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
