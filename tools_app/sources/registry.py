"""The tools, prompts and resources of one source, as this process has loaded their code."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from tools_app.models.sources import LoadProblem
from tools_app.sdk.names import DefinitionError, folded
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sdk.tool import Tool

MAX_TOOLS: Final = 20_000
MAX_OFFERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tool, prompt or resource with its code."""

    declared: Tool | Offer
    pack: str

    @property
    def spec(self) -> ToolSpec:
        return self.declared.spec


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
    """The code of one source, by kind and key. Thread-safe."""

    def __init__(self, known: Collection[LoadProblem] = ()) -> None:
        """`known` are problems that were reported earlier."""
        self._known = known
        self._tools: dict[str, Loaded] = {}
        self._names: dict[str, str] = {}
        self._offers: dict[tuple[str, str], Loaded] = {}
        self._problems: list[LoadProblem] = []
        self.packs: list[Pack] = []
        self._lock = threading.Lock()

    def add(self, tool: Tool, *, pack: str = "", overwrite: bool = False) -> None:
        """Register a tool. `pack` is for a tool without a pack of its own.

        Raises:
            RegistrationError: its name or an alias is taken (`overwrite` replaces a tool with exactly that name).
        """
        with self._lock:
            if len(self._tools) >= MAX_TOOLS:
                raise RegistrationError(f"More than {MAX_TOOLS} tools", tool.place)
            key = folded(tool.name)
            names = {folded(name): name for name in (tool.name, *tool.aliases)}
            for name, spelled in names.items():
                owner = self._names.get(name)
                if owner is not None and not (overwrite and owner == key):
                    by = self._tools[owner].declared.place
                    raise RegistrationError.taken(f'Tool "{spelled}"', tool.place, by)
            self._forget(key)
            self._tools[key] = Loaded(tool, tool.pack.name if tool.pack else pack)
            self._names |= dict.fromkeys(names, key)

    def offer(self, offer: Offer, *, pack: str = "") -> None:
        """Register a prompt or a resource. `pack` is for one without a pack of its own.

        Raises:
            RegistrationError: there is another with this name, or at this URI.
        """
        with self._lock:
            key = _offer_key(offer.kind, offer.key)
            existing = self._offers.get(key)
            if existing is not None and existing.declared is offer:
                return  # Several modules may contain the same one.
            if existing is not None:
                what = f'{offer.kind.capitalize()} "{offer.key}"'
                raise RegistrationError.taken(what, offer.place, existing.declared.place)
            if len(self._offers) >= MAX_OFFERS:
                raise RegistrationError(f"More than {MAX_OFFERS} prompts and resources", offer.place)
            self._offers[key] = Loaded(offer, offer.pack.name if offer.pack else pack)

    def remove(self, name: str) -> bool:
        """Unregister a tool; False if there is none."""
        with self._lock:
            key = self._names.get(folded(name))
            if key is None:
                return False
            self._forget(key)
            return True

    def report(self, problem: LoadProblem) -> bool:
        """Record a load problem for operators. False: it is known already."""
        with self._lock:
            if problem in self._problems:
                return False
            self._problems.append(problem)
            return problem not in self._known

    def get(self, name: str) -> Loaded | None:
        """A tool by name or alias; `a-b` finds `a_b`."""
        key = self._names.get(folded(name))
        return self._tools.get(key) if key is not None else None

    def find(self, kind: Kind, key: str) -> Loaded | None:
        """By the identifier within this source."""
        if kind is Kind.TOOL:
            loaded = self._tools.get(folded(key))
            return loaded if loaded is not None and loaded.spec.name == key else None
        loaded = self._offers.get(_offer_key(kind, key))
        return loaded if loaded is not None and loaded.spec.key == key else None

    @property
    def offers(self) -> list[Loaded]:
        """Prompts and resources, in order of registration."""
        return list(self._offers.values())

    @property
    def problems(self) -> list[LoadProblem]:
        return list(self._problems)

    def __iter__(self) -> Iterator[Loaded]:
        """The tools, ordered by name."""
        return iter(sorted(self._tools.values(), key=lambda loaded: loaded.spec.name))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def _forget(self, key: str) -> None:
        if self._tools.pop(key, None) is not None:
            self._names = {name: owner for name, owner in self._names.items() if owner != key}


def _offer_key(kind: Kind, key: str) -> tuple[str, str]:
    return kind.family, folded(key) if kind is Kind.PROMPT else key
