"""Definitions with the shapes that real servers have, made by a seeded generator, and changes to them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools_app.models.sources import LoadProblem
from tools_app.sdk.outside import Listing, Origin
from tools_app.sources.foreign import described
from tools_app.sources.provider import DescribedTool

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
ORIGIN = Origin("tracker", "mcp_http", 1, location="https://tracker.example/mcp")

Json = dict[str, Any]


def describe(
    *tools: Any, stored: Mapping[tuple[str, str], str] | None = None, pin_defaults: bool = True, **others: Any
) -> tuple[list[DescribedTool], list[LoadProblem]]:
    return described(ORIGIN, Listing(tools, **others), stored or {}, pin_defaults=pin_defaults)


def one(tool: Any, **options: Any) -> DescribedTool:
    (made,), problems = describe(tool, **options)
    assert problems == []
    return made


def tool(name: str = "find_issues", **fields: Any) -> Json:
    return {"name": name, "description": "Find issues.", "inputSchema": {"type": "object"}, **fields}


def with_schema(schema: Any) -> Json:
    return tool(inputSchema=schema)


def skeleton(chance: random.Random) -> Json:
    """A tool as a server would list it, with every field that is pinned."""
    title = chance.choice(["Find", "List", "Make"])
    return {
        "name": f"{title.lower()}_{chance.randrange(10**6)}",
        "title": f"{title} issues",
        "description": " ".join(chance.choices(["Finds", "issues", "of", "a", "project", "by", "text."], k=12)),
        "inputSchema": {"$schema": DRAFT_07, **_object(chance, 3)},
        "outputSchema": _object(chance, 1),
        "annotations": {"title": "Find", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": False},
        "_meta": {"ui": {"resourceUri": "ui://tracker/issues", "visibility": ["model", "app"]}},
        "execution": {"taskSupport": "forbidden"},
        "icons": [{"src": "https://tracker.example/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    }


def _object(chance: random.Random, depth: int) -> Json:
    names = [f"part_{number}" for number in range(chance.randint(1, 4))]
    return {
        "type": "object",
        "properties": {name: _part(chance, depth) for name in names},
        "required": chance.sample(names, chance.randint(1, len(names))),
        "additionalProperties": chance.choice([True, False]),
    }


def _part(chance: random.Random, depth: int) -> Json:
    described = {"description": f"The part {chance.randrange(1000)}."}
    kinds = ["text", "number", "choice", "either"] + (["list", "object"] if depth else [])
    match chance.choice(kinds):
        case "text":
            return {"type": "string", "minLength": 1, "default": "a", "pattern": "^[a-z]*$", **described}
        case "number":
            return {"type": "integer", "minimum": 0, "maximum": chance.randint(5, 500), "default": 3, **described}
        case "choice":
            return {"type": "string", "enum": ["low", "high", "none"], **described}
        case "either":
            return {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}], "default": None, **described}
        case "list":
            return {"type": "array", "items": _part(chance, depth - 1), "maxItems": 20, **described}
    return _object(chance, depth - 1) | described


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside, with what contains others before them."""
    entries: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    for key, item in entries:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(value: Any, path: Sequence[Any]) -> Any:
    for step in path:
        value = value[step]
    return value


def mutated(definition: Json, chance: random.Random) -> Json:
    """A copy with one change of a name, a text, a value or the structure."""
    copied = copy.deepcopy(definition)
    while True:
        path = chance.choice(list(places(copied)))
        container, key = at(copied, path[:-1]), path[-1]
        before = copy.deepcopy(container[key])
        match chance.choice(["remove", "add", "change", "rename"]):
            case "remove":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[f"{key}_"] = container.pop(key)
            # Of `_meta`, only `ui` means anything here.
            case "add" if isinstance(before, dict) and path != ("_meta",):
                before["added"] = {"type": "string"}
                container[key] = before
            case "add" if isinstance(before, list):
                container[key] = [*before, f"added {chance.random()}"]
            case _:
                container[key] = _other(before, chance)
        return copied


def _other(value: Any, chance: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case str():
            place = chance.randint(0, len(value))
            return value[:place] + chance.choice([" ", "x", "\u200b", "\u0430"]) + value[place:]
        case int():
            return value + 1
        case None:
            return "null"
        case list() if value:
            return value[:-1]
    return "something else"


def shuffled(value: Any, chance: random.Random, *, sets: bool = True) -> Any:
    """The same JSON with keys, and with `sets` also the lists whose order means nothing, in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    chance.shuffle(names)
    copied = {name: shuffled(value[name], chance) for name in names}
    for name in ("required", "enum", "type") if sets else ():
        if isinstance(copied.get(name), list):
            chance.shuffle(copied[name])
    return copied
