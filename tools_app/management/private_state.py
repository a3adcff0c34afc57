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
from tools_app.management.hub_command import REFUSED, Abort

OTHERS_MODE: Final = 0o077
_WORLD_MODE: Final = 0o007


def keep_private() -> None:
    """Restrict the home and its files to their owner, and set the umask for new files.

    Raises:
        Abort: others can read the home, and this process cannot or must not change that.
    """
    if not hasattr(os, "getuid"):  # Not available on Windows.
        return
    os.umask(OTHERS_MODE)
    if (home := conf.home()) is None:
        return
    _close_home(home)
    for file in _files(home):
        try:
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mode & OTHERS_MODE and status.st_uid == os.getuid():
                file.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS_MODE)
        except FileNotFoundError:
            continue  # SQLite deletes its own when the last process has closed the database.


def _close_home(home: Path) -> None:
    status = home.stat()
    if status.st_uid == os.getuid() and not status.st_mode & stat.S_ISVTX:
        if status.st_mode & OTHERS_MODE:
            home.chmod(0o700)
    elif status.st_mode & _WORLD_MODE:
        # Another user's directory may be open to a group of this process; a sticky one is shared by all users.
        reason = "belongs to another user" if status.st_uid != os.getuid() else "is a shared directory"
        raise Abort(
            f"TOOLHUB_HOME: others on this machine can read {home}, which {reason}; "
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
