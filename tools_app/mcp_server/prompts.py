"""Prompts. A caller sees those whose tools it can use."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptRequestParams, PaginatedRequestParams

from tools_app.access import actions
from tools_app.catalog import catalog, offers
from tools_app.catalog.entry import Entry
from tools_app.catalog.offers import Offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import naming, resources, results
from tools_app.mcp_server.beyond import Requester
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listing
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, ToolError, shortened
from tools_app.sdk.offered import wire
from tools_app.sdk.questions import Ask

_listings: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()


async def list_prompts(requester: Requester, params: PaginatedRequestParams) -> Any:
    actions.TOOLS_LIST.require(requester.caller)
    visible = offers.of((await catalog.fresh()).seen_by(requester.caller))
    listing = _listings.get(visible)
    if listing is None:
        listing = _listings[visible] = Listing((wire(entry.spec) for entry in visible.prompts.values()), "prompts")
    return {**listing.page(params.cursor), "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}


async def get_prompt(requester: Requester, params: GetPromptRequestParams) -> Any:
    caller = requester.caller
    view = (await catalog.fresh()).seen_by(caller)
    prompt = find(params.name, view, requester)
    try:
        result = await requester.run(prompt, params.arguments or {})
    except InvalidArgumentsError as error:
        raise MCPError(INVALID_PARAMS, error.message, results.wire_form(error)) from error
    if isinstance(result, Ask):
        return result
    content = list(result.answer.content or ())
    if (note := naming.beside(content, view)) is not None:
        content.insert(0, note)
    messages = await asyncio.gather(*(_with_resource(message, view, requester) for message in content))
    if ask := next((message for message in messages if isinstance(message, Ask)), None):
        return ask
    return {
        "description": prompt.spec.description,
        "messages": messages,
        "_meta": {"toolhub/callId": result.call_id},
        "resultType": "complete",
    }


def find(name: str, view: Snapshot, requester: Requester) -> Entry:
    """Raises: MCPError, when the caller has no prompt of this name."""
    prompt = offers.of(view).prompts.get(name)
    if prompt is None:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {shortened(name)}")
    return prompt


async def _with_resource(message: dict[str, Any], view: Snapshot, requester: Requester) -> dict[str, Any] | Ask:
    """The message with the resource that it includes; if that cannot be read, a note instead of an error."""
    content = message["content"]
    if content["type"] != "included":
        return message
    uri = content["uri"]
    try:
        outcome = await resources.contents(uri, view, requester)
    except NotFoundError:
        return {**message, "content": {"type": "text", "text": f"(There is nothing at {uri} for you.)"}}
    except ToolError as error:
        return {**message, "content": {"type": "text", "text": f"({uri} cannot be read: {error.message})"}}
    if isinstance(outcome, Ask):
        return outcome
    contents, _ = outcome
    return {**message, "content": {"type": "resource", "resource": contents[0]}}
