"""Check a hub for problems, and say how to fix them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.core.checks import run_checks
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.utils import timezone

from tools_app import engine, governance, sources
from tools_app.base import conf
from tools_app.catalog import catalog, connections, offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.catalog.source_states import SourceState, state_of, status_of
from tools_app.journal import retention
from tools_app.management.hub_command import HubCommand
from tools_app.models import ApiKey, Connection, ErrorLog, Process, Source, triggers
from tools_app.sdk import wording
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.spec import Kind
from tools_app.setup import installation
from tools_app.setup.backup import status
from tools_app.setup.installation import NotReady, Schema
from tools_app.sources.documents import needs_of
from tools_app.upstream import children

REWORD: Final = "Reword it: it could mislead an agent."


@dataclass(frozen=True)
class Diagnosis:
    is_good: bool
    text: str
    advice: str = ""


class Command(HubCommand):
    help = "Check home, database, tools and settings. Exits with 1 if there are problems. Changes nothing."
    needs_ready = False
    needs_variables = False  # It reports problems with them.

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for diagnosis in diagnoses():
            mark = self.style.SUCCESS("ok ") if diagnosis.is_good else self.style.ERROR("!! ")
            self.stdout.write(f"{mark} {diagnosis.text}")
            if diagnosis.advice:
                self.stdout.write(f"    {diagnosis.advice}")
            bad += not diagnosis.is_good
        self.stdout.write(f"\nProblems: {bad}." if bad else "\nNo problems.")
        if bad:
            raise SystemExit(1)


def diagnoses() -> Iterator[Diagnosis]:
    """All findings, in the order in which to fix them."""
    if (home := conf.home()) is not None:
        open_to_others = home.stat().st_mode & 0o077
        yield Diagnosis(
            not open_to_others,
            f"state is stored in {home}",
            f"Others on this machine can read it: chmod 700 {home}" if open_to_others else "",
        )
    for message in run_checks(include_deployment_checks=False):
        yield Diagnosis(False, f"settings: {message.msg}", message.hint or "")
    yield from _of_tools()
    try:
        state = installation.schema()
    except NotReady as error:
        yield Diagnosis(False, str(error))
        return
    yield _of_schema(state)
    if state is not Schema.CURRENT:
        return
    try:
        yield from _of_data()
    except DatabaseError as error:
        yield Diagnosis(False, installation.database_trouble(error))


def _of_schema(state: Schema) -> Diagnosis:
    advice = {
        Schema.EMPTY: "Not set up yet: run `toolhub serve`.",
        Schema.OLDER: "Run `toolhub migrate`.",
        Schema.NEWER: f"{installation.WAY_BACK[0].upper()}{installation.WAY_BACK[1:]}.",
        Schema.CURRENT: "",
    }[state]
    return Diagnosis(state is Schema.CURRENT, f"database ({connection.vendor}): its schema is {state.value}", advice)


def _of_tools() -> Iterator[Diagnosis]:
    contents = sources.current().inspected()
    tools = [tool for tool in contents.tools if tool.spec.kind is Kind.TOOL]
    yield Diagnosis(len(tools) > 0, f"{len(tools)} tools are loaded")
    for problem in contents.problems:
        advice = "Fix the file. In the tools directory it is reloaded automatically; otherwise restart the hub."
        yield Diagnosis(False, f"failed to load: {problem}", advice)
    packs = {tool.spec.folded_name: tool.pack for tool in tools}
    for tool in contents.tools:
        spec = tool.spec
        # Prompts name tools on purpose, so no check against other packs' names.
        others = wording.Others(tool.pack, packs) if spec.kind is Kind.TOOL else ()
        about = spec.name if spec.kind is Kind.TOOL else f"{spec.kind.family} {spec.key}"
        for finding in wording.findings(spec.body, others):
            yield Diagnosis(False, f"{about}: {finding}", REWORD)


def _of_backups() -> Diagnosis:
    made_at, now = status.last_good(), timezone.now()
    text = f"last good backup: {made_at:%Y-%m-%d %H:%M} UTC" if made_at is not None else "there is no backup yet"
    if status.is_overdue(made_at, now):
        return Diagnosis(
            False, text, "Scheduled backups fail: see the log of `toolhub serve`, or run `toolhub backup`."
        )
    hint = "Run `toolhub backup`, or set TOOLHUB_BACKUP_DIR for scheduled ones."
    return Diagnosis(True, text, hint if made_at is None and status.interval() is None else "")


def _of_refusals(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Why enabled tools cannot be called. A reason shared by tools of a pack is reported once."""
    names_by_refusal: dict[tuple[str, Refusal], list[str]] = {}
    for entry in snapshot.all:
        if entry.refusal is not None and entry.enabled:
            names_by_refusal.setdefault((entry.pack, entry.refusal), []).append(entry.name)
    for (pack, refusal), names in names_by_refusal.items():
        subject = f"{len(names)} tools of {pack}" if len(names) > 1 else names[0]
        yield Diagnosis(refusal.unused, f"{subject}: {refusal.reason}", "" if refusal.unused else refusal.advice)


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
        yield Diagnosis(not failing, f"{text}: {status.error}" if status.error else text, advice)
        yield from _of_document(source)
        if waiting := len(governance.waiting_versions(source)):
            how = f"See them with `toolhub source list {source.name}`, and approve them with `toolhub source approve`."
            yield Diagnosis(True, f"source {source.name}: versions that wait for approval: {waiting}", how)
    if commands and (isolation := children.isolation()) == "none":
        how = "To prevent that, run them in a container, or the hub on Linux with Landlock (TOOLHUB_ISOLATE_PROGRAMS)."
        yield Diagnosis(True, "programs of sources run as the user of this hub and can read this hub's files", how)
    elif commands:
        yield Diagnosis(True, f"programs of sources cannot read this hub's files ({isolation})")


