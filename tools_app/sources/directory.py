"""The tools directory: every file in it a module of its own, taken up again when it has changed.

What a file says is executed only once it has stood still for the time between two looks, and can be parsed: an editor
that is still writing changes nothing. Where it breaks nevertheless, what was loaded of it before stays in use.
Files that begin with `_` are there for the others to import: when one of them changes, the others are executed anew.
After every change all of the directory is registered anew, so that the outcome is the one of a fresh start.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offer import Offer
from tools_app.sources import python, shared
from tools_app.sources.files import OPEN_TO_ALL, Stamp, open_to_all, spec_of, stamp_of
from tools_app.sources.python import FILE_MODULES
from tools_app.sources.registry import LoadProblem, Origin, Registry
from tools_app.sources.shared import Shared

log = logging.getLogger("tools_app.sources")

# Beside files of tools stand their tests.
TOOLS: Final = re.compile(r"(?!_|\.|test_|conftest\.py).+\.py")
MOST_FILES: Final = 1_000
# A file that takes longer holds up all others, and its author would wonder.
PATIENCE_SECONDS: Final = 5.0


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
    # Of the files that others import: those that were there when these were executed.
    _common: dict[Path, Stamp] = field(default_factory=dict)
    _shared: Shared | None = None
    _trouble: DefinitionError | None = None
    _offers: list[Offer] = field(default_factory=list)
    _problems: list[LoadProblem] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def load(self, registry: Registry) -> None:
        """Take what is there into a registry that holds everything else."""
        with self._lock:
            self._shared = shared.of(self.folder)
            self._seen = self._stamps()
            self._common = _common(self._seen)
            for path, stamp in self._seen.items():
                if path not in self._common:
                    self._read(path, stamp)
            self._register(registry)

    def look(self, registry: Registry) -> bool:
        """Take up what has changed since, and stood still since the last look. False: nothing has."""
        with self._lock:
            before, said = self._seen, str(self._trouble)
            now = self._seen = self._stamps()
            still = {path: stamp for path, stamp in now.items() if before.get(path) == stamp}
            anew = self._common_is_news(before, now, still)
            changed = [
                path for path in still if path not in self._common and (anew or self._is_news(path, still[path]))
            ]
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

    def _common_is_news(self, before: dict[Path, Stamp], now: dict[Path, Stamp], still: dict[Path, Stamp]) -> bool:
        """Whether files that others import have changed, or gone; if so, the next import executes them anew."""
        stays = {path: stamp for path, stamp in self._common.items() if path in now or path in before}
        common = stays | _common(still)
        if common == self._common:
            return False
        self._common = common
        if self._shared is not None:
            self._shared.forget()
        return True

    def _stamps(self) -> dict[Path, Stamp]:
        """Of every file that counts. A directory that cannot be read has the files that it had."""
        self._trouble = None
        if self.folder is None:
            return {}
        try:
            if open_to_all(self.folder.stat().st_mode):
                raise DefinitionError(OPEN_TO_ALL)
            paths = sorted(path for path in self.folder.iterdir() if _counts(path.name))
            if len(paths) > MOST_FILES:
                raise DefinitionError(f"holds {len(paths):,} files; at most {MOST_FILES:,} are loaded")
            return {path: stamp for path in paths if (stamp := stamp_of(path)) is not None}
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
        except BaseException as error:
            # Whatever a file raises ends neither the hub nor the thread that looks at files.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
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


STANDS: Final = " (what was loaded of it before stays in use)"


def _counts(name: str) -> bool:
    return (TOOLS.fullmatch(name) or shared.FILES.fullmatch(name)) is not None


def _common(stamps: dict[Path, Stamp]) -> dict[Path, Stamp]:
    """Those of files that are there for others to import."""
    return {path: stamp for path, stamp in stamps.items() if shared.FILES.fullmatch(path.name)}


def _module_name(path: Path) -> str:
    return f"{FILE_MODULES}.{path.stem}"


def _executed(path: Path, stamp: Stamp) -> ModuleType:
    """The module that a file makes."""
    name = _module_name(path)
    spec = spec_of(name, path, stamp)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    slow = threading.Timer(
        PATIENCE_SECONDS, log.warning, ("%s has not ended yet; until it does, no file is loaded", path)
    )
    slow.daemon = True
    slow.start()
    try:
        assert spec.loader is not None  # noqa: S101 – it was made with one
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    finally:
        slow.cancel()
    return module
