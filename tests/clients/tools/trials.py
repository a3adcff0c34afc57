"""What a client has to cope with: answers with a schema, failures, and calls that take their time."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolhub import Completes, Context, Hints, NotFoundError, prompt, tool


class Measured(TypedDict):
    text: str
    length: Annotated[int, Field(ge=1)]
    longest: str | None


@tool(title="Measure", hints=Hints(read_only=True))
async def measure(text: str) -> Measured:
    """Measure a text."""
    if not text.strip():
        raise NotFoundError("There is nothing to measure")
    return {"text": text, "length": len(text), "longest": max(text.split(), key=len) if " " in text else None}


class Order(BaseModel):
    size: int
    gift: bool = False


@tool(hints=Hints(read_only=True))
async def climb(ctx: Context, steps: int) -> str:
    """Say how far it has got."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
        await asyncio.sleep(0.01)
    return "up"


@tool(hints=Hints(read_only=True))
async def order(ctx: Context) -> str:
    """Ask the person behind the agent."""
    reply = await ctx.elicit("Which size?", Order)
    return f"{reply.action} {reply.data.size} {reply.data.gift}" if reply.accepted else reply.action


@prompt(tools=["measure"])
def compare(one: str, other: Annotated[str, Completes("toolhub://tools/{name}")]) -> str:
    """Compare two texts."""
    return f"Measure {one!r} and {other!r}, and say which is longer."


@tool
async def rest(seconds: float = 1) -> str:
    """Rest for a while. It says that it writes, so that it is on record while it runs."""
    await asyncio.sleep(seconds)
    return "rested"
