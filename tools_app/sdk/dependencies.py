"""Which other tools a tool needs: `"get_issue"`, `"get_issue ^1.2"`, or `"web_search?"` where it can do without.

`^1.2` takes every version from 1.2.0 on below 2.0.0, `~1.2` those below 1.3.0, `>=1.2` all from there on, and `1.2`
that one only. Parts of a version are compared as numbers; what is no version fits no range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, int, int]

_FORM: Final = re.compile(
    r"(?P<name>[a-z][a-z0-9_-]{0,63})(?P<optional>\?)?"
    r"(?:\s(?P<sign>\^|~|>=|=)?(?P<version>[0-9]{1,6}(?:\.[0-9]{1,6}){0,2}))?"
)
_VERSION: Final = re.compile(r"v?([0-9]{1,6})(?:\.([0-9]{1,6}))?(?:\.([0-9]{1,6}))?(?![0-9.])")


@dataclass(frozen=True, slots=True)
class Dependency:
    """One tool that another needs. The range is empty where every version will do."""

    name: str
    range: str = ""
    optional: bool = False
    least: Version = (0, 0, 0)
    # The first version that is too new; None where none is.
    below: Version | None = None

    @classmethod
    def read(cls, text: str) -> Dependency:
        """Raises: ValueError, with what it should look like."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f'dependency {text!r} must look like "name", "name ^1.2", "name ~1.2" or "name?"')
        name, optional, sign, version = found.group("name", "optional", "sign", "version")
        if version is None:
            return cls(name, optional=optional is not None)
        least = _parsed(version)
        assert least is not None  # noqa: S101 – the form says so
        given = version.count(".") + 1
        return cls(name, f"{sign or ''}{version}", optional is not None, least, _below(sign or "=", least, given))

    def accepts(self, version: str) -> bool:
        """Whether a version of the tool will do."""
        if not self.range:
            return True
        found = _parsed(version)
        return found is not None and self.least <= found and (self.below is None or found < self.below)

    def __str__(self) -> str:
        return f"{self.name} {self.range}".rstrip()


def _parsed(version: str) -> Version | None:
    found = _VERSION.match(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major, minor, patch


def _below(sign: str, least: Version, given: int) -> Version | None:
    major, minor, patch = least
    if sign == ">=":
        return None
    if sign == "=":
        return major, minor, patch + 1
    if sign == "~":
        return (major, minor + 1, 0) if given > 1 else (major + 1, 0, 0)
    # What stands before the first number that is not zero promises nothing.
    if major or given == 1:
        return major + 1, 0, 0
    return (0, minor + 1, 0) if minor or given == 2 else (0, 0, patch + 1)


def cycles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Names that need each other, each circle from its first name back to it. Without recursion: chains may be long."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in sorted(needs):
        path: list[str] = []
        on_path: set[str] = set()
        waiting: list[tuple[str, bool]] = [(start, False)]
        while waiting:
            name, leaving = waiting.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif name in on_path:
                found.append([*path[path.index(name) :], name])
            elif name not in done:
                path.append(name)
                on_path.add(name)
                waiting.append((name, True))
                waiting += [(needed, False) for needed in sorted(needs.get(name, ()), reverse=True)]
    return found


def circle(names: Sequence[str]) -> str:
    return f"Circular dependency detected: {' → '.join(names)}"
