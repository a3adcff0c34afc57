"""The tool list of an agent: which tools it contains, how they are shown, and what it costs in tokens.

Tools that are not listed are found with `search_tools`, and called with `call_tool` or by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from tools_app.answers import with_outline
from tools_app.base import conf
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import Snapshot, mode_of
from tools_app.sdk.reach import Mode
from tools_app.sdk.spec import ToolSpec
from tools_app.text.budget import size_of, tokens_of

WireTool = dict[str, Any]

# Without these two, unlisted tools could not be used.
_NEEDED: Final = frozenset({"search_tools", "call_tool"})

_listed: WeakKeyDictionary[Snapshot, tuple[Entry, ...]] = WeakKeyDictionary()
_digests: WeakKeyDictionary[Snapshot, str] = WeakKeyDictionary()
_costs: WeakKeyDictionary[Snapshot, dict[str, int]] = WeakKeyDictionary()
# Cache of costs, by everything that is shown of a tool.
_cost_of: dict[tuple[object, ...], int] = {}
MOST_KNOWN: Final = 60_000


def as_listed(entry: Entry) -> WireTool:
    """The entry of a tool in the list."""
    spec = entry.spec
    wire: WireTool = {
        "name": entry.shown_name,
        "description": entry.description,
        "inputSchema": entry.input_schema,
        "annotations": entry.hints.as_dict(),
        "_meta": {
            "toolhub/version": entry.version,
            "toolhub/category": entry.category,
            "toolhub/tags": list(entry.tags),
        },
    }
    if spec.deprecated:
        wire["_meta"]["toolhub/deprecated"] = spec.deprecated
    if entry.title:
        wire["title"] = entry.title
    if spec.icon is not None:
        wire["icons"] = [dict(spec.icon)]
    if (output := listed_output(spec)) is not None:
        wire["outputSchema"] = with_outline(output)
    return wire


def listed_output(spec: ToolSpec) -> dict[str, Any] | None:
    """The output schema for clients. Clients of the handshake era accept only objects."""
    schema = spec.output_schema
    return schema if schema is not None and schema.get("type") == "object" else None


def cost(entry: Entry) -> int:
    """Approximate tokens that a tool adds to a list."""
    return tokens_of(size_of(as_listed(entry)))


def costs(snapshot: Snapshot) -> dict[str, int]:
    """Approximate tokens of each tool in a list, by name."""
    tokens = _costs.get(snapshot)
    if tokens is None:
        tokens = _costs[snapshot] = {entry.name: _cached_cost(entry) for entry in snapshot.all}
    return tokens


def _cached_cost(entry: Entry) -> int:
    """Cached across snapshots: a switch or a new key makes a new snapshot, in which few tools differ."""
    texts = entry.shown_name, entry.definition_hash, entry.title, entry.description, entry.category, entry.tags
    key = *texts, entry.version, entry.hints, entry.choices
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
            hasher.update(f"{texts}{entry.description}\n".encode())
        value = _digests[view] = hasher.hexdigest()
    return value


def _select(view: Snapshot) -> Sequence[Entry]:
    finders = [entry for entry in view.callable if entry.is_finder]
    other_tools = [entry for entry in view.callable if not entry.is_finder]
    if not {entry.name for entry in finders} >= _NEEDED:
        return other_tools
    names_to_list, undecided = {READER}, set()
    for mode, part in _parts(view, other_tools):
        names = {entry.name for entry in part}
        if mode == Mode.DIRECT:
            names_to_list |= names
        elif mode == Mode.AUTO:
            undecided |= names
    if undecided and _fits(view, [entry for entry in other_tools if entry.name in names_to_list | undecided]):
        names_to_list |= undecided
    entries_to_list = [entry for entry in other_tools if entry.name in names_to_list]
    return entries_to_list if len(entries_to_list) == len(other_tools) else [*entries_to_list, *finders]


def _parts(view: Snapshot, other_tools: Sequence[Entry]) -> Iterator[tuple[Mode, Sequence[Entry]]]:
    """The tools of each toolset, with its mode; a tool may be in several."""
    reach = view.reach
    if reach.toolsets is None:
        yield mode_of(None, reach), other_tools
        return
    for name in reach.toolsets:
        if (choice := view.toolsets.get(name)) is not None:
            yield mode_of(choice, reach), [entry for entry in other_tools if choice.holds(entry)]


def _fits(view: Snapshot, list_: Sequence[Entry]) -> bool:
    """True if the whole list is within its token limit: ten short toolsets make a long one."""
    tokens = costs(view)
    return sum(tokens[entry.name] for entry in list_) <= int(conf.value("TOOLHUB_LIST_TOKENS"))
