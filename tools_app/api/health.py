"""The health check for load balancers and monitoring. It needs no key, so it reveals nothing else."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router
from pydantic import Field

from tools_app import engine
from tools_app.api.answers import ResponseSchema, answer, timestamp
from tools_app.api.errors import OPEN_FAILURES, Failure
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.models import Stop
from tools_app.sdk.hub_errors import StorageBusyError
from tools_app.setup.backup import status as status_of_backups

router = Router(auth=None, tags=["hub"])

PATIENCE_SECONDS: Final = 3.0

Outcome = Literal["pass", "warn", "fail"]
Status = Literal["healthy", "degraded", "unhealthy"]


class Checks(ResponseSchema):
    database: Outcome
    tools: Outcome


class Health(ResponseSchema):
    status: Status
    checks: Checks
    stopped: bool = Field(description="An operator stopped the hub: it refuses calls until it is resumed")
    backup_age_seconds: int | None = Field(
        description="Time since the last good backup; null: there is none. It does not change the status"
    )
    timestamp: str


@router.get(
    "health",
    response={200: Health, **dict.fromkeys(OPEN_FAILURES, Failure), 503: Health},
    by_alias=True,
    url_name="health",
)
async def show_health(request: HttpRequest) -> HttpResponse:
    """Check whether the hub can take calls: 200 if it is healthy, otherwise 503."""
    checks = await _checks()
    outcomes = {checks.database, checks.tools}
    status: Status = "unhealthy" if "fail" in outcomes else "degraded" if "warn" in outcomes else "healthy"
    backup_age = await _backup_age() if checks.database == "pass" else None
    health = Health(
        status=status, checks=checks, stopped=_is_stopped(), backup_age_seconds=backup_age, timestamp=timestamp()
    )
    return answer(health, 200 if status == "healthy" else 503)


def _is_stopped() -> bool:
    """Reads the snapshot that `_checks` has just refreshed."""
    return (Stop.Kind.HUB, "") in catalog.latest().stops


async def _backup_age() -> int | None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            made_at = await database.run(status_of_backups.last_good)
    except (DatabaseError, InterfaceError, TimeoutError):
        return None
    return None if made_at is None else max(0, int((timezone.now() - made_at).total_seconds()))


async def _checks() -> Checks:
    """`tools` warns only if no tool at all can be called; single broken tools do not count."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            snapshot = await catalog.fresh()
    except (StorageBusyError, TimeoutError):
        # The list of tools is in the database too.
        return Checks(database="fail", tools="fail")
    if engine.trouble():
        # The database can be read but not written: no call can be journalled.
        return Checks(database="fail", tools="pass" if snapshot.callable else "warn")
    return Checks(database="pass", tools="pass" if snapshot.callable else "warn")
