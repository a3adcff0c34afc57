"""What is known of a source outside: its `Origin`, and what it lists. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """A source outside at one moment: what a connection to it depends on. Hashable; equal if nothing has changed."""

    name: str
    # A value of `Source.Kind`.
    kind: str
    epoch: int
    # How often an operator had the hub connect anew.
    reconnects: int = 0
    # URL; empty for a child process.
    location: str = ""
    # Program and arguments of a child process.
    command: tuple[str, ...] = ()
    # Whether the child process starts with the hub.
    starts_always: bool = False
    # Whether every client session has an upstream session of its own.
    per_session: bool = False
    # Whether private addresses and plain http are permitted.
    internal: bool = False
    # Client capabilities that are declared to the upstream: `elicitation`, `sampling`, `roots`.
    declares: frozenset[str] = frozenset()
    # A regular expression: results whose text matches are failures. Empty: only those that the upstream marks.
    failure_pattern: str = ""
    # The connection with which the source is described; empty: none.
    connection: str = ""

    @property
    def generation(self) -> tuple[int, int]:
        """Connections of an earlier one are ended."""
        return self.epoch, self.reconnects


@dataclass(frozen=True)
class Listing:
    """What a source outside lists, as it came over the wire: JSON objects that no model has touched."""

    tools: Sequence[Mapping[str, Any]]
    resources: Sequence[Mapping[str, Any]] = ()
    templates: Sequence[Mapping[str, Any]] = ()
    prompts: Sequence[Mapping[str, Any]] = ()
    instructions: str = ""
    # The protocol version that was negotiated.
    era: str = ""
    # Name and version of the server.
    server: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    # Names of the tools that two listings in a row described differently.
    unstable: frozenset[str] = frozenset()
