"""Kill switches for the hub, packs, connections and keys, and maintenance. A stop takes effect on the next call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final, Literal

from django.http import HttpRequest
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import Body, Reason
from tools_app.api.errors import Failure
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.governance.stops import LONGEST
from tools_app.models import Stop

router = StrictRouter(tags=["stops"])

Kind = Literal["hub", "pack", "connection", "key", "writes"]
# Shown to callers restricted to toolsets: names of connections and keys belong to other callers.
_FOR_ALL: Final = (Stop.Kind.HUB, Stop.Kind.PACK, Stop.Kind.WRITES)
Name = Annotated[
    str, Field(max_length=150, description="Name of the pack, connection or key; empty for the hub and writes")
]


class StopItem(ResponseSchema):
    kind: AsIs[Kind]
    name: str
    reason: TextOrNone
    since: Timestamp
    until: Timestamp | None = Field(description="End of maintenance; null: until it is resumed")
    by: str


class Stops(ResponseSchema):
    stops: list[StopItem]


class StopRequest(Body):
    kind: Kind
    name: Name = ""
    reason: Reason = Field(default="", description="Shown to callers whose calls are refused")
    seconds: int | None = Field(
        default=None,
        ge=1,
        le=int(LONGEST.total_seconds()),
        description="Maintenance (writes) only: how long it lasts. Null: until it is resumed",
    )

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "pack", "name": "tracker", "reason": "The tracker is being moved"}]}
    )


@router.get("", response=Stops, url_name="stops")
async def list_stops(request: HttpRequest) -> Stops:
    """List active stops. Requires `tools:manage`. A key restricted to toolsets sees those of the hub and packs only."""
    caller = require(request, actions.STOPS_READ)
    return await _all(_FOR_ALL if caller.reach.toolsets is not None else ())


@router.post("", response={200: Stops, 404: Failure})
async def stop(request: HttpRequest, body: StopRequest) -> Stops:
    """Stop the hub, a pack, a connection or a key. Requires `tools:manage` and a key not restricted to toolsets.

    `writes` is maintenance: tools that write are refused with `MAINTENANCE`, and stay listed.

    Takes effect on the next call. Stopping something again changes nothing. Returns all active stops.
    """
    actor = actor_of(request, actions.STOP)
    duration = timedelta(seconds=body.seconds) if body.seconds is not None else None
    await database.run(governance.stop, body.kind, body.name, actor=actor, reason=body.reason, duration=duration)
    return await _all()


@router.post("/resume", response={200: Stops, 404: Failure})
async def resume(request: HttpRequest, body: StopRequest) -> Stops:
    """Resume what was stopped. Requires `tools:manage` and a key not restricted to toolsets.

    A key can resume what it stopped itself; to resume what others stopped requires `admin:*`. Returns all active stops.
    """
    actor = actor_of(request, actions.STOP)
    await database.run(governance.resume, body.kind, body.name, actor=actor, reason=body.reason)
    return await _all()


async def _all(kinds: Sequence[str] = ()) -> Stops:
    active = Stop.objects.active()
    rows = active.filter(kind__in=kinds) if kinds else active
    return Stops(stops=[StopItem.of(stop) for stop in await database.run(list, rows)])
