"""The node types of an n8n: found by words, and documented within a budget. Pure: it reads what n8n exports.

n8n describes a node type for its editor: all parameters of all operations, each with the conditions under which it is
shown. Slack has 117 KB of that. What an agent needs for one operation has some kilobytes.
"""

from __future__ import annotations

import difflib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import size, words

# Bytes of the parameters in one documentation: 3,000 tokens.
_MOST: Final = 9_000
_MOST_FOUND: Final = 10
_MOST_OPTIONS: Final = 60
_MOST_ACTIONS: Final = 5
_DEEPEST: Final = 3
_TEXT: Final = 160
# The package of nodes whose export has no package in their names.
_BASE: Final = "n8n-nodes-base"
# What the editor shows and a workflow does not store.
_NO_PARAMETERS: Final = frozenset({"notice", "hidden", "button", "curlImport"})
# What the editor makes of a parameter of this type, as its description has no fields.
_SHAPES: Final[Mapping[str, Any]] = {
    "filter": {
        "options": {"caseSensitive": True, "leftValue": "", "typeValidation": "strict", "version": 2},
        "conditions": [
            {
                "id": "…",
                "leftValue": "={{ $json.a }}",
                "rightValue": 1,
                "operator": {"type": "number", "operation": "gt"},
            }
        ],
        "combinator": "and",
    },
    "assignmentCollection": {"assignments": [{"id": "…", "name": "a", "type": "string", "value": "={{ $json.b }}"}]},
    "resourceMapper": {"mappingMode": "defineBelow", "value": {"column": "={{ $json.a }}"}},
}
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_TAG: Final = re.compile(r"<[^<>]{0,500}>")
_CHOICES: Final = ("resource", "operation")


@dataclass
class NodeType:
    """A node type in all its versions; their descriptions are packed, as all of them have ten megabytes."""

    name: str
    title: str = ""
    description: str = ""
    chosen: float = 0
    versions: dict[float, bytes] = field(default_factory=dict)
    # Words by how much they say: of the title, of other names, of the description and the operations.
    words: Counter[str] = field(default_factory=Counter)
    # What it can do: `Send a message`, and with which values.
    actions: dict[str, str] = field(default_factory=dict)

    @property
    def default(self) -> float:
        """The version of new nodes."""
        return self.chosen if self.chosen in self.versions else max(self.versions)

    def described(self, version: float) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(zlib.decompress(self.versions[version]))
        return found


class NodeTypes:
    def __init__(self, exported: bytes) -> None:
        """Raises: ValueError: it is not what `n8n export:nodes` writes."""
        self.by_name: dict[str, NodeType] = {}
        for entry in _entries(exported):
            if not _is_type(entry):
                raise ValueError("not a list of node types")
            if entry.get("hidden") is not True:
                self._add(entry)
        if not self.by_name:
            raise ValueError("no node types")

    def _add(self, entry: Mapping[str, Any]) -> None:
        name = entry["name"] if "." in entry["name"] else f"{_BASE}.{entry['name']}"
        one = self.by_name.setdefault(name, NodeType(name))
        packed = zlib.compress(json.dumps(entry, separators=(",", ":")).encode())
        numbers = [float(each) for each in _versions(entry)]
        is_latest = not one.versions or max(numbers) > max(one.versions)
        one.versions |= dict.fromkeys(numbers, packed)
        one.chosen = float(entry.get("defaultVersion") or 0)
        if not is_latest:
            return
        one.title, one.description = str(entry["displayName"]), _plain(entry.get("description"))
        one.actions = dict(_actions(entry))
        alias = " ".join(map(str, as_list(as_map(entry.get("codex")).get("alias"))))
        one.words = Counter()
        for text, weight in (
            *((action, 1) for action in one.actions),
            (one.description, 2),
            (alias, 4),
            (name.rpartition(".")[2], 6),
            (one.title, 6),
        ):
            for word in _words(text):
                one.words[word] = max(one.words[word], weight)

    def search(self, query: str) -> list[dict[str, Any]]:
        """The best matches first: those that have most of the words, and have them in their names."""
        wanted = list(dict.fromkeys(word for word in _words(query) if len(word) > 1))
        candidates = (one for one in self.by_name.values() if "tool" in wanted or not self._is_variant(one.name))
        ranked = sorted(
            ((score, one) for one in candidates if (score := _score(one, wanted)) > (0, 0)),
            key=lambda each: (-each[0][0], -each[0][1], len(each[1].title), each[1].name),
        )
        return [_found(one, wanted) for _, one in ranked[:_MOST_FOUND]]

    def _is_variant(self, name: str) -> bool:
        """n8n adds one for AI agents to many nodes: `slackTool`, `slackHitlTool`."""
        base = name.removesuffix("Tool")
        return base != name and (base in self.by_name or base.removesuffix("Hitl") in self.by_name)

    def similar(self, name: str) -> list[str]:
        """Names that may be meant: `slack` for `n8n-nodes-base.slack`, too."""
        last = name.rpartition(".")[2].casefold()
        same = [each for each in self.by_name if each.rpartition(".")[2].casefold() == last]
        return list(dict.fromkeys([*same, *difflib.get_close_matches(name, self.by_name, n=3, cutoff=0.6)]))[:5]


