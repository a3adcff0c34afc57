"""Where tools come from. `loaded()` are the tools of this process, loaded at first use.

After `spare()`, packs that need an account are not loaded until there is one.
Belongs here: finding, loading and reloading tools, and recording them.
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
                return _being_filled  # A file that is being loaded may register tools itself.
            if _registry is None:
                _being_filled = Registry()
                try:
                    load(_being_filled)
                    _registry = _being_filled
                finally:
                    _being_filled = None
    return _registry


def load(registry: Registry) -> None:
    """Load all sources into a registry."""
    global _directory
    folder = conf.value("TOOLHUB_TOOLS_DIR")
    python.load(registry, sparing=_sparing)
    _directory = Directory(Path(folder) if folder is not None else None)
    _directory.load(registry)


def look() -> bool:
    """Reload what has changed in the tools directory. False: nothing has."""
    return _directory.look(loaded())


def spare() -> None:
    """Do not load packs that cannot be used yet in this process. Call this before the first use."""
    global _sparing
    _sparing = True


def wake(pack: str) -> None:
    """Load a resting pack."""
    with _lock:
        python.wake(pack, loaded())


def whole() -> Registry:
    """All tools that this process can have, for comparisons with the recorded ones."""
    with _lock:
        registry = loaded()
        for pack in registry.resting:
            python.wake(pack, registry)
        return registry


def forget() -> None:
    """Reload at the next use. For tests."""
    global _registry, _sparing
    with _lock:
        _registry, _sparing = None, False
