"""Importing the SDK of MCP without OpenTelemetry, while there are no traces.

Its dispatcher makes spans of its own, through the API of OpenTelemetry, also where no traces are collected. The hub
makes others (`sdk/traces.py`), so all that this API does is to take time: at every start, and for messages.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, MutableSequence, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

# Modules of the SDK that import OpenTelemetry.
_IMPORTERS: Final = frozenset({"mcp.shared._otel", "mcp.server._otel", "mcp.shared.jsonrpc_dispatcher"})
_API: Final = tuple(f"opentelemetry{part}" for part in ("", ".context", ".propagate", ".trace", ".trace.span"))


def leave_out_traces() -> None:
    """From now on, the SDK does not import OpenTelemetry. Tools that do get it as usual."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _IMPORTERS or "opentelemetry" in sys.modules:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with _standing_in():
            self._loader.exec_module(module)


@contextlib.contextmanager
def _standing_in() -> Iterator[None]:
    missing = [name for name in _API if name not in sys.modules]
    sys.modules.update({name: _NoApi(name) for name in missing})
    try:
        yield
    finally:
        for name in missing:
            sys.modules.pop(name, None)


class _NoApi(ModuleType):
    """Any name in it is something that does nothing."""

    __path__: MutableSequence[str] = []  # a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _Nothing:
    """A function, class, enumeration, span or tracer that does nothing."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass
