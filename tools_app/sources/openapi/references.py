"""References inside one document. Those to other files and addresses are not followed."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

from tools_app.sdk.errors import shortened

# References that refer to references.
_MOST_STEPS: Final = 50


class UnresolvedError(ValueError):
    """A reference cannot be followed; the message says why."""


def target_of(root: dict[str, Any], reference: object) -> Any:
    """What a reference refers to.

    Raises:
        UnresolvedError: there is nothing, or it is elsewhere.
    """
    if not isinstance(reference, str):
        raise UnresolvedError("a reference that is not a text")
    if not reference.startswith("#"):
        raise UnresolvedError(
            f"{shortened(reference)} is in another document, and references to those are not followed"
        )
    node: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isascii() and name.isdecimal() and int(name[:9]) < len(node):
            node = node[int(name[:9])]
        else:
            raise UnresolvedError(f"{shortened(reference)} is not in the document")
    if node is root:
        raise UnresolvedError(f"{shortened(reference)} is not in the document")
    return node


def resolved(root: dict[str, Any], value: Any) -> Any:
    """The value itself, or what it refers to at last.

    Raises:
        UnresolvedError: a reference cannot be followed.
    """
    for _ in range(_MOST_STEPS):
        if not isinstance(value, dict) or "$ref" not in value:
            return value
        value = target_of(root, value["$ref"])
    raise UnresolvedError("a reference that leads back to itself")
