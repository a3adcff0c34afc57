"""A plan in words, and its transaction.

A plan is made by doing it: every change runs through `governance`, in a transaction that is rolled back. So the plan is
refused for the same reasons as the change, and says what agents would really see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.access import actions
from tools_app.catalog import catalog
from tools_app.catalog.building import Builder
from tools_app.governance import Actor, ReadDocument
from tools_app.governance.managed import applying
from tools_app.models import ManagedRecord, ToolRecord
from tools_app.models.audit import collected, note
from tools_app.sdk.errors import ToolError
from tools_app.setup.configuration import document, effects, phrasing, sections
from tools_app.setup.configuration.document import Document, Kind, Part
from tools_app.setup.configuration.present import absent, differences, present
from tools_app.setup.configuration.sections import Run
from tools_app.sources import sync

# From the records that name others to those that are named.
_REMOVED: Final = (Kind.ALERT_RULE, Kind.KEY, Kind.TOOL, Kind.TOOLSET, Kind.SOURCE, Kind.CONNECTION, Kind.USER)
Issue = Callable[[list[tuple[str, str]]], object]


class ConfigurationRefusedError(Exception):
    """A record cannot be as the file says; nothing is changed. The message begins with its path."""


class PlanChangedError(Exception):
    """The hub has changed since the plan was made; nothing is changed."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("the hub has changed since this plan was made, perhaps by another apply")
        self.plan = plan


