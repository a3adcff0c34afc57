"""The tools that the suite looks for, by its names: those among them that a hub can have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolhub import Hints, tool

READ = Hints(read_only=True)


@tool(hints=READ)
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(hints=READ)
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(hints=READ)
def test_logging_tool() -> str:
    """Would log to its client if anybody could."""
    return "nothing was logged"


@tool(hints=READ)
def test_streaming_elicitation() -> str:
    """Would ask the user if anybody could."""
    return "nobody was asked"


@tool(hints=READ)
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 1,
    verbose: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Verbose"})] = False,
    note: str = "",
) -> dict[str, str]:
    """Take some of its parameters from headers as well."""
    return {"region": region, "priority": str(priority), "verbose": str(verbose), "note": note}


@tool
def test_trigger_tool_change() -> str:
    """Switch a tool off or on, as an operator would."""
    from tools_app.models import ToolRecord

    record = ToolRecord.objects.get(name="calculate")
    ToolRecord.objects.filter(name="calculate").update(enabled=not record.enabled)
    return "changed"
