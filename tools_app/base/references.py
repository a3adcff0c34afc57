"""References to secrets that are kept outside the database: `${TOOLHUB_SECRET_NAME}` and `${file:NAME}`.

They are resolved at each use: a changed file is a rotated secret, without a restart. Only variables with that prefix,
and files in TOOLHUB_SECRETS_DIR: otherwise a connection could send the hub's own keys away.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools_app.base import conf

MOST_BYTES: Final = 64 * 1024
_ANY: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE: Final = re.compile(r"TOOLHUB_SECRET_[A-Za-z0-9_]{1,100}")
# Not with a dot at first: `..`, and the internal directories of mounted secrets.
_FILE: Final = re.compile(r"file:([A-Za-z0-9_-][A-Za-z0-9._-]{0,199})")


class MissingError(Exception):
    """A reference has no value now. The message names the reference, and contains neither a path nor a value."""


@dataclass(frozen=True)
class References:
    """The references of one connection, without `${}`."""

    names: tuple[str, ...]

    @property
    def fault(self) -> str:
        """Which of them have no value now, and why; empty if all have one."""
        return "; ".join(value for value, is_missing in map(_state_of, self.names) if is_missing)

    @property
    def state(self) -> tuple[tuple[str, bool], ...]:
        """Changes with their values."""
        return tuple(map(_state_of, self.names))


def found_in(texts: Iterable[str]) -> list[str]:
    """The references in these texts, each once.

    Raises:
        ValueError: one is no reference to a secret; the message says what is, without the text.
    """
    names = [name for text in texts for name in _ANY.findall(text)]
    if not all(_VARIABLE.fullmatch(name) or _FILE.fullmatch(name) for name in names):
        raise ValueError(
            "after `${`, expected a variable that begins with TOOLHUB_SECRET_, or file: and the name of a file in "
            "TOOLHUB_SECRETS_DIR, like ${TOOLHUB_SECRET_ACME} or ${file:acme-token}"
        )
    return sorted(set(names))


def resolved(text: str) -> str:
    """The text with the values of its references. What a value contains is not resolved again.

    Raises:
        MissingError
    """
    return _ANY.sub(lambda match: _value_of(match[1]), text)


def without(text: str) -> str:
    """The text with a letter for each reference: what can be checked before its values are known."""
    return _ANY.sub("x", text)


def _state_of(name: str) -> tuple[str, bool]:
    """The value of a reference, or why it has none."""
    try:
        return _value_of(name), False
    except MissingError as error:
        return str(error), True


def _value_of(name: str) -> str:
    """Raises: MissingError."""
    if match := _FILE.fullmatch(name):
        value = _content(match[1])
    else:
        value = os.environ.get(name, "") if _VARIABLE.fullmatch(name) else ""
    if not value:
        raise MissingError(f"{name} is empty" if match else f"{name} is not set")
    return value


def _content(name: str) -> str:
    """The text of a file in the directory of secrets, without a line break at the end.

    Raises:
        MissingError
    """
    directory = conf.value("TOOLHUB_SECRETS_DIR")
    if not directory:
        raise MissingError(f"file:{name} needs TOOLHUB_SECRETS_DIR, which is not set")
    try:
        root = Path(directory).resolve(strict=True)
        # Mounted secrets are symlinks within their directory.
        path = (root / name).resolve(strict=True)
        if not path.is_relative_to(root):
            raise MissingError(f"file:{name} is a link that leaves TOOLHUB_SECRETS_DIR")
        # NONBLOCK: a named pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MissingError(f"file:{name} is no regular file")
            content = os.read(descriptor, MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "links in a circle"
        raise MissingError(f"file:{name} cannot be read in TOOLHUB_SECRETS_DIR ({reason})") from None
    if len(content) > MOST_BYTES:
        raise MissingError(f"file:{name} is larger than {MOST_BYTES:,} bytes")
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise MissingError(f"file:{name} is not UTF-8 text") from None
