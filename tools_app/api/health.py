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
from tools_app.base import database, shared
from tools_app.catalog import catalog, obstacles
from tools_app.journal import disk
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
    maintenance: bool = Field(
        description="Tools that write are refused, and those that read can be called. It does not change the status"
    )
    disk: Literal["pass", "warn"] = Field(
        description="warn: a disk is full soon, as `toolhub doctor` says. It does not change the status"
    )
    backup_age_seconds: int | None = Field(
        description="Time since the last good backup; null: there is none. It does not change the status"
    )
    limits: Literal["hub", "process"] = Field(
        description="Where limits are counted. hub: in all processes together. process: in each, since "
        "TOOLHUB_REDIS_URL is not set or Redis does not answer. It does not change the status"
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
    backup_age, is_disk_full = await _facts() if checks.database == "pass" else (None, False)
    # Of the snapshot that `_checks` has just refreshed.
    stops = catalog.latest().stops
    health = Health(
        status=status,
        checks=checks,
        stopped=(Stop.Kind.HUB, "") in stops,
        maintenance=obstacles.maintenance(stops, timezone.now()) is not None,
        disk="warn" if is_disk_full else "pass",
        backup_age_seconds=backup_age,
        limits="hub" if shared.of_hub().is_used() else "process",
        timestamp=timestamp(),
    )
    return answer(health, 200 if status == "healthy" else 503)


async def _facts() -> tuple[int | None, bool]:
    """The age of the last good backup, and whether a disk is full soon."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await database.run(_read_facts)
    except (DatabaseError, InterfaceError, TimeoutError):
        return None, False


def _read_facts() -> tuple[int | None, bool]:
    made_at, now = status_of_backups.last_good(), timezone.now()
    age = None if made_at is None else max(0, int((now - made_at).total_seconds()))
    return age, any(volume.is_soon_full for volume in disk.volumes(now))


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
