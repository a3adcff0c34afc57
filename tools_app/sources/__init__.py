"""Where tools come from. `loaded()` is what this process has loaded, at first use.

A process that was told to `spare` itself does not load packs that need an account until there is one.
Belongs here: finding, loading and reloading tools, and recording which there are.
Does not belong here: who may call a tool, and whether it can be called (catalog).
"""

from __future__ import annotations

import threading
from pathlib import Path

from tools_app.base import conf
from tools_app.sources import python
from tools_app.sources.directory import Directory
from tools_app.sources.registry import Registry

_lock = threading.RLock()
_registry: Registry | None = None
_being_filled: Registry | None = None
_sparing = False
_directory = Directory(None)


def loaded() -> Registry:
    """All tools of this process."""
    global _registry, _being_filled
    if _registry is None:
        with _lock:
            if _being_filled is not None:
                return _being_filled  # a file that is being loaded asks: it may register tools, too
            if _registry is None:
                _being_filled = Registry()
                try:
                    load(_being_filled)
                    _registry = _being_filled
                finally:
                    _being_filled = None
    return _registry


def load(registry: Registry) -> None:
    """Fill a registry from everywhere."""
    global _directory
    folder = conf.value("TOOLHUB_TOOLS_DIR")
    python.load(registry, sparing=_sparing)
    _directory = Directory(Path(folder) if folder is not None else None)
    _directory.load(registry)


def look() -> bool:
    """Take up what has changed in the tools directory. False: nothing has."""
    return _directory.look(loaded())


def spare() -> None:
    """Load no more than there is use for, in this process; said before the first use."""
    global _sparing
    _sparing = True


def wake(pack: str) -> None:
    """Load a pack that rests."""
    with _lock:
        python.wake(pack, loaded())


def whole() -> Registry:
    """All tools that this process can have, for whoever compares them with what is remembered."""
    with _lock:
        found = loaded()
        for pack in found.resting:
            python.wake(pack, found)
        return found


def forget() -> None:
    """Load anew at the next use. For tests."""
    global _registry, _sparing
    with _lock:
        _registry, _sparing = None, False
