"""Looks at everything that can be wrong with a hub and says what to do about it."""

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

REWORD: Final = "Read it as an agent would, and reword it."


@dataclass(frozen=True)
class Finding:
    good: bool
    what: str
    advice: str = ""


class Command(HubCommand):
    help = "Check home, database, tools and settings. Ends with 1 when something needs attention. Changes nothing."
    needs_ready = False
    needs_variables = False  # It tells what is wrong with them.

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for finding in findings():
            mark = self.style.SUCCESS("ok ") if finding.good else self.style.ERROR("!! ")
            self.stdout.write(f"{mark} {finding.what}")
            if finding.advice:
                self.stdout.write(f"    {finding.advice}")
            bad += not finding.good
        self.stdout.write(f"\n{bad} to look at." if bad else "\nAll is well.")
        if bad:
            raise SystemExit(1)


def findings() -> Iterator[Finding]:
    """Everything worth saying, in the order in which it should be mended."""
    if (home := conf.home()) is not None:
        open_to_others = home.stat().st_mode & 0o077
        yield Finding(
            not open_to_others,
            f"state is kept in {home}",
            f"Others on this machine can look into it: chmod 700 {home}" if open_to_others else "",
        )
    for message in run_checks(include_deployment_checks=False):
        yield Finding(False, f"settings: {message.msg}", message.hint or "")
    yield from _of_tools()
    try:
        state = installation.schema()
    except NotReady as error:
        yield Finding(False, str(error))
        return
    yield _of_schema(state)
    if state is not Schema.CURRENT:
        return
    try:
        yield from _of_data()
    except DatabaseError as error:
        yield Finding(False, installation.database_trouble(error))


def _of_schema(state: Schema) -> Finding:
    advice = {
        Schema.EMPTY: "Nothing is set up yet: run `toolhub serve`.",
        Schema.OLDER: "Run `toolhub migrate`.",
        Schema.NEWER: "Install the version of ToolHub that made it, or restore a copy from backups.",
        Schema.CURRENT: "",
    }[state]
    return Finding(state is Schema.CURRENT, f"database ({connection.vendor}): its schema is {state.value}", advice)


def _of_tools() -> Iterator[Finding]:
    registry = sources.loaded()
    yield Finding(len(registry) > 0, f"{len(registry)} tools are loaded")
    for problem in registry.problems:
        cure = "Mend the file. In the tools directory that is enough; otherwise restart the hub."
        yield Finding(False, f"not loaded: {problem}", cure)
    for fault in connections.unreadable(registry):
        yield Finding(False, fault, "Until it is corrected, no command but this one starts.")
    packs = {loaded.tool.folded_name: loaded.pack for loaded in registry}
    for loaded in registry:
        for found in wording.findings(loaded.tool.definition(), wording.Others(loaded.pack, packs)):
            yield Finding(False, f"{loaded.tool.name}: {found}", REWORD)
    for offer, _ in registry.offers:
        # Prompts are there to name tools.
        for found in wording.findings(offer.runner.definition()):
            yield Finding(False, f"{offer.kind} {offer.key}: {found}", REWORD)


def _of_refusals(snapshot: Snapshot) -> Iterator[Finding]:
    """Why tools that are switched on cannot be called. What many tools of a pack lack is said once."""
    refused: dict[tuple[str, Refusal], list[str]] = {}
    for entry in snapshot.all:
        if entry.refusal is not None and entry.enabled:
            refused.setdefault((entry.pack, entry.refusal), []).append(entry.name)
    for (pack, refusal), names in refused.items():
        what = f"{len(names)} tools of {pack}" if len(names) > 1 else names[0]
        yield Finding(refusal.unused, f"{what}: {refusal.reason}", "" if refusal.unused else refusal.advice)


def _of_data() -> Iterator[Finding]:
    missing = revision.missing_triggers(connection)
    yield Finding(
        not missing,
        "changes reach running processes" if not missing else f"{len(missing)} database triggers are missing",
        "Run `toolhub migrate`: without them a switched tool is noticed only after a restart." if missing else "",
    )
    if (leap := retention.leap(timezone.now())) is not None:
        yield Finding(False, str(leap), f"{retention.CURE[0].upper()}{retention.CURE[1:]}.")
    snapshot = catalog.current()
    yield Finding(True, f"{len(snapshot.callable)} of {len(snapshot.all)} tools can be called")
    yield from _of_refusals(snapshot)
    kinds = connections.kinds(sources.loaded())
    for one in Connection.objects.filter(enabled=True):
        if fault := connections.fault(one, kinds.get(one.pack)):
            yield Finding(False, f"connection {one.name}: {fault}", "Mend it in the admin, or switch it off there.")
    unsynced = [loaded.tool.name for loaded in sources.loaded() if snapshot.find(loaded.tool.name) is None]
    if unsynced:
        yield Finding(False, f"not written down yet: {', '.join(unsynced[:5])}", "Run `toolhub synctools`.")
    processes = Process.objects.filter(lease_until__gte=Now()).count()
    if processes > 1:
        limits = engine.limits_in_words(processes)
        yield Finding(True, f"limits are counted in each of {processes} processes; over all of them: {limits}")
    usable = ApiKey.objects.filter(revoked_at=None).count()
    yield Finding(True, f"{usable} API keys are valid" if usable else "no API key: `toolhub addkey NAME` makes one")
    newest = ErrorLog.objects.values_list("created_at", "code", "tool_name").first()
    if newest is not None:
        yield Finding(True, f"newest error: {newest[1]} of {newest[2] or 'the hub'} at {newest[0]:%Y-%m-%d %H:%M} UTC")
