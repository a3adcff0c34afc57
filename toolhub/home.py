"""The directory with a hub's state: database, generated secrets, logs. Only its owner can read it."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def default_directory() -> Path:
    """`var/` in a checkout; the platform's user data directory for an installed package."""
    if (CHECKOUT / "manage.py").exists() and (CHECKOUT / "pyproject.toml").exists():
        return CHECKOUT / "var"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "toolhub"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "toolhub"


def prepare(directory: Path) -> Path:
    """Create the directory if it does not exist.

    Raises:
        OSError: it cannot be created or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
    return directory


def secret(directory: Path, name: str) -> str:
    """A secret that is generated once and stored in a file, safe for concurrent starts.

    Raises:
        OSError: the file cannot be read or created, or is empty.
    """
    path = directory / name
    if not path.exists():
        _generate(path)
    secret = path.read_text(encoding="ascii", errors="replace").strip()
    if not secret:
        raise OSError(errno.EINVAL, "the file is empty; delete it to generate a new one", str(path))
    return secret


def _generate(path: Path) -> None:
    # Written under another name and linked, so that the file is never seen incomplete.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(base64.urlsafe_b64encode(secrets.token_bytes(48)).decode())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
