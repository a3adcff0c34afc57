"""Shared files of the tools directory: `from _units import …` imports `_units.py` beside the importing file.

The same line works in a pytest run there. Other modules with that name take precedence, as with any import.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

from tools_app.sdk.names import DefinitionError
from tools_app.sdk.places import shown_path
from tools_app.sources.files import spec_of, stamp_of

FILES: Final = re.compile(r"_[a-z0-9]\w*\.py", re.IGNORECASE | re.ASCII)


class Shared(MetaPathFinder):
    """Finds shared files of one directory, for the whole process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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

    def forget(self) -> dict[str, ModuleType]:
        """Remove imported shared files, so that the next import executes them again; returns the removed modules."""
        modules = {name: module for name, module in sys.modules.items() if self._has(name, module)}
        for name in modules:
            del sys.modules[name]
        return modules

    def _has(self, name: str, module: ModuleType) -> bool:
        return name.startswith("_") and getattr(module, "__file__", None) == str(self.folder / f"{name}.py")


_finder: Shared | None = None


def of(folder: Path | None) -> Shared | None:
    """Install the finder for the shared files of this directory, in place of any earlier one."""
    global _finder
    if _finder is not None:
        _finder.forget()
        sys.meta_path.remove(_finder)
    _finder = Shared(folder) if folder is not None else None
    if _finder is not None:
        sys.meta_path.append(_finder)
    return _finder
