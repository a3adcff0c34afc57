"""Which other tools a tool needs: `"get_issue"`, `"get_issue ^1.2"`, or `"web_search?"` if optional.

`^1.2` accepts versions from 1.2.0 to below 2.0.0, `~1.2` those below 1.3.0, `>=1.2` all from 1.2.0, and `1.2` only
that one. Parts of a version are compared as numbers; a text that is not a version is outside of every range.
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
    """A tool that another one needs. The range is empty if every version is accepted."""

    name: str
    range: str = ""
    optional: bool = False
    least: Version = (0, 0, 0)
    # The first version that is too new; None if there is no upper limit.
    below: Version | None = None

    @classmethod
    def read(cls, text: str) -> Dependency:
        """Raises: ValueError, with the accepted forms."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f'dependency {text!r} must look like "name", "name ^1.2", "name ~1.2" or "name?"')
        name, optional, sign, version = match.group("name", "optional", "sign", "version")
        if version is None:
            return cls(name, optional=optional is not None)
        least = _parsed(version)
        assert least is not None  # noqa: S101 – _FORM matches versions only
        parts = version.count(".") + 1
        return cls(name, f"{sign or ''}{version}", optional is not None, least, _below(sign or "=", least, parts))

    def accepts(self, version: str) -> bool:
        """Whether a version of the tool is in the range."""
        if not self.range:
            return True
        numbers = _parsed(version)
        return numbers is not None and self.least <= numbers and (self.below is None or numbers < self.below)

    def __str__(self) -> str:
        return f"{self.name} {self.range}".rstrip()


def _parsed(version: str) -> Version | None:
    match = _VERSION.match(version)
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major, minor, patch


def _below(sign: str, least: Version, parts: int) -> Version | None:
    major, minor, patch = least
    if sign == ">=":
        return None
    if sign == "=":
        return major, minor, patch + 1
    if sign == "~":
        return (major, minor + 1, 0) if parts > 1 else (major + 1, 0, 0)
    # With a caret, the leftmost number that is not zero has to stay the same.
    if major or parts == 1:
        return major + 1, 0, 0
    return (0, minor + 1, 0) if minor or parts == 2 else (0, 0, patch + 1)


def cycles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Cycles of dependencies, each from its first name back to it. Without recursion, since chains can be long."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in sorted(needs):
        path: list[str] = []
        on_path: set[str] = set()
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            name, leaving = pending.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif name in on_path:
                circles.append([*path[path.index(name) :], name])
            elif name not in done:
                path.append(name)
                on_path.add(name)
                pending.append((name, True))
                pending += [(needed, False) for needed in sorted(needs.get(name, ()), reverse=True)]
    return circles


def circle(names: Sequence[str]) -> str:
    return f"Circular dependency detected: {' → '.join(names)}"
