"""Tool names in prompts: tells the agent which of them have another name in its list, or are not in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tools_app.catalog import listed
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.names import folded

_NAME: Final = re.compile(r"`([a-z][a-z0-9_-]{0,63})`")


def beside(messages: Iterable[dict[str, Any]], view: Snapshot) -> dict[str, Any] | None:
    """A message on how to call the tools that these messages name; None if all are listed under these names."""
    listed_names = {entry.name for entry in listed.listed(view)}
    shown_names: dict[str, str] = {}
    by_tool: dict[str, list[str]] = {}
    for name, entry in _entries_in(messages, view).items():
        if folded(name) != folded(entry.shown_name):
            shown_names[name] = entry.shown_name
        if entry.name not in listed_names:
            tool = "call_tool" if entry.hints.read_only else "call_writing_tool"
            if entry.shown_name not in by_tool.setdefault(tool, []):
                by_tool[tool].append(entry.shown_name)
    lines = [f"`{name}` is called `{shown_name}` here." for name, shown_name in shown_names.items()]
    lines += [f"Not in your list, call it with `{tool}`: {_join_names(names)}." for tool, names in by_tool.items()]
    if not lines:
        return None
    return {"role": "user", "content": {"type": "text", "text": "\n".join(lines)}}


def _entries_in(messages: Iterable[dict[str, Any]], view: Snapshot) -> dict[str, Entry]:
    """The tools by the name that the messages use, in order of first mention."""
    entries_by_name: dict[str, Entry] = {}
    for message in messages:
        content = message["content"]
        for name in _NAME.findall(content["text"]) if content["type"] == "text" else ():
            entry = view.find(name)
            if entry is not None and entry.callable and not entry.is_finder:
                entries_by_name[name] = entry
    return entries_by_name


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
