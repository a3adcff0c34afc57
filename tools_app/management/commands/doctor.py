"""Check a hub for problems, and say how to fix them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.core.checks import run_checks
from django.core.management.base import CommandParser
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.utils import timezone

from tools_app import engine, governance, sources
from tools_app.base import conf, shared
from tools_app.catalog import catalog, connections, offers, sign_ins
from tools_app.catalog.snapshot import Snapshot
from tools_app.catalog.source_states import SourceState, state_of, status_of
from tools_app.journal import disk, retention, trail
from tools_app.management.hub_command import HubCommand
from tools_app.models import ApiKey, AuditEntry, Connection, ErrorLog, Process, Source, Stop, text_index, triggers
from tools_app.sdk import wording
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.spec import Kind
from tools_app.setup import installation
from tools_app.setup.backup import status
from tools_app.setup.installation import NotReady, Schema
from tools_app.sources.documents import needs_of
from tools_app.upstream import children
from tools_app.upstream.oauth import tokens

# Fifteen runs of the task that seals.
SEAL_OVERDUE: Final = timedelta(minutes=15)
REWORD: Final = "Reword it: it could mislead an agent."


@dataclass(frozen=True)
class Diagnosis:
    """What a check found. `check` is its stable id, `subject` what it is about, if there is one check for each."""

    check: str
    is_good: bool
    text: str
    advice: str = ""
    subject: str = ""

    def as_dict(self) -> dict[str, Any]:
        status = "ok" if self.is_good else "problem"
        names = {"id": self.check, "subject": self.subject or None, "status": status}
        return {**names, "message": self.text, "nextStep": self.advice or None}


class Command(HubCommand):
    help = "Check home, database, tools and settings. Exits with 1 if there are problems. Changes nothing."
    needs_ready = False
    needs_variables = False  # It reports problems with them.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        found = []
        for diagnosis in diagnoses():
            found.append(diagnosis)
            if not as_json:
                self._show(diagnosis)
        bad = sum(not diagnosis.is_good for diagnosis in found)
        if as_json:
            checks = [diagnosis.as_dict() for diagnosis in found]
            self.stdout.write(json.dumps({"problems": bad, "checks": checks}, indent=2, ensure_ascii=False))
        else:
            self.stdout.write(f"\nProblems: {bad}." if bad else "\nNo problems.")
        if bad:
            raise SystemExit(1)

    def _show(self, diagnosis: Diagnosis) -> None:
        mark = self.style.SUCCESS("ok ") if diagnosis.is_good else self.style.ERROR("!! ")
        self.stdout.write(f"{mark} {diagnosis.text}")
        if diagnosis.advice:
            self.stdout.write(f"    {diagnosis.advice}")


def diagnoses() -> Iterator[Diagnosis]:
    """All findings, in the order in which to fix them."""
    if (home := conf.home()) is not None:
        open_to_others = home.stat().st_mode & 0o077
        yield Diagnosis(
            "home",
            not open_to_others,
            f"state is stored in {home}",
            f"Others on this machine can read it: chmod 700 {home}" if open_to_others else "",
        )
    for message in run_checks(include_deployment_checks=False):
        yield Diagnosis("settings", False, f"settings: {message.msg}", message.hint or "", message.id or "")
    yield from _of_tools()
    try:
        state = installation.schema()
    except NotReady as error:
        yield Diagnosis("database", False, str(error))
        return
    yield _of_schema(state)
    if state is not Schema.CURRENT:
        return
    try:
        yield from _of_data()
    except DatabaseError as error:
        yield Diagnosis("database", False, installation.database_trouble(error))


def _of_schema(state: Schema) -> Diagnosis:
    advice = {
        Schema.EMPTY: "Not set up yet: run `toolhub serve`.",
        Schema.OLDER: "Run `toolhub migrate`.",
        Schema.NEWER: f"{installation.WAY_BACK[0].upper()}{installation.WAY_BACK[1:]}.",
        Schema.CURRENT: "",
    }[state]
    text = f"database ({connection.vendor}): its schema is {state.value}"
    return Diagnosis("schema", state is Schema.CURRENT, text, advice)


def _of_tools() -> Iterator[Diagnosis]:
    contents = sources.current().inspected()
    tools = [tool for tool in contents.tools if tool.spec.kind is Kind.TOOL]
    yield Diagnosis("tools", len(tools) > 0, f"{len(tools)} tools are loaded")
    for problem in contents.problems:
        advice = "Fix the file. In the tools directory it is reloaded automatically; otherwise restart the hub."
        yield Diagnosis("tools-load", False, f"failed to load: {problem}", advice)
    packs = {tool.spec.folded_name: tool.pack for tool in tools}
    for tool in contents.tools:
        spec = tool.spec
        # Prompts name tools on purpose, so no check against other packs' names.
        others = wording.Others(tool.pack, packs) if spec.kind is Kind.TOOL else ()
        about = spec.name if spec.kind is Kind.TOOL else f"{spec.kind.family} {spec.key}"
        for finding in wording.findings(spec.body, others):
            yield Diagnosis("tools-wording", False, f"{about}: {finding}", REWORD, spec.name)


def _of_backups() -> Diagnosis:
    made_at, now = status.last_good(), timezone.now()
    text = f"last good backup: {made_at:%Y-%m-%d %H:%M} UTC" if made_at is not None else "there is no backup yet"
    if status.is_overdue(made_at, now):
        advice = "Scheduled backups fail: see the log of `toolhub serve`, or run `toolhub backup`."
        return Diagnosis("backup", False, text, advice)
    hint = "Run `toolhub backup`, or set TOOLHUB_BACKUP_DIR for scheduled ones."
    return Diagnosis("backup", True, text, hint if made_at is None and status.interval() is None else "")


def _of_room() -> Iterator[Diagnosis]:
    """Disks, and maintenance."""
    for volume in disk.volumes(timezone.now()):
        advice = "Free space, or shorten retention: see `toolhub data`." if volume.is_soon_full else ""
        yield Diagnosis("disk", not volume.is_soon_full, f"disk of {volume.words}", advice)
    for stop in Stop.objects.active().filter(kind=Stop.Kind.WRITES):
        yield Diagnosis("maintenance", True, f"{stop.words} (by {stop.by})", "`toolhub maintenance off` ends it.")


def _of_audit() -> Iterator[Diagnosis]:
    """Whether the audit trail is sealed, and what was found when it was verified last."""
    last = trail.newest_checkpoint()
    waiting = AuditEntry.objects.filter(pk__gt=0 if last is None else last.last_id)
    late = timezone.now() - SEAL_OVERDUE
    # Without a running hub, entries of commands wait for the next one.
    is_running = Process.objects.filter(lease_until__gte=Now(), started_at__lt=late).exists()
    if is_running and (oldest := waiting.filter(at__lt=late).order_by("pk").first()) is not None:
        text = f"the audit trail is not sealed since {oldest.at:%Y-%m-%d %H:%M} UTC"
        yield Diagnosis("audit-seal", False, text, "See the log of `toolhub serve`: it seals new entries every minute.")
    elif last is not None:
        text = f"the audit trail is sealed up to entry {last.last_id}, {last.sealed_at:%Y-%m-%d %H:%M} UTC"
        yield Diagnosis("audit-seal", True, text)
    verified_at, is_good = trail.last_verified()
    if not is_good:
        text = f"the audit trail could not be verified at {verified_at:%Y-%m-%d %H:%M} UTC"
        yield Diagnosis(
            "audit-verified", False, text, "Run `toolhub verifyaudit`: it names the first entry, and what to do."
        )


def _of_refusals(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Why enabled tools cannot be called. A reason shared by tools of a pack is reported once."""
    names_by_refusal: dict[tuple[str, Refusal], list[str]] = {}
    for entry in snapshot.all:
        if entry.refusal is not None and entry.enabled:
            names_by_refusal.setdefault((entry.pack, entry.refusal), []).append(entry.name)
    for (pack, refusal), names in names_by_refusal.items():
        subject = f"{len(names)} tools of {pack}" if len(names) > 1 else names[0]
        advice = "" if refusal.unused else refusal.advice
        yield Diagnosis("tools-callable", refusal.unused, f"{subject}: {refusal.reason}", advice, pack)


