"""Python files in the tools directory: which may be executed, and how a change is detected."""

from __future__ import annotations

import importlib.util
import linecache
import stat
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools_app.sdk.names import DefinitionError

MOST_BYTES: Final = 1024 * 1024
OPEN_TO_ALL: Final = "is world-writable and is therefore not loaded; run `chmod o-w` on it"

# Changes when a file does: modification time, size, inode and mode.
Stamp: TypeAlias = tuple[int, int, int, int]


def open_to_all(mode: int) -> bool:
    """True if any user of this machine can write the file, and so run code with the hub's rights."""
    return bool(mode & stat.S_IWOTH)


def stamp_of(path: Path) -> Stamp | None:
    """None if the file no longer exists."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def spec_of(name: str, path: Path, stamp: Stamp) -> ModuleSpec:
    """The import spec of a file's module.

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
        raise DefinitionError("is not a Python file")
    # Source lines are looked up while the module is executed.
    linecache.checkcache(str(path))
    return spec


class _Loader(SourceFileLoader):
    """Bypasses Python's bytecode cache, which cannot tell two edits within a second apart."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("no bytecode cache")
