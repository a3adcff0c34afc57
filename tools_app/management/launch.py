"""Command and environment with which another program starts a process of this hub, from any directory."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from tools_app import sources
from tools_app.base import conf

_OWN_SETTINGS: Final = "toolhub.settings"
# Variables for HTTP and for the first start do not concern an agent's process.
_NEEDED: Final = re.compile(
    r"""DATABASE_URL(_FILE)? | LOG_LEVEL
      | TOOLHUB_ (?! PROCESS$ | ADMIN_ | BACKUP_ | HTTPS$ | TRUSTED_ | CORS_ | BODY_ | MCP_ | TEST_ ) \w+""",
    re.VERBOSE,
)
_PATHS: Final = re.compile(r"TOOLHUB_(ENV_FILE|TOOLS_DIR|SECRETS_DIR|LOG_FILE)|\w+_FILE")


def command(arguments: Sequence[str]) -> list[str]:
    """A command of the hub, with the interpreter that runs this one."""
    return [sys.executable, "-m", "toolhub", *arguments]


def environment() -> dict[str, str]:
    """The variables that such a process needs to find this hub.

    Values in the .env file are not included: the process reads the file itself, also after changes.
    """
    variables = {name: os.environ[name] for name in sorted(os.environ) if _is_needed(name)}
    for name, value in variables.items():
        if _PATHS.fullmatch(name):
            variables[name] = str(Path(value).expanduser().absolute())
    if (home := conf.home()) is not None:
        variables["TOOLHUB_HOME"] = str(home.absolute())
    if os.environ.get("DATABASE_URL") and connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        if "DATABASE_URL" in variables or not path.is_absolute():
            variables["DATABASE_URL"] = f"sqlite:///{path.absolute()}"
    if (module := os.environ.get("DJANGO_SETTINGS_MODULE", _OWN_SETTINGS)) != _OWN_SETTINGS:
        variables["DJANGO_SETTINGS_MODULE"] = module
    if places := list(dict.fromkeys(_places(module))):
        variables["PYTHONPATH"] = os.pathsep.join(places)
    return variables


def _is_needed(name: str) -> bool:
    value = os.environ[name].strip()
    if not value:
        return False
    if not conf.given(name):
        # From the .env file, with a path relative to the current directory.
        return _PATHS.fullmatch(name) is not None and not Path(value).expanduser().is_absolute()
    return _NEEDED.fullmatch(name) is not None or name in _of_packs()


def _of_packs() -> set[str]:
    """The variables of all packs. From their code, since the database may not be reachable here."""
    specs = [tool.spec for tool in sources.current().inspected().tools]
    names = {name for spec in specs for name in spec.requires}
    names.update(*(spec.connection.variables for spec in specs if spec.connection is not None))
    return {form for name in names for form in (name, f"{name}_FILE")}


def _places(settings_module: str) -> Iterator[str]:
    """Directories for PYTHONPATH: of packages that the interpreter does not find by itself."""
    parts = {name.partition(".")[0] for name in ("toolhub", settings_module, *settings.INSTALLED_APPS)}
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished_process = subprocess.run(
        [
            sys.executable,
            "-c",
            "import importlib.util as i, sys; print(*[n for n in sys.stdin.read().split() if not i.find_spec(n)])",
        ],
        input=" ".join(sorted(parts)),
        cwd=tempfile.gettempdir(),
        env=alone,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    for name in finished_process.stdout.split():
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin)
            yield str((path.parent if path.name == "__init__.py" else path).parent.absolute())
