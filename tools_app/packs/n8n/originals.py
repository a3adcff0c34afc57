"""Restores invisible characters in texts that callers send back.

Callers see texts without invisible characters: soft hyphens, zero-width characters, carriage returns. Texts that they
send back unchanged must not lose these characters in n8n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools_app.packs.n8n.graph import renamed
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.text import hygiene


def as_shown(text: str) -> str:
    """A text as callers see it."""
    return hygiene.cleaned(readable(text))


class Originals:
    """The texts of an existing node. `lost` names changed texts that lost invisible characters."""

    def __init__(self, value: Any) -> None:
        texts: dict[str, set[str]] = {}
        for text in _texts(value):
            texts.setdefault(as_shown(text), set()).add(text)
        # For texts that have moved. If several look the same, only the place tells which one is meant.
        self._moved = {plain: next(iter(same)) for plain, same in texts.items() if plain and len(same) == 1}
        self.lost: list[str] = []

    def restored(self, value: Any, current: Any, place: str = "") -> Any:
        """A value that a caller sent, with each unchanged text replaced by its original.

        `there` is n8n's value in the same place; `place` is its name.
        """
        if isinstance(value, str):
            return self._text(value, current, place)
        if isinstance(value, Sequence):
            others = as_list(current)
            return [
                self.restored(each, others[index] if index < len(others) else None, place)
                for index, each in enumerate(value)
            ]
        if isinstance(value, Mapping):
            current_items = as_map(current)
            plain: dict[str, str] = {as_shown(key): key for key in current_items}
            restored: dict[str, Any] = {}
            for key, each in value.items():
                original = key if key in current_items else plain.get(key) or key
                inside = f"{place}.{as_shown(key)}" if place else as_shown(key)
                restored[original] = self.restored(each, current_items.get(original), inside)
            return restored
        return value

    def _text(self, text: str, current: Any, place: str) -> str:
        if text == current:
            return text
        if not isinstance(current, str):
            return self._moved.get(text, text)
        plain = as_shown(current)
        if text == plain:
            return current
        if plain != current and text not in self._moved and place not in self.lost:
            self.lost.append(place)
        return self._moved.get(text, text)


def with_original_names(connections: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Connections with the original names of the nodes."""
    plain: dict[str, list[str]] = {}
    for name in names:
        plain.setdefault(as_shown(name), []).append(name)
    return renamed(connections, {key: same[0] for key, same in plain.items() if len(same) == 1 and key not in names})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
