"""Request bodies for workflows: the current state merged with the changes, without fields that n8n refuses.

n8n wants all nodes, connections and settings at once, and refuses fields that it returned itself: `id`, `tags` and
`active`. Pinned data, static data of nodes and settings stay in n8n as long as a body does not mention them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from tools_app.packs.n8n import expressions
from tools_app.packs.n8n.graph import edges, renamed, without
from tools_app.packs.n8n.originals import Originals, as_shown, with_original_names
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.sizes import words
from tools_app.sdk.errors import ConflictError, InvalidArgumentsError, Problem

# Accepted by at least one version. For any other key n8n would refuse the whole workflow.
SETTINGS: Final = frozenset(
    {
        *("timezone", "errorWorkflow", "callerIds", "callerPolicy", "executionTimeout", "executionOrder"),
        *("saveDataErrorExecution", "saveDataSuccessExecution", "saveManualExecutions", "saveExecutionProgress"),
        *("timeSavedPerExecution", "timeSavedMode", "availableInMCP", "binaryMode", "redactionPolicy"),
        *("customTelemetryTags", "credentialResolverId"),
    }
)

# Settings that every version accepts, copied from the current workflow: n8n 1 resets some of them if they are omitted.
# The editor stores others, for which n8n's API refuses the whole workflow, at least before version 2.
_COMMON: Final = SETTINGS - {
    *("timeSavedMode", "binaryMode", "redactionPolicy", "customTelemetryTags", "credentialResolverId")
}

# Node fields that n8n's API accepts. Its editor stores more, for which the API refuses the whole workflow.
TAKEN: Final = frozenset(
    {
        *("id", "name", "type", "typeVersion", "position", "parameters", "credentials", "webhookId"),
        *("disabled", "notes", "notesInFlow", "executeOnce", "alwaysOutputData", "retryOnFail", "maxTries"),
        *("waitBetweenTries", "continueOnFail", "onError", "createdAt", "updatedAt", "customTelemetryTags"),
    }
)

_PLACE: Final = frozenset({"name", "position"})
# Bytes of node names in one message.
_MOST_NAMED: Final = 4_000

# Kept when a whole node is replaced: its identity, credentials and webhook address.
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
# Omitted fields of an existing node stay unchanged.
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
    """The body of a new workflow, and warnings about omitted parts."""
    accepted, warnings = _accepted(settings)
    complete_nodes = [{"id": str(uuid.uuid4()), **node} for node in nodes]
    return {"name": name, "nodes": complete_nodes, "connections": connections, "settings": accepted}, warnings


@dataclass(slots=True)
class Change:
    """The body that changes a workflow, its warnings, and the nodes that are deleted or emptied."""

    body: dict[str, Any]
    warnings: list[str]
    deleted: list[str] = field(default_factory=list)
    # Nodes that would lose all their parameters.
    emptied: list[str] = field(default_factory=list)


def changed(current: Mapping[str, Any], changes: Mapping[str, Any], *, anew: bool = False) -> Change:
    """Merge changes into the current workflow; parts that are not given stay.

    With `anew`, nodes are replaced: only their id, credentials and webhook address are kept.

    Raises:
        InvalidArgumentsError: a new node is incomplete.
    """
    settings = changes.get("settings")
    new_settings, warnings = _accepted(settings or {})
    there = {} if anew else {key: each for key, each in as_map(current.get("settings")).items() if key in _COMMON}
    name = changes.get("name") or current.get("name")
    if isinstance(current_name := current.get("name"), str) and name == as_shown(current_name):
        name = current_name
    result = Change(
        {
            "name": name,
            "nodes": current.get("nodes"),
            "connections": as_map(current.get("connections")),
            "settings": {**there, **new_settings},
        },
        warnings,
    )
    if changes.get("nodes") is not None:
        _change_nodes(result, as_list(current.get("nodes")), changes["nodes"], anew=anew)
    if changes.get("connections") is not None:
        names = [str(as_map(node).get("name")) for node in as_list(result.body["nodes"])]
        before, connections = result.body["connections"], with_original_names(changes["connections"], names)
        result.body["connections"] = connections
        result.warnings += _unconnected(before, connections)
    return result


def restored(state: Mapping[str, Any]) -> dict[str, Any]:
    """The body that restores a previous state."""
    return changed(state, {}).body


def confirm(change: Change, names: Collection[str]) -> None:
    """Check that the caller has confirmed every node that would be deleted or emptied.

    Raises:
        ConflictError: a node is not confirmed; nothing was sent.
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
            next_step='Send every node to keep: for an unchanged one {"name": "…"} is enough, and omitted fields of a '
            "node stay. To remove these anyway, name each of them in confirmRemoved.",
        )


def losses(change: Change) -> list[str]:
    """Warnings about deleted and emptied nodes, when a whole workflow is replaced."""
    return [
        f"{what}: {words(', '.join(repr(as_shown(name)) for name in names), _MOST_NAMED)}."
        for what, names in (("Deleted nodes", change.deleted), ("Nodes without parameters now", change.emptied))
        if names
    ]


def _accepted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    unknown = [words(key, 60) for key in settings if key not in SETTINGS]
    warnings = [f"settings: n8n does not accept {', '.join(unknown[:10])}; ignored."] if unknown else []
    return {key: value for key, value in settings.items() if key in SETTINGS}, warnings


