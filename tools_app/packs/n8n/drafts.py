"""What n8n is sent of a workflow: what is there, with what should change, and nothing that it refuses.

n8n wants all nodes, connections and settings at once, and refuses what it has itself shown of a workflow: its id, its
tags, whether it is active. What is pinned, what nodes remember, and settings it keeps by itself as long as nobody
speaks of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from tools_app.packs.n8n.graph import edges, renamed, without
from tools_app.packs.n8n.originals import Originals, as_shown, named
from tools_app.packs.n8n.runs import listed, mapped
from tools_app.packs.n8n.sizes import words
from tools_app.sdk.errors import ConflictError, InvalidArgumentsError, Problem

# Those that some version takes. Any other is a slip, for which n8n would refuse the whole workflow.
SETTINGS: Final = frozenset(
    {
        *("timezone", "errorWorkflow", "callerIds", "callerPolicy", "executionTimeout", "executionOrder"),
        *("saveDataErrorExecution", "saveDataSuccessExecution", "saveManualExecutions", "saveExecutionProgress"),
        *("timeSavedPerExecution", "timeSavedMode", "availableInMCP", "binaryMode", "redactionPolicy"),
        *("customTelemetryTags", "credentialResolverId"),
    }
)

# Settings that every version takes. The editor makes others, for which n8n refuses the whole workflow, or does before
# version 2; of these, n8n 1 would set some back where they are not said again.
_COMMON: Final = SETTINGS - {
    *("timeSavedMode", "binaryMode", "redactionPolicy", "customTelemetryTags", "credentialResolverId")
}

# What n8n takes of a node. Its editor keeps more there, and its API then refuses the whole workflow.
_TAKEN: Final = frozenset(
    {
        *("id", "name", "type", "typeVersion", "position", "parameters", "credentials", "webhookId"),
        *("disabled", "notes", "notesInFlow", "executeOnce", "alwaysOutputData", "retryOnFail", "maxTries"),
        *("waitBetweenTries", "continueOnFail", "onError", "createdAt", "updatedAt", "customTelemetryTags"),
    }
)

_PLACE: Final = frozenset({"name", "position"})
# Names of nodes in one message, in bytes.
_MOST_NAMED: Final = 4_000

# A node's id and credentials, and the address of its webhook.
_LEADS: Final = frozenset({"id", "credentials", "webhookId"})

_NODE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "typeVersion": {"type": "number"},
        "position": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "parameters": {"type": "object"},
        "credentials": {"type": "object"},
        "disabled": {"type": "boolean"},
    },
    "required": ["name", "type", "typeVersion", "position", "parameters"],
    "additionalProperties": True,
}
# Of a node that is there already, whatever is left out stays.
_CHANGED_NODE: Final = {
    "type": "object",
    "properties": {key: {"type": _NODE["properties"][key]["type"]} for key in ("id", "name", "type", "parameters")},
    "additionalProperties": True,
}
_NEEDED: Final[tuple[str, ...]] = tuple(_NODE["required"])
Nodes = Annotated[list[dict[str, Any]], WithJsonSchema({"type": "array", "items": _NODE})]
ChangedNodes = Annotated[list[dict[str, Any]], WithJsonSchema({"type": "array", "items": _CHANGED_NODE})]
Connections = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
Settings = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
Name = Annotated[str, Field(min_length=1, max_length=128)]


def created(
    name: str, nodes: Sequence[Mapping[str, Any]], connections: Any, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The body of a new workflow, and warnings about what had to be left out."""
    kept, warnings = _known(settings)
    whole = [{"id": str(uuid.uuid4()), **node} for node in nodes]
    return {"name": name, "nodes": whole, "connections": connections, "settings": kept}, warnings


@dataclass(slots=True)
class Change:
    """The body that changes a workflow, what to warn of, and the nodes that lose what they had."""

    body: dict[str, Any]
    warnings: list[str]
    deleted: list[str] = field(default_factory=list)
    # Nodes that had parameters, and would have none.
    emptied: list[str] = field(default_factory=list)


