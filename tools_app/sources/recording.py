"""Records tools as their source describes them, some in each transaction: new ones, new versions, returned ones."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.utils import timezone

from tools_app.models import Definition, ManagedRecord, Source, Tag, ToolRecord, ToolTag
from tools_app.models.sources import LoadProblem
from tools_app.models.tools import DESCRIPTIVE, POLICY
from tools_app.sdk import wording
from tools_app.sdk.names import folded
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sources.names import NAMED, SOURCE_KINDS, Names
from tools_app.sources.provider import DescribedTool

log = logging.getLogger("tools_app.sources")

# Action, subject and changes of an audit entry.
Note = tuple[str, str, dict[str, Any]]


@dataclass
class SyncReport:
    """The result of a sync, by tool name."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    unchanged: int = 0
    # Whether operators were told of versions that wait.
    has_alert: bool = False

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {word} ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})"
            for word, names in (
                ("new", self.added),
                ("changed", self.changed),
                ("back", self.returned),
                ("gone", self.retired),
            )
            if names
        ]
        if self.unchanged:
            parts.append(f"{self.unchanged} unchanged")
        return ", ".join(parts) or "nothing has changed"


class Batch:
    """Records some tools of a source, in one transaction. What takes long is done when it is created, before that."""

    def __init__(self, row: Source, names: Names, report: SyncReport, tools: Sequence[DescribedTool] = ()) -> None:
        self._row, self._names, self._report = row, names, report
        self._now = timezone.now()
        # Audit entries, for the caller to write in the same transaction.
        self.notes: list[Note] = []
        # Versions that an operator has to decide about from now on.
        self.held: list[Definition] = []
        self._tools = tools
        self._findings = {tool.spec: _findings(tool, names.packs) for tool in tools}

    def run(self) -> list[LoadProblem]:
        """Returns the problems of tools that cannot be recorded."""
        tools = self._tools
        records = self._records(tools)
        owners = self._names.owners([tool.spec for tool in tools])
        taken = self._taken(tools) if self._row.is_outside else frozenset()
        problems: list[LoadProblem] = []
        new: list[DescribedTool] = []
        for tool in tools:
            spec = tool.spec
            record = records.get((spec.kind, spec.key))
            if (owner := owners.get((spec.kind, spec.key))) is not None:
                if (problem := owner.problem(spec, self._row)) is not None:
                    problems.append(problem)
            elif (spec.kind, spec.key) in taken:
                reason = f'the name "{spec.name}" belongs to another of its tools'
                problems.append(LoadProblem(self._row.name, reason, spec.name))
            elif record is None:
                new.append(tool)
            else:
                self._meet(record, tool)
        self._add(new)
        return problems

    # ---- names

    def _records(self, tools: Sequence[DescribedTool]) -> dict[tuple[str, str], ToolRecord]:
        """The records of these tools, including those that an upgrade has left to be adopted."""
        known = ToolRecord.everything.select_related("definition", "offered", "source")
        records = {
            (record.kind, record.original_name): record
            for record in known.filter(source=self._row, original_name__in=[tool.spec.key for tool in tools])
        }
        if self._row.is_outside:
            return records
        # Another spelling of a name is the same tool.
        keys = {
            (str(tool.spec.kind), tool.spec.folded_name): tool.spec.key for tool in tools if tool.spec.kind in NAMED
        }
        names = [name for _, name in keys]
        for record in known.filter(self._names.own, folded_name__in=names, kind__in=NAMED):
            if (key := keys.get((record.kind, record.folded_name))) is not None:
                record.source = self._row
                records.setdefault((record.kind, key), record)
        return records

    def _taken(self, tools: Sequence[DescribedTool]) -> frozenset[tuple[Kind, str]]:
        """The tools whose name has another tool of this source outside, by kind and key. Only a fault in naming makes
        such; it must not cost the others."""
        names = {self._folded(tool.spec) for tool in tools}
        own = ToolRecord.everything.filter(source=self._row, folded_name__in=names)
        holders = {(kind, name): key for kind, name, key in own.values_list("kind", "folded_name", "original_name")}
        return frozenset(
            (tool.spec.kind, tool.spec.key)
            for tool in tools
            if holders.setdefault((str(tool.spec.kind), self._folded(tool.spec)), tool.spec.key) != tool.spec.key
        )

    # ---- records

    def _add(self, tools: Sequence[DescribedTool]) -> None:
        declared = _declared(tools)
        records = [
            ToolRecord(
                **{**self._columns(tool), **_limits(declared.get(tool.spec.name))},
                # Prompts and resources have no switch.
                enabled=tool.spec.kind is not Kind.TOOL or _starts_on(tool.spec, declared.get(tool.spec.name)),
                registered_at=self._now,
                updated_at=self._now,
                folded_name=self._folded(tool.spec),
            )
            for tool in tools
        ]
        ToolRecord.everything.bulk_create(records)
        definitions = [self._definition(record, tool) for record, tool in zip(records, tools, strict=True)]
        Definition.objects.bulk_create(definitions)
        self.held += [definition for definition in definitions if definition.state == "waiting"]
        for record, definition in zip(records, definitions, strict=True):
            record.definition = definition
        ToolRecord.everything.bulk_update(records, ["definition"])
        self._tag({record: tool.spec.tags for record, tool in zip(records, tools, strict=True)})
        for tool in tools:
            if tool.spec.kind is Kind.TOOL:
                self._report.added.append(tool.spec.name)
                self.notes.append(("tool.register", tool.spec.name, {"version": [None, tool.spec.version]}))

    def _meet(self, record: ToolRecord, tool: DescribedTool) -> None:
        spec, is_tool = tool.spec, tool.spec.kind is Kind.TOOL
        returned, pinned = record.retired_at is not None, record.definition
        is_pinned = pinned is not None and pinned.epoch == self._row.epoch and _is_same(pinned, tool)
        columns = self._columns(tool)
        if is_pinned and pinned is not None:
            self._update_definition(pinned, tool)
            if record.offered is not None:
                # The source has gone back to the approved version.
                record.offered = record.offered_runtime = None
                record.save(update_fields=["offered", "offered_runtime"])
        else:
            self._redefine(record, tool)
        if record.definition is not None and record.definition.hash != spec.hash:
            # Agents see the pinned version until an operator approves the offered one.
            columns = {
                name: columns[name] for name in ("name", "original_name", "source", "source_kind", "pack", "place")
            }
        moved = returned or record.absent_since is not None
        if moved or any(getattr(record, name) != value for name, value in columns.items()):
            for name, value in {**columns, "retired_at": None, "absent_since": None}.items():
                setattr(record, name, value)
            record.folded_name = self._folded(spec)
            record.save(update_fields=[*columns, "folded_name", "retired_at", "absent_since", "updated_at"])
        if is_tool and returned:
            self._report.returned.append(spec.name)
            self.notes.append(("tool.return", spec.name, {}))
        elif is_tool and is_pinned:
            self._report.unchanged += 1

    def _redefine(self, record: ToolRecord, tool: DescribedTool) -> None:
        """Make a version the current one, or hold it if an operator has approved another."""
        spec, before = tool.spec, record.definition
        if spec.runtime.get("unstable") and self._has_undecided(record):
            # It differs at every listing: an operator has something to look at, and the rest would be noise.
            return
        was_waiting = record.offered is not None or (before is not None and before.approved_at is None)
        definition = Definition.objects.filter(tool=record, epoch=self._row.epoch, hash=spec.hash).first()
        if definition is None:
            definition = self._definition(record, tool)
            self._carry_over(definition, tool)
            definition.save()
        else:
            self._update_definition(definition, tool)
        is_held = definition.approved_at is None and before is not None and before.approved_at is not None
        is_known = is_held and record.offered_id == definition.pk
        if is_known and record.offered_runtime == spec.runtime:
            return
        if is_held:
            record.offered, record.offered_runtime = definition, dict(spec.runtime)
        else:
            record.definition, record.offered, record.offered_runtime = definition, None, None
            self._tag({record: spec.tags})
        record.save(update_fields=["definition", "offered", "offered_runtime"])
        if self._row.is_outside:
            _forget_undecided(record)
            # One version replaces another, and no operator has decided about either.
            is_known = is_known or (was_waiting and definition.approved_at is None)
        if not is_known and definition.state == "waiting":
            self.held.append(definition)
        if is_known or spec.kind is not Kind.TOOL:
            return
        changes = {
            "version": [before.version if before else None, spec.version],
            "definition": [before.hash if before else None, spec.hash],
        }
        self._report.changed.append(spec.name)
        self.notes.append(("tool.redefine", spec.name, changes))

    def _has_undecided(self, record: ToolRecord) -> bool:
        """Whether a version of this epoch waits for an operator."""
        latest = record.offered or record.definition
        return latest is not None and latest.epoch == self._row.epoch and latest.state == "waiting"

    def promote(self, record: ToolRecord, definition: Definition) -> None:
        """Make the offered version the current one."""
        spec = ToolSpec(definition.ordered_body, record.offered_runtime or {}, definition.hash)
        values = self._columns(DescribedTool(spec, record.pack))
        values |= {"definition": definition, "offered": None, "offered_runtime": None}
        for name, value in values.items():
            setattr(record, name, value)
        record.save(update_fields=[*values, "updated_at"])
        self._tag({record: spec.tags})

    def _columns(self, tool: DescribedTool) -> dict[str, Any]:
        spec = tool.spec
        return {
            "name": self._name(spec),
            "kind": str(spec.kind),
            "source": self._row,
            "source_kind": SOURCE_KINDS.get(self._row.kind, self._row.kind),
            "original_name": spec.key,
            "pack": tool.pack,
            "place": spec.place[:500],
            **{name: getattr(spec, name)[:length] for name, length in DESCRIPTIVE.items()},
            "read_only": spec.hints.read_only,
            "runtime": dict(spec.runtime),
        }

    def _name(self, spec: ToolSpec) -> str:
        """The names of resources need not be unique."""
        if spec.kind in NAMED:
            return spec.name
        # Two sources outside may have the same URI.
        key = f"{self._row.name} {spec.key}" if self._row.is_outside else spec.key
        return f"{spec.name[:50]}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def _folded(self, spec: ToolSpec) -> str:
        return folded(self._name(spec))

    # ---- definitions

    def _definition(self, record: ToolRecord, tool: DescribedTool) -> Definition:
        spec, is_trusted = tool.spec, self._approves(record)
        findings = self._findings[spec]
        for finding in findings if not self._row.is_outside else ():
            # Logged too, because an author who edits the tool reads the log rather than the admin.
            log.warning("%s: %s; read it as an agent would, and reword it", spec.name, finding)
        return Definition(
            tool=record,
            hash=spec.hash,
            raw=tool.raw,
            pin_hash=tool.pin_hash or spec.hash,
            normaliser=tool.normaliser,
            epoch=self._row.epoch,
            version=spec.version,
            body=spec.body,
            body_text=json.dumps(spec.body, ensure_ascii=False),
            first_seen_at=self._now,
            findings=findings,
            approved_at=self._now if is_trusted else None,
            approved_by=f"source:{record.source_kind}" if is_trusted else "",
        )

    def _update_definition(self, definition: Definition, tool: DescribedTool) -> None:
        """Check the wording again: the rules may have changed, or other tools may have been added."""
        changes: dict[str, Any] = {}
        if not definition.body_text:
            changes["body_text"] = json.dumps(tool.spec.body, ensure_ascii=False)
        if definition.findings != (findings := self._findings[tool.spec]):
            changes["findings"] = findings
        undecided = definition.approved_at is None and definition.refused_at is None
        if undecided and self._approves(definition.tool):
            # Refused definitions stay refused.
            changes |= {"approved_at": self._now, "approved_by": f"source:{definition.tool.source_kind}"}
        for name, value in changes.items():
            setattr(definition, name, value)
        if changes:
            definition.save(update_fields=list(changes))

    def _carry_over(self, definition: Definition, tool: DescribedTool) -> None:
        """Decide as about an earlier version that came from the same words: only the rules of this hub differ, which
        version of them applies or what they pin. A version is never compared with that of another tool or epoch."""
        if not self._row.is_outside or definition.approved_at is not None:
            return
        same = Q(pin_hash=definition.pin_hash) | (Q(raw=tool.raw) if tool.raw else Q())
        versions = Definition.objects.filter(same, tool=definition.tool, epoch=self._row.epoch)
        decided = versions.exclude(approved_at=None, refused_at=None).order_by("-pk").first()
        if decided is not None:
            for name in ("approved_at", "approved_by", "refused_at", "refused_by", "reason"):
                setattr(definition, name, getattr(decided, name))

    def _approves(self, record: ToolRecord) -> bool:
        """Whether the source approves its own versions, like the operator's own Python: its authors can execute any
        code here anyway. If only changes are held, that is everything after the first description."""
        trust = self._row.effective_trust
        if trust == Source.Trust.HOLD_CHANGES:
            is_first = self._row.epoch <= 1 and self._row.status.described_at is None
            return record.definition_id is None and is_first
        return trust == Source.Trust.AUTO

    def _tag(self, declared: Mapping[ToolRecord, Collection[str]]) -> None:
        """Declared tags follow the definition; tags that an operator added stay."""
        current: dict[int, dict[str, bool]] = {}
        for tool_id, name, is_declared in ToolTag.objects.filter(tool__in=list(declared)).values_list(
            "tool_id", "tag__name", "declared"
        ):
            current.setdefault(tool_id, {})[name] = is_declared
        missing: list[tuple[ToolRecord, str]] = []
        for record, names in declared.items():
            before = current.get(record.pk, {})
            obsolete = [name for name, is_declared in before.items() if is_declared and name not in names]
            if obsolete:
                ToolTag.objects.filter(tool=record, tag__name__in=obsolete).delete()
            missing += [(record, name) for name in sorted(set(names) - before.keys())]
        wanted = {name for _, name in missing}
        tags = {tag.name: tag for tag in Tag.objects.filter(name__in=wanted)}
        Tag.objects.bulk_create([Tag(name=name) for name in sorted(wanted - tags.keys())], ignore_conflicts=True)
        tags = {tag.name: tag for tag in Tag.objects.filter(name__in=wanted)}
        ToolTag.objects.bulk_create(ToolTag(tool=record, tag=tags[name], declared=True) for record, name in missing)


