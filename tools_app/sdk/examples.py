"""Example calls that authors declare with their tools, and the expected results.

The expected result is a partial match: objects in the answer can have more keys, and `"<string>"` and the like match
every value of that type. A list must have exactly the expected items, unless the last one is `"<more>"`.
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
    """An example call: checked against the schema when the tool is registered.

    `shown_only`: `checktools` does not run it, because its data does not always exist.
    """

    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected_result: Any = None
    shown_only: bool = False

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Example:
        return cls(data["description"], data["parameters"], data.get("expectedResult"))

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"description": self.description, "parameters": dict(self.parameters)}
        if self.expected_result is not None:
            fields["expectedResult"] = self.expected_result
        return fields

    def mismatches(self, answer: Any) -> list[str]:
        """The first differences between an answer and the expected result, in words."""
        if self.expected_result is None:
            return []
        return list(islice(_mismatches(self.expected_result, answer, "result"), MOST_MISMATCHES))


def _mismatches(expected: Any, actual: Any, place: str) -> Iterator[str]:
    if isinstance(expected, str) and expected in KINDS:
        if not KINDS[expected](actual):
            yield f"{place}: expected {expected}, got {_json(actual)}"
    elif isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            yield f"{place}: expected an object, got {_json(actual)}"
            return
        for key, part in expected.items():
            if key in actual:
                yield from _mismatches(part, actual[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: is missing"
    elif isinstance(expected, list | tuple):
        yield from _in_list(list(expected), actual, place)
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        yield f"{place}: expected {_json(expected)}, got {_json(actual)}"


def _in_list(expected: list[Any], actual: Any, place: str) -> Iterator[str]:
    if not isinstance(actual, list):
        yield f"{place}: expected a list, got {_json(actual)}"
        return
    open_ended = bool(expected) and expected[-1] == MORE
    items = expected[:-1] if open_ended else expected
    if len(actual) < len(items) or (len(actual) > len(items) and not open_ended):
        more = " or more" if open_ended else ""
        yield f"{place}: expected {len(items)}{more} items, got {len(actual)}"
        return
    for number, part in enumerate(items):
        yield from _mismatches(part, actual[number], f"{place}[{number}]")


def _json(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 120)