def _change_nodes(change: Change, current: Sequence[Any], nodes: Sequence[Mapping[str, Any]], *, anew: bool) -> None:
    """Merge the given nodes into the existing ones; their credentials stay.

    Raises:
        InvalidArgumentsError: a new node is incomplete.
    """
    existing_nodes = [as_map(node) for node in current]
    pairs = _paired(existing_nodes, nodes)
    if not anew:
        _check(pairs, existing_nodes)
    merged, new_names = [], {}
    for existing, node in pairs:
        node_body = _merged(existing, node, change.warnings, anew=anew)
        merged.append(node_body)
        if existing and node_body.get("name") != existing.get("name"):
            new_names[str(existing.get("name"))] = str(node_body.get("name"))
        if existing and as_map(existing.get("parameters")) and not as_map(node_body.get("parameters")):
            change.emptied.append(str(existing.get("name")))
    stay = {id(existing) for existing, _ in pairs}
    change.deleted += [str(node.get("name")) for node in existing_nodes if id(node) not in stay]
    removed = set(change.deleted) - {str(node.get("name")) for node in merged}
    if new_names and not anew:
        # Parameters that the caller gave have the new names already.
        for (_, node), node_body in zip(pairs, merged, strict=True):
            if "parameters" in node_body and "parameters" not in node:
                node_body["parameters"] = expressions.renamed(node_body["parameters"], new_names)
    change.body["nodes"] = merged
    change.body["connections"] = renamed(without(change.body["connections"], removed), new_names)


def _paired(
    current: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pairs of the existing node (empty for a new one) and the given node."""
    by_id = {str(node["id"]): node for node in current if "id" in node}
    by_name = {as_shown(str(node.get("name"))): node for node in current} | {
        str(node.get("name")): node for node in current
    }
    given_ids = {str(node["id"]) for node in nodes if "id" in node}
    pairs = []
    for node in nodes:
        existing: Mapping[str, Any] = by_id.get(str(node["id"]), {}) if "id" in node else {}
        if not existing:
            # Agents invent ids, so the name counts too, unless that node is already given by its id (a rename).
            namesake = by_name.get(str(node.get("name")), {})
            existing = {} if str(namesake.get("id")) in given_ids else namesake
        pairs.append((existing, node))
    return pairs


def _check(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], existing_nodes: Sequence[Mapping[str, Any]]
) -> None:
    problems = []
    for number, (existing, node) in enumerate(pairs):
        if existing and _same_type(existing, node):
            continue
        # With another type it is another node, which only inherits the name and position.
        fields = {*node, *(_PLACE & existing.keys())}
        if missing := [key for key in _NEEDED if key not in fields]:
            name = words(str(node.get("name") or node.get("id") or "?"), 100)
            reason = f"changes its type and also needs {_listing(missing)}" if existing else _new(missing)
            problems.append(Problem(f"/nodes/{number}", f"nodes.{number}: {name!r} {reason}"))
    if problems:
        names = words(", ".join(repr(as_shown(str(node.get("name")))) for node in existing_nodes), _MOST_NAMED)
        raise InvalidArgumentsError(
            problems=problems,
            next_step=f"Nodes are identified by id or name. The workflow has: {names}." if existing_nodes else None,
        )


def _same_type(existing: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    return bool(node.get("type", existing.get("type")) == existing.get("type"))


def _new(missing: Sequence[str]) -> str:
    return f"is not a node of this workflow; a new one also needs {_listing(missing)}"


def _listing(keys: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(keys[:-1]), keys[-1]]))


def _merged(existing: Mapping[str, Any], node: Mapping[str, Any], warnings: list[str], *, anew: bool) -> dict[str, Any]:
    if not existing:
        return {"id": str(uuid.uuid4()), **node}
    if not _same_type(existing, node):
        # Fields of the old node are useless or harmful for another type.
        place = {key: existing[key] for key in ("id", *_PLACE) if key in existing}
        return {"id": str(uuid.uuid4())} | place | dict(node)
    stays = {key: existing[key] for key in existing if not anew or key in _LEADS}
    if anew:
        complete_node = {**stays, **node}
    else:
        originals = Originals(existing)
        complete_node = {**stays, **originals.restored(node, existing)}
        name = as_shown(str(existing.get("name")))
        if originals.lost:
            warnings.append(
                f"Node {words(name, 100)!r}: changed texts lost invisible characters, in "
                f"{words(', '.join(originals.lost), 200)}."
            )
        before, after = as_map(existing.get("parameters")), as_map(complete_node.get("parameters"))
        if after and (left_out := [as_shown(key) for key in before if key not in after]):
            warnings.append(f"Node {words(name, 100)!r}: removed parameters: {words(', '.join(left_out), 200)}.")
    return {key: each for key, each in complete_node.items() if each is not None}


def _unconnected(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A warning about removed connections."""
    remaining = set(edges(after))
    removed = [f"{as_shown(edge[0])!r} → {as_shown(edge[3])!r}" for edge in edges(before) if edge not in remaining]
    return [f"No longer connected: {words(', '.join(dict.fromkeys(removed)), 500)}."] if removed else []


def refused(nodes: Iterable[Any]) -> list[str]:
    """Nodes that n8n's API refuses because its editor stored more fields in them."""
    fields = ((as_map(node).get("name"), as_map(node).keys() - TAKEN) for node in nodes)
    return [f"{words(str(name), 100)!r} ({words(', '.join(sorted(keys)), 100)})" for name, keys in fields if keys]


def ignored(*, active: bool | None, tags: Sequence[str] | None, now_active: bool) -> list[str]:
    """Warnings about arguments that n8n does not accept with a workflow."""
    warnings = []
    if active is not None and active is not now_active:
        verb = "activate_workflow" if active else "deactivate_workflow"
        warnings.append(f"active: n8n does not accept it here; use {verb}.")
    if tags:
        warnings.append("tags: n8n does not accept them here; ignored.")
    return warnings
