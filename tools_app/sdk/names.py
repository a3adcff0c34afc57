"""Names of tools, and the error for a definition that cannot be used."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class DefinitionError(ValueError):
    """A tool cannot be used as it is written. `place` says where it stands."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def check_name(name: str, place: str = "") -> None:
    """Raises: DefinitionError, in the documents' words."""
    if not name or not name.strip():
        raise DefinitionError("Tool name is required", place)
    if not NAME.fullmatch(name):
        raise DefinitionError(
            "Tool name must start with lowercase letter and contain only lowercase letters, numbers, "
            "hyphens, and underscores (at most 64 characters)",
            place,
        )


def folded(name: str) -> str:
    """`a-b` and `a_b` are the same name: an agent must not be able to mistake one tool for another."""
    return name.replace("-", "_")
