"""Files of Python in the tools directory: which may be executed, and what tells that one has changed."""

from __future__ import annotations

import importlib.util
import linecache
import stat
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools_app.sdk.names import DefinitionError

MOST_BYTES: Final = 1024 * 1024
OPEN_TO_ALL: Final = "can be written by everybody on this machine and is therefore not loaded; run `chmod o-w` on it"

# Differs when a file does: when it was written, its size, which file it is, and who may write it.
Stamp: TypeAlias = tuple[int, int, int, int]


def open_to_all(mode: int) -> bool:
    """Whoever can write these files can do anything that the hub can."""
    return bool(mode & stat.S_IWOTH)


def stamp_of(path: Path) -> Stamp | None:
    """None for a file that is gone by now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def spec_of(name: str, path: Path, stamp: Stamp) -> ModuleSpec:
    """How the module of a file is made.

    Raises:
        DefinitionError: the file may not be executed.
    """
    _, size, _, mode = stamp
    if open_to_all(mode):
        raise DefinitionError(OPEN_TO_ALL)
    if size > MOST_BYTES:
        raise DefinitionError(f"is larger than {MOST_BYTES // 1024:,} KiB and is therefore not loaded")
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    if spec is None:
        raise DefinitionError("is not a file of Python")
    # Places in the source are looked up while it is executed.
    linecache.checkcache(str(path))
    return spec


class _Loader(SourceFileLoader):
    """Not from Python's cache, which takes two edits within a second for one."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("nothing is kept of it")
