"""Kill switches for the hub, packs, connections and keys. A stop takes effect on the next call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from django.http import HttpRequest, HttpResponse
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.errors import failures
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import Stop

router = StrictRouter(tags=["stops"])

Kind = Literal["hub", "pack", "connection", "key"]
# Shown to callers restricted to toolsets: names of connections and keys belong to other callers.
_FOR_ALL: Final = (Stop.Kind.HUB, Stop.Kind.PACK)
Name = Annotated[str, Field(max_length=150, description="Name of the pack, connection or key; empty for the hub")]


class StopItem(Shown):
    kind: Kind
    name: str
    reason: str | None
    since: str
    by: str


class Stops(Shown):
    stops: list[StopItem]


class StopRequest(Body):
    kind: Kind
    name: Name = ""
    reason: Reason = Field(default="", description="Shown to callers whose calls are refused")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "pack", "name": "tracker", "reason": "The tracker is being moved"}]}
    )


@router.get("", response={200: Stops, **failures()}, url_name="stops")
async def list_stops(request: HttpRequest) -> HttpResponse:
    """List active stops. Requires `tools:manage`. A key restricted to toolsets sees those of the hub and packs only."""
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    return answer(await _all(_FOR_ALL if caller.reach.toolsets is not None else ()))


@router.post("", response={200: Stops, **failures(404, 408, 413, 415)})
async def stop(request: HttpRequest, body: StopRequest) -> HttpResponse:
    """Stop the hub, a pack, a connection or a key. Requires `tools:manage` and a key not restricted to toolsets.

    Takes effect on the next call. Stopping something again changes nothing. Returns all active stops.
    """
    caller = caller_of(request)
    access.require_all_tools(caller, "tools:manage")
    await database.run(governance.stop, body.kind, body.name, actor=str(caller), reason=body.reason)
    return answer(await _all())


@router.post("/resume", response={200: Stops, **failures(404, 408, 413, 415)})
async def resume(request: HttpRequest, body: StopRequest) -> HttpResponse:
    """Resume what was stopped. Requires `tools:manage` and a key not restricted to toolsets.

    A key can resume what it stopped itself; to resume what others stopped requires `admin:*`. Returns all active stops.
    """
    caller = caller_of(request)
    access.require_all_tools(caller, "tools:manage")
    own_only = not access.may_lift(caller)
    actor = str(caller)
    await database.run(governance.resume, body.kind, body.name, actor=actor, reason=body.reason, own_only=own_only)
    return answer(await _all())


async def _all(kinds: Sequence[str] = ()) -> dict[str, Any]:
    rows = Stop.objects.filter(kind__in=kinds) if kinds else Stop.objects.all()
    stops = await database.run(list, rows)
    return {
        "stops": [
            {
                "kind": stop.kind,
                "name": stop.name,
                "reason": stop.reason or None,
                "since": timestamp(stop.since),
                "by": stop.by,
            }
            for stop in stops
        ]
    }
