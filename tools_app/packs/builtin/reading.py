"""Paging through an answer that was too large to send at once."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tools_app import answers
from tools_app.answers.filters import MOST_CONDITIONS, MOST_FIELDS, Operator
from tools_app.answers.pointers import MOST_CHARACTERS
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack

_EXAMPLE = "0f8fad5bd9cb469fa165708677289500"


class Condition(BaseModel):
    """A condition that items must fulfil."""

    model_config = ConfigDict(extra="forbid")

    field: Annotated[str, Field(description="Key or JSON pointer in the item; empty: the item itself")] = ""
    op: Annotated[Operator, Field(description="How to compare; contains ignores case")]
    value: Annotated[Any, Field(description="Text, number, boolean or null to compare with")] = None


async def read_result(
    ctx: Context,
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$"), "The id in the outline"],
    pointer: Annotated[str, Field(max_length=MOST_CHARACTERS), "Where: a JSON pointer (RFC 6901); empty: all"] = "",
    offset: Annotated[int, Field(ge=0), "First item (array, object) or character (text) to read"] = 0,
    limit: Annotated[int | None, Field(ge=1), "Most items of a page; a full page ends earlier"] = None,
    where: Annotated[
        list[Condition], Field(max_length=MOST_CONDITIONS), "Only items that fulfil all of these conditions"
    ] = [],  # noqa: B006 – a default of the schema; never changed
    fields: Annotated[
        list[str], Field(max_length=MOST_FIELDS), "Only these members (key or JSON pointer) of objects"
    ] = [],  # noqa: B006 – likewise
) -> dict[str, Any]:
    """Read part of an answer that was too large, by the id in its outline.

    The next page starts at `nextOffset`; `larger` has the pointers of items larger than a page.
    """
    conditions = [answers.Condition(one.field, one.op, one.value) for one in where]
    return await ctx.answers.page(id, answers.PageRequest(pointer, offset, limit, conditions, fields))


def add_to(pack: Pack) -> None:
    pack.tool(
        title="Read a large answer",
        category="utility",
        tags=("builtin", "answers"),
        keywords=(
            "rest of an answer, next part, too long, cut off, continue, more",
            "続き 残り 途中で切れた 長すぎる 次の部分",
        ),
        hints=Hints(read_only=True, open_world=False),
        examples=[
            Example("Next page of a list", {"id": _EXAMPLE, "pointer": "/items", "offset": 100}, shown_only=True),
            Example(
                "Find what failed",
                {
                    "id": _EXAMPLE,
                    "pointer": "/items",
                    "where": [{"field": "status", "op": "eq", "value": "failed"}],
                    "fields": ["id", "message"],
                },
                shown_only=True,
            ),
        ],
    )(read_result)
