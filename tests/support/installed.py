"""Packs that are installed beside a hub: a package on the import path, and settings that name it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import CHECKOUT, Home

SETTINGS = "generated_settings"
LOG_IMPORT = """
import os
with open({log!r}, "a") as imports:
    imports.write(f"{{os.getpid()}}\\n")
"""


@dataclass(frozen=True)
class InstalledPack:
    """A pack in a folder of its own. Every import of it adds the process id to a file."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.py"

    @property
    def environment(self) -> dict[str, str]:
        """For a hub with the shipped packs and this one."""
        return environment_with(self.folder, [self.name])

    def write(self, source: str) -> None:
        self.path.write_text(LOG_IMPORT.format(log=str(self._log)) + source)

    def importing_processes(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return [int(line) for line in self._log.read_text().split()]
        return []

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.name}.imports"


def installed(folder: Path, name: str, source: str) -> InstalledPack:
    pack = InstalledPack(folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    pack.write(source)
    return pack


def environment_with(folder: Path, packs: Collection[str], *, shipped: bool = True) -> dict[str, str]:
    """Variables for a hub whose settings name these packs of a folder, after the shipped ones."""
    folder.mkdir(parents=True, exist_ok=True)
    before = "*TOOLHUB_PACKS, " if shipped else ""
    names = "".join(f"{name!r}, " for name in packs)
    settings = f"from toolhub.settings import *\n\nTOOLHUB_PACKS = ({before}{names})\n"
    (folder / f"{SETTINGS}.py").write_text(settings)
    return {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "PYTHONPATH": os.pathsep.join((str(CHECKOUT), str(folder))),
        # Files are edited within a second: a cached module would hide it.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def home_with(pack: InstalledPack, path: Path, **extra: str) -> Home:
    """A hub with the pack, synced once."""
    home = Home(path, {**pack.environment, "TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0", **extra})
    done = home.run("synctools")
    assert done.returncode == 0, done.stderr
    return home


def many_tools(count: int) -> str:
    """The source of a pack with many small tools, described in different words."""
    return MANY.replace("COUNT", str(count))


MANY = """
from toolhub import Hints, Pack

pack = Pack("many", version="1.0.0")
VERBS = ("list", "show", "count", "find", "compare", "sum", "group", "sort", "export", "check")
NOUNS = ("invoices", "orders", "customers", "shipments", "refunds", "payments", "tickets", "assets", "leads", "hosts")


def declare(number: int) -> None:
    verb, noun = VERBS[number % 10], NOUNS[number // 10 % 10]

    async def run(query: str, limit: int = 10) -> str:
        return f"{number}: {query}"[:limit]

    name = f"{verb}_{noun}_{number:05}"
    description = f"{verb.capitalize()} {noun} of branch {number}."
    pack.tool(name=name, description=description, hints=Hints(read_only=True, open_world=False))(run)


for number in range(COUNT):
    declare(number)
"""
