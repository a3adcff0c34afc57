"""Prompts. A caller sees those whose tools it can use."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptRequestParams, PaginatedRequestParams

from tools_app.access import access
from tools_app.catalog import catalog, offers
from tools_app.catalog.offers import Offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import naming, resources, results
from tools_app.mcp_server.beyond import Asking
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listing
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, ToolError, shortened
from tools_app.sdk.prompt import Prompt

_listings: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()


async def list_prompts(asking: Asking, params: PaginatedRequestParams) -> Any:
    access.require(asking.caller, "tools:list")
    visible = offers.of((await catalog.fresh()).seen_by(asking.caller), asking.caller.reach)
    listing = _listings.get(visible)
    if listing is None:
        listing = _listings[visible] = Listing((prompt.wire() for prompt in visible.prompts), "prompts")
    return {**listing.page(params.cursor), "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}


async def get_prompt(asking: Asking, params: GetPromptRequestParams) -> Any:
    caller = asking.caller
    view = (await catalog.fresh()).seen_by(caller)
    prompt = find(params.name, view, asking)
    try:
        result = await asking.run(offers.entry(prompt, view), prompt.read(params.arguments or {}))
    except InvalidArgumentsError as error:
        raise MCPError(INVALID_PARAMS, error.message, results.wire_form(error)) from error
    content = list(result.answer.content or ())
    if (note := naming.beside(content, view)) is not None:
        content.insert(0, note)
    messages = await asyncio.gather(*(_with_resource(message, view, asking) for message in content))
    return {
        "description": prompt.description,
        "messages": messages,
        "_meta": {"toolhub/callId": result.call_id},
        "resultType": "complete",
    }


def find(name: str, view: Snapshot, asking: Asking) -> Prompt:
    """Raises: MCPError, when the caller has no prompt of this name."""
    prompt = offers.of(view, asking.caller.reach).prompt(name)
    if prompt is None:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {shortened(name)}")
    return prompt


async def _with_resource(message: dict[str, Any], view: Snapshot, asking: Asking) -> dict[str, Any]:
    """The message with the resource that it includes; if that cannot be read, a note instead of an error."""
    content = message["content"]
    if content["type"] != "included":
        return message
    uri = content["uri"]
    try:
        contents, _ = await resources.contents(uri, view, asking)
    except NotFoundError:
        return {**message, "content": {"type": "text", "text": f"(There is nothing at {uri} for you.)"}}
    except ToolError as error:
        return {**message, "content": {"type": "text", "text": f"({uri} cannot be read: {error.message})"}}
    return {**message, "content": {"type": "resource", "resource": contents[0]}}
