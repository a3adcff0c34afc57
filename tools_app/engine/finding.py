"""What a caller may use of the hub's tools, as it is told to those of them that find others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Final

from tools_app.catalog import catalog, search
from tools_app.catalog.entry import Entry
from tools_app.catalog.search import words
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.context import Caller, Wanted
from tools_app.sdk.errors import AuthorizationError, ToolNotFoundError
from tools_app.sdk.names import folded
from tools_app.sdk.schemas import Schema

LIST: Final = "tools:list"
MOST_SIMILAR: Final = 3
MOST_CATEGORIES: Final = 30
MOST_SAID: Final = 300
_MOST_CHOICES: Final = 6
# As much of two names must be the same.
_LIKE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Finding:
    """The tools that exist for one caller."""

    caller: Caller

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        """Those that have to do with a question, the best first."""
        seen = await self._seen(LIST)
        fitting = [
            entry
            for entry, _ in await search.found(seen, wanted.query)
            if entry.callable
            and not entry.is_finder
            and (not wanted.category or search.within(entry.category, wanted.category))
            and search.tagged(entry, wanted.tags)
        ]
        page = fitting[wanted.offset : wanted.offset + wanted.limit]
        told: dict[str, Any] = {
            "tools": [_glance(entry) for entry in page],
            "total": len(fitting),
            "hasMore": wanted.offset + len(page) < len(fitting),
        }
        if not fitting:
            categories = [name for name, _ in search.categories(_others(seen))]
            told["categories"] = categories[:MOST_CATEGORIES]
            told["hint"] = "Nothing fits. Say it in other words, or leave category and tags out."
        return told

    async def none_named(self, name: str, through: str) -> ToolNotFoundError:
        """There is no such tool for the caller, who may mean one of those that are told, if it may list them."""
        similar: list[str] = []
        if self.caller.may(LIST):
            found = await search.found((await catalog.fresh()).seen_by(self.caller), name)
            near = (entry.shown_name for entry, _ in found if entry.callable and not entry.is_finder)
            similar = list(islice((one for one in near if _is_like(one, name)), MOST_SIMILAR))
        return ToolNotFoundError.through(through, name, similar)

    async def described(self, name: str) -> dict[str, Any]:
        """Raises: ToolNotFoundError, with names that are like it."""
        seen = await self._seen("tools:read")
        entry = seen.find(name)
        if entry is None or entry.tool is None:
            raise await self.none_named(name, "describe_tool")
        told: dict[str, Any] = {
            "name": entry.shown_name,
            "description": entry.description,
            "effect": _effect(entry),
            "callWith": "call_tool" if entry.hints.read_only else "call_writing_tool",
            "inputSchema": entry.input_schema,
        }
        if entry.refusal is not None:
            told["unavailable"] = entry.refusal.reason
        if entry.tool.examples:
            told["examples"] = [dict(example.parameters) for example in entry.tool.examples]
        return told

    async def _seen(self, scope: str) -> Snapshot:
        if not self.caller.may(scope):
            raise AuthorizationError.lacking(scope)
        return (await catalog.fresh()).seen_by(self.caller)


def _is_like(name: str, wanted: str) -> bool:
    """Whether somebody who says the one may mean the other: not all that has to do with it is what was meant."""
    shared = set(words.terms(name)) & set(words.terms(wanted))
    return bool(shared) or SequenceMatcher(None, name, folded(wanted.lower())).ratio() >= _LIKE


def _others(seen: Snapshot) -> list[Entry]:
    return [entry for entry in seen.callable if not entry.is_finder]


def _glance(entry: Entry) -> dict[str, Any]:
    said = " ".join(entry.description.split())
    return {
        "name": entry.shown_name,
        "description": said if len(said) <= MOST_SAID else f"{said[: MOST_SAID - 1]}…",
        "effect": _effect(entry),
        "parameters": signature(entry.input_schema),
    }


def _effect(entry: Entry) -> str:
    hints = entry.hints
    return "reads" if hints.read_only else "destroys" if hints.destroys else "writes"


def signature(schema: Schema) -> str:
    """The parameters of a tool in one line, `*` at those that it needs."""
    required = schema.get("required", ())
    parts = schema.get("properties", {}).items()
    return ", ".join(f"{name}{'*' if name in required else ''}: {_kind(part)}" for name, part in parts)


def _kind(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    if choices := part.get("enum") or ([part["const"]] if "const" in part else []):
        shown = [json.dumps(choice, ensure_ascii=False) for choice in choices[:_MOST_CHOICES]]
        return " | ".join([*shown, *(["…"] if len(choices) > _MOST_CHOICES else [])])
    kind = part.get("type")
    if kind == "array":
        items = _kind(part.get("items"))
        return f"({items})[]" if " | " in items else f"{items}[]"
    if isinstance(kind, str):
        return kind
    branches = kind if isinstance(kind, list) else [_kind(one) for one in part.get("anyOf") or part.get("oneOf") or ()]
    return " | ".join(dict.fromkeys(map(str, branches))) or "any"
