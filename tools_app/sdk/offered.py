"""What clients see of prompts and resources, and what they send for their arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools_app.sdk.schemas import Schema
from tools_app.sdk.spec import Kind, ToolSpec


def wire(spec: ToolSpec) -> dict[str, Any]:
    """The entry of a prompt or a resource in a list."""
    return _prompt(spec) if spec.kind is Kind.PROMPT else _resource(spec)


def choices(part: Schema) -> list[str]:
    """The values of an argument with an enumerated type."""
    if part.get("type") == "boolean":
        return ["true", "false"]
    values = [part["const"]] if "const" in part else part.get("enum", ())
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def typed(spec: ToolSpec, texts: Mapping[str, str]) -> dict[str, Any]:
    """The arguments, which are text on the wire, with the types of the schema. Text that cannot be parsed stays text,
    and fails validation."""
    required, properties = spec.input_schema.get("required", ()), spec.input_schema.get("properties", {})
    return {
        # Clients also send the empty fields of a form.
        name: _parsed(text, properties.get(name, {}))
        for name, text in texts.items()
        if text or name in required or name not in properties
    }


def _prompt(spec: ToolSpec) -> dict[str, Any]:
    required = spec.input_schema.get("required", ())
    fields: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "arguments": [
            {"name": name, "description": _describe(part), "required": name in required}
            for name, part in spec.input_schema["properties"].items()
        ],
        "_meta": {
            "toolhub/version": spec.version,
            "toolhub/category": spec.category,
            "toolhub/tags": sorted(set(spec.tags)),
        },
    }
    return fields | {"title": spec.title} if spec.title else fields


def _describe(part: Schema) -> str:
    """The description with choices and default: arguments of prompts have no schema on the wire."""
    sentences = [part.get("description", "")]
    if values := choices(part):
        sentences.append(f"One of {', '.join(values)}.")
    if "default" in part:
        default = part["default"]
        sentences.append(f"Default: {default if isinstance(default, str) else json.dumps(default)}.")
    return " ".join(filter(None, sentences))


def _resource(spec: ToolSpec) -> dict[str, Any]:
    fixed = spec.kind is Kind.RESOURCE
    fields: dict[str, Any] = {
        ("uri" if fixed else "uriTemplate"): spec.shown_key,
        "name": spec.name,
        "description": spec.description,
    }
    size = spec.body.get("size") if fixed else None
    optional = {"title": spec.title, "mimeType": spec.body.get("mimeType", ""), "size": size}
    return fields | {key: value for key, value in optional.items() if value not in ("", None)}


def _parsed(text: str, part: Schema) -> Any:
    kinds = part.get("type")
    if kinds is None or "string" in kinds:
        return text
    try:
        return json.loads(text.lower() if kinds == "boolean" else text)
    except (ValueError, RecursionError):
        return text
