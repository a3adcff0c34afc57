"""Alerts of syncs: sources that fail or recover, files that cannot be loaded, versions that wait for approval."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tools_app.models import Definition, Source, SourceStatus
from tools_app.models.alerts import Event, close_alerts, note_alert
from tools_app.models.sources import LoadProblem

MOST_NAMED: Final = 5
_OK: Final = SourceStatus.Availability.OK


def note_failure(row: Source, status: SourceStatus, now: datetime) -> None:
    """Of a source that was available until now."""
    about = {"subject": f"source:{row.pk}", "source": row.name}
    note_alert(Event.SOURCE_FAILING, f"{row.pk}:{now.isoformat()}", now, **about, details={"why": status.error})


def note_described(row: Source, status: SourceStatus, problems: Sequence[LoadProblem], now: datetime) -> None:
    """Before the status of a source that was described is saved."""
    about = {"subject": f"source:{row.pk}", "source": row.name}
    if status.availability != _OK and status.error:
        close_alerts(about["subject"], "recovered", now)
        note_alert(Event.SOURCE_RECOVERED, f"{row.pk}:{now.isoformat()}", now, **about)
    known = {problem.place for problem in status.load_problems}
    if new := [problem for problem in problems if problem.place not in known]:
        cause = f"{row.pk}:{new[0].place[-100:]}:{now.isoformat()}"
        note_alert(Event.FILE_BROKEN, cause, now, **about, details={"why": str(new[0])})


def note_held(row: Source, definitions: Sequence[Definition], now: datetime) -> None:
    """Of the first versions of a sync that wait. One alert for all: a server may have a thousand tools."""
    names = sorted(definition.tool.label for definition in definitions)
    more = ", …" if len(names) > MOST_NAMED else ""
    about = {"subject": f"source:{row.pk}", "source": row.name, "tool": names[0] if len(names) == 1 else ""}
    text = ", ".join(names[:MOST_NAMED]) + more
    note_alert(Event.DEFINITION_HELD, f"{row.pk}:{definitions[0].pk}", now, **about, details={"tools": text})
