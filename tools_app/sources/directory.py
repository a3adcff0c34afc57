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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from tools_app.models import Source
from tools_app.sdk.names import DefinitionError
from tools_app.sources import python, shared, skills
from tools_app.sources.files import OPEN_TO_ALL, Stamp, open_to_all, spec_of, stamp_of
from tools_app.sources.python import FILE_MODULES
from tools_app.sources.registry import Registry
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


class FolderProvider(python.PythonProvider):
    """The files of the tools directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder", Source.Kind.FOLDER, str(folder))
        self.folder = folder
        self._files: dict[Path, _File] = {}
        self._seen: dict[Path, Stamp] = {}
        # The shared files (`_*.py`) as they were when the other files were executed.
        self._common: dict[Path, Stamp] = {}
        self._shared = Shared(folder)
        # The skills of the packs in these files, as they were when the files were registered.
        self._skills: dict[Path, Stamp] = {}
        self._trouble: DefinitionError | None = None
        # Before the files are executed: their etags at the first and at the last check.
        self._first_etag = self._last_etag = ""

    def etag(self) -> str:
        etag = self._etag_of(self._stamps())
        self._first_etag = self._first_etag or etag
        return etag

    def _etag_of(self, stamps: Mapping[Path, Stamp]) -> str:
        return python.etag_of(f"{self.location} {self._trouble or ''}", {**stamps, **skills.stamps_in(self.folder)})

    def fill(self, registry: Registry) -> None:
        self._seen = self._stamps()
        self._common = _common(self._seen)
        self._skills = skills.stamps_in(self.folder)
        with self._shared.alone():
            for path, stamp in self._seen.items():
                if path not in self._common:
                    self._read(path, stamp)
        self._register(registry)

    def reload_broken(self) -> None:
        """Files are executed again when they change."""

    def look(self) -> bool:
        """Reload files that have changed since, and not since the last check. False: nothing has changed."""
        with self._lock:
            if self._registry is None:
                return self._has_changed_unread()
            before, previous_trouble, previous_skills = self._seen, str(self._trouble), self._skills
            now = self._seen = self._stamps()
            stable = {path: stamp for path, stamp in now.items() if before.get(path) == stamp}
            shared_changed = self._shared_has_changed(before, now, stable)
            own_files = (path for path in stable if path not in self._common)
            to_read = [path for path in own_files if shared_changed or self._has_changed(path, stable[path])]
            removed = [path for path in self._files if path not in now and path not in before]
            with self._shared.alone():
                for path in to_read:
                    self._read(path, now[path])
            for path in removed:
                _remove_module(path, self._files.pop(path).module)
            self._skills = skills.stamps_in(self.folder)
            has_same_skills = self._skills == previous_skills
            if not to_read and not removed and str(self._trouble) == previous_trouble and has_same_skills:
                return False
            registry = Registry(known=self._registry.problems)
            # A file that is still being written is not read yet: the next check must find another etag.
            self._imported_etag = self._etag_of(self._common | {path: file.stamp for path, file in self._files.items()})
            self._register(registry)
            self._registry = registry
            return True

    def close(self) -> None:
        """Remove the modules of this directory from the interpreter."""
        with self._lock:
            for path, file in self._files.items():
                _remove_module(path, file.module)
            self._shared.close()

    def _has_changed_unread(self) -> bool:
        """True if files have changed that this process has not executed: describing them will."""
        etag, last_etag = self.etag(), self._last_etag
        self._last_etag = etag
        if etag != last_etag or etag == self._first_etag:
            return False
        self._first_etag = etag
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
        self._shared.reset()
        return True

    def _stamps(self) -> dict[Path, Stamp]:
        """The stamps of all relevant files. If the directory cannot be read, those of the last check."""
        self._trouble = None
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
        if self._trouble is not None:
            python.report(self._trouble, "", str(self.folder), registry)
        for path, file in sorted(self._files.items()):
            if file.trouble is not None:
                python.report(file.trouble, str(path), str(path), registry, after=STILL_LOADED if file.module else "")
            if file.module is not None:
                python.take(file.module, registry)


STILL_LOADED: Final = " (the version loaded before stays in use)"


def _is_relevant(name: str) -> bool:
    return (TOOLS.fullmatch(name) or shared.FILES.fullmatch(name)) is not None


def _common(stamps: dict[Path, Stamp]) -> dict[Path, Stamp]:
    """The files that are meant to be imported by others."""
    return {path: stamp for path, stamp in stamps.items() if shared.FILES.fullmatch(path.name)}


def _module_name(path: Path) -> str:
    return f"{FILE_MODULES}.{path.stem}"


def _remove_module(path: Path, module: ModuleType | None) -> None:
    """Unless another directory has replaced it by a file of the same name."""
    name = _module_name(path)
    if module is not None and sys.modules.get(name) is module:
        del sys.modules[name]


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
