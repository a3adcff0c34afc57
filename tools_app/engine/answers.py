"""From what a tool returned to what the caller gets: short or full, wrapped, guided, and certainly JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from tools_app import conf
from tools_app.errors import ToolExecutionError
from tools_app.tool import Tool


@dataclass(frozen=True, slots=True)
class Answer:
    """A result in the three forms that the doors need; made once."""

    value: Any
    text: str
    structured: dict[str, Any] | None
    size: int


def shaped(tool: Tool, returned: Any, *, raw: bool) -> Answer:
    """Bring a tool's return value into its final form.

    Raises:
        ToolExecutionError: it is not JSON, does not fit the declared output, or is too large.
    """
    data = jsonable(tool, returned)
    if tool.minimal is not None and not raw:
        data = jsonable(tool, tool.minimal(data))
    hint = tool.guidance(data) if callable(tool.guidance) else tool.guidance
    if hint is not None and isinstance(data, dict):
        data = {**data, "_guidance": jsonable(tool, hint)}
    if tool.output_checker is not None and not tool.output_checker.accepts(data):
        wrong = tool.output_checker.problems(data)[0]
        raise ToolExecutionError.of(tool.name, f"the answer does not fit the output schema: {wrong}")
    value = {"success": True, "message": tool.done, "data": data} if tool.done else data
    text = value if isinstance(value, str) else _dumped(tool, value)
    return Answer(value, text, data if isinstance(data, dict) else None, _size(tool, text))


def jsonable(tool: Tool, value: Any) -> Any:
    """Models, dates, enums and the like as JSON knows them."""
    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeDecodeError, ValueError) as error:
        raise _not_json(tool, error) from error


def _dumped(tool: Tool, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_json(tool, error) from error


def _size(tool: Tool, text: str) -> int:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _not_json(tool, error) from error
    limit = conf.value("TOOLHUB_MAX_ANSWER_BYTES")
    if size > limit:
        cause = f"the answer has {size:,} bytes, more than the {limit:,} allowed"
        raise ToolExecutionError(
            f"Tool execution failed: {tool.name}: {cause}", next_step="Ask for less: narrow the request or use paging."
        )
    return size


def _not_json(tool: Tool, cause: Exception) -> ToolExecutionError:
    return ToolExecutionError.of(tool.name, cause, "its answer cannot be expressed as JSON")
