"""What a prompt says of tools, met with what its reader is listed: some go by another name, others are not listed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tools_app.catalog import listed
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.names import folded

_NAMED: Final = re.compile(r"`([a-z][a-z0-9_-]{0,63})`")


def beside(messages: Iterable[dict[str, Any]], seen: Snapshot) -> dict[str, Any] | None:
    """A message that says how to call the tools that these name; None where they are listed by these names."""
    shown = {entry.name for entry in listed.listed(seen)}
    renamed: dict[str, str] = {}
    unlisted: dict[str, list[str]] = {}
    for name, entry in _named(messages, seen).items():
        if folded(name) != folded(entry.shown_name):
            renamed[name] = entry.shown_name
        if entry.name not in shown:
            through = "call_tool" if entry.hints.read_only else "call_writing_tool"
            if entry.shown_name not in unlisted.setdefault(through, []):
                unlisted[through].append(entry.shown_name)
    lines = [f"`{name}` is called `{shown_name}` here." for name, shown_name in renamed.items()]
    lines += [f"Not in your list, call it with `{through}`: {_joined(names)}." for through, names in unlisted.items()]
    if not lines:
        return None
    return {"role": "user", "content": {"type": "text", "text": "\n".join(lines)}}


def _named(messages: Iterable[dict[str, Any]], seen: Snapshot) -> dict[str, Entry]:
    """In the order in which they are named first, by what they are called there."""
    found: dict[str, Entry] = {}
    for message in messages:
        content = message["content"]
        for name in _NAMED.findall(content["text"]) if content["type"] == "text" else ():
            entry = seen.find(name)
            if entry is not None and entry.callable and not entry.is_finder:
                found[name] = entry
    return found


def _joined(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
