"""Resources: the hub's own, and those of packs."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, ReadResourceRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_app.access import access
from tools_app.catalog import catalog, offers
from tools_app.catalog.offers import Offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import own, results
from tools_app.mcp_server.beyond import Asking
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listing
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, ToolError, shortened
from tools_app.sdk.resource import OWN_SCHEME

# Handshake era only; the modern era has no code for this.
RESOURCE_NOT_FOUND: Final = -32002

_fixed: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()
_templates: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()


async def list_resources(asking: Asking, params: PaginatedRequestParams) -> Any:
    visible = await _offers(asking)
    listing = _fixed.get(visible)
    if listing is None:
        wires = [*(one.wire() for one in own.FIXED), *(one.wire() for one in visible.resources)]
        listing = _fixed[visible] = Listing(sorted(wires, key=lambda wire: str(wire["uri"])), "resources", "uri")
    return _page(listing, params)


async def list_templates(asking: Asking, params: PaginatedRequestParams) -> Any:
    visible = await _offers(asking)
    listing = _templates.get(visible)
    if listing is None:
        wires = [*(one.wire() for one in own.TEMPLATES), *(one.wire() for one in visible.templates)]
        wires.sort(key=lambda wire: str(wire["uriTemplate"]))
        listing = _templates[visible] = Listing(wires, "resourceTemplates", "uriTemplate")
    return _page(listing, params)


async def read_resource(asking: Asking, params: ReadResourceRequestParams) -> Any:
    view = (await catalog.fresh()).seen_by(asking.caller)
    try:
        pieces, ttl_ms = await contents(params.uri, view, asking)
    except NotFoundError as error:
        raise not_found(params.uri, asking.version, error) from error
    except InvalidArgumentsError as error:  # A variable of the URI template is invalid.
        raise MCPError(INVALID_PARAMS, error.message, results.wire_form(error)) from error
    return {"contents": pieces, "resultType": "complete", "ttlMs": ttl_ms, "cacheScope": LIST_SCOPE}


async def contents(uri: str, view: Snapshot, asking: Asking) -> tuple[list[dict[str, Any]], int]:
    """The contents of a resource, and for how many milliseconds they may be cached.

    Raises:
        ToolError: it cannot be read; NotFoundError, if it does not exist for this caller.
    """
    caller = asking.caller
    if uri.startswith(OWN_SCHEME):
        access.require(caller, "tools:read")
        text = await own.text(uri, view, caller)
        if text is None:
            raise _no_resource(uri)
        return [{"uri": uri, "mimeType": own.MIME_TYPE, "text": text}], LIST_TTL_MS
    match = offers.of(view, caller.reach).resource(uri)
    if match is None:
        raise _no_resource(uri)
    resource, values = match
    result = await asking.run(offers.entry(resource, view), resource.read(values))
    pieces = [piece["resource"] for piece in result.answer.content or ()]
    # A piece without a URI of its own gets the requested one.
    whole = [{**piece, "uri": uri if piece["uri"] == resource.uri else piece["uri"]} for piece in pieces]
    return whole, round(resource.max_age * 1000)


def can_change(uri: str, view: Snapshot, caller: Caller) -> bool:
    """Whether this caller can subscribe to the resource."""
    if (match := own.find(uri)) is not None:
        resource, values = match
        return (
            resource.lasting and caller.may("tools:read") and ("name" not in values or bool(view.find(values["name"])))
        )
    return offers.of(view, caller.reach).resource(uri) is not None


async def state(uri: str, view: Snapshot, caller: Caller) -> str:
    """A value that changes with the content; empty if the resource does not exist for this caller."""
    if not can_change(uri, view, caller):
        return ""
    return await own.digest(uri, view, caller) if uri.startswith(OWN_SCHEME) else "there"


def not_found(uri: str, version: str, error: ToolError | None = None) -> MCPError:
    code = INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    data: dict[str, Any] = {"uri": shortened(uri, 1000)}
    if error is not None and error.error_id is not None:
        data["toolhub/error"] = results.wire_form(error)
    return MCPError(code, f"Resource not found: {shortened(uri)}", data)


def _no_resource(uri: str) -> NotFoundError:
    about = {"operation": "read", "resourceType": "resource", "resourceId": shortened(uri)}
    return NotFoundError("Resource not found", context=about)


async def _offers(asking: Asking) -> Offers:
    access.require(asking.caller, "tools:list")
    return offers.of((await catalog.fresh()).seen_by(asking.caller), asking.caller.reach)


def _page(listing: Listing, params: PaginatedRequestParams) -> dict[str, Any]:
    return {**listing.page(params.cursor), "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}
