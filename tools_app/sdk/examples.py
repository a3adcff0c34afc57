"""Calls worth showing, which tool authors declare with their tools, and what has to come back of them.

What is expected is a part of the answer: an object may hold more than that, and in the place of a value may stand
what kind of value it is (`"<string>"`). A list has exactly the items that are expected, unless its last one is
`"<more>"`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tools_app.sdk.errors import shortened

MOST_MISMATCHES: Final = 10
MORE: Final = "<more>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "<any>": lambda value: True,
    "<string>": lambda value: isinstance(value, str),
    "<number>": _is_number,
    "<integer>": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "<boolean>": lambda value: isinstance(value, bool),
    "<array>": lambda value: isinstance(value, list),
    "<object>": lambda value: isinstance(value, dict),
}


@dataclass(frozen=True, slots=True)
class Example:
    """One call worth showing: checked against the schema when the tool is registered.

    One that is `shown_only` cannot be run as it stands, because what it asks for is not always there.
    """

    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected_result: Any = None
    shown_only: bool = False

    def as_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"description": self.description, "parameters": dict(self.parameters)}
        if self.expected_result is not None:
            shown["expectedResult"] = self.expected_result
        return shown

    def mismatches(self, answer: Any) -> list[str]:
        """Where an answer is not what is expected: the first few places, in words."""
        if self.expected_result is None:
            return []
        return list(islice(_mismatches(self.expected_result, answer, "result"), MOST_MISMATCHES))


def _mismatches(expected: Any, found: Any, place: str) -> Iterator[str]:
    if isinstance(expected, str) and expected in KINDS:
        if not KINDS[expected](found):
            yield f"{place}: expected {expected}, got {_shown(found)}"
    elif isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            yield f"{place}: expected an object, got {_shown(found)}"
            return
        for key, part in expected.items():
            if key in found:
                yield from _mismatches(part, found[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: is missing"
    elif isinstance(expected, list | tuple):
        yield from _in_list(list(expected), found, place)
    elif isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        yield f"{place}: expected {_shown(expected)}, got {_shown(found)}"


def _in_list(expected: list[Any], found: Any, place: str) -> Iterator[str]:
    if not isinstance(found, list):
        yield f"{place}: expected a list, got {_shown(found)}"
        return
    open_ended = bool(expected) and expected[-1] == MORE
    wanted = expected[:-1] if open_ended else expected
    if len(found) < len(wanted) or (len(found) > len(wanted) and not open_ended):
        more = " or more" if open_ended else ""
        yield f"{place}: expected {len(wanted)}{more} items, got {len(found)}"
        return
    for number, part in enumerate(wanted):
        yield from _mismatches(part, found[number], f"{place}[{number}]")


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 120)
