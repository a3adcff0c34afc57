"""Importing the SDK without the parts that a stdio server does not use.

`import mcp` loads its client and an HTTP stack, and builds a validator for every message of every revision: a good
third of the start-up time, in every session of an agent.
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
    """Import what is needed of the SDK inside this context.

    Its packages load lazily at the first use of a name in them, and validators are built at first use.
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
    """A lazy package: its code runs at the first use of a name in it, so `import mcp` in a tool works as usual."""

    def __getattr__(self, name: str) -> Any:
        # One thread loads, the others wait. With a timeout against deadlock: a waiting thread may hold an import lock.
        acquired = _lock.acquire(timeout=PATIENCE_SECONDS)
        try:
            if type(self) is _Later:
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                if spec is not None and spec.loader is not None:
                    spec.loader.exec_module(self)
        finally:
            if acquired:
                _lock.release()
        return getattr(self, name)
