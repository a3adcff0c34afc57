"""The tools of this process: in memory, by name, with their origin.

Operators' decisions about them are in the database; `catalog` combines the two.
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
    """The kind of source of a tool. Each approves itself unless TOOLHUB_SOURCES_TO_APPROVE names it."""

    SHIPPED = "shipped"
    PLUGIN = "plugin"
    APP = "app"
    FILE = "file"
    CODE = "code"


MAX_TOOLS: Final = 20_000
MAX_OFFERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tool loaded in this process."""

    tool: Tool
    origin: Origin
    pack: str


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """Something that could not be loaded: its location, the reason, and the tool if known."""

    place: str
    reason: str
    tool: str = ""

    def keeps_out(self, name: str, place: str) -> bool:
        """True if this problem explains why the tool `name`, last seen at `place`, is missing."""
        broken = self.place.rpartition(":")[0] if self.place[-1:].isdigit() else self.place
        file = place.rpartition(":")[0]
        return self.tool == name or file == broken or file.startswith(f"{broken.removesuffix('/__init__.py')}/")

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class RegistrationError(DefinitionError):
    """A tool conflicts with one that is registered already."""

    @classmethod
    def taken(cls, what: str, place: str, by: str) -> RegistrationError:
        """The documented message, which does not mention the other tool: its location is a note."""
        error = cls(f"{what} is already registered", place)
        if by:
            error.add_note(f"The other one is at {by}")
        return error


class Registry:
    """Tools by name. Reads need no lock: every change replaces the whole mapping (copy-on-write)."""

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
        """Register a tool. `pack` is for a tool without a pack of its own.

        Raises:
            RegistrationError: its name or an alias is taken (`overwrite` replaces a tool with exactly that name).
        """
        entry = Loaded(tool, origin, tool.pack.name if tool.pack else pack)
        with self._lock:
            if len(self._tools) >= MAX_TOOLS:
                raise RegistrationError(f"More than {MAX_TOOLS} tools", tool.place)
            key = tool.folded_name
            tools, names = dict(self._tools), dict(self._names)
            if overwrite and key in tools:
                self._forget(key, tools, names)
            for name in (tool.name, *tool.aliases):
                owner = names.setdefault(folded(name), key)
                if owner in tools:
                    raise RegistrationError.taken(f'Tool "{name}"', tool.place, tools[owner].tool.place)
            tools[key] = entry
            self._swap(tools, names)

    def offer(self, offer: Offer, *, pack: str = "") -> None:
        """Register a prompt or a resource. `pack` is for one without a pack of its own.

        Raises:
            RegistrationError: there is another with this name, or at this URI.
        """
        with self._lock:
            key = offer.kind, offer.key
            existing, _ = self._offers.get(key, (None, ""))
            if existing is offer:
                return  # Several modules may contain the same one.
            if existing is not None:
                raise RegistrationError.taken(f'{offer.kind.capitalize()} "{offer.key}"', offer.place, existing.place)
            if len(self._offers) >= MAX_OFFERS:
                raise RegistrationError(f"More than {MAX_OFFERS} prompts and resources", offer.place)
            self._offers = {**self._offers, key: (offer, offer.pack.name if offer.pack else pack)}
            self.generation += 1

    def remove(self, name: str) -> bool:
        """Unregister a tool; False if there is none."""
        with self._lock:
            key = self._names.get(folded(name))
            if key is None:
                return False
            tools, names = dict(self._tools), dict(self._names)
            self._forget(key, tools, names)
            self._swap(tools, names)
            return True

    def rest(self, pack: Pack, module: str) -> None:
        """Register a pack without its tools; `module` is imported when they are needed."""
        with self._lock:
            self._resting = {**self._resting, pack.name: (pack, module)}

    def woken(self, pack: str) -> str:
        """End the rest of a pack and return the module of its tools; empty if it does not rest."""
        with self._lock:
            _, module = self._resting.get(pack, (None, ""))
            self._resting = {name: resting for name, resting in self._resting.items() if name != pack}
        return module

    @property
    def resting(self) -> Mapping[str, Pack]:
        """Packs whose tools are not loaded, by name."""
        return {name: pack for name, (pack, _) in self._resting.items()}

    def without(self, origin: Origin, offers: Collection[Offer], problems: Collection[LoadProblem]) -> Registry:
        """A copy without the tools of an origin, and without these offers and problems."""
        copy = Registry()
        with self._lock:
            copy._tools = {key: entry for key, entry in self._tools.items() if entry.origin is not origin}
            copy._names = {name: key for name, key in self._names.items() if key in copy._tools}
            copy._offers = {key: item for key, item in self._offers.items() if item[0] not in offers}
            copy._known = problems
            copy._resting = self._resting
            copy._problems = [problem for problem in self._problems if problem not in problems]
        return copy

    def become(self, other: Registry, since: int) -> bool:
        """Atomically replace the contents with `other`'s; False if modified since `since`."""
        with self._lock:
            if self.generation != since:
                return False
            self._offers, self._problems = other._offers, other._problems
            self._swap(other._tools, other._names)
            return True

    def report(self, problem: LoadProblem) -> bool:
        """Record a load problem for operators. False: it is known already."""
        with self._lock:
            if problem in self._problems:
                return False
            self._problems.append(problem)
            return problem not in self._known

    def get(self, name: str) -> Loaded | None:
        """By name or alias; `a-b` finds `a_b`."""
        key = self._names.get(folded(name))
        return self._tools.get(key) if key is not None else None

    @property
    def offers(self) -> list[tuple[Offer, str]]:
        """Prompts and resources with their pack's name, in order of registration."""
        return list(self._offers.values())

    @property
    def problems(self) -> list[LoadProblem]:
        return list(self._problems)

    def __iter__(self) -> Iterator[Loaded]:
        """Ordered by name."""
        return iter(sorted(self._tools.values(), key=lambda entry: entry.tool.name))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    @staticmethod
    def _forget(key: str, tools: dict[str, Loaded], names: dict[str, str]) -> None:
        del tools[key]
        for name in [name for name, target in names.items() if target == key]:
            del names[name]

    def _swap(self, tools: dict[str, Loaded], names: dict[str, str]) -> None:
        self._tools, self._names = tools, names
        self.generation += 1
