"""Texts as n8n has them, where a caller sends back what it was shown of them.

Callers are shown texts without what people do not see in them: soft hyphens, zero-width characters, carriage returns.
What they send back unchanged must not lose these characters in n8n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools_app.packs.n8n.graph import renamed
from tools_app.packs.n8n.runs import listed, mapped
from tools_app.packs.n8n.secrecy import readable
from tools_app.text import hygiene


def as_shown(text: str) -> str:
    """A text as callers see it."""
    return hygiene.cleaned(readable(text))


class Originals:
    """The texts of a node as it is. `lost` names texts that were changed and lost characters that are not shown."""

    def __init__(self, value: Any) -> None:
        texts: dict[str, set[str]] = {}
        for text in _texts(value):
            texts.setdefault(as_shown(text), set()).add(text)
        # For texts that have moved. Where several look alike, only their place tells which one is meant.
        self._moved = {plain: next(iter(same)) for plain, same in texts.items() if plain and len(same) == 1}
        self.lost: list[str] = []

    def restored(self, value: Any, there: Any, place: str = "") -> Any:
        """A value that a caller sent, with the original of each text that is what the caller was shown of it.

        `there` is what n8n has in the same place, and `place` what to call that.
        """
        if isinstance(value, str):
            return self._text(value, there, place)
        if isinstance(value, Sequence):
            others = listed(there)
            return [
                self.restored(each, others[index] if index < len(others) else None, place)
                for index, each in enumerate(value)
            ]
        if isinstance(value, Mapping):
            known = mapped(there)
            plain: dict[str, str] = {as_shown(key): key for key in known}
            restored: dict[str, Any] = {}
            for key, each in value.items():
                original = key if key in known else plain.get(key) or key
                inside = f"{place}.{as_shown(key)}" if place else as_shown(key)
                restored[original] = self.restored(each, known.get(original), inside)
            return restored
        return value

    def _text(self, text: str, there: Any, place: str) -> str:
        if text == there:
            return text
        if not isinstance(there, str):
            return self._moved.get(text, text)
        plain = as_shown(there)
        if text == plain:
            return there
        if plain != there and text not in self._moved and place not in self.lost:
            self.lost.append(place)
        return self._moved.get(text, text)


def named(connections: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Connections by the names that nodes really have."""
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
