"""The tools directory: every file in it a module of its own, taken up again when it has changed.

What a file says is executed only once it has stood still for the time between two looks, and can be parsed: an editor
that is still writing changes nothing. Where it breaks nevertheless, what was loaded of it before stays in use.
After every change all of the directory is registered anew, so that the outcome is the one of a fresh start.
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import stat
import sys
import threading
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from tools_app.offer import Offer
from tools_app.registry import LoadProblem, Origin, Registry
from tools_app.sources import python
from tools_app.sources.python import BREAKAGES, FILE_MODULES
from tools_app.tool import DefinitionError

# Beside files of tools stand their tests.
TOOLS: Final = re.compile(r"(?!_|\.|test_|conftest\.py).+\.py")
MOST_FILES: Final = 1_000
MOST_BYTES: Final = 1024 * 1024

# Differs when a file does: when it was written, its size, which file it is, and who may write it.
Stamp: TypeAlias = tuple[int, int, int, int]


@dataclass(slots=True)
class _File:
    stamp: Stamp
    module: ModuleType | None = None
    # Why it could not be loaded the last time.
    trouble: BaseException | None = None


@dataclass
class Directory:
    """The files below one directory; `None` stands for no directory at all."""

    folder: Path | None
    _files: dict[Path, _File] = field(default_factory=dict)
    _seen: dict[Path, Stamp] = field(default_factory=dict)
    _trouble: DefinitionError | None = None
    _offers: list[Offer] = field(default_factory=list)
    _problems: list[LoadProblem] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def load(self, registry: Registry) -> None:
        """Take what is there into a registry that holds everything else."""
        with self._lock:
            self._seen = self._stamps()
            for path, stamp in self._seen.items():
                self._read(path, stamp)
            self._register(registry)

    def look(self, registry: Registry) -> bool:
        """Take up what has changed since, and stood still since the last look. False: nothing has."""
        with self._lock:
            before, said = self._seen, str(self._trouble)
            now = self._seen = self._stamps()
            changed = [path for path, stamp in now.items() if before.get(path) == stamp and self._is_news(path, stamp)]
            gone = [path for path in self._files if path not in now and path not in before]
            for path in changed:
                self._read(path, now[path])
            for path in gone:
                del self._files[path]
                sys.modules.pop(_module_name(path), None)
            if not changed and not gone and str(self._trouble) == said:
                return False
            self._register(registry)
            return True

    def _is_news(self, path: Path, stamp: Stamp) -> bool:
        return path not in self._files or self._files[path].stamp != stamp

    def _stamps(self) -> dict[Path, Stamp]:
        """Of every file that is one of tools. A directory that cannot be read has the files that it had."""
        self._trouble = None
        if self.folder is None:
            return {}
        try:
            if _open_to_all(self.folder.stat().st_mode):
                raise DefinitionError(OPEN_TO_ALL)
            paths = sorted(path for path in self.folder.iterdir() if TOOLS.fullmatch(path.name))
            if len(paths) > MOST_FILES:
                raise DefinitionError(f"holds {len(paths):,} files; at most {MOST_FILES:,} are loaded")
            return {path: stamp for path in paths if (stamp := _stamp(path)) is not None}
        except OSError as error:
            self._trouble = DefinitionError(f"TOOLHUB_TOOLS_DIR cannot be read ({error.strerror})")
        except DefinitionError as error:
            self._trouble = error
        return self._seen

    def _read(self, path: Path, stamp: Stamp) -> None:
        """Execute a file. What it was before is forgotten only where that succeeds."""
        file = self._files.setdefault(path, _File(stamp))
        file.stamp = stamp
        try:
            file.module, file.trouble = _executed(path, stamp), None
        except BREAKAGES as error:
            file.trouble = error

    def _register(self, registry: Registry) -> None:
        """Swap what the directory gave before for what it gives now, in one step."""
        while True:
            since = registry.generation
            staged = registry.without(Origin.FILE, self._offers, self._problems)
            offers, problems = len(staged.offers), len(staged.problems)
            self._fill(staged)
            python.report_loose_ends(staged)
            if registry.become(staged, since):
                break
        self._offers = [offer for offer, _ in staged.offers[offers:]]
        self._problems = staged.problems[problems:]

    def _fill(self, registry: Registry) -> None:
        if self._trouble is not None:
            python.report(self._trouble, "", str(self.folder), registry)
        for path, file in sorted(self._files.items()):
            if file.trouble is not None:
                python.report(file.trouble, str(path), str(path), registry, after=STANDS if file.module else "")
            if file.module is not None:
                python.take(file.module, Origin.FILE, registry)


OPEN_TO_ALL: Final = "can be written by everybody on this machine and is therefore not loaded; run `chmod o-w` on it"
STANDS: Final = " (what was loaded of it before stays in use)"


def _open_to_all(mode: int) -> bool:
    """Whoever can write these files can do anything that the hub can."""
    return bool(mode & stat.S_IWOTH)


def _stamp(path: Path) -> Stamp | None:
    """None for a file that is gone by now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _module_name(path: Path) -> str:
    return f"{FILE_MODULES}.{path.stem}"


class _Loader(SourceFileLoader):
    """Not from Python's cache, which takes two edits within a second for one."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("nothing is kept of it")


def _executed(path: Path, stamp: Stamp) -> ModuleType:
    """The module that a file makes."""
    _, size, _, mode = stamp
    if _open_to_all(mode):
        raise DefinitionError(OPEN_TO_ALL)
    if size > MOST_BYTES:
        raise DefinitionError(f"is larger than {MOST_BYTES // 1024:,} KiB and is therefore not loaded")
    name = _module_name(path)
    loader = _Loader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise DefinitionError("is not a file of Python")
    # Places in the source are looked up while it is executed.
    linecache.checkcache(str(path))
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BREAKAGES:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return module