def changed(current: Mapping[str, Any], given: Mapping[str, Any], *, anew: bool = False) -> Change:
    """What changes a workflow into what is given, and keeps all that is not.

    With `anew` nodes become exactly what is given; only what leads to secrets and addresses is kept.

    Raises:
        InvalidArgumentsError: a node is new, and not complete.
    """
    settings = given.get("settings")
    kept, warnings = _known(settings or {})
    there = {} if anew else {key: each for key, each in mapped(current.get("settings")).items() if key in _COMMON}
    name = given.get("name") or current.get("name")
    if isinstance(now := current.get("name"), str) and name == as_shown(now):
        name = now
    change = Change(
        {
            "name": name,
            "nodes": current.get("nodes"),
            "connections": mapped(current.get("connections")),
            "settings": {**there, **kept},
        },
        warnings,
    )
    if given.get("nodes") is not None:
        _change_nodes(change, listed(current.get("nodes")), given["nodes"], anew=anew)
    if given.get("connections") is not None:
        names = [str(mapped(node).get("name")) for node in listed(change.body["nodes"])]
        before, connections = change.body["connections"], named(given["connections"], names)
        change.body["connections"] = connections
        change.warnings += _unconnected(before, connections)
    return change


def restored(state: Mapping[str, Any]) -> dict[str, Any]:
    """The body that puts a workflow back into a state that it had."""
    return changed(state, {}).body


def confirm(change: Change, names: Collection[str]) -> None:
    """Let nodes be deleted and their parameters be emptied only where the caller has named these nodes.

    Raises:
        ConflictError: it has not; nothing was sent.
    """
    deleted, emptied = (
        [name for name in losing if name not in names and as_shown(name) not in names]
        for losing in (change.deleted, change.emptied)
    )
    refused_losses = [
        f"{verb} {words(', '.join(repr(as_shown(name)) for name in losing), _MOST_NAMED)}"
        for verb, losing in (("delete the nodes", deleted), ("empty the parameters of", emptied))
        if losing
    ]
    if refused_losses:
        raise ConflictError(
            f"Nothing was changed: this update would {' and '.join(refused_losses)}",
            context={"field": "confirmRemoved"},
            next_step="Send every node that is to stay; of one that does not change its name is enough, as in "
            '{"name": "…"}, and what is left out of a node stays. To remove these all the same, name each of them in '
            "confirmRemoved.",
        )


def losses(change: Change) -> list[str]:
    """Warnings about nodes that lose what they had, where a whole workflow was meant to be replaced."""
    return [
        f"{what}: {words(', '.join(repr(as_shown(name)) for name in names), _MOST_NAMED)}."
        for what, names in (("Deleted nodes", change.deleted), ("Nodes without parameters now", change.emptied))
        if names
    ]


