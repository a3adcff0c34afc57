"""Which names a source can use for its tools: those that no other source has recorded."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.db.models import Q

from tools_app import sources
from tools_app.models import Source, ToolRecord
from tools_app.models.sources import UPGRADED, LoadProblem
from tools_app.sdk.names import folded
from tools_app.sdk.spec import Kind, ToolSpec

log = logging.getLogger("tools_app.sources")

# Values of ToolRecord.source_kind, which other programs read.
SOURCE_KINDS: Final[Mapping[str, str]] = {Source.Kind.FOLDER: "file"}
# Kinds that are known by their name; resources are known by their URI.
NAMED: Final = (Kind.TOOL, Kind.PROMPT)


@dataclass(frozen=True, slots=True)
class Owner:
    """The tool of another source that has a name."""

    name: str
    place: str
    source: str
    is_present: bool

    def problem(self, spec: ToolSpec, row: Source) -> LoadProblem | None:
        """None if it is the same tool: several modules may contain it."""
        if self.is_present and self.source in sources.current().providers and self.place == spec.place != "":
            return None
        reason = f'{spec.kind.family.capitalize()} "{self.name}" is already registered'
        reason += f". The other one is at {self.place}" if self.place else f" by the source {self.source}"
        is_named = spec.kind is Kind.TOOL or row.is_outside
        problem = LoadProblem(spec.place or row.name, reason, spec.name if is_named else "")
        log.error("cannot load %s", problem)
        return problem


class Names:
    """Which names and aliases other sources have, for the batches of one source."""

    def __init__(self, row: Source) -> None:
        # Records of this source, and those of its kind from before an upgrade, which it can adopt.
        self.own = Q(source=row)
        if not row.is_outside:
            self.own |= Q(source=None, source_kind=SOURCE_KINDS.get(row.kind, row.kind))
            self.own |= Q(source__epoch=UPGRADED, source__kind=row.kind)
        self._is_outside = row.is_outside
        self.packs = dict(ToolRecord.objects.values_list("folded_name", "pack"))
        # Within a source, only the tools that it describes now matter; it takes care of their names itself.
        self._others = ToolRecord.everything.exclude(self.own)
        columns = "definition__body__aliases", "place", "source__name"
        present = self._others.present().filter(kind=Kind.TOOL).exclude(definition__body__aliases=[])
        self._aliases = {
            folded(alias): Owner(alias, place, source or "", True)
            for aliases, place, source in present.values_list(*columns)
            for alias in aliases or ()
        }

    def owners(self, specs: Sequence[ToolSpec]) -> dict[tuple[Kind, str], Owner]:
        """The other owner of a tool's name or alias, by kind and key of the tool. In the transaction of a batch."""
        names = {folded(name) for spec in specs if spec.kind in NAMED for name in (spec.name, *spec.aliases)}
        if self._is_outside:
            # Their resources have URIs of their own here.
            specs = [spec for spec in specs if spec.kind in NAMED]
        keys = {spec.key for spec in specs if spec.kind not in NAMED}
        columns = "kind", "folded_name", "original_name", "place", "source__name", "retired_at"
        has_key = Q(original_name__in=keys) & (Q(source=None) | ~Q(source__kind__in=Source.OUTSIDE))
        rows = self._others.filter(Q(folded_name__in=names) | has_key).values_list(*columns)
        taken = {
            (Kind(kind).family, folded_name if kind in NAMED else key): (place, source or "", retired_at is None)
            for kind, folded_name, key, place, source, retired_at in rows
        }
        owners: dict[tuple[Kind, str], Owner] = {}
        for spec in specs:
            for name in (spec.name, *spec.aliases) if spec.kind in NAMED else (spec.key,):
                identity = folded(name) if spec.kind in NAMED else name
                if (owner := taken.get((spec.kind.family, identity))) is not None:
                    owners.setdefault((spec.kind, spec.key), Owner(name, *owner))
                elif spec.kind is Kind.TOOL and (alias := self._aliases.get(identity)) is not None:
                    owners.setdefault((spec.kind, spec.key), replace(alias, name=name))
        return owners
