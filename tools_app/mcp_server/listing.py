"""Lists in wire form, mainly of callable tools: built once for each snapshot, paginated for each request."""

from __future__ import annotations

import base64
import binascii
import logging
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tools_app.catalog import catalog, projection
from tools_app.catalog.entry import Entry
from tools_app.catalog.listed import WireTool, as_listed, listed
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server.frames import CachedItems

log = logging.getLogger("tools_app.mcp")

PAGE: Final = 1000

# Operators can disable a tool at any time, and subscribed clients are notified within a second: others may cache the
# list for as long. It depends on the caller, hence private.
LIST_TTL_MS: Final = 1000
LIST_SCOPE: Final = "private"

_Key = tuple[object, ...]


class Listing:
    """The items of one kind, in the order of their keys: for tools their names."""

    def __init__(self, items: Iterable[dict[str, Any]], kind: str = "tools", key: str = "name") -> None:
        self._items = list(items)
        self._kind = kind
        self._keys: list[str] = [item[key] for item in self._items]

    @cached_property
    def _first_items(self) -> CachedItems:
        return CachedItems(self._items[:PAGE])

    def page(self, cursor: str | None, size: int = PAGE) -> dict[str, Any]:
        """Raises: MCPError, when the cursor is invalid."""
        start = 0 if cursor is None else bisect_right(self._keys, _read_cursor(cursor))
        items = self._first_items if (start, size) == (0, PAGE) else self._items[start : start + size]
        page: dict[str, Any] = {self._kind: items}
        if start + size < len(self._items):
            page["nextCursor"] = _cursor(self._keys[start + size - 1])
        return page


class Listings:
    """The listings of the latest snapshot for both eras: a part of the hub. Only what has changed is rebuilt."""

    def __init__(self) -> None:
        states = [(modern, sized) for modern in (False, True) for sized in (False, True)]
        self._eras = {(modern, sized): _Era(modern=modern, sized=sized) for modern, sized in states}

    def of(self, view: Snapshot, version: str, client: str = "") -> Listing:
        """`view` is the caller's view of a snapshot: one object for all callers with the same view.

        `client` is the name that the client has given itself: some are told more.
        """
        return self._eras[version in MODERN_PROTOCOL_VERSIONS, projection.reads_result_size(client)].listing(view)


class _Era:
    def __init__(self, *, modern: bool, sized: bool) -> None:
        self._modern = modern
        # Whether each tool says how large its answers can be.
        self._sized = sized
        self._moment: tuple[int, ...] = ()
        self._listings: WeakKeyDictionary[Snapshot, Listing] = WeakKeyDictionary()
        self._cache: dict[_Key, WireTool | None] = {}
        self._previous_cache: dict[_Key, WireTool | None] = {}

    def listing(self, view: Snapshot) -> Listing:
        listing = self._listings.get(view)
        if listing is None:
            if self._moment != catalog.numbers():
                self._moment = catalog.numbers()
                self._previous_cache, self._cache = self._cache, {}
            wires = map(self._wire, listed(view))
            listing = self._listings[view] = Listing(wire for wire in wires if wire is not None)
        return listing

    def _wire(self, entry: Entry) -> WireTool | None:
        key = _key(entry)
        if key not in self._cache:
            earlier = self._previous_cache
            self._cache[key] = earlier[key] if key in earlier else self._serialized(entry)
        return self._cache[key]

    def _serialized(self, entry: Entry) -> WireTool | None:
        wire = as_listed(entry)
        if self._sized and (size := projection.result_size(entry.policy.answer_tokens)) is not None:
            wire["_meta"][projection.RESULT_SIZE] = size
        return _serialized(wire, modern=self._modern)


def _key(entry: Entry) -> _Key:
    """Two entries with the same key look the same on the wire."""
    texts = entry.shown_name, entry.definition_hash, entry.title, entry.description, entry.category, entry.tags
    return *texts, entry.hints, entry.choices, entry.policy.answer_tokens, entry.detail


def _serialized(wire: WireTool, *, modern: bool) -> WireTool | None:
    """The tool as the SDK would send it; None if the SDK refuses it, which would otherwise fail the whole list."""
    version = LATEST_MODERN_VERSION if modern else LATEST_HANDSHAKE_VERSION
    alone = {"tools": [wire], "resultType": "complete", "ttlMs": 0, "cacheScope": LIST_SCOPE}
    try:
        wire_tool: WireTool = methods.serialize_server_result("tools/list", version, alone)["tools"][0]
    except ValidationError as error:
        log.error("tool %r is left out of the list for clients: %s", wire["name"], error)  # noqa: TRY400
        return None
    return wire_tool


def _cursor(name: str) -> str:
    # A name, not an offset: pages stay correct when tools are added or removed between requests.
    return base64.urlsafe_b64encode(name.encode()).decode()


def _read_cursor(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise MCPError(INVALID_PARAMS, "Invalid cursor") from error
