"""The parameters of a tool as a flat list, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools_app.sdk.schemas import Schema, shown_type


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """A simplified view of one parameter of the schema."""

    name: str
    type: str
    description: str = ""
    required: bool = False
    default: Any = None
    enum: Sequence[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None

    @classmethod
    def all_of(cls, schema: Schema) -> list[ToolParameter]:
        required = schema.get("required", ())
        return [cls._from(name, part, name in required) for name, part in schema.get("properties", {}).items()]

    @classmethod
    def _from(cls, name: str, part: Any, required: bool) -> ToolParameter:
        part = part if isinstance(part, dict) else {}
        kind = part.get("type", "object")
        return cls(
            name=name,
            type=shown_type(kind) if isinstance(kind, str) else "object",
            description=part.get("description", ""),
            required=required,
            default=part.get("default"),
            enum=part.get("enum"),
            pattern=part.get("pattern"),
            minimum=part.get("minimum"),
            maximum=part.get("maximum"),
        )

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": self.name, "type": self.type, "description": self.description}
        fields["required"] = self.required
        for key in ("default", "enum", "pattern", "minimum", "maximum"):
            if (value := getattr(self, key)) is not None:
                fields[key] = value
        return fields

    def as_schema(self) -> Schema:
        """The parameter as JSON Schema, for tools that are registered with a parameter list."""
        part: Schema = {"type": self.type}
        if self.description:
            part["description"] = self.description
        for key in ("default", "enum", "pattern", "minimum", "maximum"):
            if (value := getattr(self, key)) is not None:
                part[key] = list(value) if key == "enum" else value
        return part
