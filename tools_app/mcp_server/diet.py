"""The SDK without what a server over stdio has no use for.

`import mcp` brings in its client and an HTTP stack, and every message of every revision has its validator built,
used or not: a good third of the start, which an agent pays for in every session.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel

PACKAGES: Final = ("mcp", "mcp.server")
PATIENCE_SECONDS: Final = 5.0

_lock = threading.RLock()


@contextmanager
def slim() -> Iterator[None]:
    """Inside this, import what is needed of the SDK.

    Its packages stay empty until somebody asks them for something, and validators are built when first used.
    """
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and name not in sys.modules:
            package = sys.modules[name] = importlib.util.module_from_spec(spec)
            package.__class__ = _Later
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, package)
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


class _Later(ModuleType):
    """A package whose own code runs at the first use of a name in it: `import mcp` in a tool works as ever."""

    def __getattr__(self, name: str) -> Any:
        # One thread loads and the others wait, but not for ever: one of them may hold what the first needs.
        waited = _lock.acquire(timeout=PATIENCE_SECONDS)
        try:
            if type(self) is _Later:
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                if spec is not None and spec.loader is not None:
                    spec.loader.exec_module(self)
        finally:
            if waited:
                _lock.release()
        return getattr(self, name)
