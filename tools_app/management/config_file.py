"""A client's configuration file, edited as text: other entries, comments and white space stay unchanged."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tools_app.setup.clients import McpClient
from tools_app.text import commented_json
from tools_app.text.json_text import JsonError
from tools_app.text.toml_text import EditError, TomlText

BACKUP: Final = ".before-toolhub"
# Then a digest of what was written: the file is unchanged since, if it still has this digest.
MOVED: Final = ".before-toolhub-move-"
_REST_OF_LINE: Final = re.compile(r"[ \t]*\r?\n")


class ConfigFileError(Exception):
    """The file cannot be read or changed; the message says why."""


class Member(NamedTuple):
    """A member of an object, as indexes of tokens: its name, and the first and last token of its value."""

    name: int
    value: int
    last: int


class UndoneMove(NamedTuple):
    """The servers that are back in the file, and the backup that they come from."""

    names: list[str]
    backup: Path
    is_exact: bool


class Text(Protocol):
    """The text of a configuration file, and how it reads with another entry. Raises: EditError."""

    text: str
    entries: dict[str, Any]

    def with_entry(self, name: str, entry: dict[str, Any]) -> str: ...
    def without_entry(self, name: str) -> str: ...


@dataclass(frozen=True)
class ConfigFile:
    """`member` is the object at the top that holds the servers by name."""

    path: Path
    member: str
    is_toml: bool = False

    @classmethod
    def of(cls, client: McpClient, path: Path) -> ConfigFile:
        return cls(path.expanduser().absolute(), client.member, client.is_toml)

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
        """Raises: ConfigFileError."""
        self._write(self._text().without_entry(name), private=False)

    def move(self, servers: Mapping[str, Any], name: str, entry: dict[str, Any] | None, *, private: bool) -> Path:
        """Replace servers by another one, in one step. Without an entry they are only removed.

        `servers` are the entries as they were when the caller decided. Returns the backup, from which `undo` restores
        the file.

        Raises:
            ConfigFileError: nothing is changed; or another program has replaced the file since, and has the servers.
        """
        before = self._bytes()
        text = self._text()
        expected = {one: value for one, value in text.entries.items() if one not in servers}
        if changed := [one for one, value in servers.items() if text.entries.get(one) != value]:
            raise ConfigFileError(f"{self.path} is not changed: {', '.join(changed)} has changed in it meanwhile")
        try:
            if entry is not None:
                expected[name] = entry
                text = self._parsed(text.with_entry(name, entry))
            for moved_name in servers:
                if moved_name not in expected:
                    text = self._parsed(text.without_entry(moved_name))
            if text.entries != expected:
                raise EditError("the edit would change something else")
        except EditError as error:
            raise ConfigFileError(f"{self.path} is not changed: {error}") from error
        backup = self._backup_of(text.text.encode())
        try:
            if self._bytes() != before:
                raise ConfigFileError(f"{self.path} is not changed: another program has just written it")
            self._write(text.text, private=private, backup=backup)
        except ConfigFileError:
            # It holds secrets, and there is nothing to take back.
            backup.unlink(missing_ok=True)
            raise
        if self.entries() != expected:
            raise ConfigFileError(
                f"{self.path} was written again by another program, and the servers are not moved. End this program "
                f"first. The file before the move: {backup}"
            )
        return backup

    def undo(self, is_ours: Callable[[Any], bool]) -> UndoneMove:
        """Take the last move back: byte for byte, or server by server if the file was changed since.

        Raises:
            ConfigFileError: nothing was moved.
        """
        backup = self._backup_of(self._bytes())
        if backup.exists():
            before = backup.read_bytes()
            self._replace(before, private=False)
            backup.unlink()
            return UndoneMove(sorted(self.entries()), backup, is_exact=True)
        backups = sorted(self.target.parent.glob(f"{glob.escape(self.target.name)}{MOVED}*"), key=_changed_at)
        if not backups:
            raise ConfigFileError(f"no servers of {self.path} were moved")
        before_text, text = ConfigFile(backups[-1], self.member, self.is_toml)._text(), self._text()
        try:
            restored = [name for name in before_text.entries if name not in text.entries]
            for name in restored:
                text = self._parsed(text.with_entry(name, before_text.entries[name]))
            for name, entry in list(text.entries.items()):
                if name not in before_text.entries and is_ours(entry):
                    text = self._parsed(text.without_entry(name))
        except EditError as error:
            raise ConfigFileError(f"{self.path} is not changed: {error}") from error
        self._write(text.text, private=False)
        return UndoneMove(restored, backups[-1], is_exact=False)

    def _backup_of(self, content: bytes) -> Path:
        return self.target.with_name(f"{self.target.name}{MOVED}{hashlib.sha256(content).hexdigest()[:12]}")

    def _bytes(self) -> bytes:
        try:
            return self.target.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigFileError(f"{self.path} cannot be read: {_reason(error)}") from error

    def _text(self) -> Text:
        try:
            text = self._bytes().decode()
        except UnicodeDecodeError as error:
            raise ConfigFileError(f"{self.path} cannot be read: {_reason(error)}") from error
        try:
            return self._parsed(text)
        except (EditError, RecursionError) as error:
            raise ConfigFileError(f"{self.path} is not changed: {error}") from error

    def _parsed(self, text: str) -> Text:
        if self.is_toml:
            return TomlText(text, self.member)
        return _JsonText(text if text.strip() else "{}\n", self.member)

    def _write(self, text: str, *, private: bool, backup: Path | None = None) -> bool:
        """Replace the file, of which a backup is made. Returns whether there was one."""
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            if existed := self.target.exists():
                shutil.copyfile(self.target, _create_private(backup or self.backup))
        except OSError as error:
            raise ConfigFileError(f"{self.path} cannot be written: {_reason(error)}") from error
        self._replace(text.encode(), private=private)
        return existed

    def _replace(self, content: bytes, *, private: bool) -> None:
        """Replace the file atomically: readers see the old or the new one."""
        target, draft = self.target, None
        try:
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
            descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(mode & 0o600 if private else mode)
            Path(draft).replace(target)
        except OSError as error:
            if draft is not None:
                with contextlib.suppress(OSError):
                    Path(draft).unlink(missing_ok=True)
            raise ConfigFileError(f"{self.path} cannot be written: {_reason(error)}") from error


def _changed_at(path: Path) -> float:
    return path.stat().st_mtime


def _create_private(path: Path) -> Path:
    """Create an empty file that only its owner can read: the configuration may contain keys of other servers."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


class _JsonText:
    """JSON text, possibly with comments and trailing commas.

    Raises:
        EditError
    """

    def __init__(self, text: str, member: str) -> None:
        self.text, self.member = text, member
        try:
            self.tokens = list(commented_json.tokens(text))
            parsed = json.loads(commented_json.plain(self.tokens), object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise EditError(f"it is not JSON ({error.msg})") from error
        except JsonError as error:
            raise EditError(f"it is not JSON ({error})") from error
        entries = parsed.get(member, {}) if isinstance(parsed, dict) else None
        if not isinstance(entries, dict):
            raise EditError(f"it is not an object whose {member!r} is an object")
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise EditError("one of its objects has a duplicate key")
    return members


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
