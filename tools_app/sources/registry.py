"""The tools that this process has: in memory, by name, with where each came from.

What operators decide about them is in the database, and what may be called is the `catalog`'s business.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tools_app.sdk.names import DefinitionError, folded
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.tool import Tool


class Origin(StrEnum):
    """Which kind of source a tool came from. Each approves itself unless TOOLHUB_SOURCES_TO_APPROVE names it."""

    SHIPPED = "shipped"
    PLUGIN = "plugin"
    APP = "app"
    FILE = "file"
    CODE = "code"


MAX_TOOLS: Final = 20_000
MAX_OFFERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tool as this process has it."""

    tool: Tool
    origin: Origin
    pack: str


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """Something that could not be loaded: where, why, and which tool it would have been."""

    place: str
    reason: str
    tool: str = ""

    def keeps_out(self, name: str, place: str) -> bool:
        """Whether this is why the tool `name`, last seen at `place`, is not there."""
        broken = self.place.rpartition(":")[0] if self.place[-1:].isdigit() else self.place
        file = place.rpartition(":")[0]
        return self.tool == name or file == broken or file.startswith(f"{broken.removesuffix('/__init__.py')}/")

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class RegistrationError(DefinitionError):
    """A tool cannot be registered because of the tools that are there already."""

    @classmethod
    def taken(cls, what: str, place: str, by: str) -> RegistrationError:
        """In the documents' words, which say nothing of the other one: its place is a note."""
        error = cls(f"{what} is already registered", place)
        if by:
            error.add_note(f"The other one is at {by}")
        return error


class Registry:
    """Tools by name. Reading needs no lock: every change swaps the whole mapping."""

    def __init__(self) -> None:
        self._tools: dict[str, Loaded] = {}
        self._names: dict[str, str] = {}
        self._offers: dict[tuple[str, str], tuple[Offer, str]] = {}
        self._problems: list[LoadProblem] = []
        self._resting: dict[str, tuple[Pack, str]] = {}
        self._known: Collection[LoadProblem] = ()
        self._lock = threading.Lock()
        self.generation = 0

    def add(self, tool: Tool, origin: Origin = Origin.CODE, *, pack: str = "", overwrite: bool = False) -> None:
        """Make a tool available in this process. `pack` is where a tool without a pack of its own belongs.

        Raises:
            RegistrationError: its name, or an alias, is taken (`overwrite` replaces a tool of exactly that name).
        """
        entry = Loaded(tool, origin, tool.pack.name if tool.pack else pack)
        with self._lock:
            if len(self._tools) >= MAX_TOOLS:
                raise RegistrationError(f"More than {MAX_TOOLS} tools", tool.place)
            own = tool.folded_name
            tools, names = dict(self._tools), dict(self._names)
            if overwrite and own in tools:
                self._forget(own, tools, names)
            for name in (tool.name, *tool.aliases):
                taken = names.setdefault(folded(name), own)
                if taken in tools:
                    raise RegistrationError.taken(f'Tool "{name}"', tool.place, tools[taken].tool.place)
            tools[own] = entry
            self._swap(tools, names)

    def offer(self, offer: Offer, *, pack: str = "") -> None:
        """Have a prompt or a resource in this process. `pack` is where one without a pack of its own belongs.

        Raises:
            RegistrationError: there is another of this name, or at this URI.
        """
        with self._lock:
            key = offer.kind, offer.key
            known, _ = self._offers.get(key, (None, ""))
            if known is offer:
                return  # Several modules may hold the same one.
            if known is not None:
                raise RegistrationError.taken(f'{offer.kind.capitalize()} "{offer.key}"', offer.place, known.place)
            if len(self._offers) >= MAX_OFFERS:
                raise RegistrationError(f"More than {MAX_OFFERS} prompts and resources", offer.place)
            self._offers = {**self._offers, key: (offer, offer.pack.name if offer.pack else pack)}
            self.generation += 1

    def remove(self, name: str) -> bool:
        """Take a tool away; False where there was none."""
        with self._lock:
            own = self._names.get(folded(name))
            if own is None:
                return False
            tools, names = dict(self._tools), dict(self._names)
            self._forget(own, tools, names)
            self._swap(tools, names)
            return True

    def rest(self, pack: Pack, module: str) -> None:
        """Have a pack without its tools; `module` is where they come from when there is use for them."""
        with self._lock:
            self._resting = {**self._resting, pack.name: (pack, module)}

    def woken(self, pack: str) -> str:
        """Let a pack rest no longer, and tell where its tools come from; empty where it does not rest."""
        with self._lock:
            _, module = self._resting.get(pack, (None, ""))
            self._resting = {name: kept for name, kept in self._resting.items() if name != pack}
        return module

    @property
    def resting(self) -> Mapping[str, Pack]:
        """The packs whose tools are not loaded, by name."""
        return {name: pack for name, (pack, _) in self._resting.items()}

    def without(self, origin: Origin, offers: Collection[Offer], problems: Collection[LoadProblem]) -> Registry:
        """A copy in which all tools of an origin, and these offers and problems, are missing."""
        copy = Registry()
        with self._lock:
            copy._tools = {own: entry for own, entry in self._tools.items() if entry.origin is not origin}
            copy._names = {name: own for name, own in self._names.items() if own in copy._tools}
            copy._offers = {key: known for key, known in self._offers.items() if known[0] not in offers}
            copy._known = problems
            copy._resting = self._resting
            copy._problems = [problem for problem in self._problems if problem not in problems]
        return copy

    def become(self, other: Registry, since: int) -> bool:
        """Hold what another one holds, all at once. False: something has changed here since that generation."""
        with self._lock:
            if self.generation != since:
                return False
            self._offers, self._problems = other._offers, other._problems
            self._swap(other._tools, other._names)
            return True

    def report(self, problem: LoadProblem) -> bool:
        """Remember what could not be loaded, for the operator. False: that is no news."""
        with self._lock:
            if problem in self._problems:
                return False
            self._problems.append(problem)
            return problem not in self._known

    def get(self, name: str) -> Loaded | None:
        """By name or alias; `a-b` finds `a_b`."""
        own = self._names.get(folded(name))
        return self._tools.get(own) if own is not None else None

    @property
    def offers(self) -> list[tuple[Offer, str]]:
        """Prompts and resources, each with the name of its pack, in the order in which they came."""
        return list(self._offers.values())

    @property
    def problems(self) -> list[LoadProblem]:
        return list(self._problems)

    def __iter__(self) -> Iterator[Loaded]:
        """In the order of their names."""
        return iter(sorted(self._tools.values(), key=lambda entry: entry.tool.name))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    @staticmethod
    def _forget(own: str, tools: dict[str, Loaded], names: dict[str, str]) -> None:
        del tools[own]
        for name in [name for name, target in names.items() if target == own]:
            del names[name]

    def _swap(self, tools: dict[str, Loaded], names: dict[str, str]) -> None:
        self._tools, self._names = tools, names
        self.generation += 1
