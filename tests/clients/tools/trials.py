"""What a client has to cope with: answers with a schema, failures, and calls that take their time."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from toolhub import Hints, NotFoundError, tool


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


@tool
async def rest(seconds: float = 1) -> str:
    """Rest for a while. It says that it writes, so that it is on record while it runs."""
    await asyncio.sleep(seconds)
    return "rested"
