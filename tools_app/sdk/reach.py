"""Which tools a caller may use. Pure: callers pass in what describes a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from tools_app.sdk.budgets import Budget


class Mode(StrEnum):
    """How agents see tools: in a list, by searching, or by searching only if the list is long."""

    DIRECT = "direct"
    SEARCH = "search"
    AUTO = "auto"


class Detail(StrEnum):
    """How much agents read of a listed tool: its definition, or that without what they do not need; the shortest form
    also without the form of its answers and without labels."""

    FULL = "full"
    LEAN = "lean"
    MINIMAL = "minimal"


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
    @property
    def is_outside(self) -> bool: ...


class Shared(Protocol):
    """The properties of an account by which a `Reach` includes it."""

    @property
    def name(self) -> str: ...
    @property
    def is_per_user(self) -> bool: ...


@dataclass(frozen=True)
class Choice:
    """The tools that match any of the selectors, or all tools of this hub if there is none: those of sources outside
    must be selected. `names` are folded."""

    packs: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    read_only: bool = False
    # Empty: the hub's setting.
    mode: str = ""
    detail: str = ""
    # By folded name.
    overrides: Mapping[str, Override] = field(default_factory=dict, hash=False)
    # For all calls through it, by whichever caller.
    budget: Budget | None = None

    def holds(self, tool: Described) -> bool:
        if self.read_only and not tool.hints.read_only:
            return False
        return (
            (not (self.packs or self.categories or self.tags or self.names) and not tool.is_outside)
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
    # Whether tools of sources outside are included. Not for agents without toolsets: a server that an operator adds
    # would reach each of them. That also holds for a toolset that such an agent chooses itself, by a URL.
    outside: bool = True
    # Whether connections are included in which every caller has a sign-in of its own: they give it nothing of others.
    signs_in: bool = False

    @property
    def everything(self) -> bool:
        """Whether it has all tools of this hub, with all access levels."""
        return self.toolsets is None and self.writes and self.destroys

    def includes(self, tool: Described, choices: Iterable[Choice]) -> bool:
        """Whether a tool exists for this caller. `choices` are those of its toolsets."""
        if tool.is_outside and not self.outside:
            return False
        return self.toolsets is None or any(choice.holds(tool) for choice in choices)

    def through(self, account: Shared) -> bool:
        """Whether this caller may use an account."""
        if self.connections is None or account.name in self.connections:
            return True
        return self.signs_in and account.is_per_user

    def lacks(self, effects: Effects) -> str:
        """The missing access level for a tool with these effects: `write`, `destroy` or empty."""
        if not self.writes and not effects.read_only:
            return "write"
        return "destroy" if not self.destroys and effects.destroys else ""


EVERYWHERE: Final = Reach()
