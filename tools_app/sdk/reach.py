"""Which tools a caller may use. Pure: what is known of a tool is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol


class Mode(StrEnum):
    """How agents are shown tools: in a list, by searching, or in whichever of these ways takes less."""

    DIRECT = "direct"
    SEARCH = "search"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Override:
    """What a tool is called within a toolset, and what is said of it there. What is empty is the tool's own."""

    name: str = ""
    description: str = ""


class Effects(Protocol):
    @property
    def read_only(self) -> bool: ...
    @property
    def destroys(self) -> bool: ...


class Described(Protocol):
    """What choices are made by."""

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
    """The tools that any of the selectors fits, or all where there is none. `names` are folded."""

    packs: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    read_only: bool = False
    # Empty: as the hub does it.
    mode: str = ""
    # By folded names.
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


# The connection of each pack that the hub was started with. Everybody has it, to whom nobody gave another.
ENVIRONMENT: Final = "environment"


@dataclass(frozen=True)
class Reach:
    """What a caller may use: the tools of any of the toolsets (None: all tools), as far as they are of these kinds,
    through these connections (None: all).

    Toolsets and connections go by name. What they are is looked up when it is needed, so that a change is true at
    once.
    """

    toolsets: frozenset[str] | None = None
    writes: bool = True
    destroys: bool = True
    connections: frozenset[str] | None = frozenset({ENVIRONMENT})
    # How the tools are shown, whatever toolsets and settings say; empty: as these say.
    mode: str = ""

    @property
    def everything(self) -> bool:
        """All tools, of all kinds."""
        return self.toolsets is None and self.writes and self.destroys

    def through(self, connection: str) -> bool:
        return self.connections is None or connection in self.connections

    def lacks(self, effects: Effects) -> str:
        """What is missing to use a tool that does this to the world: `write`, `destroy` or nothing."""
        if not self.writes and not effects.read_only:
            return "write"
        return "destroy" if not self.destroys and effects.destroys else ""


EVERYWHERE: Final = Reach()
