"""Answers as XML that any strict parser reads, whatever text it contains.

Names follow the user's document: `version` for `fixed_version`, `progress` in percent, `field` in `custom_fields`. An
object with an id and a name is written as its name, with the id as an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>'

# Characters that XML 1.0 does not allow, not even as references.
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_NAMES: Final = re.compile("^(?![A-Za-z_])|[^A-Za-z0-9_.-]")
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\r": "&#13;"}
# Parsers turn these into spaces in attributes.
_ATTRIBUTE_ESCAPES: Final = str.maketrans(_ESCAPES | {"\n": "&#10;", "\t": "&#9;"})
_TEXT_ESCAPES: Final = str.maketrans(_ESCAPES)

_RENAMED: Final = {"fixed_version": "version", "done_ratio": "progress", "issue_categories": "categories"}
_SINGULAR: Final = {
    "custom_fields": "field",
    "issue_custom_fields": "field",
    "children": "issue",
    "time_entries": "time_entry",
    "time_entry_activities": "activity",
    "issue_statuses": "issue_status",
    "issue_priorities": "issue_priority",
    "issue_categories": "category",
    "allowed_statuses": "status",
    "enabled_modules": "module",
    "statuses": "status",
}
_YES_AND_NO: Final = frozenset({"is_public", "inherit_members"})
# Written only if true.
_ONLY_IF_TRUE: Final = frozenset({"is_private", "private_notes", "admin"})
# Written only if not empty.
_NOT_EMPTY: Final = frozenset({"description", "homepage", "notes", "details", "custom_fields"})
# An object with only these keys is written as its name.
_OF_A_REFERENCE: Final = frozenset({"id", "name", "is_closed", "is_default", "active"})
# These are written on one line, if they have at most `_SHORT` parts.
_INLINE: Final = frozenset({"field"})
_SHORT: Final = 3


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def document(data: Any) -> str:
    """An answer as XML: its first entry is the root element, the others are the root's attributes."""
    (name, content), *beside = data.items()
    attributes = dict(beside)
    if isinstance(content, list):
        attributes = {"type": "array"} | attributes
    return "\n".join([DECLARATION, *_element(name, content, attributes)])


def escaped(text: str) -> str:
    return _ILLEGAL.sub("", text).translate(_TEXT_ESCAPES)


def _element(name: str, value: Any, attributes: Mapping[str, Any] = NOTHING) -> Iterator[str]:
    # Names come from our own schemas; others are sanitized so that they cannot break a tag.
    tag = _RENAMED.get(name) or _NOT_IN_NAMES.sub("_", name)
    start = f"{tag}{_attributes(attributes)}"
    match value:
        case {"name": str(text)} if value.keys() <= _OF_A_REFERENCE:
            beside = {key: part for key, part in value.items() if key != "name"}
            yield f"<{tag}{_attributes({**attributes, **beside})}>{escaped(text)}</{tag}>"
        case {"id": int(number)} if len(value) == 1:
            yield f"<parent_id>{number}</parent_id>" if name == "parent" else f'<{tag} id="{number}" />'
        case dict() if value:
            yield from _wrapped(tag, start, [line for key, part in value.items() for line in _part(key, part)])
        case list() if value:
            member = _SINGULAR.get(name) or name.removesuffix("s")
            yield from _wrapped(tag, start, [line for part in value for line in _element(member, part)])
        case dict() | list():
            yield f"<{start} />"
        case _:
            text = f"{value}%" if name == "done_ratio" else _text(name, value)
            yield f"<{start}>{escaped(text)}</{tag}>"


def _part(name: str, value: Any) -> Iterator[str]:
    if name == "value" and isinstance(value, list | None):
        # A custom field may have several values, or none.
        value = ", ".join(_text(name, each) for each in value or ())
    if value is None or (value is False and name in _ONLY_IF_TRUE) or (value in ("", []) and name in _NOT_EMPTY):
        return
    yield from _element(name, value)


def _wrapped(tag: str, start: str, lines: list[str]) -> Iterator[str]:
    if len(lines) <= _SHORT and tag in _INLINE:
        yield f"<{start}>{''.join(lines)}</{tag}>"
    else:
        yield from (f"<{start}>", *lines, f"</{tag}>")


def _attributes(attributes: Mapping[str, Any]) -> str:
    texts = {name: _text(name, value) for name, value in attributes.items() if value is not None}
    return "".join(f' {name}="{_ILLEGAL.sub("", text).translate(_ATTRIBUTE_ESCAPES)}"' for name, text in texts.items())


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return ("yes" if value else "no") if name in _YES_AND_NO else str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
