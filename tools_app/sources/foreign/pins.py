"""The digest of what an operator approves of a foreign definition: its wire form, in an order that does not matter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from tools_app.sdk.schemas import Schema, with_parts
from tools_app.sdk.spec import canonical

# Everything that says what it is or does, for tools, prompts and resources. Not pinned are a resource's size and time
# of change, and data for clients that this hub does not pass on.
_FIELDS: Final = (
    *("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons"),
    *("arguments", "uri", "uriTemplate", "mimeType"),
    # How the arguments of an operation become a request.
    "_operation",
)
# Sets: servers write them in the order of a hash table, which differs at every start.
_SETS: Final = ("required", "enum", "type")


def pin_of(kind: str, wire: Mapping[str, Any], *, defaults: bool) -> str:
    """The digest. `defaults`: a changed default of a parameter changes it.

    Raises:
        TypeError, ValueError, RecursionError: it cannot be written as JSON.
    """
    pinned = {name: wire[name] for name in _FIELDS if name in wire}
    for name in ("inputSchema", "outputSchema"):
        if isinstance(schema := pinned.get(name), dict):
            pinned[name] = unordered(schema, defaults=defaults)
    if isinstance(annotations := pinned.get("annotations"), dict):
        pinned["annotations"] = {key: value for key, value in annotations.items() if key != "lastModified"}
    meta = wire.get("_meta")
    if isinstance(meta, dict) and "ui" in meta:
        pinned["ui"] = meta["ui"]
    return hashlib.sha256(canonical({"kind": kind, **pinned})).hexdigest()


def unordered(schema: Schema, *, defaults: bool = True) -> Schema:
    """A copy in which the order of sets is fixed; without defaults if they do not count."""
    ordered = with_parts(schema, lambda part: unordered(part, defaults=defaults))
    for keyword in _SETS:
        if isinstance(values := ordered.get(keyword), list):
            ordered[keyword] = sorted(values, key=_text)
    if isinstance(dependent := ordered.get("dependentRequired"), dict):
        ordered["dependentRequired"] = {
            name: sorted(names, key=_text) if isinstance(names, list) else names for name, names in dependent.items()
        }
    if not defaults:
        ordered.pop("default", None)
    return ordered


_text: Final = json.JSONEncoder(sort_keys=True).encode
