"""The tool list of an agent: which tools it contains, how they are shown, and what it costs in tokens.

Tools that are not listed are found with `search_tools`, and called with `call_tool` or by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from tools_app.answers import with_outline
from tools_app.base import conf
from tools_app.catalog.entry import MANY, READER, Entry
from tools_app.catalog.lean import lean, selectable
from tools_app.catalog.snapshot import Snapshot, mode_of
from tools_app.sdk.hints import Hints
from tools_app.sdk.reach import Detail, Mode
from tools_app.sdk.schemas import Schema
from tools_app.sdk.spec import ToolSpec
from tools_app.text.budget import size_of, tokens_of

WireTool = dict[str, Any]

# Without these two, unlisted tools could not be used.
_NEEDED: Final = frozenset({"search_tools", "call_tool"})

# In search mode, a list of at most this many tokens is shown directly: searching would cost more.
SHORT: Final = 3_500

_listed: WeakKeyDictionary[Snapshot, tuple[Entry, ...]] = WeakKeyDictionary()
_digests: WeakKeyDictionary[Snapshot, str] = WeakKeyDictionary()
_costs: WeakKeyDictionary[Snapshot, dict[str, int]] = WeakKeyDictionary()
# Cache of costs, by everything that is shown of a tool.
_cost_of: dict[tuple[object, ...], int] = {}
MOST_KNOWN: Final = 60_000


def as_listed(entry: Entry) -> WireTool:
    """The entry of a tool in the list."""
    wire = _wire(entry.spec, entry.input_schema, entry.tags, entry.hints, entry.detail)
    return wire | {"name": entry.shown_name, "description": entry.description}


def as_listed_by_default(spec: ToolSpec) -> WireTool:
    """The same for a definition that is not in the catalog, or not yet."""
    return _wire(spec, spec.input_schema, spec.tags, spec.hints, Detail(conf.value("TOOLHUB_LIST_DETAIL")))


def _wire(spec: ToolSpec, input_schema: Schema, tags: Sequence[str], hints: Hints, detail: Detail) -> WireTool:
    wire: WireTool = {
        "name": spec.name,
        "description": spec.shown_description,
        "inputSchema": _shown(input_schema, spec, detail),
        "annotations": hints.as_dict(),
        "_meta": _labels(spec, tags, detail),
    }
    if spec.deprecated:
        wire["_meta"]["toolhub/deprecated"] = spec.deprecated
    if spec.title:
        wire["title"] = spec.title
    if spec.icon is not None:
        wire["icons"] = [dict(spec.icon)]
    if (output := listed_output(spec, detail)) is not None:
        form = selectable(_shown(output, spec, detail))
        wire["outputSchema"] = with_outline(form, is_brief=detail is not Detail.FULL)
    return wire


def _labels(spec: ToolSpec, tags: Sequence[str], detail: Detail) -> dict[str, Any]:
    """For clients and people; models do not see them."""
    if detail is Detail.MINIMAL:
        return {}
    labels = {"toolhub/version": spec.version, "toolhub/category": spec.category, "toolhub/tags": list(tags)}
    return labels if detail is Detail.FULL else {name: value for name, value in labels.items() if value}


def input_of(entry: Entry) -> Schema:
    """The parameters of a tool as agents read them. Arguments are checked against `entry.input_schema`."""
    return _shown(entry.input_schema, entry.spec, entry.detail)


def _shown(schema: Schema, spec: ToolSpec, detail: Detail) -> Schema:
    return schema if detail is Detail.FULL else lean(schema, outside=spec.is_outside)


def listed_output(spec: ToolSpec, detail: Detail) -> dict[str, Any] | None:
    """The output schema for clients. Clients of the handshake era accept only objects."""
    schema = spec.output_schema
    is_listed = schema is not None and schema.get("type") == "object" and detail is not Detail.MINIMAL
    return schema if is_listed else None


def cost(entry: Entry) -> int:
    """Approximate tokens that a tool adds to a list."""
    return tokens_of(size_of(as_listed(entry)))


def cost_of(spec: ToolSpec) -> int:
    """The same for a tool that is not recorded yet."""
    return tokens_of(size_of(as_listed_by_default(spec)))


def costs_of_parts(entry: Entry) -> dict[str, int]:
    """What models read of it, the form of its answers, and what is for clients and people, in tokens."""
    wire = as_listed(entry)
    read = {name: wire.pop(name) for name in ("name", "description", "inputSchema")}
    parts = {"read": read, "answers": wire.pop("outputSchema", None), "labels": wire}
    return {name: tokens_of(size_of(part)) if part else 0 for name, part in parts.items()}


def costs_by_detail(view: Snapshot) -> dict[Detail, int]:
    """Approximate tokens of the whole list, if it were shown in this detail."""
    entries = listed(view)
    return {
        detail: sum(_cached_cost(replace(entry, own_detail=detail.value)) for entry in entries) for detail in Detail
    }


def costs(snapshot: Snapshot) -> dict[str, int]:
    """Approximate tokens of each tool in a list, by name."""
    tokens = _costs.get(snapshot)
    if tokens is None:
        tokens = _costs[snapshot] = {entry.name: _cached_cost(entry) for entry in snapshot.all}
    return tokens


def _cached_cost(entry: Entry) -> int:
    """Cached across snapshots: a switch or a new key makes a new snapshot, in which few tools differ."""
    texts = entry.shown_name, entry.definition_hash, entry.title, entry.description, entry.category, entry.tags
    key = *texts, entry.version, entry.hints, entry.choices, entry.detail
    tokens = _cost_of.get(key)
    if tokens is None:
        if len(_cost_of) >= MOST_KNOWN:
            _cost_of.clear()
        tokens = _cost_of[key] = cost(entry)
    return tokens


def cost_of_list(view: Snapshot) -> int:
    """Approximate tokens of the whole list."""
    tokens = costs(view)
    return sum(tokens[entry.name] for entry in listed(view))


def listed(view: Snapshot) -> tuple[Entry, ...]:
    """The tools listed for this view, sorted by the names that they have there."""
    entries = _listed.get(view)
    if entries is None:
        entries = _listed[view] = tuple(sorted(_select(view), key=lambda entry: entry.shown_name))
    return entries


def digest(view: Snapshot) -> str:
    """Changes exactly when the list changes."""
    value = _digests.get(view)
    if value is None:
        hasher = hashlib.sha256()
        for entry in listed(view):
            texts = entry.shown_name, entry.title, entry.tags, entry.definition_hash, entry.hints, *entry.choices
            hasher.update(f"{texts}{entry.detail}{entry.description}\n".encode())
        value = _digests[view] = hasher.hexdigest()
    return value


def _select(view: Snapshot) -> Sequence[Entry]:
    entries = [entry for entry in view.callable if is_switched_on(entry)]
    finders = [entry for entry in entries if entry.is_finder]
    other_tools = [entry for entry in entries if not entry.is_finder or _is_selected(view, entry)]
    if not {entry.name for entry in finders} >= _NEEDED or _fits(view, other_tools, SHORT):
        return other_tools
    names_to_list, undecided = {READER}, set()
    for mode, part in _parts(view, other_tools):
        names = {entry.name for entry in part}
        if mode == Mode.DIRECT:
            names_to_list |= names
        elif mode == Mode.AUTO:
            undecided |= names
    decided_or_not = [entry for entry in other_tools if entry.name in names_to_list | undecided]
    if undecided and _fits(view, decided_or_not, int(conf.value("TOOLHUB_LIST_TOKENS"))):
        names_to_list |= undecided
    entries_to_list = [entry for entry in other_tools if entry.name in names_to_list]
    return entries_to_list if len(entries_to_list) == len(other_tools) else [*entries_to_list, *finders]


def _is_selected(view: Snapshot, entry: Entry) -> bool:
    return entry.name == MANY and any(entry.folded_name in choice.names for choice in view.choices)


def is_switched_on(entry: Entry) -> bool:
    """False if an operator has not set what it needs, so that every call would be refused."""
    option = entry.spec.needs_option
    has_option = not option or any(dict(account.options).get(option) for account in entry.accounts)
    return has_option and not (entry.spec.needs_files and not conf.value("TOOLHUB_FILE_ROOT"))


def _parts(view: Snapshot, other_tools: Sequence[Entry]) -> Iterator[tuple[Mode, Sequence[Entry]]]:
    """The tools of each toolset, with its mode; a tool may be in several."""
    reach = view.reach
    if reach.toolsets is None:
        yield mode_of(None, reach), other_tools
        return
    for name in reach.toolsets:
        if (choice := view.toolsets.get(name)) is not None:
            yield mode_of(choice, reach), [entry for entry in other_tools if choice.holds(entry)]


def _fits(view: Snapshot, list_: Sequence[Entry], most: int) -> bool:
    """True if the whole list is within its token limit: ten short toolsets make a long one."""
    tokens = costs(view)
    return sum(tokens[entry.name] for entry in list_) <= most
