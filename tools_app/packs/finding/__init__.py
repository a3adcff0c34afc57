"""Finding and calling tools that an agent's list does not show: the list stays short, however many tools there are.

Agents are listed these where a toolset or the settings say so. A call through `call_tool` is one of the tool that it
names, with all checks, and on record under that name.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from tools_app.sdk.context import Context, Wanted
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.examples import Example
from tools_app.sdk.pack import Pack
from tools_app.sdk.tool import Hints, Tool

pack = Pack("finding", version="1.0.0", title="Finding", description="Tools that find others, and call what they find.")

_HARMLESS: Final = Hints(read_only=True, open_world=False)
_TAGS: Final = ("finding",)

Label = Annotated[str, Field(min_length=1, max_length=64)]


@pack.tool(
    title="Search tools",
    category="finding",
    tags=_TAGS,
    hints=_HARMLESS,
    examples=[
        Example("Find what files a bug report", {"query": "create issue"}, {"tools": "<array>", "total": "<integer>"})
    ],
)
async def search_tools(
    ctx: Context,
    query: Annotated[str, Field(min_length=1, max_length=500), "What is to be done, in a few words"],
    category: Annotated[str, Field(max_length=64), "Only tools of this category, or below it"] = "",
    tags: Annotated[list[Label], Field(max_length=20), "Only tools with any of these tags"] = [],  # noqa: B006 – a default of the schema; never changed
    limit: Annotated[int, Field(ge=1, le=50), "At most so many"] = 5,
    offset: Annotated[int, Field(ge=0, le=10_000), "Leave out so many of the best"] = 0,
) -> dict[str, Any]:
    """Search this hub's tools; most of them are not in your list. The best come first, with their parameters.

    Call what you find with call_tool (or call_writing_tool, where `effect` is not `reads`). `*` marks what is required.
    """
    return await ctx.tools.found(Wanted(query, category, tuple(tags), limit, offset))


@pack.tool(
    title="Describe tool",
    category="finding",
    tags=_TAGS,
    hints=_HARMLESS,
    examples=[Example("See all about a tool", {"name": "calculate"}, {"name": "calculate", "inputSchema": "<object>"})],
)
async def describe_tool(
    ctx: Context, name: Annotated[str, Field(min_length=1, max_length=100), "The tool's name"]
) -> dict[str, Any]:
    """Show a tool in full: description, input schema, examples. For parameters that need more than a glance."""
    return await ctx.tools.described(name)


class Forwarded(BaseModel):
    """A call of another tool."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100, description="The tool's name, as search_tools tells it")]
    arguments: Annotated[dict[str, Any], Field(description="What that tool takes")] = {}


class _Forwarding(Tool):
    """The hub runs the tool that is named instead of this one."""

    category = "finding"
    tags = _TAGS
    Arguments = Forwarded
    forwards = True

    async def run(self, ctx: Context, arguments: Forwarded) -> Any:
        raise ToolNotFoundError.named(arguments.name)  # Outside a hub there is no other.


@pack.add
class CallTool(_Forwarding):
    """Call a tool that only reads, found with search_tools. Its arguments are checked as if it were called directly."""

    name = "call_tool"
    title = "Call a tool that reads"
    hints = Hints(read_only=True)
    examples = (
        Example("Add", {"name": "calculate", "arguments": {"operation": "add", "a": 2, "b": 3}}, {"result": 5}),
    )


@pack.add
class CallWritingTool(_Forwarding):
    """Call any tool, also one that changes something, found with search_tools."""

    name = "call_writing_tool"
    title = "Call a tool that writes"
    hints = Hints(read_only=False)
    examples = (Example("Say hi", {"name": "echo", "arguments": {"message": "hi"}}, {"message": "hi"}),)
