"""Everything that a server lists, as it came over the wire. The SDK would drop what it does not know, and lose a whole
list for one definition that it does not understand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from tools_app.sdk.errors import shortened
from tools_app.sdk.outside import Listing
from tools_app.sdk.spec import Kind
from tools_app.sources.foreign.pins import pin_of
from tools_app.upstream.links import Link
from tools_app.upstream.wire import Broken

PAGE_SECONDS: Final = 30.0
MOST_PAGES: Final = 50
MOST_ITEMS: Final = 2_000
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_INSTRUCTIONS: Final = 64 * 1024
# The capability, the method, and the name of the items.
_LISTS: Final = (
    ("tools", "tools/list", "tools"),
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
    ("prompts", "prompts/list", "prompts"),
)


async def listed(link: Link) -> Listing:
    """Lists the tools twice: a few servers describe them differently each time.

    Raises:
        Broken: the message says what is wrong.
    """
    client = link.client
    capabilities = client.server_capabilities
    declared = capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else {}
    found: dict[str, list[Any]] = {}
    for capability, method, name in _LISTS:
        # Tools are asked for anyway: some servers forget to declare them.
        required = capability == "tools"
        found[name] = await _all(link, method, name, required=required) if required or capability in declared else []
    again = await _all(link, "tools/list", "tools", required=True)
    server = client.server_info
    return Listing(
        tools=found["tools"],
        resources=found["resources"],
        templates=found["resourceTemplates"],
        prompts=found["prompts"],
        instructions=(client.instructions or "")[:MOST_INSTRUCTIONS],
        era=link.version,
        server=shortened(f"{server.name} {server.version}".strip(), 200) if server is not None else "",
        capabilities=declared,
        unstable=_differing(found["tools"], again),
    )


async def _all(link: Link, method: str, name: str, *, required: bool) -> list[Any]:
    items: list[Any] = []
    size, cursor = 0, None
    for _ in range(MOST_PAGES):
        page = await _page(link, method, cursor, required=required)
        found = page.get(name)
        if not isinstance(found, list):
            raise Broken(f"its answer to {method} has no {name}")
        items += found
        size += len(json.dumps(page, ensure_ascii=False).encode(errors="replace"))
        if len(items) > MOST_ITEMS:
            raise Broken(f"it lists more than {MOST_ITEMS:,} {name}")
        if size > MOST_BYTES:
            raise Broken(f"its list of {name} is larger than {MOST_BYTES // 1024**2} MiB")
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return items
    raise Broken(f"its list of {name} has more than {MOST_PAGES} pages")


async def _page(link: Link, method: str, cursor: str | None, *, required: bool) -> Mapping[str, Any]:
    try:
        return await link.request(method, {} if cursor is None else {"cursor": cursor}, PAGE_SECONDS)
    except MCPError as error:
        if error.error.code == METHOD_NOT_FOUND and not required:
            return {name: [] for _, one, name in _LISTS if one == method}
        raise Broken(f"it refuses {method}: {shortened(error.error.message)}") from None
    except TimeoutError:
        raise Broken(f"it did not answer {method} within {PAGE_SECONDS:.0f} s") from None


def _differing(first: list[Any], second: list[Any]) -> frozenset[str]:
    """Names of the tools that are not the same in both lists."""
    one, other = _by_name(first), _by_name(second)
    return frozenset(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _by_name(tools: list[Any]) -> dict[str, str]:
    """The pin of each tool: the order of a set may change at every start, and means nothing."""
    return {tool["name"]: _pin(tool) for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)}


def _pin(tool: Mapping[str, Any]) -> str:
    try:
        return pin_of(Kind.TOOL, tool, defaults=True)
    except (TypeError, ValueError, RecursionError):
        return ""  # It is refused as a whole.
