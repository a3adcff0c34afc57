"""The directory in which the processes of a hub find its supervisor, and how they start it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from django.conf import settings

from tools_app.base import conf
from tools_app.sdk import child_environment
from tools_app.upstream.children.supervisor import guard

# The address of a UNIX socket has 108 bytes on Linux, 104 on macOS.
MOST_PATH: Final = 100
# The number changes with the orders that a supervisor understands: during an upgrade, each release has its own.
NAME: Final = "children-2"
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); from supervisor import guard; guard.main()"
_START_SECONDS: Final = 30


def directory() -> Path:
    """The runtime directory of this hub, which only its user can read.

    Raises:
        OSError: it cannot be created, or belongs to another user.
    """
    home = conf.home()
    if home is not None and len(os.fsencode(home / NAME / guard.SOCKET)) < MOST_PATH:
        return _private(home / NAME)
    # A hub without a home in the file system has at least its key.
    name = hashlib.sha256(str(home or settings.SECRET_KEY).encode()).hexdigest()[:16]
    return _private(Path(tempfile.gettempdir(), f"toolhub-{os.getuid()}-{name}-{NAME}"))


def _private(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EACCES, "belongs to another user", str(path))
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
    return path


def start(path: Path, limits: str = "{}") -> None:
    """Start a supervisor, which ends at once if there is one. Blocks for some milliseconds, until it is detached.

    Raises:
        OSError: it cannot be started.
    """
    # Neither variables nor open files of this process reach it.
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parent), str(path), limits]
    subprocess.run(  # noqa: S603 - our own program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=child_environment.inherited(os.environ),
        cwd="/",
        start_new_session=True,
        close_fds=True,
        timeout=_START_SECONDS,
        check=True,
    )
