"""Which tools a caller may use. Pure: callers pass in what describes a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol


class Mode(StrEnum):
    """How agents see tools: in a list, by searching, or by searching only if the list is long."""

    DIRECT = "direct"
    SEARCH = "search"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Override:
    """Name and description of a tool within a toolset. Empty: the tool's own."""

    name: str = ""
    description: str = ""


class Effects(Protocol):
    @property
    def read_only(self) -> bool: ...
    @property
    def destroys(self) -> bool: ...


class Described(Protocol):
    """The properties of a tool by which a `Choice` selects it."""

    @property
    def folded_name(self) -> str: ...
    @property
    def pack(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def hints(self) -> Effects: ...


@dataclass(frozen=True)
class Choice:
    """The tools that match any of the selectors, or all tools if there is none. `names` are folded."""

    packs: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    read_only: bool = False
    # Empty: the hub's setting.
    mode: str = ""
    # By folded name.
    overrides: Mapping[str, Override] = field(default_factory=dict, hash=False)

    def holds(self, tool: Described) -> bool:
        if self.read_only and not tool.hints.read_only:
            return False
        return (
            not (self.packs or self.categories or self.tags or self.names)
            or tool.folded_name in self.names
            or tool.pack in self.packs
            or tool.category in self.categories
            or not self.tags.isdisjoint(tool.tags)
        )


# The connection of each pack that the environment configures. The default for callers without other connections.
ENVIRONMENT: Final = "environment"


@dataclass(frozen=True)
class Reach:
    """The scope of a caller: the tools of its toolsets (None: all tools), limited by access level, and its
    connections (None: all).

    Toolsets and connections are names, resolved at each use, so that changes take effect immediately.
    """

    toolsets: frozenset[str] | None = None
    writes: bool = True
    destroys: bool = True
    connections: frozenset[str] | None = frozenset({ENVIRONMENT})
    # Overrides the mode of toolsets and settings; empty: theirs.
    mode: str = ""

    @property
    def everything(self) -> bool:
        """Whether it has all tools, with all access levels."""
        return self.toolsets is None and self.writes and self.destroys

    def through(self, connection: str) -> bool:
        return self.connections is None or connection in self.connections

    def lacks(self, effects: Effects) -> str:
        """The missing access level for a tool with these effects: `write`, `destroy` or empty."""
        if not self.writes and not effects.read_only:
            return "write"
        return "destroy" if not self.destroys and effects.destroys else ""


EVERYWHERE: Final = Reach()