def _is_same(pinned: Definition, tool: DescribedTool) -> bool:
    """Whether a tool is described as its pinned version was. What is not part of the pin, such as a default that holds
    the time, may differ: agents see what was approved."""
    if pinned.hash == tool.spec.hash:
        return True
    return tool.pin_hash != "" and (pinned.pin_hash, pinned.normaliser) == (tool.pin_hash, tool.normaliser)


def _forget_undecided(record: ToolRecord) -> None:
    """Keep one version that waits: a server must not fill the database, nor the list of approvals."""
    keys = [key for key in (record.definition_id, record.offered_id) if key is not None]
    others = Definition.objects.filter(tool=record, approved_at=None, refused_at=None).exclude(pk__in=keys)
    others.delete()


def _declared(tools: Sequence[DescribedTool]) -> dict[str, dict[str, Any]]:
    """What configuration files say about tools that were not listed before."""
    names = [tool.spec.name for tool in tools if tool.spec.kind is Kind.TOOL]
    rows = ManagedRecord.objects.filter(kind=ManagedRecord.Kind.TOOL, name__in=names, declared__isnull=False)
    return {row.name: row.declared or {} for row in rows} if names else {}


def _limits(declared: Mapping[str, Any] | None) -> dict[str, Any]:
    """The restrictions of a file, from the first moment on. The rest waits for `toolhub apply`."""
    if not declared:
        return {}
    parts = (part for part in ("ask", *POLICY) if part != "cache_seconds")
    return {part: declared[part] for part in parts if declared.get(part) is not None}


def _starts_on(spec: ToolSpec, declared: Mapping[str, Any] | None) -> bool:
    return not spec.starts_off and (not declared or declared.get("enabled") is not False)


def _findings(tool: DescribedTool, packs: Mapping[str, str]) -> list[str]:
    """Wording that might mislead an agent. A tool may mention the tools of its own pack."""
    return [str(finding) for finding in wording.findings(tool.spec.body, wording.Others(tool.pack, packs))]
