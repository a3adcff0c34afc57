"""Builds the catalog from rows. What has not changed since the last time is taken from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS
from django.db.models import F, TextField
from django.db.models.functions import Cast
from django.db.models.sql import Query

from tools_app.base import conf
from tools_app.catalog import obstacles
from tools_app.catalog.accounts import Accounts, identifier, missing
from tools_app.catalog.entry import Entry, PolicyDefaults, effective_hints, effective_policy
from tools_app.catalog.obstacles import Obstacles, Stops
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import Definition, Source, Stop, ToolRecord, Toolset, ToolTag
from tools_app.models.tools import DESCRIPTIVE
from tools_app.sdk import accounts, dependencies
from tools_app.sdk.accounts import Account
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.names import folded
from tools_app.sdk.reach import Choice
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.text import hygiene

# Up to this many definitions are read one by one, more of them all together.
_FEW: Final = 500
_FIRST_EPOCH: Final = 1
# Characters of the instructions of one source.
MOST_INSTRUCTIONS: Final = 4_000
# What a definition says is not read again from its record.
_COLUMNS: Final = (
    *("id", "name", "folded_name", "kind", "source_id", "source_kind", "original_name", "pack", "place", "enabled"),
    *("ask", "timeout_ms", "retries", "retry_delay_ms", "rate_calls", "rate_seconds", "cache_seconds"),
    *("answer_tokens", "definition_id", "offered_id", "registered_at", "updated_at", "absent_since"),
    *("hint_read_only", "hint_destructive", "hint_idempotent", "hint_open_world"),
)


@dataclass(frozen=True, slots=True)
class _Built:
    """An entry without accounts and dependencies, and the row that it was made from, as the database has it."""

    row: tuple[Any, ...]
    tags: tuple[str, ...]
    entry: Entry


class Builder:
    """Builds one snapshot after the other. Not thread-safe."""

    def __init__(self) -> None:
        self._built: dict[int, _Built] = {}
        self._context: object = None

    def build(self) -> Snapshot:
        tags: dict[int, list[str]] = {}
        for tool_id, name in ToolTag.objects.order_by("tag__name").values_list("tool_id", "tag__name"):
            tags.setdefault(tool_id, []).append(name)
        stops = obstacles.stops()
        sources = {source.pk: source for source in Source.objects.select_related("status", "connection")}
        obstacles_now, defaults = Obstacles(sources, stops), PolicyDefaults()
        self._forget_if_changed((_context_of(sources, stops), obstacles_now.undecided, vars(defaults)))
        # Compared as they come from the database: to convert thousands of them takes longer than to read them.
        compiler = _query().get_compiler(DEFAULT_DB_ALIAS)
        rows = {row[0]: tuple(row) for chunk in compiler.execute_sql() or () for row in chunk}
        own_tags = {pk: tuple(tags.get(pk, ())) for pk in rows}
        changed = [row for pk, row in rows.items() if not self._holds(pk, row, own_tags[pk])]
        records = {row[0]: _record(row) for row in compiler.results_iter([changed])}
        specs = self._specs_of(records)
        outdated = _outdated(sources)
        for pk, record in records.items():
            source = sources.get(record.source_id or 0)
            entry = _entry(record, specs[pk], source, own_tags[pk], defaults, outdated)
            self._built[pk] = _Built(
                rows[pk], own_tags[pk], replace(entry, refusal=obstacles_now.of(record, specs[pk]))
            )
        self._built = {pk: self._built[pk] for pk in rows}
        return _snapshot(self._built.values(), stops, _instructions(sources.values()))

    def _forget_if_changed(self, context: object) -> None:
        if context != self._context:
            # Keeps the specs: they depend on nothing but their rows.
            self._built = {pk: replace(built, row=()) for pk, built in self._built.items()}
            self._context = context

    def _holds(self, pk: int, row: tuple[Any, ...], tags: tuple[str, ...]) -> bool:
        built = self._built.get(pk)
        if built is None or built.row != row or built.tags != tags:
            return False
        # Variables can be in files, and code of this process can come and go.
        return not built.entry.spec.requires and built.entry.source_name != "code"

    def _specs_of(self, records: Mapping[int, ToolRecord]) -> dict[int, ToolSpec]:
        """The specs of these records. Definitions are read only if they have changed since the last time."""
        specs: dict[int, ToolSpec] = {}
        missing: dict[int, ToolRecord] = {}
        for pk, record in records.items():
            built = self._built.get(pk)
            spec = built.entry.spec if built is not None else None
            if spec is not None and built is not None and built.entry.definition_pk == record.definition_id:
                if spec.runtime != record.runtime:
                    spec = ToolSpec(spec.body, record.runtime, spec.hash)
                specs[pk] = spec
            else:
                missing[pk] = record
        definitions = Definition.objects.filter(current_for__isnull=False)
        if len(missing) <= _FEW:
            definitions = definitions.filter(current_for__in=missing)
        definition_rows = definitions.values_list("pk", "hash", "body_text") if missing else ()
        texts = {definition: (hash, body_text) for definition, hash, body_text in definition_rows}
        for pk, record in missing.items():
            hash, body_text = texts.get(record.definition_id or 0, ("", ""))
            if body_text:
                specs[pk] = ToolSpec(json.loads(body_text), record.runtime, hash)
            else:
                specs[pk] = spec_of(ToolRecord.everything.get(pk=pk))
        return specs


def _query() -> Query:
    present = ToolRecord.everything.present().annotate(runtime_text=Cast("runtime", TextField())).order_by("name")
    return present.values_list(*_COLUMNS, "runtime_text").query


def _record(row: Sequence[Any]) -> ToolRecord:
    *values, runtime = row
    return ToolRecord(**dict(zip(_COLUMNS, values, strict=True)), runtime=json.loads(runtime))


def _context_of(sources: Mapping[int, Source], stops: Stops) -> object:
    """Everything about sources and stops that an entry depends on."""
    rows = [
        ({name: value for name, value in vars(source).items() if name != "_state"}, source.origin, _observed(source))
        for source in sources.values()
    ]
    return rows, {key: stop.words for key, stop in stops.items()}, conf.value("TOOLHUB_SOURCES_TO_APPROVE")


def _observed(source: Source) -> list[Any]:
    """What entries depend on of what was observed. Whether a source outside can be reached is left to calls."""
    names = ("problems",) if source.is_outside else ("availability", "error", "since", "problems")
    status = getattr(source, "status", None)  # An upgrade makes sources that were never described.
    return [getattr(status, name) for name in names] if status is not None else []


def _entry(
    record: ToolRecord,
    spec: ToolSpec,
    source: Source | None,
    tags: tuple[str, ...],
    defaults: PolicyDefaults,
    outdated: set[int],
) -> Entry:
    return Entry(
        spec=spec,
        definition_pk=record.definition_id,
        name=record.name if spec.kind is Kind.TOOL else spec.label,
        source_name=source.name if source is not None else "",
        identity=_identity(source),
        origin=source.origin if source is not None else None,
        source=record.source_kind,
        pack=record.pack,
        tags=tags,
        enabled=record.enabled,
        registered_at=record.registered_at,
        updated_at=record.updated_at,
        policy=effective_policy(record, spec, source, defaults),
        hints=effective_hints(record, spec),
        refusal=None,
        ask=record.ask,
        is_held=record.offered_id is not None or record.definition_id in outdated,
    )


def _instructions(sources: Iterable[Source]) -> dict[str, str]:
    """The texts that may be sent to agents. What was approved is the text, so its own digest is compared."""
    texts: dict[str, str] = {}
    for source in sources:
        approved, status = source.approved_instructions, getattr(source, "status", None)
        if approved and status is not None and source.is_outside and source.enabled and source.removed_at is None:
            text = status.instructions
            if hashlib.sha256(text.encode()).hexdigest() == approved:
                texts[source.name] = _cut(hygiene.cleaned(text).strip())
    return {name: text for name, text in texts.items() if text}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_INSTRUCTIONS else text[: MOST_INSTRUCTIONS - 1] + "…"


def _snapshot(built: Iterable[_Built], stops: Stops, instructions: Mapping[str, str]) -> Snapshot:
    """The snapshot, with accounts and dependencies."""
    stored_accounts = Accounts()
    entries: dict[str, Entry] = {}
    offers: dict[str, Entry] = {}
    names: dict[str, str] = {}
    for one in built:
        entry = _connected(one.entry, stored_accounts, stops)
        if entry.spec.kind is Kind.TOOL:
            key = entry.folded_name
            entries[key], names[key] = entry, key
        else:
            offers[f"{entry.spec.kind} {entry.spec.shown_key}"] = entry
    for key, entry in entries.items():
        for alias in entry.spec.aliases:
            names.setdefault(folded(alias), key)
    _refuse_dependent(entries, names)
    return Snapshot(entries, names, toolsets(), stops, offers=dict(sorted(offers.items())), instructions=instructions)


def toolsets() -> dict[str, Choice]:
    return {toolset.name: toolset.choice() for toolset in Toolset.objects.all()}


def spec_of(record: ToolRecord) -> ToolSpec:
    """The recorded spec of any tool, also of one that is not in the catalog."""
    definition = record.definition
    if definition is None:
        bare = {name: getattr(record, name) for name in ("kind", "name", *DESCRIPTIVE)}
        return ToolSpec(bare, record.runtime)
    return ToolSpec(definition.ordered_body, record.runtime, definition.hash)


def _identity(origin: Source | None) -> tuple[str, int] | tuple[()]:
    if origin is None or (origin.epoch <= _FIRST_EPOCH and not origin.is_outside):
        return ()
    return origin.name, origin.epoch


def _outdated(origins: Mapping[int, Source]) -> set[int]:
    """Definitions from an earlier epoch of their source, which has not been described since."""
    renewed = [pk for pk, origin in origins.items() if origin.epoch > _FIRST_EPOCH]
    if not renewed:
        return set()
    definitions = Definition.objects.filter(current_for__source__in=renewed)
    return set(definitions.exclude(epoch=F("current_for__source__epoch")).values_list("pk", flat=True))


def _connected(entry: Entry, stored_accounts: Accounts, stops: Stops) -> Entry:
    """Add the available accounts to a tool that needs one."""
    kind = entry.connection_kind
    if kind is None:
        return entry
    available, refusal = stored_accounts.of(entry.pack, kind), entry.refusal
    if stops:
        available = tuple(_as_stopped(account, stops) for account in available)
    if kind.optional and not available:
        return entry
    if refusal is None and not available:
        refusal = accounts.not_configured(kind, missing(kind))
    elif refusal is None and entry.spec.kind is Kind.TOOL:
        refusal = accounts.refusal(kind, available, writes=entry.hints.writes)
    return replace(entry, accounts=available, refusal=refusal)


def _as_stopped(account: Account, stops: Stops) -> Account:
    stop = stops.get((Stop.Kind.CONNECTION, identifier(account)))
    return replace(account, stopped=stop.words) if stop is not None else account


def _refuse_dependent(entries: dict[str, Entry], names: Mapping[str, str]) -> None:
    """Refuse tools that depend on a tool that cannot be called, transitively."""
    needs = {key: entry.spec.required for key, entry in entries.items() if entry.spec.needs}
    users: dict[str, list[str]] = {}
    for key, needed in needs.items():
        for name in needed:
            users.setdefault(names.get(name, name), []).append(key)
    graph = {key: [names.get(name, name) for name in needed] for key, needed in needs.items()}
    for circle in dependencies.cycles(graph):
        reason, cure = dependencies.circle(circle), "Remove one of these dependencies."
        endless = Refusal(reason, "Ask an operator to remove one of them.", names=tuple(circle), cure=cure)
        for key in circle:
            entries[key] = replace(entries[key], refusal=entries[key].refusal or endless)
    waiting = list(needs)
    while waiting:
        key = waiting.pop()
        if entries[key].refusal is None and (unmet := _unmet(entries[key], entries, names)) is not None:
            entries[key] = replace(entries[key], refusal=unmet)
            waiting += users.get(key, ())


def _unmet(entry: Entry, entries: Mapping[str, Entry], names: Mapping[str, str]) -> Refusal | None:
    """The unmet dependency that prevents a tool from being called."""
    for need in entry.spec.needs:
        other = entries.get(names.get(folded(need.name), ""))
        if need.optional:
            continue
        if other is None:
            reason = f"it needs {need}, which does not exist"
            return Refusal(reason, "Ask an operator to add that tool.", names=(need.name,), cure="Add that tool.")
        if not need.accepts(other.version):
            reason = f"it needs {need}, and {other.name} has version {other.version}"
            step = f"Ask an operator for another version of {other.name}."
            return Refusal(reason, step, names=(other.name,), cure=f"Load another version of {other.name}.")
        if other.refusal is not None:
            involved = (other.name, *other.refusal.names)
            cause = other.refusal
            return Refusal(f"it needs {other.name}: {cause.reason}", cause.next_step, names=involved, cure=cause.cure)
    return None