@dataclass(frozen=True, slots=True)
class Options:
    """`file` is the name under which records are managed; `is_guessed`: it is only the default.
    `prune`: delete what the file no longer names. `switch_on`: also what was switched off, and roles that were taken
    away, in the hub since the last time."""

    file: str
    is_guessed: bool = False
    prune: bool = False
    switch_on: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What applying a file changes, in words."""

    changes: tuple[str, ...] = ()
    # What agents gain and lose.
    effects: tuple[str, ...] = ()
    # What is different in the hub, and stays so.
    drift: tuple[str, ...] = ()
    # What a person should know or do.
    notes: tuple[str, ...] = ()
    # Names of keys that are issued.
    keys: tuple[str, ...] = ()
    documents: Mapping[str, ReadDocument] = field(default_factory=dict, compare=False, repr=False)

    # Whether something has to be stored, even if it changes nothing in words.
    is_needed: bool = False
    # What every record is to be, and every document: sentences leave parts out.
    content: str = field(default="", repr=False)

    @property
    def digest(self) -> str:
        parts = (self.changes, self.effects, self.keys, self.content)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def plan(wanted: Document, options: Options, *, actor: Actor) -> Plan:
    """What applying it would change. Nothing is.

    Raises:
        ConfigurationRefusedError
    """
    actor.require(actions.CONFIG_APPLY)
    with _naming("sources"):
        documents = sections.documents_to_read(wanted.sources, actor)
    try:
        with transaction.atomic():
            planned, _ = _Application(wanted, options, Run(actor, "", documents)).made()
            transaction.set_rollback(True)
    finally:
        # It may have been built within the transaction.
        catalog.forget()
    return planned


def apply(
    wanted: Document,
    options: Options,
    *,
    expected: Plan,
    accepts_changes: bool = False,
    issue: Issue = lambda keys: None,
    actor: Actor,
    reason: str = "",
) -> Plan:
    """Change the hub in one transaction, with one audit entry. Returns what was done.

    `issue` gets names and secrets of new keys before the commit: if it fails, nothing is changed.

    Raises:
        ConfigurationRefusedError
        PlanChangedError: it would do something else than was expected, unless that is accepted.
    """
    actor.require(actions.CONFIG_APPLY)
    is_done = False
    try:
        with transaction.atomic():
            run = Run(actor, reason, expected.documents)
            done, changes = _Application(wanted, options, run).made()
            if done.digest != expected.digest and not accepts_changes:
                raise PlanChangedError(done)
            if done.is_needed:
                note(
                    actions.CONFIG_APPLY.event,
                    f"config:{options.file}",
                    actor=actor.name,
                    changes={"plan": [None, [*done.changes, *done.effects]], **changes},
                    reason=reason,
                )
            if run.issued:
                issue(run.issued)
        is_done = True
    finally:
        if not is_done:
            catalog.forget()
    return done


class _Application:
    """One application of a document, inside a transaction."""

    def __init__(self, wanted: Document, options: Options, run: Run) -> None:
        self._wanted, self._options, self._run = wanted, options, run
        self._changes: list[str] = []
        self._drift: list[str] = []
        self._notes: list[str] = []
        self._managed: dict[tuple[str, str], ManagedRecord] = {}
        self._is_needed = False
        # What each record is to be: as the file says, or off.
        self._meant: dict[tuple[Kind, str], Part] = {}

    def made(self) -> tuple[Plan, dict[str, Any]]:
        """Returns the plan, and the changes for the audit entry."""
        # Another application waits here, and finds the changes of this one.
        sync.lock()
        rows = ManagedRecord.objects.select_for_update()
        self._managed = {(row.kind, row.name): row for row in rows}
        self._refuse_other_file()
        before = effects.reaches(Builder().build())
        with collected() as entries, applying():
            for kind in Document.SECTIONS:
                self._section(kind)
                if kind is Kind.CONNECTION:
                    self._finish()
            for kind in _REMOVED:
                self._prune(kind)
            self._compare()
        after = effects.reaches(Builder().build())
        planned = Plan(
            changes=tuple(self._changes),
            effects=tuple(effects.in_words(before, after)),
            drift=tuple(self._drift),
            notes=tuple(dict.fromkeys(self._notes)),
            keys=tuple(name for name, _ in self._run.issued),
            documents=self._run.documents,
            is_needed=self._is_needed or bool(self._changes),
            content=self._content(),
        )
        return planned, _merged(entries)

    def _refuse_other_file(self) -> None:
        """Raises: ConfigurationRefusedError: a file with this name has other records."""
        of_file = [row for row in self._managed.values() if row.file == self._options.file and row.declared is not None]
        named = {(kind, name) for kind in Document.SECTIONS for name in self._wanted.records(kind)}
        if self._options.is_guessed and of_file and named.isdisjoint((row.kind, row.name) for row in of_file):
            raise ConfigurationRefusedError(
                f"no record that {self._options.file} manages is in this file: is it another one? Name it with --name."
            )

    def _content(self) -> str:
        records = [[kind, name, part.data] for (kind, name), part in self._meant.items()]
        documents = {name: read.digest for name, read in self._run.documents.items()}
        return hashlib.sha256(json.dumps([records, documents], sort_keys=True).encode()).hexdigest()

    def _section(self, kind: Kind) -> None:
        records, now = self._wanted.records(kind), present(kind)
        adopted = 0
        for name in sorted(records):
            with _naming(Document.SECTIONS[kind], name):
                self._record(kind, name, records[name], now.get(name))
            adopted += self._manage(kind, name, records[name])
        if adopted:
            self._changes.append(phrasing.adopts(kind, adopted, self._options.file))

    def _record(self, kind: Kind, name: str, wanted: Part, before: Part | None) -> None:
        row = self._managed.get((kind, name))
        if row is not None and row.declared is not None and row.file != self._options.file:
            raise ConfigurationRefusedError(f"it is managed by the file {row.file}")
        if before is None:
            if state := sections.ended(kind, name):
                self._drift.append(phrasing.ended(kind, name, state))
                return
            before = self._undecided(kind, name, wanted)
        last = row.declared if row is not None and row.declared is not None else None
        outside = differences(before, last) if last is not None and before is not None else []
        if last is not None and before is not None and not self._options.switch_on:
            if last == wanted.data and sections.has_less(before, wanted):
                self._drift.append(phrasing.has_less(name, before))
                return
            wanted = self._kept_off(kind, name, wanted, before, last)
        self._meant[kind, name] = wanted
        fields = differences(before, wanted.data) if before is not None else []
        fields += [part for part in sections.secrets_changed(kind, name, wanted) if part not in fields]
        if before is not None and not fields:
            return
        sections.make(self._run, kind, name, wanted)
        if before is None:
            self._changes.append(phrasing.creates(kind, name, wanted))
            self._notes += phrasing.next_steps(kind, name, wanted)
        elif kind is Kind.TOOL and not ToolRecord.objects.filter(name=name).exists():
            if last != wanted.data:
                self._changes.append(phrasing.waits(name))
        else:
            again = sorted(set(outside) & set(fields))
            self._changes += phrasing.changes(kind, name, before.data, wanted.data, fields, again)
        self._notes += [f"connection {name}: {fault}" for fault in sections.missing_values(wanted)]

    def _undecided(self, kind: Kind, name: str, wanted: Part) -> Part | None:
        """What a record is about which nothing was decided; None if there is none."""
        if isinstance(wanted, document.User):
            return sections.other_role(name)
        if isinstance(wanted, document.Source) and wanted.kind is not None:
            return None
        return absent(kind)

    def _kept_off(self, kind: Kind, name: str, wanted: Part, before: Part, last: Mapping[str, Any]) -> Part:
        """The record as wanted, except that it stays off if it was switched off in the hub since the last time."""
        now = getattr(before, "enabled", True)
        switches = (last.get("enabled", True), getattr(wanted, "enabled", True))
        if sections.is_on(kind, name, now) or not all(sections.is_on(kind, name, one) for one in switches):
            return wanted
        self._drift.append(phrasing.switched_off(kind, name))
        return wanted.model_copy(update={"enabled": now})

    def _manage(self, kind: Kind, name: str, wanted: Part) -> bool:
        """Remember what the file says. Returns whether it has not managed the record before."""
        row = self._managed.get((kind, name))
        is_new = row is None or row.declared is None
        if row is None:
            row = self._managed[kind, name] = ManagedRecord(kind=kind, name=name)
        if is_new or row.declared != wanted.data:
            # Also if the hub was changed to be so before the file was.
            row.file, row.declared, row.applied_at = self._options.file, wanted.data, timezone.now()
            row.save()
            self._is_needed = True
        return is_new

    def _finish(self) -> None:
        for name in self._run.sources:
            with _naming("sources", name):
                sections.switch_source(self._run, name)

    def _compare(self) -> None:
        """Values that the hub stores in another way would be changes at every application.

        Raises:
            ConfigurationRefusedError
        """
        for kind, title in Document.SECTIONS.items():
            now = present(kind)
            for (of, name), wanted in self._meant.items():
                if of is not kind:
                    continue
                stored = now.get(name) or absent(kind)
                for part in differences(stored, wanted.data):
                    value = stored.data.get(part) if stored is not None else None
                    raise ConfigurationRefusedError(
                        f"/{title}/{name}/{part}: the hub stores this in another way: {phrasing.shown(value)}"
                    )

    def _prune(self, kind: Kind) -> None:
        """Records of this file that it does not name any more."""
        for row in sorted(self._managed.values(), key=lambda row: row.name):
            if row.kind != kind or row.file != self._options.file or row.name in self._wanted.records(kind):
                continue
            if self._options.prune:
                self._remove(kind, row)
            elif row.declared is not None:
                self._release(row)
                self._changes.append(phrasing.releases(kind, row.name))

    def _remove(self, kind: Kind, row: ManagedRecord) -> None:
        now = None if sections.ended(kind, row.name) else present(kind, [row.name]).get(row.name)
        if now is not None and (keys := sections.held_by(kind, row.name)):
            self._notes.append(phrasing.held(kind, row.name, keys))
            self._release(row)
            return
        if now is not None:
            with _naming(Document.SECTIONS[kind], row.name):
                self._end(kind, row, now)
            self._changes.append(phrasing.removes(kind, row.name))
        elif row.declared is not None:
            self._changes.append(phrasing.forgets(kind, row.name))
        row.delete()
        self._is_needed = True

    def _end(self, kind: Kind, row: ManagedRecord, now: Part) -> None:
        """Delete it. What was decided about a tool or Python code is reset; what people switched off stays off."""
        part = self._undecided(kind, row.name, now) if kind in (Kind.TOOL, Kind.SOURCE) else None
        if part is None:
            sections.remove(self._run, kind, row.name)
            return
        if not self._options.switch_on:
            part = self._kept_off(kind, row.name, part, now, row.declared or {})
        sections.make(self._run, kind, row.name, part)
        if kind is Kind.SOURCE:
            sections.switch_source(self._run, row.name)

    def _release(self, row: ManagedRecord) -> None:
        if row.declared is not None:
            row.declared = None
            row.save(update_fields=["declared"])
            self._is_needed = True


@contextmanager
def _naming(*path: str) -> Iterator[None]:
    """What is refused is named by its path.

    Raises:
        ConfigurationRefusedError
    """
    place = "/" + "/".join(path)
    try:
        yield
    except ConfigurationRefusedError as error:
        raise ConfigurationRefusedError(f"{place}: {error}") from error
    except ToolError as error:
        words = " ".join(filter(None, (error.message.rstrip(".") + ".", error.next_step)))
        raise ConfigurationRefusedError(f"{place}: {words}") from error


def _merged(entries: Iterable[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """Many audit entries as the changes of one: of each part the value before the first and after the last."""
    merged: dict[str, list[Any]] = {}
    for action, subject, changes in entries:
        for part, values in (changes or {action: [None, "done"]}).items():
            is_pair = isinstance(values, Sequence) and not isinstance(values, str) and len(values) == 2
            before, after = values if is_pair else (None, values)
            merged[f"{subject} {part}"] = [merged.get(f"{subject} {part}", [before])[0], after]
    return merged
