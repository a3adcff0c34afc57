"""A fast path for plain requests without the SDK, whose dispatch costs more than the hub's own work on them.

Plain are `tools/list`, and calls of tools that send no messages to the client, in well-formed messages with all
required and no unknown fields. The SDK handles everything else, including every invalid message. Both paths give the
same responses; a test compares them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, X_MCP_HEADER_KEY
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    ClientCapabilities,
    Implementation,
    JSONRPCMessage,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from tools_app import engine
from tools_app.catalog import catalog
from tools_app.mcp_server import calling, frames
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listings
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.tool import Tool

# Protocol versions of the handshake era with the same wire form of calls and lists.
VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})
REQUEST_CANCELLED: Final = -32800
MOST_KNOWN: Final = 256
_PROTOCOL: Final = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class Plain:
    """A valid plain request."""

    id: RequestId
    method: str
    name: str
    arguments: dict[str, Any] | None
    meta: Mapping[str, Any]
    modern: bool


class ShortCut:
    """The fast path of one transport."""

    def __init__(self, stamp: Mapping[str, Any]) -> None:
        self._stamp = stamp
        self._listings = Listings()
        self._known: dict[str, bool] = {}
        self._with_headers: WeakKeyDictionary[Tool, bool] = WeakKeyDictionary()

    def takes(self, message: JSONRPCMessage | None, caller: Caller, *, modern: bool) -> Plain | None:
        if not isinstance(message, JSONRPCRequest) or message.method not in ("tools/call", "tools/list"):
            return None
        plain = self._plain(message, modern=modern)
        if plain is None or (plain.method == "tools/list" and not caller.may("tools:list")):
            return None
        if plain.method == "tools/call":
            # The latest snapshot is enough here: the engine checks whether the tool can be called now.
            entry = catalog.latest().seen_by(caller).find(plain.name)
            if entry is None or entry.tool is None or entry.tool.speaks:
                return None
        return plain

    def wants_headers(self, plain: Plain, caller: Caller) -> bool:
        """Whether the tool requires some parameters to be repeated in headers."""
        entry = catalog.latest().seen_by(caller).find(plain.name) if plain.name else None
        tool = entry.tool if entry is not None else None
        if tool is None:
            return False
        if tool not in self._with_headers:
            self._with_headers[tool] = X_MCP_HEADER_KEY in json.dumps(tool.input_schema)
        return self._with_headers[tool]

    async def answer(self, plain: Plain, caller: Caller) -> tuple[int, bytes]:
        """The HTTP status and the JSON-RPC frame of the response, without newline. Never raises for a request."""
        try:
            return await self._answer(plain, caller)
        except asyncio.CancelledError:
            # The engine has recorded it.
            return self._error_response(plain, MCPError(REQUEST_CANCELLED, "Request cancelled"))

    async def _answer(self, plain: Plain, caller: Caller) -> tuple[int, bytes]:
        try:
            if plain.method == "tools/list":
                return HTTPStatus.OK, await self._list(plain, caller)
            result = await calling.result_of(plain.name, plain.arguments, plain.meta, caller, None)
        except MCPError as error:
            return self._error_response(plain, error)
        except ToolError as error:
            return self._error_response(plain, calling.refusal(error))
        except Exception as bug:
            return self._error_response(
                plain, calling.refusal(await engine.report(bug, door="mcp", where=plain.method))
            )
        if plain.modern:
            result["_meta"][SERVER_INFO_META_KEY] = self._stamp
        else:
            del result["resultType"]
        return HTTPStatus.OK, frames.encoded({"jsonrpc": "2.0", "id": plain.id, "result": result})

    # ---- reading

    def _plain(self, message: JSONRPCRequest, *, modern: bool) -> Plain | None:
        params = message.params or {}
        meta = params.get("_meta", {})
        is_call = message.method == "tools/call"
        allowed = {"name", "arguments", "_meta"} if is_call else {"_meta"}
        if not isinstance(meta, dict) or not params.keys() <= allowed or not self._meta_fits(meta, modern=modern):
            return None
        name = params.get("name", "")
        if is_call and (not isinstance(name, str) or not isinstance(params.get("arguments", {}), dict)):
            return None
        return Plain(message.id, message.method, name, params.get("arguments"), meta, modern)

    def _meta_fits(self, meta: dict[str, Any], *, modern: bool) -> bool:
        token = meta.get("progressToken", "")
        if not isinstance(token, str | int) or isinstance(token, bool):
            return False
        protocol_keys = {key for key in meta if key.startswith(_PROTOCOL)}
        if not modern:
            return not protocol_keys
        required = {PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY}
        return (
            required <= protocol_keys <= required | {CLIENT_INFO_META_KEY}
            and meta[PROTOCOL_VERSION_META_KEY] == LATEST_MODERN_VERSION
            and self._valid(ClientCapabilities, meta[CLIENT_CAPABILITIES_META_KEY])
            and (CLIENT_INFO_META_KEY not in meta or self._valid(Implementation, meta[CLIENT_INFO_META_KEY]))
        )

    def _valid(self, kind: type[BaseModel], value: Any) -> bool:
        """Cached, since clients send the same values with every request."""
        if not value:
            return value == {} and kind is ClientCapabilities
        key = kind.__name__ + json.dumps(value, sort_keys=True)
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            try:
                kind.model_validate(value, by_name=False)
            except ValidationError:
                self._known[key] = False
            else:
                self._known[key] = True
        return self._known[key]

    # ---- writing

    async def _list(self, plain: Plain, caller: Caller) -> bytes:
        version = LATEST_MODERN_VERSION if plain.modern else ""
        listing = self._listings.of((await catalog.fresh()).seen_by(caller), version)
        rest: dict[str, Any] = dict(listing.first_page_without_items)
        if plain.modern:
            rest |= {"resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}
            rest["_meta"] = {SERVER_INFO_META_KEY: self._stamp}
        head = to_json({"jsonrpc": "2.0", "id": plain.id})
        more = to_json(rest)[1:-1]
        return b'%b,"result":{"tools":%b%b%b}}' % (head[:-1], listing.first_items, b"," if more else b"", more)

    def _error_response(self, plain: Plain, error: MCPError) -> tuple[int, bytes]:
        wire_error = error.error.model_dump(by_alias=True, exclude_none=True)
        status = ERROR_CODE_HTTP_STATUS.get(error.error.code, HTTPStatus.OK)
        return status, to_json({"jsonrpc": "2.0", "id": plain.id, "error": wire_error}, fallback=str)
