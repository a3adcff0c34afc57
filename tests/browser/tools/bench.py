"""Tools that let a test see what became of a call: one leaves a line for each run, one waits, one can be broken."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from toolhub import Hints, Pack

pack = Pack("bench", version="1.0.0")
HOME = Path(os.environ["TOOLHUB_HOME"])
READS = Hints(read_only=True, open_world=False)
ADDS = Hints(destructive=False, idempotent=False, open_world=False)


@pack.tool(category="bench", tags=["bench"], hints=READS)
def weigh(
    grams: Annotated[int, "1 to 5000"],
    unit: Literal["g", "kg"] = "g",
    what: Annotated[str, Field(pattern="^[a-z]+$"), "Of what"] = "flour",
) -> dict[str, Any]:
    """Weigh something."""
    return {"weight": grams if unit == "g" else grams / 1_000, "unit": unit, "what": what}


class Address(TypedDict):
    street: Annotated[str, Field(description="With the number of the house")]


class Item(TypedDict):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d+$", description="As in the catalogue")]
    count: NotRequired[Annotated[int, Field(ge=1, le=99)]]
    gift: NotRequired[bool]


PAYMENT = {"oneOf": [{"type": "object", "properties": {"iban": {"type": "string"}}}, {"type": "string"}]}


@pack.tool(category="bench", tags=["bench"], hints=READS)
def take_order(
    address: Address,
    items: Annotated[list[Item], Field(min_length=1)],
    billing: Address | None = None,
    payment: Annotated[Any, WithJsonSchema(PAYMENT), "An account, or the word cash"] = None,
) -> dict[str, Any]:
    """Take an order, and answer with it."""
    return {"address": address, "items": items}


@pack.tool(category="bench", tags=["bench"], hints=ADDS)
def leave_line(line: str) -> dict[str, str]:
    """Leave a line in a file."""
    with (HOME / "lines.txt").open("a") as file:
        file.write(f"{line}\n")
    return {"left": line}


@pack.tool(category="bench", tags=["bench"], hints=READS)
async def wait_long() -> str:
    """Wait for longer than anybody would."""
    await asyncio.sleep(25)
    return "waited"


@pack.tool(category="bench", tags=["bench"], hints=READS)
def repeat(text: str) -> dict[str, str]:
    """Say it again."""
    return {"said": text}


@pack.tool(category="bench", tags=["bench"], hints=READS)
def break_down(with_words: str) -> str:
    """Break down with these words."""
    raise RuntimeError(with_words)
