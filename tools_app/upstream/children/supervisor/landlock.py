"""Keeps a child from files of the hub, where the kernel has Landlock. For Linux; elsewhere nothing is kept from it.

Landlock only permits: a directory is hidden by permitting everything beside it, and beside each directory above it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

# The same on every architecture that has it.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
_DROP_CAPABILITY: Final = 24

# Version 1 refuses to move a file to another directory, which package managers do.
_LEAST: Final = 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_AND_MAKE: Final = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPE_SIGNAL: Final = 1 << 1
# Programs create these on their first start. Beside the hub's directory they could not.
_HOME_DIRECTORIES: Final = (".cache", ".config", ".local", ".local/bin", ".local/share", ".local/share/uv", ".npm")
# Capabilities that root keeps; with others it reads memory and disks past every rule. Files and their owners, signals,
# users and groups, low ports, ping, chroot, audit log, capabilities of files.
_KEPT_CAPABILITIES: Final = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
_MOST_CAPABILITIES: Final = 64
# In one directory above what is hidden.
_MOST_BESIDE: Final = 50_000


def version() -> int:
    """The version of Landlock that this kernel has; 0: none that can be used."""
    found = _call(_CREATE_RULESET, None, 0, _VERSION_FLAG) if sys.platform == "linux" else -1
    return found if found >= _LEAST else 0


def restrict(hidden: Iterable[str], permitted: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Hide these files and directories from this process and all that it starts, for ever.

    It cannot read, change or create anything in them, except in the directory `permitted`, nor in the memory and
    variables of processes that are not restricted like it, nor send them signals. Returns the variables that it needs.

    Raises:
        OSError: the kernel refuses, or what lies beside them cannot be permitted.
    """
    paths = {Path(os.path.realpath(path)) for path in hidden}
    above = {parent for path in paths for parent in path.parents}
    _prepare(Path(os.path.realpath(environment.get("HOME", "/"))), above - paths)
    found = version()
    rights = _EXECUTE | _WRITE_FILE | _READ_FILE | _REMOVE_AND_MAKE | _REFER
    rights |= _TRUNCATE if found >= 3 else 0
    rights |= _IOCTL_DEV if found >= 5 else 0
    # Names can be listed: a directory cannot be hidden without those above it.
    attributes = struct.pack("=QQQ", rights, 0, _SCOPE_SIGNAL if found >= 6 else 0)
    ruleset = _checked(_call(_CREATE_RULESET, attributes, len(attributes) if found >= 6 else 8, 0))
    for path in (*_beside(paths, above), permitted):
        _permit(ruleset, path, rights)
    for number in {*range(_MOST_CAPABILITIES)} - _KEPT_CAPABILITIES:
        # Refused to other users, who have none to drop.
        _libc().prctl(_DROP_CAPABILITY, number, 0, 0, 0)
    _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_call(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    # Nothing new is permitted in a directory above what is hidden.
    temporary = Path(os.path.realpath(environment.get("TMPDIR") or "/tmp"))  # noqa: S108
    return {"TMPDIR": permitted} if temporary in above or not paths.isdisjoint(temporary.parents) else {}


def _beside(hidden: set[Path], above: set[Path]) -> Iterator[str]:
    """Everything but what is hidden and the directories above it."""
    for directory in above:
        if not hidden.isdisjoint((directory, *directory.parents)):
            continue  # It is hidden itself.
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
            os.scandir(directory) as found,
        ):
            for number, entry in enumerate(found):
                if number > _MOST_BESIDE:
                    raise OSError(0, f"{directory} has more than {_MOST_BESIDE} entries")
                path = Path(entry.path)
                if path not in hidden and path not in above:
                    yield entry.path


def _permit(ruleset: int, path: str, rights: int) -> None:
    try:
        # What a symbolic link leads to has rules of its own.
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # It is gone by now, or this user cannot reach it.
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISLNK(mode):
            rule = struct.pack("=Qi", rights if stat.S_ISDIR(mode) else rights & _OF_FILES, descriptor)
            _checked(_call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _prepare(home: Path, above: set[Path]) -> None:
    """Create what programs would create in a directory in which they cannot."""
    for name in _HOME_DIRECTORIES if home in above else ():
        if (path := home / name).parent in above:
            with contextlib.suppress(OSError):
                path.mkdir(mode=0o700, exist_ok=True)


def _call(number: int, *arguments: int | bytes | None) -> int:
    values = (value if value is None or isinstance(value, bytes) else ctypes.c_long(value) for value in arguments)
    result: int = _libc().syscall(ctypes.c_long(number), *values)
    return result


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