def _of_sources() -> Iterator[Diagnosis]:
    """The state of sources outside, as it was recorded last."""
    rows = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None).select_related("status", "connection")
    commands = False
    for source in rows.order_by("name"):
        status, state = status_of(source), state_of(source)
        commands |= source.kind == Source.Kind.MCP_STDIO
        since = f" since {status.since:%Y-%m-%d %H:%M} UTC" if status.since is not None else ""
        failing = state in (SourceState.FAILED, SourceState.SIGN_IN)
        text = f"source {source.name} ({Source.Kind(source.kind).label}): {state.replace('_', ' ')}{since}"
        advice = f"See `toolhub source test {source.name}`." if failing else ""
        text = f"{text}: {status.error}" if status.error else text
        yield Diagnosis("source", not failing, text, advice, source.name)
        yield from _of_document(source)
        if waiting := len(governance.waiting_versions(source)):
            how = f"See them with `toolhub source list {source.name}`, and approve them with `toolhub source approve`."
            text = f"source {source.name}: versions that wait for approval: {waiting}"
            yield Diagnosis("source-approvals", True, text, how, source.name)
    if commands and (isolation := children.isolation()) == "none":
        how = "To prevent that, run them in a container, or the hub on Linux with Landlock (TOOLHUB_ISOLATE_PROGRAMS)."
        text = "programs of sources run as the user of this hub and can read this hub's files"
        yield Diagnosis("isolation", True, text, how)
    elif commands:
        yield Diagnosis("isolation", True, f"programs of sources cannot read this hub's files ({isolation})")


