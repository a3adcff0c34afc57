"""Causes that no statement brings about, but time: they are looked for, and each has one alert."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, Sum

from tools_app.journal import budgets, disk
from tools_app.journal.insights import ERRORS
from tools_app.models import Alert, ApiKey, Approval, Call, CallHour, ToolRecord, Toolset
from tools_app.models.alerts import Event, new_alert, note_alerts
from tools_app.models.budgets import HAS_BUDGET
from tools_app.models.figures import HOUR, beginning
from tools_app.setup.backup import status

KEY_SOON: Final = timedelta(days=7)
# Of an approval, at most a third of its time.
APPROVAL_SOON: Final = timedelta(minutes=5)
APPROVAL_SHARE: Final = 3
# An approval that expired while no process looked is still told.
EXPIRED_SINCE: Final = timedelta(days=1)
# Shares of calls from which on there is another alert.
LEVELS: Final = (0.5, 0.2, 0.1, 0.05)
FEWEST_ERRORS: Final = 5
# Until the same subject has another alert of this kind, or of a lower level.
QUIET: Final = {Event.ERROR_RATE: HOUR, Event.DISK_LOW: timedelta(days=7)}


def find(now: datetime) -> int:
    """Write the alerts that are due. Returns their number. Any process may, also several at once."""
    found = [*_approvals(now), *_keys(now), *_budgets(now), *_backups(now), *_disks(now), *_error_rates(now)]
    # Nothing is written if all are known: even a write without effect would wait for the lock.
    known = set(Alert.objects.filter(cause__in=[alert.cause for alert in found]).values_list("cause", flat=True))
    new = [alert for alert in found if alert.cause not in known and not _is_quiet(alert)]
    note_alerts(new)
    return len(new)


def _is_quiet(alert: Alert) -> bool:
    """Whether there was an alert of the same subject and kind lately, which says as much."""
    span = QUIET.get(Event(alert.event))
    if span is None:
        return False
    earlier = Alert.objects.filter(subject=alert.subject, event=alert.event, at__gt=alert.at - span)
    levels = [values.get("level", 0) for values in earlier.values_list("details", flat=True)]
    return bool(levels) and max(levels) >= alert.details.get("level", 0)


def _approvals(now: datetime) -> Iterator[Alert]:
    pending = Approval.objects.filter(
        state=Approval.State.PENDING, expires_at__gt=now - EXPIRED_SINCE, expires_at__lte=now + APPROVAL_SOON
    )
    for approval in pending.defer("arguments"):
        left = approval.expires_at - now
        if left <= timedelta():
            yield new_alert(Event.APPROVAL_EXPIRED, approval.pk, now, **approval.about)
        elif left <= (approval.expires_at - approval.asked_at) / APPROVAL_SHARE:
            yield new_alert(Event.APPROVAL_EXPIRING, approval.pk, now, **approval.about)


def _keys(now: datetime) -> Iterator[Alert]:
    for key in ApiKey.objects.usable(now).filter(expires_at__lte=now + KEY_SOON):
        # One that was made for less than that is meant to end.
        if key.expires_at is not None and key.expires_at - key.created_at > KEY_SOON:
            until = key.expires_at.isoformat()
            cause, subject = f"{key.pk}:{until}", f"key:{key.pk}"
            values = {"name": key.name, "until": until}
            caller = (f"key:{key.pk}", key.name)
            yield new_alert(Event.KEY_EXPIRING, cause, now, subject=subject, caller=caller, details=values)


def _budgets(now: datetime) -> Iterator[Alert]:
    keys = ApiKey.objects.usable(now).filter(HAS_BUDGET)
    owners: dict[str, ApiKey | Toolset] = {f"key:{key.pk}": key for key in keys}
    owners |= {f"toolset:{toolset.name}": toolset for toolset in Toolset.objects.filter(HAS_BUDGET)}
    for name, limits in budgets.limits({name: owner.budget for name, owner in owners.items()}, now).items():
        owner, kind = owners[name], name.partition(":")[0]
        subject = f"{kind}:{owner.pk}"
        for limit in limits:
            level = next((level for level in (100, budgets.ALMOST) if limit.percent >= level), None)
            if level is None:
                continue
            until = limit.resets_at.isoformat()
            values = {
                "kind": kind,
                "name": owner.name,
                "unit": limit.unit,
                "period": limit.period,
                "limit": limit.most,
                "level": level,
                "until": until,
            }
            caller = (subject, owner.name) if kind == "key" else ("", "")
            cause = f"{subject}:{limit.unit}:{limit.period}:{until}:{level}"
            yield new_alert(Event.BUDGET_REACHED, cause, now, subject=subject, caller=caller, details=values)


def _backups(now: datetime) -> Iterator[Alert]:
    made_at = status.last_good()
    if status.is_overdue(made_at, now):
        text = made_at.isoformat() if made_at is not None else ""
        yield new_alert(Event.BACKUP_OVERDUE, text, now, subject="backup", details={"made_at": text})


def _disks(now: datetime) -> Iterator[Alert]:
    for volume in disk.volumes(now):
        if volume.is_soon_full and volume.free is not None:
            place = f"{volume.host}:{volume.path}"
            cause, subject = f"{place[:150]}:{now:%Y-%m-%d}", f"disk:{place}"
            values = {"path": volume.path, "free": volume.free, "days": volume.days_left, "level": 1}
            yield new_alert(Event.DISK_LOW, cause, now, subject=subject, details=values)


def _error_rates(now: datetime) -> Iterator[Alert]:
    """Of this hour, and of the last two: a tool that fails since minutes is noticed, also at the turn of an hour."""
    hour = beginning(now, HOUR)
    rows = CallHour.objects.filter(hour__gte=hour - HOUR, hour__lte=hour).exclude(status=Call.Status.REFUSED).order_by()
    by_tool: dict[str, dict[bool, tuple[int, int]]] = defaultdict(lambda: {True: (0, 0), False: (0, 0)})
    errors_of = Sum("calls", filter=Q(status__in=ERRORS), default=0)
    sums = rows.values_list("tool_name", "hour").annotate(number=Sum("calls"), errors=errors_of)
    for tool, at, number, errors in sums:
        calls, failed = by_tool[tool][at == hour]
        by_tool[tool][at == hour] = calls + number, failed + errors
    if not any(failed for counts in by_tool.values() for _, failed in counts.values()):
        return
    sources = dict(ToolRecord.objects.filter(name__in=by_tool).values_list("name", "source__name"))
    groups: dict[str, list[str]] = {"hub:": list(by_tool)}
    for tool in by_tool:
        if tool:
            groups[f"tool:{tool}"] = [tool]
        if source := sources.get(tool):
            groups.setdefault(f"origin:{source}", []).append(tool)
    for subject, tools in groups.items():
        share = _share([by_tool[tool] for tool in tools])
        level = next((level for level in LEVELS if share >= level), None)
        if level is None:
            continue
        kind, _, name = subject.partition(":")
        cause = f"{subject[:120]}:{level}:{hour.isoformat()}"
        source = name if kind == "origin" else sources.get(name) or ""
        values = {"level": level, "share": share}
        tool = name if kind == "tool" else ""
        yield new_alert(Event.ERROR_RATE, cause, now, subject=subject, tool=tool, source=source, details=values)


def _share(counts: Iterable[dict[bool, tuple[int, int]]]) -> float:
    """The larger share of errors, of this hour and of both; 0 if there are few."""
    rows = list(counts)
    now = [sum(row[True][part] for row in rows) for part in (0, 1)]
    before = [sum(row[False][part] for row in rows) for part in (0, 1)]
    both = [now[0] + before[0], now[1] + before[1]]
    return max((failed / calls for calls, failed in (now, both) if failed >= FEWEST_ERRORS), default=0.0)
