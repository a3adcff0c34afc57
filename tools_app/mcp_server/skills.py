"""Skills of packs for clients with the extension `io.modelcontextprotocol/skills` (SEP-2640).

A skill is one file here, which is read as a resource. Other clients see that resource, and a prompt.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

from tools_app.access import actions
from tools_app.catalog import catalog, offers
from tools_app.catalog.offers import Offers
from tools_app.mcp_server import resources
from tools_app.mcp_server.beyond import Requester
from tools_app.mcp_server.listing import LIST_SCOPE, LIST_TTL_MS, Listing
from tools_app.sdk.spec import ToolSpec

_listings: WeakKeyDictionary[Offers, Listing] = WeakKeyDictionary()


async def list_skills(requester: Requester, params: PaginatedRequestParams) -> Any:
    visible = await _offers(requester)
    listing = _listings.get(visible)
    if listing is None:
        skills = (_entry(one.spec) for one in visible.resources.values() if one.spec.skill)
        listing = _listings[visible] = Listing(skills, "skills", "uri")
    return {**listing.page(params.cursor), "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}


async def get_skill(requester: Requester, params: ReadResourceRequestParams) -> Any:
    """Raises: MCPError, when the caller has no skill at this URI."""
    resource = (await _offers(requester)).resources.get(params.uri)
    if resource is None or not resource.spec.skill:
        raise resources.not_found(params.uri, requester.version)
    skill = _entry(resource.spec)
    return {"skill": skill, "resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": LIST_SCOPE}


def _entry(spec: ToolSpec) -> dict[str, Any]:
    file = {"uri": spec.shown_key, "digest": spec.skill["digest"], "size": spec.body["size"]}
    return {"uri": spec.shown_key, "frontmatter": spec.skill["front"], "resources": [file]}


async def _offers(requester: Requester) -> Offers:
    actions.TOOLS_LIST.require(requester.caller)
    return offers.of((await catalog.fresh()).seen_by(requester.caller))
