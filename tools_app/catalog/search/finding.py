"""The tools of a caller, for the tools that find and describe other tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Final

from tools_app.catalog import catalog, listed, search
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
# Names of the tools of a source.
MOST_NAMES: Final = 50
MOST_DESCRIPTION: Final = 120
MOST_PARAMETERS: Final = 120
# A shorter first sentence may be a heading, or end with an abbreviation.
LEAST_SENTENCE: Final = 25
_MOST_CHOICES: Final = 6
# Similarity of two names, from 0 to 1.
_LIKE: Final = 0.7


@dataclass(frozen=True, slots=True)
class ToolFinder:
    """Finds tools for one caller, among those that exist for it."""

    caller: Caller

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        """The tools that match a query, best first."""
        view = await self._view(LIST)
        source = search.source_named(view, wanted.source)
        matches = await _matches(view, wanted, source)
        page = [entry for entry, _ in matches[wanted.offset : wanted.offset + wanted.limit]]
        reply: dict[str, Any] = {
            "tools": [_glance(entry) for entry in page],
            "total": len(matches),
            "hasMore": wanted.offset + len(page) < len(matches),
        }
        if not matches:
            reply |= _advice(view, source)
        if not matches or not (source or wanted.offset):
            sources = search.likeliest(view, await _matches(view, wanted) if source else matches)
            if source or len(sources) > 1:
                reply["sources"] = [one._asdict() for one in sources]
        return reply

    async def none_named(self, name: str, through: str) -> ToolNotFoundError:
        """Builds ToolNotFoundError, with similar names if the caller may list tools."""
        similar: list[str] = []
        if self.caller.may(LIST):
            matches = await search.found((await catalog.fresh()).seen_by(self.caller), name)
            candidates = (entry.shown_name for entry, _ in matches if entry.callable and not entry.is_finder)
            similar = list(islice((candidate for candidate in candidates if _is_like(candidate, name)), MOST_SIMILAR))
        return ToolNotFoundError.through(through, name, similar)

    async def described(self, name: str) -> dict[str, Any]:
        """Raises: ToolNotFoundError, with similar names."""
        view = await self._view("tools:read")
        entry = view.find(name)
        if entry is None:
            raise await self.none_named(name, "describe_tool")
        reply: dict[str, Any] = {
            "name": entry.shown_name,
            "description": entry.description,
            "effect": _effect(entry),
            "callWith": "call_tool" if entry.hints.read_only else "call_writing_tool",
            "inputSchema": listed.input_of(entry),
        }
        if entry.refusal is not None:
            reply["unavailable"] = entry.refusal.reason
        if entry.spec.examples:
            reply["examples"] = [dict(example.parameters) for example in entry.spec.examples]
        return reply

    async def _view(self, scope: str) -> Snapshot:
        if not self.caller.may(scope):
            raise AuthorizationError.lacking(scope)
        return (await catalog.fresh()).seen_by(self.caller)


def _is_like(name: str, query: str) -> bool:
    """True if a caller who asked for `query` may have meant `name`: a search match alone is not enough."""
    shared = set(words.terms(name)) & set(words.terms(query))
    return bool(shared) or SequenceMatcher(None, name, folded(query.lower())).ratio() >= _LIKE


async def _matches(view: Snapshot, wanted: Wanted, source: str = "") -> list[tuple[Entry, float]]:
    return [
        (entry, score)
        for entry, score in await search.found(view, wanted.query, source)
        if search.is_findable(entry)
        and (not wanted.category or search.within(entry.category, wanted.category))
        and search.tagged(entry, wanted.tags)
    ]


def _advice(view: Snapshot, source: str) -> dict[str, Any]:
    """What to do where nothing matches."""
    if not source:
        categories = [name for name, _ in search.categories(search.findable(view))]
        hint = "No matches. Try other words, or omit category and tags."
        return {"categories": categories[:MOST_CATEGORIES], "hint": hint}
    names = [entry.shown_name for entry in search.findable(view) if entry.source_name == source]
    if names:
        return {"names": names[:MOST_NAMES], "hint": f"No matches in {source}. Its tools are in `names`."}
    return {"hint": "There is no such source. Omit it, or name one of `sources`."}


def _glance(entry: Entry) -> dict[str, Any]:
    first, text = (" ".join(part.split()) for part in (words.first_sentence(entry.description)[0], entry.description))
    if len(first) >= LEAST_SENTENCE:
        text = first
    return {
        "name": entry.shown_name,
        "description": text if len(text) <= MOST_DESCRIPTION else f"{text[: MOST_DESCRIPTION - 1]}…",
        "effect": _effect(entry),
        "parameters": signature(entry.input_schema, most=MOST_PARAMETERS),
    }


def _effect(entry: Entry) -> str:
    hints = entry.hints
    return "reads" if hints.read_only else "destroys" if hints.destroys else "writes"


def signature(schema: Schema, *, most: int | None = None) -> str:
    """The parameters of a tool in one line; required ones are marked `*`.

    Beyond `most` characters, optional ones are left out: `+3`.
    """
    required = schema.get("required", ())
    parts: list[str] = []
    left_out, length = 0, 0
    for name, part in schema.get("properties", {}).items():
        text = f"{name}{'*' if name in required else ''}: {_kind(part)}"
        if most is not None and length + len(text) > most and name not in required:
            left_out += 1
        else:
            parts.append(text)
            length += len(text)
    return ", ".join([*parts, f"+{left_out}"] if left_out else parts)


def _kind(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    if choices := part.get("enum") or ([part["const"]] if "const" in part else []):
        values = [json.dumps(choice, ensure_ascii=False) for choice in choices[:_MOST_CHOICES]]
        return " | ".join([*values, *(["…"] if len(choices) > _MOST_CHOICES else [])])
    kind = part.get("type")
    if kind == "array":
        items = _kind(part.get("items"))
        return f"({items})[]" if " | " in items else f"{items}[]"
    if isinstance(kind, str):
        return kind
    branches = kind if isinstance(kind, list) else [_kind(sub) for sub in part.get("anyOf") or part.get("oneOf") or ()]
    return " | ".join(dict.fromkeys(map(str, branches))) or "any"
