"""What n8n is sent of a workflow: what is there, with what should change, and nothing that it refuses.

n8n wants all nodes, connections and settings at once, and refuses what it has itself shown of a workflow: its id, its
tags, whether it is active. What is pinned, what nodes remember, and settings it keeps by itself as long as nobody
speaks of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from tools_app.packs.n8n.runs import listed, mapped
from tools_app.packs.n8n.sizes import words

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
Nodes = Annotated[list[dict[str, Any]], WithJsonSchema({"type": "array", "items": _NODE})]
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


def changed(
    current: Mapping[str, Any], given: Mapping[str, Any], *, anew: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The body that changes a workflow into what is given, and keeps all that is not.

    With `anew` nodes become exactly what is given; only what leads to secrets and addresses is kept.
    """
    nodes, settings = given.get("nodes"), given.get("settings")
    kept, warnings = _known(settings or {})
    there = {} if anew else {key: each for key, each in mapped(current.get("settings")).items() if key in _COMMON}
    body = {
        "name": given.get("name") or current.get("name"),
        "nodes": current.get("nodes"),
        "connections": mapped(current.get("connections")),
        "settings": {**there, **kept},
    }
    if nodes is not None:
        body["nodes"] = _merged(listed(current.get("nodes")), nodes, _LEADS if anew else None)
    if given.get("connections") is not None:
        body["connections"] = given["connections"]
    return body, warnings


def _known(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    unknown = [words(key, 60) for key in settings if key not in SETTINGS]
    warnings = [f"settings: n8n does not take {', '.join(unknown[:10])}; left out."] if unknown else []
    return {key: value for key, value in settings.items() if key in SETTINGS}, warnings


def _merged(
    current: Iterable[Any], given: Sequence[Mapping[str, Any]], stays: frozenset[str] | None
) -> list[dict[str, Any]]:
    """The nodes that are given. Where one is there already, what is not said of it stays: credentials, above all."""
    known = [mapped(node) for node in current]
    by_id = {str(node["id"]): node for node in known if "id" in node}
    by_name = {str(node.get("name")): node for node in known}
    taken = {str(node["id"]) for node in given if "id" in node}
    merged = []
    for node in given:
        there = by_id.get(str(node["id"]), {}) if "id" in node else {}
        if not there:
            # Agents make up ids of their own. A node that another one is by its id has only been renamed.
            alike = by_name.get(str(node.get("name")), {})
            there = {} if str(alike.get("id")) in taken else alike
        if there and there.get("type") == node.get("type"):
            whole = {**{key: there[key] for key in there if stays is None or key in stays}, **node}
            merged.append({key: each for key, each in whole.items() if each is not None})
        else:
            merged.append({"id": str(there.get("id") or uuid.uuid4()), **node})
    return merged


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
