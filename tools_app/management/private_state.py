"""File permissions of a hub's state: the database has sessions and payloads, files beside it have secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from tools_app.base import conf
from tools_app.management.hub_command import REFUSED, Stop

OTHERS: Final = 0o077
_EVERYBODY: Final = 0o007


def keep_private() -> None:
    """Restrict the home and its files to their owner, and set the umask for new files.

    Raises:
        Stop: others can read the home, and this process cannot or must not change that.
    """
    if not hasattr(os, "getuid"):  # Not available on Windows.
        return
    os.umask(OTHERS)
    if (home := conf.home()) is None:
        return
    _close_home(home)
    for file in _files(home):
        try:
            found = file.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_mode & OTHERS and found.st_uid == os.getuid():
                file.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
        except FileNotFoundError:
            continue  # SQLite deletes its own when the last process has closed the database.


def _close_home(home: Path) -> None:
    found = home.stat()
    if found.st_uid == os.getuid() and not found.st_mode & stat.S_ISVTX:
        if found.st_mode & OTHERS:
            home.chmod(0o700)
    elif found.st_mode & _EVERYBODY:
        # Another user's directory may be open to a group of this process; a sticky one is shared by all users.
        why = "belongs to another user" if found.st_uid != os.getuid() else "is a shared directory"
        raise Stop(
            f"TOOLHUB_HOME: others on this machine can read {home}, which {why}; "
            f"run `chmod o-rwx {home}` as its owner, or set TOOLHUB_HOME to a directory of your own",
            REFUSED,
        )


def _files(home: Path) -> Iterator[Path]:
    yield from home.iterdir()
    if connection.vendor == "sqlite":
        database = str(connection.settings_dict["NAME"])
        yield from (Path(f"{database}{suffix}") for suffix in ("", "-wal", "-shm"))
    if (file := getattr(settings, "ENV_FILE", None)) is not None:
        yield Path(file)
