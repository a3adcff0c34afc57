"""Built-in tools: two for trying out a hub, and one for reading answers that are too large to send at once."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from tools_app.packs.builtin import reading
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack
from tools_app.sdk.signatures import Number

pack = Pack(
    "builtin", version="1.1.0", title="Built in", description="Tools to try the hub with, and to read large answers."
)

# The range of a double: most JSON parsers do not accept larger integers.
MOST_BITS: Final = 1024
_HARMLESS: Final = Hints(read_only=True, open_world=False)


@pack.tool(
    title="Echo",
    category="utility",
    tags=("builtin", "test"),
    keywords=("ping, connection, reachable, health check, say back", "接続確認 疎通 動作確認 応答"),
    hints=_HARMLESS,
    examples=[Example("Say hello", {"message": "Hello"}, {"message": "Hello"})],
)
async def echo(message: Annotated[str, "The text to send back"]) -> dict[str, str]:
    """Echo back the message that was sent. Useful to see whether the hub answers."""
    return {"message": message}


@pack.tool(
    title="Calculate",
    category="utility",
    tags=("builtin", "math"),
    keywords=(
        "how much, percent, percentage, total, sum, plus, minus, times, product, convert, math",
        "計算 合計 足し算 引き算 掛け算 割り算 割合 パーセント 消費税 いくら 平均",
    ),
    hints=_HARMLESS,
    examples=[Example("Add two numbers", {"operation": "add", "a": 2, "b": 3}, {"result": 5})],
)
async def calculate(
    operation: Annotated[Literal["add", "subtract", "multiply", "divide"], "What to do with the two numbers"],
    a: Annotated[Number, "The first number"],
    b: Annotated[Number, "The second number"],
) -> dict[str, int | float]:
    """Add, subtract, multiply or divide two numbers."""
    if operation == "divide" and b == 0:
        raise _refusal("/b", "Division by zero is not allowed", "a number other than 0")
    try:
        result = _calculated(operation, a, b)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result) if isinstance(result, float) else result.bit_length() > MOST_BITS:
        raise _refusal("", "The result is too large", "smaller numbers")
    return {"result": result}


def _calculated(operation: Literal["add", "subtract", "multiply", "divide"], a: Number, b: Number) -> int | float:
    match operation:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply":
            return a * b
        case "divide":
            return a // b if isinstance(a, int) and isinstance(b, int) and a % b == 0 else a / b


def _refusal(path: str, message: str, expected: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(problems=[Problem(path, message, expected)])


reading.add_to(pack)