def _entries(exported: bytes) -> Iterator[Any]:
    """n8n writes each on a line of its own: so they never are in memory all at once, unpacked."""
    lines = exported.splitlines()
    if lines[:1] == [b"["]:
        yield from (json.loads(line.rstrip(b", ")) for line in lines[1:] if line.strip() not in (b"]", b""))
    elif isinstance(entries := json.loads(exported), list):
        yield from entries


def _is_type(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and all(isinstance(entry.get(key), str) for key in ("name", "displayName"))
        and isinstance(entry.get("properties"), list)
        and bool(_versions(entry))
    )


def _versions(entry: Mapping[str, Any]) -> list[float]:
    version = entry.get("version")
    return [each for each in (version if isinstance(version, list) else [version]) if isinstance(each, int | float)]


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        plain = word.casefold()
        yield plain.removesuffix("s") if len(plain) > 3 else plain


def _plain(text: object) -> str:
    return words(readable(_TAG.sub("", str(text or ""))).strip(), _TEXT)


def _score(one: NodeType, wanted: Sequence[str]) -> tuple[int, int]:
    weights = [
        max((weight for word, weight in one.words.items() if word.startswith(each)), default=0) for each in wanted
    ]
    exact = sum(one.words[each] for each in wanted)
    return sum(weight > 0 for weight in weights), sum(weights) + exact


