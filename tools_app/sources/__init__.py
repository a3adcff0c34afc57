"""Where tools come from. `registry()` is what this process has loaded; it loads once, at first use."""

from __future__ import annotations

import threading

from tools_app.registry import Registry
from tools_app.sources import python

_lock = threading.RLock()
_registry: Registry | None = None
_being_filled: Registry | None = None


def registry() -> Registry:
    """All tools of this process."""
    global _registry, _being_filled
    if _registry is None:
        with _lock:
            if _being_filled is not None:
                return _being_filled  # a file that is being loaded asks: it may register tools, too
            if _registry is None:
                _being_filled = Registry()
                try:
                    python.load(_being_filled)
                    _registry = _being_filled
                finally:
                    _being_filled = None
    return _registry


def forget() -> None:
    """Load anew at the next use. For tests."""
    global _registry
    with _lock:
        _registry = None
