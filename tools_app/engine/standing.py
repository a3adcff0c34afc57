"""Standing approvals: what an operator has approved in advance, within limits. Functions for threads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import F

from tools_app.models import Call, StandingApproval

# For each caller and version of a tool, and for all together.
MOST_ACTIVE: Final = 20
MOST_ACTIVE_IN_ALL: Final = 1_000


def identity_text(identity: tuple[str, int] | tuple[()]) -> str:
    """Source and epoch of a tool, as in `Entry`."""
    return ":".join(map(str, identity))


def covering(
    call: Call, arguments: Mapping[str, Any], identity: tuple[str, int] | tuple[()], now: datetime
) -> list[StandingApproval]:
    """The standing approvals that cover this call; the one that ends first is first."""
    rows = (
        StandingApproval.objects.active(now)
        .at_their_address()
        .filter(
            caller_id=call.caller_id,
            tool_name=call.tool_name,
            definition_hash=call.definition_hash,
            connection=call.connection,
            identity=identity_text(identity),
        )
    )
    return [standing for standing in rows.order_by("expires_at")[:MOST_ACTIVE] if standing.covers(arguments)]


def spend(standing: StandingApproval, now: datetime) -> bool:
    """Count one use. False if another call took the last one, or it was revoked. Of concurrent calls, no more than
    there are uses get True."""
    active = StandingApproval.objects.active(now)
    return bool(active.filter(pk=standing.pk).update(used=F("used") + 1))


def return_use(standing_id: str) -> None:
    """After a call that did nothing."""
    StandingApproval.objects.filter(pk=standing_id, used__gt=0).update(used=F("used") - 1)