def _of_document(source: Source) -> Iterator[Diagnosis]:
    """What an OpenAPI document needs, and why it cannot be read again."""
    document = governance.document_of(source)
    if document is None:
        return
    if document.error:
        how = f"Calls continue with the version that was read. See `toolhub source document {source.name} FILE|URL`."
        text = f"source {source.name}: its document cannot be read again: {document.error}"
        yield Diagnosis("source-document", False, text, how, source.name)
    if number := document.findings.count():
        text = f"source {source.name}: operations whose answers deviate from its document: {number}"
        how = f"Calls succeed all the same. See `toolhub source list {source.name}`."
        yield Diagnosis("source-answers", True, text, how, source.name)
    needs = needs_of(document.facts)
    if needs and not Connection.objects.filter(pack=source.name, enabled=True).exists():
        words = " or ".join(need.words for need in needs)
        how = "Create it in the admin under Connections, and give it to the keys that use the source."
        text = f"source {source.name}: needs a connection: {words}"
        yield Diagnosis("source-connection", True, text, how, source.name)


def _of_sign_ins() -> Iterator[Diagnosis]:
    """Connections that get no new token. The sign-ins of single callers concern those, who are told so."""
    rows = Connection.objects.filter(enabled=True, form__in=Connection.OAUTH).prefetch_related("tokens")
    for row in rows.order_by("name"):
        about, state, is_person = f"connection {row.name}", sign_ins.state_of(row), row.form == Connection.Form.OAUTH
        how = f"`toolhub connection signin {row.name}` prints the page on which a person signs in."
        if state is not None and state.state == "failing":
            advice = "Calls request one again. Otherwise check the connection and its authorization server."
            yield Diagnosis("sign-in", False, f"{about}: its token cannot be renewed: {state.error}", advice, row.name)
        elif is_person and state is not None and state.state == sign_ins.REQUIRED:
            text = f"{about}: a sign-in is required{f': {state.error}' if state.error else ''}"
            yield Diagnosis("sign-in", False, text, how, row.name)
        elif is_person and (until := tokens.last_until(row)) is not None:
            text = f"{about}: its token ends at {until:%Y-%m-%d %H:%M} UTC, and cannot be renewed"
            yield Diagnosis("sign-in", until > timezone.now(), text, how, row.name)


