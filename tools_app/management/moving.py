"""Moving the servers of a client behind the hub: one entry, with a toolset of their sources, replaces theirs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tools_app import governance
from tools_app.governance.imports import Outcome, PlannedSource, is_own_entry
from tools_app.management.config_file import ConfigFile
from tools_app.management.connect_plan import ConnectPlan, proof_of
from tools_app.management.hub_command import REFUSED, Abort
from tools_app.models import Connection, Source, ToolRecord, Toolset
from tools_app.setup.clients import Machine, McpClient
from tools_app.text import redaction


@dataclass(frozen=True)
class MoveResult:
    """What a move did, in sentences as well."""

    entry_name: str
    toolset: str
    backup: Path
    lines: list[str]


@dataclass(frozen=True)
class Move:
    """The servers of a client that are sources now, and the entry that replaces them."""

    client: McpClient
    file: ConfigFile
    entry_name: str
    toolset: str
    planned: Sequence[PlannedSource]
    # The servers of the file, as they were read for the import.
    entries: Mapping[str, Any]

    @cached_property
    def moved(self) -> list[PlannedSource]:
        return [one for one in self.planned if one.outcome in (Outcome.ADDED, Outcome.EXISTS)]

    @property
    def names(self) -> list[str]:
        """The servers, by their names in the file."""
        return [one.entry for one in self.moved]

    @property
    def sources(self) -> list[str]:
        return sorted({one.name for one in self.moved})

    @cached_property
    def _connections(self) -> list[str]:
        """The accounts with which the client called these servers."""
        rows = Connection.objects.filter(pack__in=self.sources).order_by("name")
        return list(rows.values_list("name", flat=True))

    @property
    def _options(self) -> list[str]:
        """Those of `toolhub connect` for the same entry."""
        connections = [word for name in self._connections for word in ("--connection", name)]
        return [*self._place, "--toolset", self.toolset, *connections]

    @property
    def _place(self) -> list[str]:
        usual = self.client.user_file(Machine.this()) if self.client.user_file is not None else None
        return [] if self.file.path == usual else ["--file", str(self.file.path)]

    def make(self, *, checks: bool, reason: str) -> MoveResult:
        """Write the file. If the hub cannot be reached through the new entry, nothing is changed.

        Raises:
            ConfigFileError, Abort
            ToolError: the toolset cannot be created.
        """
        entries = self.file.entries()
        own = next((name for name, entry in entries.items() if is_own_entry(entry)), None)
        if own is None and self.entry_name in entries and self.entry_name not in self.names:
            raise Abort(f"{self.entry_name!r} in {self.file.path} is another server. Choose another --name", REFUSED)
        lines: list[str] = []
        with ExitStack() as undo:
            self._provide_toolset(undo, lines, reason)
            entry = None
            if own is None:
                names = self._connections
                plan = ConnectPlan(
                    self.client, self.file, self.entry_name, None, [self.toolset], read_only=False, mode="",
                    connections=names or None,
                )  # fmt: skip
                entry = plan.entry("")
                if checks:
                    lines.append(proof_of(entry))
            else:
                words = shlex.join(["toolhub", "connect", self.client.name, "--name", own, *self._options])
                lines.append(
                    f"The hub is in the file already; its entry stays as it is. To give it the sources: {words}"
                )
            servers = {name: self.entries[name] for name in self.names}
            is_private = entry is not None and redaction.redacted(entry) != entry
            backup = self.file.move(servers, self.entry_name, entry, private=is_private)
            undo.pop_all()
        name = own or self.entry_name
        head = f"Moved behind the hub in {self.file.path}: {', '.join(self.names)}. Its entry is {name!r}."
        return MoveResult(
            name, self.toolset, backup, [head, *(f"  {line}" for line in [*lines, *self._next_steps(backup)])]
        )

    def _provide_toolset(self, undo: ExitStack, lines: list[str], reason: str) -> None:
        """The client reaches sources through a toolset only."""
        actor = governance.of_command()
        toolset = Toolset.objects.filter(name=self.toolset).first()
        if toolset is None:
            governance.create_toolset(
                self.toolset, packs=self.sources, actor=actor, reason=reason or "import",
                description=f"Sources imported from {self.client.title}",
            )  # fmt: skip
            undo.callback(governance.delete_toolset, self.toolset, actor=actor, reason="moving failed")
            lines.append(f"Its toolset {self.toolset!r} has these sources: {', '.join(self.sources)}.")
        elif lacking := [name for name in self.sources if name not in toolset.packs]:
            lines.append(f"The toolset {self.toolset!r} does not select these sources: {', '.join(lacking)}.")

    def _next_steps(self, backup: Path) -> list[str]:
        rows = ToolRecord.objects.present().filter(source__name__in=self.sources, enabled=True)
        serving = set(rows.filter(definition__approved_at__isnull=False).values_list("source__name", flat=True))
        serving &= set(Source.objects.filter(enabled=True).values_list("name", flat=True))
        words = shlex.join(["toolhub", "import", self.client.name, *self._place, "--undo"])
        steps = [f"Backup, with the secrets of these servers: {backup}", f"To take it back: {words}"]
        if waiting := [name for name in self.sources if name not in serving]:
            steps.append(
                f"Without tools until you switch them on and approve their tools: {', '.join(waiting)} "
                "(toolhub source on NAME, toolhub source approve NAME --enable)."
            )
        return [*steps, self.client.next_step]
