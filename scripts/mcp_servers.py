"""Installs the MCP servers of tests/real/servers/servers.toml outside the checkout, each by itself, once.

They are other people's programs: nothing of them is part of ToolHub, and nothing of them is installed into .venv.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SERVERS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests/real/servers/servers.toml").read_text("utf-8"))


def home() -> Path:
    """Where they are installed: TOOLHUB_TEST_SERVERS, or the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TOOLHUB_TEST_SERVERS") or Path(cache, "toolhub", "mcp-servers"))


def program(name: str) -> Path:
    """The program of an installed server."""
    server = SERVERS[name]
    folder = "node_modules/.bin" if "npm" in server else ".venv/bin"
    return home().joinpath(name, folder, str(server["run"][0]))


def is_installed(name: str) -> bool:
    mark = home() / name / "installed"
    return mark.is_file() and mark.read_text("utf-8") == _package(name)


def install(name: str) -> str:
    """Install one server. Returns what went wrong."""
    folder = home() / name
    folder.mkdir(parents=True, exist_ok=True)
    package = _package(name)
    for command in _commands(name, package):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return f"{name}: {' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()[-500:]}"
    if not program(name).exists():
        return f"{name}: {package} has no program {program(name).name}"
    (folder / "installed").write_text(package, "utf-8")
    return ""


def _package(name: str) -> str:
    server = SERVERS[name]
    return str(server.get("npm") or server["pypi"])


def _commands(name: str, package: str) -> list[list[str]]:
    if "npm" in SERVERS[name]:
        quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock", "--loglevel=error"]
        return [["npm", "install", "--prefix", ".", *quiet, package]]
    uv = str(ROOT / ".venv/bin/uv")
    return [
        [uv, "venv", "--quiet", "--python", sys.executable, "--clear", ".venv"],
        [uv, "pip", "install", "--quiet", "--python", ".venv/bin/python", package],
    ]


def main() -> int:
    missing = [name for name in SERVERS if not is_installed(name)]
    if missing:
        print(f"installing {len(missing)} MCP servers into {home()}; this takes some minutes")
    with ThreadPoolExecutor(2) as pool:
        problems = [problem for problem in pool.map(install, missing) if problem]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
