"""Names of nodes in expressions and scripts: finding them, and replacing those of renamed nodes.

n8n refers to nodes by name: `$('Node')`, `$node["Node"]`, `$node.Node`, `$items("Node")`; in Python scripts with `_`
instead of `$`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

# Parameters that are scripts; any other text is an expression if it begins with `=`.
_SCRIPTS: Final = frozenset({"jsCode", "functionCode", "pythonCode"})
_PYTHON: Final = "pythonCode"


def _pattern(sign: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w$])(?:(?P<head>{sign}(?:\(|node\s?\[|items\s?\()\s{{0,20}})"
        r"(?P<quote>['\"`])(?P<name>(?:\\.|(?!(?P=quote))[^\\\n]){1,1000}+)(?P=quote)"
        rf"|{sign}node\.(?P<plain>[A-Za-z_]\w{{0,200}}))"
    )


_JAVASCRIPT_NAMES: Final = _pattern(r"\$")
_PYTHON_NAMES: Final = _pattern("[$_]")


@dataclass(frozen=True, slots=True)
class Reference:
    """A node name in a parameter; `place` is the parameter's path."""

    place: str
    name: str
    in_script: bool


def references(parameters: Any) -> Iterator[Reference]:
    """The names of nodes in the parameters of a node."""
    for place, key, text in _texts(parameters, "parameters", ""):
        for match in _names(key).finditer(text):
            if (name := _name(match)) is not None:
                yield Reference(place, name, key in _SCRIPTS)


def renamed(parameters: Any, names: Mapping[str, str]) -> Any:
    """The parameters with new names of nodes: old names to new ones."""

    def replaced(match: re.Match[str]) -> str:
        name = _name(match)
        if name is None or name not in names:
            return match[0]
        if match["plain"]:
            quoted = names[name].replace("\\", "\\\\").replace('"', '\\"')
            return f'{match[0].partition(".")[0]}["{quoted}"]'
        quote = match["quote"]
        return (
            f"{match['head']}{quote}{names[name].replace(chr(92), chr(92) * 2).replace(quote, chr(92) + quote)}{quote}"
        )

    return _changed(parameters, "", lambda key, text: _names(key).sub(replaced, text))


def _names(key: str) -> re.Pattern[str]:
    return _PYTHON_NAMES if key == _PYTHON else _JAVASCRIPT_NAMES


def _name(match: re.Match[str]) -> str | None:
    """None for a name that is computed."""
    if match["plain"]:
        return match["plain"]
    if match["quote"] == "`" and "${" in match["name"]:
        return None
    return re.sub(r"\\(.)", r"\1", match["name"])


def _texts(value: Any, place: str, key: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        if key in _SCRIPTS or value.startswith("="):
            yield place, key, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, f"{place}.{name}", str(name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, f"{place}.{index}", "")


def _changed(value: Any, key: str, change: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return change(key, value) if key in _SCRIPTS or value.startswith("=") else value
    if isinstance(value, Mapping):
        return {name: _changed(each, str(name), change) for name, each in value.items()}
    return [_changed(each, "", change) for each in value] if isinstance(value, list) else value
