"""Names of tools, and the error for a definition that cannot be used."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class DefinitionError(ValueError):
    """The definition of a tool is not valid. `place` is its file and line."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def check_name(name: str, place: str = "") -> None:
    """Raises: DefinitionError, with the exact texts of the specification."""
    if not name or not name.strip():
        raise DefinitionError("Tool name is required", place)
    if not NAME.fullmatch(name):
        raise DefinitionError(
            "Tool name must start with lowercase letter and contain only lowercase letters, numbers, "
            "hyphens, and underscores (at most 64 characters)",
            place,
        )


def folded(name: str) -> str:
    """The name with `_` for `-`: `a-b` and `a_b` count as the same name, so that agents cannot confuse two tools."""
    return name.replace("-", "_")
