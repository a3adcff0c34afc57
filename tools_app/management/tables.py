"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tools_app.sdk.errors import shortened


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(shortened(cell.ljust(width), width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
