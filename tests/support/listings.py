"""Servers outside that list what a test says, in place of connections."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tools_app.base import ports
from tools_app.base.ports import UnavailableError
from tools_app.models import Source, SourceStatus
from tools_app.sdk.context import Context
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.runner import InThread, Returned
from tools_app.sdk.spec import ToolSpec


def tool(name: str, description: str = "Does something.", **others: Any) -> dict[str, Any]:
    """A definition as a server sends it."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **others}


class Listings:
    """All servers of a test, by the name of their source. Connected as `ports.upstreams`."""

    def __init__(self) -> None:
        self._listings: dict[str, Listing] = {}
        # Instead of its listing: an error, or what is done first.
        self.errors: dict[str, Exception] = {}
        self.before: dict[str, Callable[[], object]] = {}
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self._lock = threading.Lock()
        self.now_open = self.most_open = 0

    def put(self, name: str, *tools: Mapping[str, Any], **others: Any) -> None:
        self._listings[name] = Listing(tools, **{"server": "fake 1.0", "era": "2025-11-25", **others})

    def add(self, name: str, *tools: Mapping[str, Any], **columns: Any) -> Source:
        """A source with these tools, switched on and never listed."""
        self.put(name, *tools)
        values = {"kind": Source.Kind.MCP_HTTP, "location": f"https://{name}.example/mcp", **columns}
        row = Source.objects.create(name=name, prefix=name, **values)
        SourceStatus.objects.create(source=row)
        return row

    def listing(self, origin: Origin) -> Listing:
        with self._lock:
            self.counts[origin.name] += 1
            self.now_open += 1
            self.most_open = max(self.most_open, self.now_open)
        try:
            if (first := self.before.get(origin.name)) is not None:
                first()
            if (error := self.errors.get(origin.name)) is not None:
                raise error
            if origin.name not in self._listings:
                raise UnavailableError(f"{origin.name} refuses the connection")
            return replace(self._listings[origin.name])
        finally:
            with self._lock:
                self.now_open -= 1

    def runner(self, origin: Origin, spec: ToolSpec) -> _Runner:
        return _Runner(self, origin, spec)

    async def reconnect(self, name: str) -> None: ...

    def origins(self) -> list[Origin]:
        return []

    def end(self, origins: Collection[Origin]) -> None: ...

    async def aclose(self) -> None: ...


class _Runner:
    explain = None

    def __init__(self, listings: Listings, origin: Origin, spec: ToolSpec) -> None:
        self._listings, self._origin, self._spec = listings, origin, spec

    def prepared(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return arguments

    async def run(self, context: Context, arguments: Mapping[str, Any], in_thread: InThread) -> Returned:
        self._listings.calls.append((self._origin.name, self._spec.key, arguments))
        return Returned({"answered by": self._origin.name})


@contextmanager
def connected() -> Iterator[Listings]:
    """Connects the port for as long as the block runs."""
    listings = Listings()
    find = ports.upstreams._find
    ports.upstreams.connect(lambda: listings)
    try:
        yield listings
    finally:
        ports.upstreams._find = find


def await_listings() -> None:
    """Wait for the threads of listings. They record what they have listed, also after their lister was stopped."""
    for thread in threading.enumerate():
        if thread.name.startswith("toolhub-list"):
            thread.join(20)
            assert not thread.is_alive(), thread.name