def _known(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    unknown = [words(key, 60) for key in settings if key not in SETTINGS]
    warnings = [f"settings: n8n does not take {', '.join(unknown[:10])}; left out."] if unknown else []
    return {key: value for key, value in settings.items() if key in SETTINGS}, warnings


def _change_nodes(change: Change, current: Sequence[Any], given: Sequence[Mapping[str, Any]], *, anew: bool) -> None:
    """Merge the nodes that are given into those that are there: credentials, above all, stay.

    Raises:
        InvalidArgumentsError: a node is new, and not complete.
    """
    known = [mapped(node) for node in current]
    pairs = _paired(known, given)
    if not anew:
        _check(pairs, known)
    merged, new_names = [], {}
    for there, node in pairs:
        made = _merged(there, node, change.warnings, anew=anew)
        merged.append(made)
        if there and made.get("name") != there.get("name"):
            new_names[str(there.get("name"))] = str(made.get("name"))
        if there and mapped(there.get("parameters")) and not mapped(made.get("parameters")):
            change.emptied.append(str(there.get("name")))
    stay = {id(there) for there, _ in pairs}
    change.deleted += [str(node.get("name")) for node in known if id(node) not in stay]
    gone = set(change.deleted) - {str(node.get("name")) for node in merged}
    change.body["nodes"] = merged
    change.body["connections"] = renamed(without(change.body["connections"], gone), new_names)
    if new_names and not anew:
        pieces = ", ".join(f"{as_shown(old)!r} is now {as_shown(new)!r}" for old, new in new_names.items())
        change.warnings.append(f"{words(pieces, 500)}: expressions in other nodes still use the old name.")


def _paired(
    known: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each node that is given, with the one that it is there already; with an empty one where it is new."""
    by_id = {str(node["id"]): node for node in known if "id" in node}
    by_name = {as_shown(str(node.get("name"))): node for node in known} | {
        str(node.get("name")): node for node in known
    }
    taken = {str(node["id"]) for node in given if "id" in node}
    pairs = []
    for node in given:
        there: Mapping[str, Any] = by_id.get(str(node["id"]), {}) if "id" in node else {}
        if not there:
            # Agents make up ids of their own. A node that another one is by its id has only been renamed.
            alike = by_name.get(str(node.get("name")), {})
            there = {} if str(alike.get("id")) in taken else alike
        pairs.append((there, node))
    return pairs


def _check(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], known: Sequence[Mapping[str, Any]]) -> None:
    problems = []
    for number, (there, node) in enumerate(pairs):
        if there and _same_type(there, node):
            continue
        # A node of another type is another node, that only has the place of the old one.
        has = {*node, *(_PLACE & there.keys())}
        if missing := [key for key in _NEEDED if key not in has]:
            name = words(str(node.get("name") or node.get("id") or "?"), 100)
            what = f"changes its type, and needs {_listing(missing)} too" if there else _new(missing)
            problems.append(Problem(f"/nodes/{number}", f"nodes.{number}: {name!r} {what}"))
    if problems:
        names = words(", ".join(repr(as_shown(str(node.get("name")))) for node in known), _MOST_NAMED)
        raise InvalidArgumentsError(
            problems=problems,
            next_step=f"Nodes are known by their id or name. The workflow has: {names}." if known else None,
        )


def _same_type(there: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    return bool(node.get("type", there.get("type")) == there.get("type"))


def _new(missing: Sequence[str]) -> str:
    return f"is no node of this workflow, and a new one needs {_listing(missing)} too"


def _listing(keys: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(keys[:-1]), keys[-1]]))


def _merged(there: Mapping[str, Any], node: Mapping[str, Any], warnings: list[str], *, anew: bool) -> dict[str, Any]:
    if not there:
        return {"id": str(uuid.uuid4()), **node}
    if not _same_type(there, node):
        # What the old one had is of no use to a node of another type, or even harmful.
        place = {key: there[key] for key in ("id", *_PLACE) if key in there}
        return {"id": str(uuid.uuid4())} | place | dict(node)
    stays = {key: there[key] for key in there if not anew or key in _LEADS}
    if anew:
        whole = {**stays, **node}
    else:
        originals = Originals(there)
        whole = {**stays, **originals.restored(node, there)}
        name = as_shown(str(there.get("name")))
        if originals.lost:
            warnings.append(
                f"Node {words(name, 100)!r}: changed texts lost characters that are not shown, in "
                f"{words(', '.join(originals.lost), 200)}."
            )
        before, after = mapped(there.get("parameters")), mapped(whole.get("parameters"))
        if after and (left_out := [as_shown(key) for key in before if key not in after]):
            warnings.append(f"Node {words(name, 100)!r}: parameters left out: {words(', '.join(left_out), 200)}.")
    return {key: each for key, each in whole.items() if each is not None}


def _unconnected(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A warning about connections that are there no more."""
    now = set(edges(after))
    gone = [f"{as_shown(edge[0])!r} → {as_shown(edge[3])!r}" for edge in edges(before) if edge not in now]
    return [f"No longer connected: {words(', '.join(dict.fromkeys(gone)), 500)}."] if gone else []


def refused(nodes: Iterable[Any]) -> list[str]:
    """Which nodes n8n's API refuses for what its editor keeps in them."""
    found = ((mapped(node).get("name"), mapped(node).keys() - _TAKEN) for node in nodes)
    return [f"{words(str(name), 100)!r} ({words(', '.join(sorted(keys)), 100)})" for name, keys in found if keys]


def ignored(*, active: bool | None, tags: Sequence[str] | None, now_active: bool) -> list[str]:
    """What n8n does not take together with a workflow."""
    warnings = []
    if active is not None and active is not now_active:
        verb = "activate_workflow" if active else "deactivate_workflow"
        warnings.append(f"active: n8n does not take it together with a workflow; use {verb}.")
    if tags:
        warnings.append("tags: n8n does not take them together with a workflow; left out.")
    return warnings