def _actions(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in as_list(entry["properties"]):
        if as_map(each).get("name") == "operation":
            resources = as_list(as_map(as_map(each.get("displayOptions")).get("show")).get("resource"))
            for option in map(as_map, as_list(each.get("options"))):
                said = str(option.get("action") or option.get("name") or "")
                yield said, "/".join(map(str, [*resources[:1], option.get("value")]))


def _found(one: NodeType, wanted: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": one.name, "title": one.title, "typeVersion": _number(one.default)}
    if one.description and one.description != one.title:
        found["description"] = one.description
    counted = Counter({said: len(set(_words(said)) & set(wanted)) for said in one.actions})
    if best := [said for said, count in counted.most_common(_MOST_ACTIONS) if count]:
        found["operations"] = {one.actions[said]: words(said, 80) for said in best}
    return found


def _number(version: float) -> int | float:
    return int(version) if version == int(version) else version


# ---- documentation


def documentation(one: NodeType, version: float, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a node of this type takes, with some parameters already chosen."""
    entry = one.described(version)
    known = {**chosen, "@version": version}
    shown = [each for each in map(as_map, as_list(entry["properties"])) if _can_be_shown(each, known)]
    operations = _operations(shown) if "resource" not in chosen else {}
    answer: dict[str, Any] = {
        "type": one.name,
        "title": one.title,
        "typeVersion": _number(version),
        "versions": [_number(each) for each in sorted(one.versions)],
        "description": _plain(entry.get("description")),
    }
    if credentials := [_credential(each, known) for each in map(as_map, as_list(entry.get("credentials")))]:
        answer["credentials"] = [each for each in credentials if each]
    for side in ("inputs", "outputs"):
        if isinstance(entry.get(side), list) and entry[side] != ["main"]:
            answer[side] = [each if isinstance(each, str) else as_map(each).get("type") for each in entry[side]][:20]
    if operations:
        answer["operations"] = operations
        shown = [each for each in shown if each.get("name") != "operation"]
    # Parameters of operations that are not chosen yet would be most of it.
    open_choices = {each for each in _CHOICES if each not in chosen}
    shown = [each for each in shown if not open_choices & _conditions(each).keys() or each.get("name") in open_choices]
    return answer | _fitted(shown, known)


def _fitted(properties: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """As much of each parameter as fits, and at least the names of all."""
    for detail in (3, 2, 1):
        parameters = [_parameter(each, known, detail, 0) for each in properties]
        if size(parameters) <= _MOST:
            return {"parameters": parameters}
    room, kept = _MOST, 0
    for each in parameters:
        room -= size(each) + 1
        if room < 0:
            break
        kept += 1
    names = [words(str(each["name"]), 60) for each in parameters[kept:]]
    return {"parameters": parameters[:kept], "more": list(dict.fromkeys(names))[:100]}


def _parameter(described: Mapping[str, Any], known: Mapping[str, Any], detail: int, depth: int) -> dict[str, Any]:
    """`detail`: 3 has all, 2 no descriptions of options, 1 none at all and only the names of inner fields."""
    kind = str(described.get("type"))
    said: dict[str, Any] = {"name": str(described.get("name")), "type": kind}
    if described.get("required") is True:
        said["required"] = True
    default = described.get("default")
    if default not in (None, "", [], {}) and size(default) <= 300:
        said["default"] = default
    text = _plain(described.get("description") or described.get("displayName"))
    if detail > 1 and text.casefold() != said["name"].casefold():
        said["description"] = text
    said |= _inside(described, kind, known, detail, depth)
    if when := _when(described, known):
        said["when"] = when
    return said


def _inside(
    described: Mapping[str, Any], kind: str, known: Mapping[str, Any], detail: int, depth: int
) -> dict[str, Any]:
    options = [as_map(each) for each in as_list(described.get("options"))]
    type_options = as_map(described.get("typeOptions"))
    if kind in ("options", "multiOptions"):
        if any(type_options.get(key) for key in ("loadOptionsMethod", "loadOptions")):
            return {"options": "ids of the service, or an expression"}
        return {"options": _values([each for each in options if _can_be_shown(each, known)], detail)}
    many = {"many": True} if type_options.get("multipleValues") is True else {}
    if kind == "collection":
        return {"fields": _fields(options, known, detail, depth), **many}
    if kind == "fixedCollection":
        groups = {
            str(each.get("name")): _fields([as_map(one) for one in as_list(each.get("values"))], known, detail, depth)
            for each in options
        }
        return {"fields": groups, **many}
    if kind == "resourceLocator":
        modes = [str(as_map(each).get("name")) for each in as_list(described.get("modes"))]
        return {"value": {"__rl": True, "mode": " | ".join(modes), "value": "…"}}
    return many | ({"value": _SHAPES[kind]} if kind in _SHAPES else {})


def _fields(properties: Sequence[Mapping[str, Any]], known: Mapping[str, Any], detail: int, depth: int) -> list[Any]:
    shown = [each for each in properties if _can_be_shown(each, known)]
    if detail == 1 or depth >= _DEEPEST:
        return [str(each.get("name")) for each in shown]
    return [_parameter(each, known, detail, depth + 1) for each in shown]


def _values(options: Sequence[Mapping[str, Any]], detail: int) -> Any:
    texts = {each.get("value"): _plain(each.get("description") or each.get("action")) for each in options}
    if len(texts) > _MOST_OPTIONS:
        return [*list(texts)[:_MOST_OPTIONS], f"… {len(texts) - _MOST_OPTIONS} more"]
    if detail == 3 and any(texts.values()) and all(isinstance(value, str) for value in texts):
        return texts
    return list(texts)


def _operations(properties: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The operations of each resource."""
    found: dict[str, list[Any]] = {}
    for each in properties:
        if each.get("name") == "operation":
            values = [as_map(option).get("value") for option in as_list(each.get("options"))]
            for resource in as_list(_conditions(each).get("resource")) if values else ():
                found.setdefault(str(resource), []).extend(values)
    return found


def _credential(described: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    if not _can_be_shown(described, known):
        return {}
    said: dict[str, Any] = {"type": str(described.get("name")), "required": described.get("required") is True}
    when = _when(described, known)
    return said | ({"when": when} if when else {})


# ---- conditions under which the editor shows a parameter


def _conditions(described: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_map(as_map(described.get("displayOptions")).get("show"))


def _can_be_shown(described: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    if str(described.get("type")) in _NO_PARAMETERS:
        return False
    hidden = as_map(as_map(described.get("displayOptions")).get("hide"))
    return all(
        _holds(known[_key(key)], wanted) is not False
        for key, wanted in _conditions(described).items()
        if _key(key) in known
    ) and not any(_holds(known[_key(key)], wanted) for key, wanted in hidden.items() if _key(key) in known)


def _when(described: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that depend on what is not chosen yet."""
    return {
        _key(key): wanted
        for key, wanted in _conditions(described).items()
        if _key(key) not in known and not key.startswith("@") and size(wanted) <= 500
    }


def _key(key: str) -> str:
    return key.removeprefix("/")


def _holds(value: Any, wanted: Any) -> bool | None:
    """Whether a value is among those wanted; None if that cannot be told here."""
    results = [_matches(value, each) for each in as_list(wanted)]
    return True if True in results else None if None in results else False


def _matches(value: Any, wanted: Any) -> bool | None:
    condition = as_map(as_map(wanted).get("_cnd"))
    if not condition:
        return bool(value == wanted)
    (kind, operand), *_ = condition.items()
    if kind in ("eq", "not"):
        return bool(value == operand) is (kind == "eq")
    if not isinstance(value, int | float) or not isinstance(operand, int | float | Mapping):
        return None
    if kind == "between":
        bounds = as_map(operand)
        return bool(bounds.get("from", value) <= value <= bounds.get("to", value))
    if isinstance(operand, Mapping):
        return None
    ways = {"gte": value >= operand, "lte": value <= operand, "gt": value > operand, "lt": value < operand}
    return ways.get(kind)
