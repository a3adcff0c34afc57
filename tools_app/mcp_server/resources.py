"""Resources: the hub's own, and those of packs."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, ReadResourceRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_app.access import actions
from tools_app.catalog import catalog, offers
from tools_app.catalog.entry import Entry
from tools_app.catalog.offers import Offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import own, results
from tools_app.mcp_server.beyond import Requester
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listing
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, ToolError, shortened
from tools_app.sdk.offered import wire
from tools_app.sdk.questions import Ask

# Handshake era only; the modern era has no code for this.
RESOURCE_NOT_FOUND: Final = -32002

_fixed: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()
_templates: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()


async def list_resources(requester: Requester, params: PaginatedRequestParams) -> Any:
    visible = await _offers(requester)
    listing = _fixed.get(visible)
    if listing is None:
        wires = [*(one.wire() for one in own.FIXED), *(wire(entry.spec) for entry in visible.resources.values())]
        listing = _fixed[visible] = Listing(sorted(wires, key=lambda wire: str(wire["uri"])), "resources", "uri")
    return _page(listing, params)


async def list_templates(requester: Requester, params: PaginatedRequestParams) -> Any:
    visible = await _offers(requester)
    listing = _templates.get(visible)
    if listing is None:
        wires = [*(one.wire() for one in own.TEMPLATES), *(wire(entry.spec) for entry in visible.templates.values())]
        wires.sort(key=lambda wire: str(wire["uriTemplate"]))
        listing = _templates[visible] = Listing(wires, "resourceTemplates", "uriTemplate")
    return _page(listing, params)


async def read_resource(requester: Requester, params: ReadResourceRequestParams) -> Any:
    view = (await catalog.fresh()).seen_by(requester.caller)
    try:
        outcome = await contents(params.uri, view, requester)
    except NotFoundError as error:
        raise not_found(params.uri, requester.version, error) from error
    except InvalidArgumentsError as error:  # A variable of the URI template is invalid.
        raise MCPError(INVALID_PARAMS, error.message, results.wire_form(error)) from error
    if isinstance(outcome, Ask):
        return outcome
    pieces, ttl_ms = outcome
    return {"contents": pieces, "resultType": "complete", "ttlMs": ttl_ms, "cacheScope": LIST_SCOPE}


async def contents(uri: str, view: Snapshot, requester: Requester) -> tuple[list[dict[str, Any]], int] | Ask:
    """The contents of a resource, and for how many milliseconds they may be cached; or questions to the client.

    Raises:
        ToolError: it cannot be read; NotFoundError, if it does not exist for this caller.
    """
    caller = requester.caller
    if own.find(uri) is not None:
        actions.TOOLS_READ.require(caller)
        text = await own.text(uri, view, caller)
        if text is None:
            raise _no_resource(uri)
        return [{"uri": uri, "mimeType": own.MIME_TYPE, "text": text}], LIST_TTL_MS
    match = offers.of(view).resource(uri)
    if match is None:
        raise _no_resource(uri)
    resource, values = match
    result = await requester.run(resource, values)
    if isinstance(result, Ask):
        return result
    pieces = [piece["resource"] for piece in result.answer.content or ()]
    # A piece without a URI of its own gets the requested one.
    implied = _original(resource, values) if resource.spec.is_outside else resource.spec.shown_key
    body = [{**piece, "uri": uri if piece["uri"] == implied else piece["uri"]} for piece in pieces]
    return body, round(resource.spec.body.get("maxAge", 0) * 1000)


def _original(resource: Entry, values: dict[str, str]) -> str:
    """The URI that was read from another server."""
    # Most processes read no such resource.
    from tools_app.sources.foreign import original_uri

    return original_uri(resource.spec, values)


def can_change(uri: str, view: Snapshot, caller: Caller) -> bool:
    """Whether this caller can subscribe to the resource."""
    if (match := own.find(uri)) is not None:
        resource, values = match
        is_there = "name" not in values or bool(view.find(values["name"]))
        return resource.lasting and is_there and actions.TOOLS_READ.permits(caller)
    return offers.of(view).resource(uri) is not None


async def state(uri: str, view: Snapshot, caller: Caller) -> str:
    """A value that changes with the content; empty if the resource does not exist for this caller."""
    if not can_change(uri, view, caller):
        return ""
    return await own.digest(uri, view, caller) if own.find(uri) is not None else "there"


def not_found(uri: str, version: str, error: ToolError | None = None) -> MCPError:
    code = INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    data: dict[str, Any] = {"uri": shortened(uri, 1000)}
    if error is not None and error.error_id is not None:
        data["toolhub/error"] = results.wire_form(error)
    return MCPError(code, f"Resource not found: {shortened(uri)}", data)


def _no_resource(uri: str) -> NotFoundError:
    about = {"operation": "read", "resourceType": "resource", "resourceId": shortened(uri)}
    return NotFoundError("Resource not found", context=about)


async def _offers(requester: Requester) -> Offers:
    actions.TOOLS_LIST.require(requester.caller)
    return offers.of((await catalog.fresh()).seen_by(requester.caller))


def _page(listing: Listing, params: PaginatedRequestParams) -> dict[str, Any]:
    return {**listing.page(params.cursor), "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}
