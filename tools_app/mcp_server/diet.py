"""Importing the SDK without the parts that a stdio server does not use.

`import mcp` loads its client and an HTTP stack, and builds a validator for every message of every revision: a good
third of the start-up time, in every session of an agent.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

PACKAGES: Final = ("mcp", "mcp.server")
# Modules whose names the SDK's server only calls, and only when it serves HTTP.
CALLED: Final = ("sse_starlette", "mcp.server.auth.routes")
PATIENCE_SECONDS: Final = 5.0

_LOADING: Final = "__toolhub_loading__"
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
    placeholders = {name: _Called(name) for name in CALLED if name not in sys.modules}
    sys.modules.update(placeholders)
    build_adapter = TypeAdapter.__init__

    def defer_adapter(self: TypeAdapter[Any], kind: Any, *, config: Any = None, **options: Any) -> None:
        # Only unions: a class has a configuration of its own.
        if config is None and not isinstance(kind, type):
            config = {"defer_build": True}
        build_adapter(self, kind, config=config, **options)

    BaseModel.model_config["defer_build"] = True
    TypeAdapter.__init__ = defer_adapter  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        TypeAdapter.__init__ = build_adapter  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]
        for name in placeholders:
            del sys.modules[name]


class _Called(ModuleType):
    """A placeholder for a module: a name imported from it is a function that imports the module at its first call."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return call


class _Later(ModuleType):
    """A lazy package: its code runs at the first use of a name in it, so `import mcp` in a tool works as usual."""

    def __getattr__(self, name: str) -> Any:
        # One thread loads, the others wait. With a timeout against deadlock: a waiting thread may hold an import lock.
        acquired = _lock.acquire(timeout=PATIENCE_SECONDS)
        try:
            if type(self) is _Later:
                if vars(self).get(_LOADING):
                    raise AttributeError(name)  # The package is being loaded by this thread, and has no such name yet.
                spec = self.__spec__
                if spec is not None and spec.loader is not None:
                    vars(self)[_LOADING] = True
                    try:
                        spec.loader.exec_module(self)
                    finally:
                        del vars(self)[_LOADING]
                # Only now: other threads wait until then, and a failure is tried again.
                self.__class__ = ModuleType  # type: ignore[assignment]
        finally:
            if acquired:
                _lock.release()
        return getattr(self, name)
