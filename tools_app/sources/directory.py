"""The tools directory: every file is a module of its own, and is reloaded when it has changed.

Debounce: a file is executed only if it is unchanged between two checks and can be parsed, so a half-saved file has no
effect. If it fails nevertheless, the version loaded before stays in use.
Files that begin with `_` are for imports: when one of them changes, the other files are executed again.
After every change the whole directory is registered again, so that the result is the same as after a restart.
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

# Excludes the tests of tools.
TOOLS: Final = re.compile(r"(?!_|\.|test_|conftest\.py).+\.py")
MOST_FILES: Final = 1_000
# A slow file blocks the loading of all others, so it is reported.
PATIENCE_SECONDS: Final = 5.0


@dataclass(slots=True)
class _File:
    stamp: Stamp
    module: ModuleType | None = None
    # Why it could not be loaded the last time.
    trouble: BaseException | None = None


@dataclass
class Directory:
    """The files of one directory; `None` means that there is no directory."""

    folder: Path | None
    _files: dict[Path, _File] = field(default_factory=dict)
    _seen: dict[Path, Stamp] = field(default_factory=dict)
    # The shared files (`_*.py`) as they were when the other files were executed.
    _common: dict[Path, Stamp] = field(default_factory=dict)
    _shared: Shared | None = None
    _trouble: DefinitionError | None = None
    _offers: list[Offer] = field(default_factory=list)
    _problems: list[LoadProblem] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def load(self, registry: Registry) -> None:
        """Load the directory into a registry that contains all other sources."""
        with self._lock:
            self._shared = shared.of(self.folder)
            self._seen = self._stamps()
            self._common = _common(self._seen)
            for path, stamp in self._seen.items():
                if path not in self._common:
                    self._read(path, stamp)
            self._register(registry)

    def look(self, registry: Registry) -> bool:
        """Reload files that have changed since, and not since the last check. False: nothing has changed."""
        with self._lock:
            before, previous_trouble = self._seen, str(self._trouble)
            now = self._seen = self._stamps()
            stable = {path: stamp for path, stamp in now.items() if before.get(path) == stamp}
            shared_changed = self._shared_has_changed(before, now, stable)
            own_files = (path for path in stable if path not in self._common)
            to_read = [path for path in own_files if shared_changed or self._has_changed(path, stable[path])]
            removed = [path for path in self._files if path not in now and path not in before]
            for path in to_read:
                self._read(path, now[path])
            for path in removed:
                del self._files[path]
                sys.modules.pop(_module_name(path), None)
            if not to_read and not removed and str(self._trouble) == previous_trouble:
                return False
            self._register(registry)
            return True

    def _has_changed(self, path: Path, stamp: Stamp) -> bool:
        return path not in self._files or self._files[path].stamp != stamp

    def _shared_has_changed(self, before: dict[Path, Stamp], now: dict[Path, Stamp], stable: dict[Path, Stamp]) -> bool:
        """True if shared files have changed or gone; if so, the next import executes them again."""
        stays = {path: stamp for path, stamp in self._common.items() if path in now or path in before}
        common = stays | _common(stable)
        if common == self._common:
            return False
        self._common = common
        if self._shared is not None:
            self._shared.forget()
        return True

    def _stamps(self) -> dict[Path, Stamp]:
        """The stamps of all relevant files. If the directory cannot be read, those of the last check."""
        self._trouble = None
        if self.folder is None:
            return {}
        try:
            if open_to_all(self.folder.stat().st_mode):
                raise DefinitionError(OPEN_TO_ALL)
            paths = sorted(path for path in self.folder.iterdir() if _is_relevant(path.name))
            if len(paths) > MOST_FILES:
                raise DefinitionError(f"holds {len(paths):,} files; at most {MOST_FILES:,} are loaded")
            return {path: stamp for path in paths if (stamp := stamp_of(path)) is not None}
        except OSError as error:
            self._trouble = DefinitionError(f"TOOLHUB_TOOLS_DIR cannot be read ({error.strerror})")
        except DefinitionError as error:
            self._trouble = error
        return self._seen

    def _read(self, path: Path, stamp: Stamp) -> None:
        """Execute a file. Its previous module is replaced only on success."""
        file = self._files.setdefault(path, _File(stamp))
        file.stamp = stamp
        try:
            file.module, file.trouble = _execute(path, stamp), None
        except BaseException as error:
            # An exception in a file must end neither the hub nor the watcher thread.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            file.trouble = error

    def _register(self, registry: Registry) -> None:
        """Replace the directory's earlier tools by the present ones, atomically."""
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
                python.report(file.trouble, str(path), str(path), registry, after=STILL_LOADED if file.module else "")
            if file.module is not None:
                python.take(file.module, Origin.FILE, registry)


STILL_LOADED: Final = " (the version loaded before stays in use)"


def _is_relevant(name: str) -> bool:
    return (TOOLS.fullmatch(name) or shared.FILES.fullmatch(name)) is not None


def _common(stamps: dict[Path, Stamp]) -> dict[Path, Stamp]:
    """The files that are meant to be imported by others."""
    return {path: stamp for path, stamp in stamps.items() if shared.FILES.fullmatch(path.name)}


def _module_name(path: Path) -> str:
    return f"{FILE_MODULES}.{path.stem}"


def _execute(path: Path, stamp: Stamp) -> ModuleType:
    """Execute a file and return its module."""
    name = _module_name(path)
    spec = spec_of(name, path, stamp)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    slow = threading.Timer(
        PATIENCE_SECONDS, log.warning, ("%s is still running; no other file is loaded until it ends", path)
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
