"""Quotas for what the hub stores for callers: the oldest rows are evicted first."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from django.db import DatabaseError, InterfaceError
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length

from tools_app.base import conf, database
from tools_app.journal.rows import Reply
from tools_app.models import IdempotencyKey

log = logging.getLogger("tools_app.journal")

# Replaces an answer that was deleted. Its key stays, so that the call is not run again.
GONE: Final = b""
# The share of a quota that a process may use before it measures again.
_SHARE: Final = 16
_MOST_CALLERS: Final = 10_000
_AT_ONCE: Final = 500
# Seconds that a call waits for the eviction.
PATIENCE: Final = 5.0


def oldest_beyond(rows: QuerySet[Any], size: int, most: int) -> list[Any]:
    """The keys of the oldest rows to evict, so that a row of this size fits."""
    total = rows.aggregate(total=Sum("size"))["total"] or 0
    if total + size <= most:
        return []
    evicted = []
    for pk, freed in rows.order_by("created_at").values_list("pk", "size").iterator(chunk_size=100):
        evicted.append(pk)
        total -= freed
        if total + size <= most:
            break
    return evicted


class ReplyQuota:
    """Limits the size of stored answers, in total and per caller; the oldest are evicted first.

    The database is asked now and then, not for every call: a process may exceed a quota by the shares that other
    processes were granted in the meantime, a sixteenth each.
    """

    def __init__(self) -> None:
        # By caller, and under the empty name for all: bytes that may be written before the next measurement.
        self._granted: dict[str, int] = {}

    async def applied(self, reply: Reply) -> Reply:
        """The reply, or a placeholder for one that is too large to store."""
        if reply.text is None:
            return reply
        size = len(reply.text)
        quotas = {
            reply.caller_id: conf.value("TOOLHUB_REPLIES_CALLER_BYTES"),
            "": conf.value("TOOLHUB_REPLIES_BYTES"),
        }
        if any(size > most - most // _SHARE for most in quotas.values()):
            return replace(reply, text=GONE)
        for caller_id, most in quotas.items():
            if self._granted.get(caller_id, 0) < size:
                await self._measure(caller_id, size, most)
            self._granted[caller_id] = self._granted.get(caller_id, 0) - size
        return reply

    async def _measure(self, caller_id: str, size: int, most: int) -> None:
        if len(self._granted) >= _MOST_CALLERS:
            self._granted.clear()
        share = most // _SHARE
        try:
            await database.run_within(PATIENCE, _make_room, caller_id, size, most - share)
        except (DatabaseError, InterfaceError, TimeoutError) as error:
            # The call has run: its answer matters more than the quota, which applies to the next one.
            log.warning("cannot delete old replies: %r", error)
        else:
            self._granted[caller_id] = size + share


def _make_room(caller_id: str, size: int, most: int) -> None:
    with_answer = IdempotencyKey.objects.filter(reply__gt=GONE)
    rows: QuerySet[IdempotencyKey] = with_answer.filter(caller_id=caller_id) if caller_id else with_answer
    evicted = oldest_beyond(rows.annotate(size=Length("reply")), size, most)
    for start in range(0, len(evicted), _AT_ONCE):
        with_answer.filter(pk__in=evicted[start : start + _AT_ONCE]).update(reply=GONE)
    if evicted:
        log.info("%d replies for idempotency keys were deleted to make room", len(evicted))
