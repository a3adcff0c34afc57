"""Reasons why the hub needs attention, and the status line that sums them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from tools_app import engine, governance
from tools_app.admin import charts, links
from tools_app.admin.key_words import attention_filter
from tools_app.alerts import words
from tools_app.alerts.finding import FEWEST_ERRORS, LEVELS
from tools_app.base import shared
from tools_app.catalog import source_states
from tools_app.catalog.snapshot import Snapshot
from tools_app.catalog.source_states import SourceState
from tools_app.journal import disk, insights, retention
from tools_app.journal.insights import Figures, Period
from tools_app.models import AlertRule, ApiKey, Approval, Connection, Source, SourceStatus, Stop
from tools_app.setup.backup import status

MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """One problem; tone `bad` means that it blocks work."""

    tone: str
    words: str
    address: str = ""


def journal() -> Iterator[Reason]:
    """Problems of this process."""
    if trouble := engine.trouble():
        yield Reason("bad", _("The database is not writable, so calls are refused: %(why)s") % {"why": trouble})


def limits() -> Iterator[Reason]:
    """Redis, as this process has seen it last."""
    if trouble := shared.of_hub().trouble:
        text = _("Redis cannot be used, so each process counts limits for itself: %(why)s")
        yield Reason("warn", text % {"why": trouble})


def clock(now: datetime) -> Iterator[Reason]:
    if (leap := retention.leap(now)) is not None:
        text = _(
            "The clock may have jumped: there are no records between %(before)s and %(after)s. Old records are "
            "kept until the clock is corrected, or `toolhub prunelogs --trust-clock` confirms it."
        )
        moments = {
            "before": date_format(localtime(leap.before), "DATETIME_FORMAT"),
            "after": date_format(localtime(leap.after), "DATETIME_FORMAT"),
        }
        yield Reason("bad", text % moments)


def backups(made_at: datetime | None, now: datetime) -> Iterator[Reason]:
    """Scheduled backups that are not made."""
    if status.is_overdue(made_at, now):
        yield Reason("bad", words.backup_overdue(made_at))


def disks(now: datetime) -> Iterator[Reason]:
    """File systems that are full soon."""
    for volume in disk.volumes(now):
        if volume.is_soon_full and volume.free is not None:
            text = words.disk_low(volume.path, volume.free, volume.days_left)
            yield Reason("bad", text, links.address("process", "data"))


def emergencies() -> Iterator[Reason]:
    """Emergency sign-ins that no other person has looked at."""
    for entry in governance.open_emergencies()[:MOST_NAMED]:
        text = words.emergency(words.moment(entry.at), entry.actor, entry.subject.removeprefix("user:"))
        yield Reason("bad", text, links.address("auditentry", "change", entry.pk))


def stops() -> Iterator[Reason]:
    stops = list(Stop.objects.active()[: MOST_NAMED + 1])
    for one in stops[:MOST_NAMED]:
        yield Reason("bad", words.stopped(one.kind, one.words), links.address("stop", "changelist"))
    if len(stops) > MOST_NAMED:
        yield Reason("bad", _("More kill switches are on."), links.address("stop", "changelist"))


def approvals(pending_calls: int) -> Iterator[Reason]:
    if pending_calls:
        text = ngettext("%(n)s call is waiting for approval.", "%(n)s calls are waiting for approval.", pending_calls)
        yield Reason("warn", text % {"n": pending_calls}, links.address("approval", "changelist"))


def expired_approvals(now: datetime, address: str) -> Iterator[Reason]:
    """Calls that no operator decided in time, and that were refused."""
    number = Approval.objects.unanswered(now).count()
    if number:
        text = ngettext(
            "%(n)s approval expired without an answer in the last 24 hours.",
            "%(n)s approvals expired without an answer in the last 24 hours.",
            number,
        )
        yield Reason("warn", text % {"n": number}, address)


def calls(figures: Figures, period: Period) -> Iterator[Reason]:
    if figures.errors >= FEWEST_ERRORS and figures.error_rate >= LEVELS[-1]:
        numbers = {"errors": f"{figures.errors:,}", "calls": f"{figures.not_refused:,}"}
        text = _("%(errors)s of %(calls)s calls failed (%(share)s).") % {**numbers, "share": charts.share(figures)}
        yield Reason("bad", text, links.errors_since(period.key, calls=True))


def connections(unwell: Sequence[Connection]) -> Iterator[Reason]:
    for one in unwell[:MOST_NAMED]:
        yield Reason(
            "bad", words.connection_failing(one.name, one.health), links.address("connection", "change", one.pk)
        )
    more = len(unwell) - MOST_NAMED
    if more > 0:
        text = ngettext("%(n)s more connection is failing.", "%(n)s more connections are failing.", more)
        yield Reason("bad", text % {"n": more}, links.address("connection", "changelist"))


def sources() -> Iterator[Reason]:
    """Sources outside that cannot be used: their tools stay listed, and calls fail."""
    unwell = source_states.having(SourceState.FAILED) | source_states.having(SourceState.SIGN_IN)
    rows = Source.objects.filter(unwell, removed_at=None, kind__in=Source.OUTSIDE).select_related("status")
    found = list(rows.order_by("name"))
    for one in found[:MOST_NAMED]:
        is_sign_in = one.status.availability == SourceStatus.Availability.SIGN_IN and one.connection_id is not None
        # Where an operator signs in, if there is such a page.
        where = ("connection", "change", one.connection_id) if is_sign_in else ("source", "change", one.pk)
        yield Reason("bad", words.source_failing(one.name, one.status.error), links.address(*where))
    more = len(found) - MOST_NAMED
    if more > 0:
        text = ngettext("%(n)s more source is not available.", "%(n)s more sources are not available.", more)
        yield Reason("bad", text % {"n": more}, links.address("source", "changelist", state=SourceState.FAILED))


def files() -> Iterator[Reason]:
    """Files, packages and apps whose tools cannot be loaded: what was loaded before is gone after a restart."""
    broken = SourceStatus.objects.filter(source__removed_at=None, source__enabled=True).exclude(problems=[])
    problems = [one for row in broken.exclude(source__kind__in=Source.OUTSIDE) for one in row.load_problems]
    for problem in problems[:MOST_NAMED]:
        yield Reason("bad", words.file_broken(str(problem)), links.address("toolrecord", "changelist"))
    more = len(problems) - MOST_NAMED
    if more > 0:
        text = ngettext("%(n)s more tool cannot be loaded.", "%(n)s more tools cannot be loaded.", more)
        yield Reason("bad", text % {"n": more}, links.address("toolrecord", "changelist"))


def alert_rules() -> Iterator[Reason]:
    """Rules that cannot send: their receivers are told of nothing."""
    failing = list(AlertRule.objects.filter(enabled=True, failing_since__isnull=False)[: MOST_NAMED + 1])
    for rule in failing[:MOST_NAMED]:
        yield Reason("bad", words.rule_failing(rule.name, rule.error), links.address("alertrule", "change", rule.pk))
    if len(failing) > MOST_NAMED:
        yield Reason("bad", _("More alert rules cannot send."), links.address("alertrule", "changelist"))


def tools(snapshot: Snapshot) -> Iterator[Reason]:
    """Packs that are not configured are not a problem: they are optional."""
    number = sum(
        1 for entry in snapshot.all if entry.enabled and entry.refusal is not None and not entry.refusal.unused
    )
    if number:
        text = ngettext(
            "%(n)s enabled tool is not callable.",
            "%(n)s enabled tools are not callable.",
            number,
        )
        yield Reason("warn", text % {"n": number}, links.address("toolrecord", "changelist", state="unavailable"))


def errors() -> Iterator[Reason]:
    """As many as the tile says: an issue that is not decided is open, also after the period."""
    number = insights.open_error_groups()
    if number:
        text = ngettext(
            "%(n)s unresolved issue.",
            "%(n)s unresolved issues.",
            number,
        )
        yield Reason("warn", text % {"n": number}, links.address("errorgroup", "changelist"))


def keys(now: datetime) -> Iterator[Reason]:
    number = ApiKey.objects.usable(now).filter(attention_filter(now)).count()
    if number:
        text = ngettext("%(n)s API key needs attention.", "%(n)s API keys need attention.", number)
        yield Reason("warn", text % {"n": number}, links.address("apikey", "changelist", state="attention"))


def in_a_sentence(reasons: Sequence[Reason]) -> str:
    """The status line."""
    if not reasons:
        return _("All systems operational.")
    bad = sum(reason.tone == "bad" for reason in reasons)
    if bad:
        return ngettext("%(n)s problem.", "%(n)s problems.", bad) % {"n": bad}
    number = len(reasons)
    return ngettext(
        "Operational – %(n)s item needs attention.", "Operational – %(n)s items need attention.", number
    ) % {"n": number}
