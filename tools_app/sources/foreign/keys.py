"""Names of parameters that every client accepts, and the way back to those of the source.

A name that a client refuses costs it the whole list. In one tool, the same name is renamed alike everywhere, to a name
that nothing else in its schema has. So the way back needs no schema: it is exact behind references, alternatives and
lists, too. Only in an object without a schema could a caller choose such a name by itself, and it ends with a digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from tools_app.sdk.schemas import Part, Schema
from tools_app.sdk.spec import Kind, ToolSpec

_ACCEPTED: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_BY_NAME: Final = ("properties", "dependentSchemas", "dependentRequired")
# Values in a schema, whose objects have the same names.
_DATA: Final = ("default", "const", "enum", "examples")
_MOST_CHARACTERS: Final = 40


def rename(parts: Sequence[Part]) -> dict[str, str]:
    """Rename what clients refuse, in place. Returns new → original name."""
    names = {name for part in parts for name in _names(part.body)}
    renamed: dict[str, str] = {}
    for name in sorted(name for name in names if not _ACCEPTED.fullmatch(name)):
        renamed[name] = _other_name(name, names)
        names.add(renamed[name])
    if renamed:
        for part in parts:
            _apply(part.body, renamed)
    return {new: original for original, new in renamed.items()}


def original_arguments(spec: ToolSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the names that the source uses."""
    keys: Mapping[str, str] = spec.runtime.get("keys") or {}
    arguments: dict[str, Any] = _renamed(dict(values), keys) if keys else dict(values)
    return arguments


def original_uri(spec: ToolSpec, values: Mapping[str, object]) -> str:
    """The URI that the source uses for a resource, or for a template with these values.

    Raises:
        KeyError: a variable has no value.
    """
    if spec.kind is not Kind.TEMPLATE:
        return spec.key
    arguments = original_arguments(spec, values)
    return VARIABLE.sub(lambda match: quote(str(arguments[match[1]]), safe=""), spec.key)


def _names(body: Schema) -> Iterator[str]:
    for keyword in _BY_NAME:
        yield from body.get(keyword, ())
    yield from body.get("required", ())
    for names in body.get("dependentRequired", {}).values():
        yield from names


def _other_name(name: str, taken: set[str]) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    slug = _OTHERS.sub("_", name).strip("_")[:_MOST_CHARACTERS] or "parameter"
    return next(new for end in range(8, 25) if (new := f"{slug}_{digest[:end]}") not in taken)


def _apply(body: Schema, renamed: Mapping[str, str]) -> None:
    for keyword in _BY_NAME:
        if keyword in body:
            body[keyword] = {renamed.get(name, name): value for name, value in body[keyword].items()}
    for names in (body, *([body["dependentRequired"]] if "dependentRequired" in body else [])):
        for key in ("required",) if names is body else names:
            if key in names:
                names[key] = [renamed.get(name, name) for name in names[key]]
    for keyword in _DATA:
        if keyword in body:
            body[keyword] = _renamed(body[keyword], renamed)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(name, name): _renamed(part, names) for name, part in value.items()}
    return [_renamed(part, names) for part in value] if isinstance(value, list) else value
