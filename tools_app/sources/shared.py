"""Shared files of the tools directory: `from _units import …` imports `_units.py` beside the importing file.

The same line works in a pytest run there. Other modules with that name take precedence, as with any import.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

from tools_app.sdk.names import DefinitionError
from tools_app.sdk.places import shown_path
from tools_app.sources.files import spec_of, stamp_of

FILES: Final = re.compile(r"_[a-z0-9]\w*\.py", re.IGNORECASE | re.ASCII)


# `sys.modules` and `sys.meta_path` belong to the interpreter, whichever hub changes them.
_lock: Final = threading.RLock()


class Shared(MetaPathFinder):
    """Finds shared files of one directory, for the whole process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Imported modules, while files of another directory are executed.
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Without the shared files of other directories, which other hubs may have: names may be the same."""
        with _lock:
            others = [finder for finder in sys.meta_path if isinstance(finder, Shared) and finder is not self]
            for other in others:
                sys.meta_path.remove(other)
                other._modules |= other._removed()
            if self not in sys.meta_path:
                sys.meta_path.append(self)
            sys.modules.update(self._modules)
            self._modules = {}
            try:
                yield
            finally:
                sys.meta_path.extend(others)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or FILES.fullmatch(f"{fullname}.py") is None:
            return None
        file = self.folder / f"{fullname}.py"
        stamp = stamp_of(file)
        if stamp is None:
            return None
        try:
            return spec_of(fullname, file, stamp)
        except DefinitionError as error:
            raise ImportError(f"{shown_path(str(file), fullname)} {error}", name=fullname) from error

    def reset(self) -> None:
        """Remove imported shared files, so that the next import executes them again."""
        with _lock:
            self._removed()
            self._modules = {}

    def close(self) -> None:
        with _lock:
            self.reset()
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    def _removed(self) -> dict[str, ModuleType]:
        modules = {name: module for name, module in sys.modules.items() if self._has(name, module)}
        for name in modules:
            del sys.modules[name]
        return modules

    def _has(self, name: str, module: ModuleType) -> bool:
        return name.startswith("_") and getattr(module, "__file__", None) == str(self.folder / f"{name}.py")