def _of_document(source: Source) -> Iterator[Diagnosis]:
    """What an OpenAPI document needs, and why it cannot be read again."""
    document = governance.document_of(source)
    if document is None:
        return
    if document.error:
        how = f"Calls continue with the version that was read. See `toolhub source document {source.name} FILE|URL`."
        yield Diagnosis(False, f"source {source.name}: its document cannot be read again: {document.error}", how)
    needs = needs_of(document.facts)
    if needs and not Connection.objects.filter(pack=source.name, enabled=True).exists():
        words = " or ".join(need.words for need in needs)
        how = "Create it in the admin under Connections, and give it to the keys that use the source."
        yield Diagnosis(True, f"source {source.name}: needs a connection: {words}", how)


def _of_data() -> Iterator[Diagnosis]:
    missing = triggers.missing_triggers(connection)
    yield Diagnosis(
        not missing,
        "running processes are notified of changes" if not missing else f"{len(missing)} database triggers are missing",
        "Run `toolhub migrate`: without them changes take effect only after a restart." if missing else "",
    )
    if (leap := retention.leap(timezone.now())) is not None:
        yield Diagnosis(False, str(leap), f"{retention.CURE[0].upper()}{retention.CURE[1:]}.")
    yield _of_backups()
    installation.record_changes()
    snapshot = catalog.current()
    yield Diagnosis(True, f"{len(snapshot.callable)} of {len(snapshot.all)} tools can be called")
    yield from _of_refusals(snapshot)
    yield from _of_sources()
    kinds = catalog.current().connection_kinds
    for one in Connection.objects.filter(enabled=True):
        if fault := connections.fault(one, connections.kind_of(one, kinds)):
            yield Diagnosis(False, f"connection {one.name}: {fault}", "Fix or disable it in the admin.")
    for fault in connections.unreadable(snapshot.connection_kinds, snapshot.required_variables):
        yield Diagnosis(False, fault, "No other command starts until it is corrected.")
    for problem in offers.unmet(snapshot):
        yield Diagnosis(False, problem, "Correct the names, or load these tools.")
    described = sources.current().inspected().tools
    names = [tool.spec.name for tool in described if tool.spec.kind is Kind.TOOL]
    unsynced = [name for name in names if snapshot.find(name) is None]
    if unsynced:
        yield Diagnosis(False, f"not synced yet: {', '.join(unsynced[:5])}", "Run `toolhub synctools`.")
    processes = Process.objects.filter(lease_until__gte=Now()).count()
    if processes > 1:
        limits = engine.limits_in_words(processes)
        yield Diagnosis(True, f"limits count in each of {processes} processes; in total: {limits}")
    usable = ApiKey.objects.filter(revoked_at=None).count()
    yield Diagnosis(True, f"{usable} API keys are valid" if usable else "no API key: `toolhub addkey NAME` creates one")
    newest = ErrorLog.objects.values_list("created_at", "code", "tool_name").first()
    if newest is not None:
        at, code, tool = newest
        yield Diagnosis(True, f"newest error: {code} of {tool or 'the hub'} at {at:%Y-%m-%d %H:%M} UTC")
