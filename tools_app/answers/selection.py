"""A part of a result: only the members that a caller asked for, each in its place.

The paths are JSON pointers, in which `*` stands for every item of a list or every member of an object; a plain key is
one at the top. Bounded by the size of the result: each of its values is visited at most once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tools_app.answers import pointers
from tools_app.answers.filters import MOST_FIELDS

EACH: Final = "*"
# Names of members that a message lists of one place.
_MOST_NAMES: Final = 40
_ABSENT: Final = object()


class SelectionError(ValueError):
    """A path cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A path of which the result has nothing: how far it leads, the name that is not there, and those that are."""

    path: str
    reached: str
    name: str
    names: Sequence[str]


@dataclass(slots=True)
class _Step:
    """What is selected below one place: everything, or some of its members."""

    paths: list[str] = field(default_factory=list)
    members: dict[str, _Step] = field(default_factory=dict)
    is_reached: bool = False
    # A value that says nothing about its members: null, or a list without items.
    is_open: bool = False
    names: dict[str, None] = field(default_factory=dict)


def check_paths(paths: Sequence[str]) -> None:
    """Raises: SelectionError."""
    _tree(paths)


def selected(value: Any, paths: Sequence[str]) -> tuple[Any, list[Missing]]:
    """The parts of a JSON value at these paths, and the paths that lead nowhere.

    Raises:
        SelectionError: a path is not valid.
    """
    root = _tree(paths)
    part = _part(value, root)
    return ({} if part is _ABSENT else part), list(_missing(root, ""))


def _tree(paths: Sequence[str]) -> _Step:
    if not 1 <= len(paths) <= MOST_FIELDS:
        raise SelectionError(f"expected 1 to {MOST_FIELDS} paths")
    root = _Step()
    for path in paths:
        try:
            steps = pointers.parts(path) if path.startswith("/") else [path]
        except pointers.PointerError as error:
            raise SelectionError(f"a path {error}") from error
        step = root
        for name in steps:
            step = step.members.setdefault(name, _Step())
        step.paths.append(path)
    return root


def _part(value: Any, step: _Step | None) -> Any:
    if step is None:
        return _ABSENT
    step.is_reached = True
    if step.paths:
        return value
    if isinstance(value, dict):
        step.names.update(dict.fromkeys(islice(value, _MOST_NAMES)))
        return _members(value, step)
    if isinstance(value, list):
        step.names[EACH] = None
        step.is_open = step.is_open or not value
        members = {str(index): item for index, item in enumerate(value)}
        return list(_members(members, step).values())
    step.is_open = step.is_open or value is None
    return _ABSENT


def _members(value: Mapping[str, Any], step: _Step) -> dict[str, Any]:
    each = step.members.get(EACH)
    names = value if each is not None else [name for name in step.members if name in value]
    parts = ((name, _part(value[name], step.members.get(name, each))) for name in names)
    return {name: part for name, part in parts if part is not _ABSENT}


def _missing(step: _Step, reached: str) -> Iterator[Missing]:
    if step.paths or step.is_open:
        return
    for name, member in step.members.items():
        place = pointers.joined(reached, name)
        if member.is_reached:
            yield from _missing(member, place)
        else:
            for path in _paths(member):
                yield Missing(path, reached, name, list(step.names))


def _paths(step: _Step) -> list[str]:
    return [*step.paths, *(path for member in step.members.values() for path in _paths(member))]
