"""Check a hub for problems, and say how to fix them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.core.checks import run_checks
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.utils import timezone

from tools_app import engine, sources
from tools_app.base import conf
from tools_app.catalog import catalog, connections
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import retention
from tools_app.management.hub_command import HubCommand
from tools_app.models import ApiKey, Connection, ErrorLog, Process, revision
from tools_app.sdk import wording
from tools_app.sdk.hub_errors import Refusal
from tools_app.setup import installation
from tools_app.setup.installation import NotReady, Schema

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
        Schema.NEWER: "Install the version of ToolHub that created it, or restore a copy from backups.",
        Schema.CURRENT: "",
    }[state]
    return Diagnosis(state is Schema.CURRENT, f"database ({connection.vendor}): its schema is {state.value}", advice)


def _of_tools() -> Iterator[Diagnosis]:
    registry = sources.loaded()
    yield Diagnosis(len(registry) > 0, f"{len(registry)} tools are loaded")
    for problem in registry.problems:
        advice = "Fix the file. In the tools directory it is reloaded automatically; otherwise restart the hub."
        yield Diagnosis(False, f"failed to load: {problem}", advice)
    for fault in connections.unreadable(registry):
        yield Diagnosis(False, fault, "No other command starts until it is corrected.")
    packs = {loaded.tool.folded_name: loaded.pack for loaded in registry}
    for loaded in registry:
        for finding in wording.findings(loaded.tool.definition(), wording.Others(loaded.pack, packs)):
            yield Diagnosis(False, f"{loaded.tool.name}: {finding}", REWORD)
    for offer, _ in registry.offers:
        # Prompts name tools on purpose, so no check against other packs' names.
        for finding in wording.findings(offer.runner.definition()):
            yield Diagnosis(False, f"{offer.kind} {offer.key}: {finding}", REWORD)


def _of_refusals(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Why enabled tools cannot be called. A reason shared by tools of a pack is reported once."""
    refused: dict[tuple[str, Refusal], list[str]] = {}
    for entry in snapshot.all:
        if entry.refusal is not None and entry.enabled:
            refused.setdefault((entry.pack, entry.refusal), []).append(entry.name)
    for (pack, refusal), names in refused.items():
        what = f"{len(names)} tools of {pack}" if len(names) > 1 else names[0]
        yield Diagnosis(refusal.unused, f"{what}: {refusal.reason}", "" if refusal.unused else refusal.advice)


def _of_data() -> Iterator[Diagnosis]:
    missing = revision.missing_triggers(connection)
    yield Diagnosis(
        not missing,
        "running processes are notified of changes" if not missing else f"{len(missing)} database triggers are missing",
        "Run `toolhub migrate`: without them changes take effect only after a restart." if missing else "",
    )
    if (leap := retention.leap(timezone.now())) is not None:
        yield Diagnosis(False, str(leap), f"{retention.CURE[0].upper()}{retention.CURE[1:]}.")
    snapshot = catalog.current()
    yield Diagnosis(True, f"{len(snapshot.callable)} of {len(snapshot.all)} tools can be called")
    yield from _of_refusals(snapshot)
    kinds = connections.kinds(sources.loaded())
    for one in Connection.objects.filter(enabled=True):
        if fault := connections.fault(one, kinds.get(one.pack)):
            yield Diagnosis(False, f"connection {one.name}: {fault}", "Fix or disable it in the admin.")
    unsynced = [loaded.tool.name for loaded in sources.loaded() if snapshot.find(loaded.tool.name) is None]
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
