"""The oldest version from which an upgrade has to work: its code in a worktree of git, with its own packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.processes import CHECKOUT, last_line

LOCK: Final = "requirements.lock"
# Name and version, then the lines with the hashes.
REQUIREMENT: Final = re.compile(r"(?m)^([\w.\[\]-]+==[^\s;]+).*\n(?:[ ]+--hash=.*\n)+")


class Unavailable(Exception):
    """That version cannot run here; the message says why, and what to do."""


@dataclass(frozen=True)
class Version:
    """A checkout of ToolHub, and where Python finds it with its packages."""

    checkout: Path
    python_path: str


def base_commit() -> str:
    return Path(__file__).with_name("BASE").read_text().strip()


def require_commit() -> None:
    """Raises: Unavailable."""
    if _git("cat-file", "-e", f"{base_commit()}^{{commit}}").returncode:
        raise Unavailable(
            f"the commit {base_commit()[:10]} of tests/upgrade/BASE is not in this clone: `git fetch --unshallow`"
        )


@contextmanager
def base_version(folder: Path) -> Iterator[Version]:
    """Check that version out and install its packages.

    Raises:
        Unavailable
    """
    require_commit()
    checkout, packages = folder / "checkout", folder / "packages"
    added = _git("worktree", "add", "--quiet", "--detach", str(checkout), base_commit())
    if added.returncode:
        raise Unavailable(f"git cannot make a worktree: {last_line(added.stderr)}")
    try:
        _install(different(checkout / LOCK, CHECKOUT / LOCK), packages)
        yield Version(checkout, os.pathsep.join((str(checkout), str(packages))))
    finally:
        _git("worktree", "remove", "--force", str(checkout))


def different(lock: Path, present: Path) -> list[str]:
    """The requirements of a lock file, with their hashes, that another one does not have in that version."""
    requirements, present_requirements = (
        {match[1]: match[0] for match in REQUIREMENT.finditer(path.read_text())} for path in (lock, present)
    )
    return [text for name, text in requirements.items() if name not in present_requirements]


def _install(requirements: list[str], folder: Path) -> None:
    """What that version needs and the tests' own environment does not have."""
    folder.mkdir()
    if not requirements:
        return
    file = folder / LOCK
    file.write_text("".join(requirements))
    program = [uv, "pip"] if (uv := shutil.which("uv")) else [sys.executable, "-m", "pip"]
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(file)]
    done = subprocess.run([*program, "install", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"packages of {base_commit()[:10]} cannot be installed: {last_line(done.stderr)}")


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)
