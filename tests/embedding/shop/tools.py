"""A tool of the project's own."""

from __future__ import annotations

from typing import Annotated

from toolhub import Hints, tool


@tool(category="shop", tags=["orders"], hints=Hints(read_only=True, open_world=False))
def count_orders(customer: Annotated[str, "Whose"]) -> dict[str, int]:
    """Count the orders of a customer."""
    return {"orders": len(customer)}
