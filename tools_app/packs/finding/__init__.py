"""Search mode: tools that find and call the other tools, so that an agent's list stays short.

Listed where a toolset or the settings say so. A call through `call_tool` is a call of the named tool, with all checks,
and recorded under that name.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from tools_app.sdk.context import Context, Wanted
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack
from tools_app.sdk.spec import FIELDS
from tools_app.sdk.tool import Tool

pack = Pack("finding", version="1.2.0", title="Finding", description="Tools that find others, and call what they find.")

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
    query: Annotated[str, Field(min_length=1, max_length=500), "What to do, in a few words"],
    category: Annotated[str, Field(max_length=64), "Only tools of this category or below"] = "",
    tags: Annotated[list[Label], Field(max_length=20), "Only tools with any of these tags"] = [],  # noqa: B006 – a default of the schema; never changed
    limit: Annotated[int, Field(ge=1, le=50), "Page size"] = 10,
    offset: Annotated[int, Field(ge=0, le=10_000), "Number to skip"] = 0,
    source: Annotated[str, Field(max_length=200), "Only tools of this source, such as one of `sources`"] = "",
) -> dict[str, Any]:
    """Search this hub's tools, most of which are not in your list. Best first. If you know the source, name it.

    Call them with call_tool, or call_writing_tool if `effect` is not `reads`. `*`: required; `+3`: see describe_tool.
    """
    return await ctx.tools.found(Wanted(query, category, tuple(tags), limit, offset, source))


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
    """Show a tool's description, input schema and examples."""
    return await ctx.tools.described(name)


class Forwarded(BaseModel):
    """A call of another tool."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100, description="The tool's name, from search_tools")]
    arguments: Annotated[dict[str, Any], Field(description="That tool's arguments")] = {}
    fields: Annotated[
        list[str], Field(alias=FIELDS, max_length=32, description="Only these parts of the answer, like /items/*/id")
    ] = []


class _Forwarding(Tool):
    """The hub runs the tool that is named instead of this one."""

    category = "finding"
    tags = _TAGS
    Arguments = Forwarded
    forwards = True

    async def run(self, ctx: Context, arguments: Forwarded) -> Any:
        raise ToolNotFoundError.named(arguments.name)  # Only a hub can forward.


@pack.add
class CallTool(_Forwarding):
    """Call a tool that only reads, found with search_tools."""

    name = "call_tool"
    title = "Call a tool that reads"
    hints = Hints(read_only=True)
    examples = (
        Example("Add", {"name": "calculate", "arguments": {"operation": "add", "a": 2, "b": 3}}, {"result": 5}),
    )


@pack.add
class CallWritingTool(_Forwarding):
    """Call any tool found with search_tools, also one that writes."""

    name = "call_writing_tool"
    title = "Call a tool that writes"
    hints = Hints(read_only=False)
    examples = (Example("Say hi", {"name": "echo", "arguments": {"message": "hi"}}, {"message": "hi"}),)


class OneOfMany(BaseModel):
    """One of several calls."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100)]
    arguments: dict[str, Any] = {}


@pack.tool(
    title="Call many tools",
    category="finding",
    tags=_TAGS,
    hints=Hints(read_only=True),
    examples=[
        Example(
            "Read two things at once",
            {"calls": [{"name": "echo", "arguments": {"message": text}} for text in ("a", "b")]},
            {"results": "<array>"},
        )
    ],
)
async def call_many(
    ctx: Context, calls: Annotated[list[OneOfMany], Field(min_length=1, max_length=20), "The calls; results in order"]
) -> dict[str, Any]:
    """Call up to 20 tools that only read, at once. Each gives a `result` or an `error`; errors stop no other."""
    if ctx.call_each is None:
        raise ToolNotFoundError.named(calls[0].name)  # Only a hub can call them.
    return {"results": await ctx.call_each([(one.name, one.arguments) for one in calls])}