def _of_limits() -> Iterator[Diagnosis]:
    """Where limits are counted, and what they add up to if each process counts for itself."""
    processes, redis = Process.objects.filter(lease_until__gte=Now()).count(), shared.of_hub()
    trouble = redis.check() if redis.url else ""
    if redis.url and not trouble:
        yield Diagnosis("limits", True, f"limits count in all processes together, in Redis at {redis.place}")
    elif trouble or processes > 1:
        limits = engine.limits_in_words(max(1, processes))
        text = f"limits count in each of {processes} processes; in total: {limits}"
        if trouble:
            how = "Calls continue. Check TOOLHUB_REDIS_URL, and that Redis is reachable from this machine."
            yield Diagnosis("limits", False, f"Redis at {redis.place} cannot be used ({trouble}): {text}", how)
        else:
            yield Diagnosis("limits", True, text, "To count in all together, set TOOLHUB_REDIS_URL.")


def _of_data() -> Iterator[Diagnosis]:
    missing = triggers.missing_triggers(connection)
    yield Diagnosis(
        "triggers",
        not missing,
        "running processes are notified of changes" if not missing else f"{len(missing)} database triggers are missing",
        "Run `toolhub migrate`: without them changes take effect only after a restart." if missing else "",
    )
    if text_index.missing_triggers(connection):
        text = "texts stay in the index of arguments when those of calls are deleted: its triggers are missing"
        yield Diagnosis("index-of-arguments", False, text, "Run `toolhub migrate`, which also deletes these texts.")
    if (leap := retention.leap(timezone.now())) is not None:
        yield Diagnosis("clock", False, str(leap), f"{retention.CURE[0].upper()}{retention.CURE[1:]}.")
    yield _of_backups()
    yield from _of_room()
    yield from _of_audit()
    installation.record_changes()
    snapshot = catalog.current()
    yield Diagnosis("tools-callable", True, f"{len(snapshot.callable)} of {len(snapshot.all)} tools can be called")
    yield from _of_refusals(snapshot)
    yield from _of_sources()
    kinds = catalog.current().connection_kinds
    for one in Connection.objects.filter(enabled=True):
        if fault := connections.fault(one, connections.kind_of(one, kinds)):
            text = f"connection {one.name}: {fault}"
            yield Diagnosis("connection", False, text, "Fix or disable it in the admin.", one.name)
    yield from _of_sign_ins()
    for fault in connections.unreadable(snapshot.connection_kinds, snapshot.required_variables):
        yield Diagnosis("settings", False, fault, "No other command starts until it is corrected.")
    for problem in offers.unmet(snapshot):
        yield Diagnosis("offers", False, problem, "Correct the names, or load these tools.")
    described = sources.current().inspected().tools
    names = [tool.spec.name for tool in described if tool.spec.kind is Kind.TOOL]
    unsynced = [name for name in names if snapshot.find(name) is None]
    if unsynced:
        yield Diagnosis("tools-synced", False, f"not synced yet: {', '.join(unsynced[:5])}", "Run `toolhub synctools`.")
    yield from _of_limits()
    usable = ApiKey.objects.filter(revoked_at=None).count()
    text = f"{usable} API keys are valid" if usable else "no API key: `toolhub addkey NAME` creates one"
    yield Diagnosis("keys", True, text)
    newest = ErrorLog.objects.values_list("created_at", "code", "tool_name").first()
    if newest is not None:
        at, code, tool = newest
        text = f"newest error: {code} of {tool or 'the hub'} at {at:%Y-%m-%d %H:%M} UTC"
        yield Diagnosis("errors", True, text)
