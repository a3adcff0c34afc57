"""What a call of a tool does to its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Hints:
    """What a call of the tool does to its environment. The defaults assume the worst, as in MCP."""

    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True

    @property
    def writes(self) -> bool:
        return not self.read_only

    @property
    def destroys(self) -> bool:
        return not self.read_only if self.destructive is None else self.destructive

    @property
    def repeatable(self) -> bool:
        """Idempotent: running it twice has the same effect as running it once."""
        return self.read_only or bool(self.idempotent)

    def as_dict(self) -> dict[str, bool]:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destroys,
            "idempotentHint": self.read_only if self.idempotent is None else self.idempotent,
            "openWorldHint": self.open_world,
        }

    @classmethod
    def read(cls, annotations: Mapping[str, Any]) -> Hints:
        """The hints of a definition; what it does not say is assumed to be the worst."""
        return cls(
            annotations.get("readOnlyHint") is True,
            annotations.get("destructiveHint"),
            annotations.get("idempotentHint"),
            annotations.get("openWorldHint") is not False,
        )
