"""What a tool does, apart from what it says (`spec.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError
from tools_app.sdk.questions import Ask

# Runs blocking code in a thread of the engine.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
# Models, dates, enums and the like as JSON values.
Jsonable = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """What a tool returned: `value`, and how its author wants it presented."""

    value: Any
    # Makes the answer of the value as JSON: the short form, with guidance.
    shape: Callable[[Any, Jsonable], Any] | None = None
    # Writes the answer as text, if not as JSON. `escapes`: no value can break out of its place in the text.
    write: Callable[[Any], str] | None = None
    escapes: bool = False
    # Of content by another MCP server: the same as data, which goes to clients beside it.
    structured: Any = None


class Runner(Protocol):
    """Runs one tool."""

    @property
    def explain(self) -> Callable[[Any], ToolError | None] | None:
        """Turns an upstream's error response into a more specific error."""
        ...

    def prepared(self, arguments: Mapping[str, Any]) -> Any:
        """Valid arguments in the form that `run` takes.

        Raises:
            InvalidArgumentsError: they match the schema, but the tool refuses them.
        """
        ...

    async def run(self, context: Context, arguments: Any, in_thread: InThread) -> Returned | Ask:
        """Run the tool. Any exception is a failure of the tool."""
        ...
