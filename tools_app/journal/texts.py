"""Copies the arguments of calls into the index of searches, behind the calls.

New calls come from the queue that `rows.fold` fills with each call that it counts. What the queue does not have is
found by a watermark that follows a quarter of an hour behind: the journal of before an upgrade, and calls of processes
of the previous release. The thread of the journal does both, in turn with its calls.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet

from tools_app.base import conf
from tools_app.journal.pace import Pace
from tools_app.models import Call, CallText, Chore, PendingCount, PendingText, text_index
from tools_app.models.calls import LONGEST

# Calls wait while these are indexed: some milliseconds.
AT_ONCE: Final = 200
MOST_BYTES: Final = 128 * 1024
# Calls that the watermark passes in one step.
WINDOW: Final = 500
# The watermark: all calls that began before it have been read, also those of other programs.
CHORE: Final = "texts"
# Calls that began before have been committed, and those of the queue have been read.
BEHIND: Final = LONGEST + timedelta(minutes=5)
STEP: Final = timedelta(minutes=1)
# Of SQLite: pages that are merged in one step.
MERGED_AT_ONCE: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
# Tells calls of the same millisecond apart.
_BITS: Final = 21


@dataclass(frozen=True, slots=True)
class Reach:
    """What is in the index."""

    # Calls that ended before.
    until: datetime
    # But perhaps not those that began from then on, and before this release ran. None: all.
    missing_from: datetime | None


def reach(now: datetime) -> Reach:
    queued = PendingText.objects.order_by("pk").values_list("call_id", flat=True).first()
    if queued is None:
        queued = PendingCount.objects.exclude(call_id="").order_by("pk").values_list("call_id", flat=True).first()
    ended = Call.objects.filter(pk=queued).values_list("finished_at", flat=True).first() if queued else None
    mark = Chore.objects.filter(name=CHORE).values_list("done_at", flat=True).first()
    is_behind = mark is None or mark < now - BEHIND - 2 * STEP
    return Reach(min(ended or now, now), (mark or _oldest(now)) if is_behind else None)


def place(moment: datetime) -> int:
    """The least id of texts of calls that began at this time, or later."""
    return max(0, (moment - _EPOCH) // _MILLISECOND << _BITS)


def moment(text_id: int) -> datetime:
    return _EPOCH + (text_id >> _BITS) * _MILLISECOND


def read_new() -> int:
    """Index arguments of calls that have ended. Returns the number of calls: 0 if none waits."""
    if not PendingText.objects.exists():
        return 0
    has_index = text_index.exists(connection)
    with transaction.atomic():
        # What another process is reading is left to it: calls would wait for this thread.
        waiting = PendingText.objects.select_for_update(skip_locked=True).order_by("pk").values_list("pk", "call_id")
        queue = list(waiting[:AT_ONCE])
        if has_index and queue:
            missing = _missing().filter(pk__in=[call_id for _, call_id in queue])
            _index(missing)
            left = set(missing.values_list("pk", flat=True))
            queue = [(pk, call_id) for pk, call_id in queue if call_id not in left]
        PendingText.objects.filter(pk__in=[pk for pk, _ in queue]).delete()
    return len(queue)


def read_older(now: datetime) -> bool:
    """Move the watermark on by some calls. True if there is more to do at once."""
    until = now - BEHIND
    mark = Chore.objects.filter(name=CHORE).values_list("done_at", flat=True).first()
    if (mark is not None and mark > until - STEP) or not text_index.exists(connection):
        return False
    if mark is None:
        Chore.objects.bulk_create([Chore(name=CHORE, done_at=_oldest(now))], ignore_conflicts=True)
    with transaction.atomic():
        chore = Chore.objects.select_for_update(skip_locked=True).filter(name=CHORE).first()
        if chore is None or chore.done_at >= until:
            return False
        times = Call.objects.filter(started_at__gte=chore.done_at, started_at__lt=until).order_by("started_at")
        following = times.values_list("started_at", flat=True)[WINDOW : WINDOW + 1].first() or until
        following = max(following, chore.done_at + timedelta(microseconds=1))
        window = _missing().filter(started_at__gte=chore.done_at, started_at__lt=following)
        _index(window)
        if not window.exists():
            chore.done_at = following
            chore.save(update_fields=["done_at"])
    return chore.done_at < until


def compact(pace: Pace) -> None:
    """Rewrite the index of SQLite: what was deleted stays in its file until then."""
    if connection.vendor != "sqlite" or not text_index.exists(connection):
        return
    with connection.cursor() as cursor:

        def merge(pages: int) -> int:
            cursor.execute("SELECT total_changes()")
            before = int(cursor.fetchone()[0])
            command = f"INSERT INTO {text_index.INDEX} ({text_index.INDEX}, rank) VALUES ('merge', %s)"  # noqa: S608
            cursor.execute(command, [pages])
            cursor.execute("SELECT total_changes()")
            # Two or more: it has merged something.
            return max(0, int(cursor.fetchone()[0]) - before - 1)

        # A negative number begins with all segments.
        merge(-MERGED_AT_ONCE)
        pace.repeat(lambda: merge(MERGED_AT_ONCE))


def _oldest(now: datetime) -> datetime:
    """Calls that began before have no arguments any more."""
    return max(_EPOCH, now - timedelta(days=conf.value("TOOLHUB_KEEP_PAYLOADS_DAYS"), hours=1))


def _missing() -> QuerySet[Call]:
    """Calls with arguments that are not in the index."""
    return Call.objects.exclude(arguments="").filter(~Exists(CallText.objects.filter(call_id=OuterRef("pk"))))


def _index(calls: QuerySet[Call]) -> None:
    """Index the first of these calls, up to a number and size."""
    ids: list[str] = []
    size = 0
    for call_id, argument_bytes in calls.order_by("started_at").values_list("pk", "argument_bytes")[:AT_ONCE]:
        size += argument_bytes
        if ids and size > MOST_BYTES:
            break
        ids.append(call_id)
    # Locked, so that one that is emptied meanwhile is deleted from the index as well.
    rows = Call.objects.select_for_update(no_key=True).filter(pk__in=ids).exclude(arguments="").order_by("pk")
    texts = _texts(rows.values_list("pk", "started_at", "arguments"))
    CallText.objects.bulk_create(texts, ignore_conflicts=True)


def _texts(calls: Iterable[tuple[str, datetime, str]]) -> Sequence[CallText]:
    """In the order of their ids, which FTS5 writes at once."""
    texts = {}
    places = [
        (place(started_at) | zlib.crc32(call_id.encode()) & (1 << _BITS) - 1, call_id, text)
        for call_id, started_at, text in calls
    ]
    taken = set(CallText.objects.filter(pk__in=[one for one, *_ in places]).values_list("pk", flat=True))
    for number, call_id, text in sorted(places):
        while number in taken or number in texts:
            number += 1
        texts[number] = CallText(id=number, call_id=call_id, text=text)
    return [texts[number] for number in sorted(texts)]
