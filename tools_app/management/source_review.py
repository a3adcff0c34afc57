"""What waits for approval in many sources at once, and the approval of exactly what was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

from tools_app import governance
from tools_app.catalog import catalog, listed
from tools_app.governance import Actor
from tools_app.governance.approvals import WaitingVersion
from tools_app.governance.source_checks import shown_command
from tools_app.management.tables import aligned
from tools_app.models import Definition, Source
from tools_app.sdk.errors import shortened
from tools_app.sdk.names import folded

MOST_DESCRIPTION: Final = 100
_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True)
class ReviewedVersion:
    source: Source
    version: WaitingVersion
    description: str
    tokens: int

    @property
    def tool(self) -> str:
        return self.version.definition.tool.label

    @property
    def findings(self) -> Sequence[str]:
        return list(self.version.definition.findings)

    @property
    def change(self) -> str:
        return "changed" if self.version.is_change else "new"

    @property
    def claim(self) -> str:
        """What it says about its calls, as `source preview` puts it. Without a claim, the worst is assumed."""
        claims = self.version.claims
        if claims["read_only"]:
            return "read"
        return {None: "-", True: "destructive", False: "write"}[claims["destructive"]]

    @property
    def row(self) -> tuple[str, ...]:
        words = shortened(" ".join(self.description.split()), MOST_DESCRIPTION)
        return (f"  {self.change}", self.tool, self.claim, f"{self.tokens:,}", words)

    @property
    def data(self) -> dict[str, Any]:
        names = {"source": self.source.name, "tool": self.tool, "change": self.change}
        return {
            **names,
            "claims": dict(self.version.claims),
            "tokens": self.tokens,
            "findings": list(self.findings),
            "description": self.description,
        }


@dataclass(frozen=True)
class Review:
    """Versions that wait. Those whose wording could mislead an agent are shown, and approved by name only."""

    versions: Sequence[ReviewedVersion]

    @classmethod
    def of(cls, sources: Sequence[Source], patterns: Sequence[str]) -> Review:
        """What waits in these sources, of the tools whose names match one of the patterns; without patterns, of all."""
        costs = listed.costs(catalog.current())
        found = []
        for source in sources:
            waiting = [
                version
                for version in governance.waiting_versions(source)
                if not patterns or _matches(version.definition.tool.label, patterns)
            ]
            rows = Definition.objects.in_bulk([version.definition.pk for version in waiting])
            for version in waiting:
                description = str(rows[version.definition.pk].body.get("description") or "")
                tokens = costs.get(version.definition.tool.name, 0)
                found.append(ReviewedVersion(source, version, description, tokens))
        return cls(found)

    @cached_property
    def clean_versions(self) -> list[ReviewedVersion]:
        return [one for one in self.versions if not one.findings]

    @property
    def code(self) -> str:
        """What an approval of exactly these versions names."""
        parts = [f"{one.version.definition.pk}:{one.version.definition.hash}" for one in self.clean_versions]
        return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:_CHARACTERS]

    def approve(self, *, enable: bool, accept_hints: bool, actor: Actor, reason: str) -> dict[str, list[str]]:
        """Approve them, each source in one transaction. Returns the tools by source.

        A version that its source has replaced in this moment is not approved.

        Raises:
            ToolError
        """
        by_source: dict[str, list[int]] = {}
        for one in self.clean_versions:
            by_source.setdefault(one.source.name, []).append(one.version.definition.pk)
        return {
            name: governance.approve_tools(
                name, definitions=pks, enable=enable, accept_hints=accept_hints, actor=actor, reason=reason
            )
            for name, pks in by_source.items()
        }

    @property
    def lines(self) -> list[str]:
        if not self.versions:
            return ["Nothing waits for approval."]
        lines: list[str] = []
        for source in {one.source.name: one.source for one in self.versions}.values():
            own = [one for one in self.versions if one.source.name == source.name]
            origin = shortened(source.location or shown_command(source.command), MOST_DESCRIPTION)
            lines.append(f"{source.name}: {origin}")
            for one, line in zip(own, aligned([one.row for one in own]), strict=True):
                lines += [line, *(f"    ! {finding}" for finding in one.findings)]
        count, tokens = len(self.clean_versions), sum(one.tokens for one in self.clean_versions)
        for one in self.versions:
            if one.findings:
                name = one.source.name
                lines.append(f"Left out because of findings: {one.tool}. toolhub source approve {name} {one.tool}")
        if count:
            lines += [
                f"To approve these {count:,} versions (about {tokens:,} tokens in lists), and no others, repeat the "
                f"command with --approve {self.code}",
                "(--enable also switches the tools on, --accept-hints accepts what they claim). "
                "toolhub source list NAME shows whole descriptions.",
            ]
        return lines


def _matches(label: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(folded(label), folded(pattern)) for pattern in patterns)
