"""What the journal writes, as SQL: put together once, because the ORM's own way costs several times as much per row.

Every statement may be repeated without doing harm, or is guarded by one that may not. Rows that several processes
update are written in the order of their keys, so that no two of them wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import F, Model, Q, QuerySet
from django.utils import timezone

from tools_app.models import Agent, ApiKey, Call, CallHour, CallSum, ErrorGroup, ErrorHour, ErrorLog, IdempotencyKey
from tools_app.models.figures import DAY, DURATIONS, FOLDED, HOUR, MOMENT, SUMS, beginning

Columns = tuple[tuple[str, Callable[[Any, Any], Any]], ...]

USE_SECONDS: Final = 60.0
# No lease runs out sooner after a call has begun.
SHORTEST_LAPSE: Final = timedelta(seconds=2)


@dataclass(slots=True)
class Failure:
    """A failure with what only operators may read, and the group it belongs to."""

    error: ErrorLog
    group: ErrorGroup


@dataclass(slots=True)
class Reply:
    """What becomes of an idempotency key when its call has ended: an answer for the next one, or its release."""

    caller_id: str
    key_hash: str
    call_id: str
    text: bytes | None


def insert_calls(calls: Iterable[Call]) -> None:
    _many(_INSERT_CALL, [_row(call, _CALL_COLUMNS) for call in calls])


def upsert_calls(calls: Iterable[Call]) -> None:
    """Of a call that was begun it may be unknown whether its first row was written: it was cut off while it waited."""
    _many(_UPSERT_CALL, [_row(call, _CALL_COLUMNS) for call in calls])


def insert_failures(failures: Sequence[Failure]) -> None:
    """The failures, each counted in its group. A group that somebody called resolved is open again."""
    if not failures:
        return
    groups: dict[str, ErrorGroup] = {}
    for failure in failures:
        found = groups.setdefault(failure.group.fingerprint, failure.group)
        if found is not failure.group:
            failure.group.count += found.count
            failure.group.first_seen_at = found.first_seen_at
            groups[failure.group.fingerprint] = failure.group
    _many(_UPSERT_GROUP, [_row(groups[key], _GROUP_COLUMNS) for key in sorted(groups)])
    # The times of one batch are seconds apart: it belongs to the hour of the last one.
    hours = {key: beginning(group.last_seen_at, HOUR) for key, group in sorted(groups.items())}
    _many(_ADD_TO_ERROR_HOUR, [[key, _moment(hour), groups[key].count] for key, hour in hours.items()])
    _many(_INSERT_ERROR, [_row(failure.error, _ERROR_COLUMNS) for failure in failures])


def upsert_agents(agents: Iterable[Agent]) -> None:
    _many(_UPSERT_AGENT, [_row(agent, _AGENT_COLUMNS) for agent in agents])


def delete_agents(agent_ids: list[str]) -> None:
    if agent_ids:
        Agent.objects.filter(pk__in=agent_ids).delete()


def add_to_figures(calls: Iterable[tuple[Call, int]]) -> None:
    """Count calls that have ended, each so many times, in their hours and in their moments."""
    hours: dict[tuple[Any, ...], list[int]] = {}
    moments: dict[tuple[Any, ...], list[int]] = {}
    for call, number in calls:
        ended = call.finished_at or call.started_at
        # What is not there has no name: whoever asks for a thousand of them gets one row.
        tool = "" if call.code == "TOOL_NOT_FOUND" and call.status == Call.Status.REFUSED else call.tool_name
        hour = (beginning(ended, HOUR), tool, call.caller_id, call.status, call.code, call.caller_name)
        moment = (beginning(ended, MOMENT), tool, call.status)
        took = call.duration_ms or 0
        length = 4 + sum(took > bound for bound in DURATIONS)
        for sums in (hours.setdefault(hour, [0] * len(SUMS)), moments.setdefault(moment, [0] * len(SUMS))):
            sums[0] += number
            sums[1] += number if call.answered_by == Call.Origin.CACHE else 0
            sums[2] += took * number
            sums[3] += call.result_bytes * number
            sums[length] += number
    _many(_ADD_TO_HOUR, [[_moment(key[0]), *key[1:], *hours[key]] for key in sorted(hours)])
    _many(
        _ADD_TO_MOMENT,
        [[CallSum.Span.MOMENT.value, _moment(key[0]), *key[1:], *moments[key]] for key in sorted(moments)],
    )
    _unfold(key[0] for key in hours)


def take_back(calls: Iterable[Call]) -> None:
    """Calls that end now, although others took their process for dead and counted them as interrupted."""
    long = [call.pk for call in calls if call.finished_at and call.finished_at - call.started_at > SHORTEST_LAPSE]
    if not long:
        return
    taken = []
    for call in Call.objects.filter(pk__in=long, status=Call.Status.INTERRUPTED, finished_at__isnull=False):
        ended = call.finished_at or call.started_at
        rows: Sequence[QuerySet[Any]] = (
            CallHour.objects.filter(hour=beginning(ended, HOUR), caller_id=call.caller_id, code=call.code),
            CallSum.objects.filter(start=beginning(ended, MOMENT), span=CallSum.Span.MOMENT),
        )
        for counted in rows:
            counted.filter(tool_name=call.tool_name, status=call.status, calls__gt=0).update(
                calls=F("calls") - 1, within_10=F("within_10") - 1
            )
        taken.append(ended)
    _unfold(taken)


def _unfold(moments: Iterable[datetime]) -> None:
    """Days that are over may have been added up, and are not what they were: they will be added up anew."""
    today = beginning(timezone.now(), DAY)
    for day in {beginning(moment, DAY) for moment in moments} - {today}:
        CallSum.objects.filter(span__in=FOLDED, start__gte=day, start__lt=day + DAY).delete()


def claim(key: IdempotencyKey) -> bool:
    """Whether the key is this call's now; false when another call has it."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, _row(key, _KEY_COLUMNS))
        # It may have been written by a trial of which nobody learned how it ended.
        return cursor.rowcount == 1 or _owner(key) == key.call_id


def settle(replies: Iterable[Reply]) -> None:
    with connection.cursor() as cursor:
        for reply in replies:
            whose = [reply.caller_id, reply.key_hash, reply.call_id]
            if reply.text is None:
                cursor.execute(_RELEASE, whose)
            else:
                cursor.execute(_REPLY, [reply.text, *whose])


def name_key(call: Call, hashes: Sequence[str]) -> None:
    """Put the key on record with which somebody was refused, where it was one of this hub."""
    found = ApiKey.objects.once_known_by(list(hashes)).values_list("pk", "name").first()
    if found is not None:
        call.caller_kind, call.caller_id, call.caller_name = "key", f"key:{found[0]}", found[1]


def note_uses(key_ids: set[int]) -> None:
    if key_ids:
        now = timezone.now()
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=USE_SECONDS))
        ApiKey.objects.filter(stale, pk__in=key_ids).update(last_used_at=now)


def finished(call_ids: list[str]) -> set[str]:
    """Which of these calls have their last row."""
    rows = Call.objects.filter(pk__in=call_ids).exclude(status__in=[Call.Status.STARTED, Call.Status.INTERRUPTED])
    return set(rows.values_list("pk", flat=True))


def _owner(key: IdempotencyKey) -> str | None:
    whose = IdempotencyKey.objects.filter(caller_id=key.caller_id, key_hash=key.key_hash)
    return whose.values_list("call_id", flat=True).first()


def _many(statement: str, rows: list[list[Any]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)


def _moment(moment: datetime) -> Any:
    return _PREPARE_MOMENT(moment, connection)


def _columns(model: type[Model]) -> Columns:
    """Names, and what makes a value ready for the database; looked up once instead of for every row."""
    return tuple(
        (field.attname, _PLAIN.get(field.get_internal_type(), field.get_db_prep_save))
        for field in model._meta.concrete_fields
    )


def _text(value: Any, connection: Any) -> str | None:
    # A choice is a text that drivers take for something else.
    return value if value is None or type(value) is str else str(value)


def _number(value: Any, connection: Any) -> Any:
    return value


# What Django does for these is nothing, at a cost that shows: a call has two dozen of them.
_PLAIN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("CharField", "TextField"), _text),
    **dict.fromkeys(("PositiveIntegerField", "PositiveSmallIntegerField"), _number),
}


def _insert(model: type[Model], columns: Columns) -> str:
    names = ", ".join(name for name, _ in columns)
    return f"INSERT INTO {model._meta.db_table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608


def _add(table: str, columns: Sequence[str], keys: Sequence[str], changes: dict[str, str]) -> str:
    """The statement that adds sums to a row, which it makes where there is none."""
    columns = (*columns, *SUMS)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608
    return insert + _on_conflict(
        ", ".join(keys), changes | {name: f"{table}.{name} + excluded.{name}" for name in SUMS}
    )


def _on_conflict(keys: str, changes: dict[str, str]) -> str:
    return f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(f'{name} = {value}' for name, value in changes.items())}"


def _row(instance: Model, columns: Columns) -> list[Any]:
    return [prepare(getattr(instance, name), connection) for name, prepare in columns]


_CALL_COLUMNS: Final = _columns(Call)
_ERROR_COLUMNS: Final = _columns(ErrorLog)
_GROUP_COLUMNS: Final = _columns(ErrorGroup)
_KEY_COLUMNS: Final = tuple(column for column in _columns(IdempotencyKey) if column[0] != "id")
_INSERT_CALL: Final = _insert(Call, _CALL_COLUMNS)
_UPSERT_CALL: Final = _INSERT_CALL + _on_conflict("id", {name: f"excluded.{name}" for name, _ in _CALL_COLUMNS[1:]})
_INSERT_ERROR: Final = _insert(ErrorLog, _ERROR_COLUMNS)
_GROUPS: Final = ErrorGroup._meta.db_table
_UPSERT_GROUP: Final = _insert(ErrorGroup, _GROUP_COLUMNS) + _on_conflict(
    "fingerprint",
    {
        "count": f"{_GROUPS}.count + excluded.count",
        **{name: f"excluded.{name}" for name in ("message", "last_seen_at", "last_call_id")},
        "reopened_at": f"CASE WHEN {_GROUPS}.resolved_at IS NULL THEN {_GROUPS}.reopened_at "
        "ELSE excluded.last_seen_at END",
        "resolved_at": "NULL",
        "resolved_by": "''",
    },
)
_ERROR_HOURS: Final = ErrorHour._meta.db_table
_ADD_TO_ERROR_HOUR: Final = (
    f"INSERT INTO {_ERROR_HOURS} (group_id, hour, count) VALUES (%s, %s, %s)"  # noqa: S608
    + _on_conflict("group_id, hour", {"count": f"{_ERROR_HOURS}.count + excluded.count"})
)
_AGENT_COLUMNS: Final = _columns(Agent)
_UPSERT_AGENT: Final = _insert(Agent, _AGENT_COLUMNS) + _on_conflict(
    "id", {name: f"excluded.{name}" for name in ("seen_at", "called_at", "calls")}
)
_HOURS: Final = CallHour._meta.db_table
_HOUR_KEY: Final = ("hour", "tool_name", "caller_id", "status", "code")
_ADD_TO_HOUR: Final = _add(_HOURS, (*_HOUR_KEY, "caller_name"), _HOUR_KEY, {"caller_name": "excluded.caller_name"})
_MOMENT_KEY: Final = ("span", "start", "tool_name", "status")
_ADD_TO_MOMENT: Final = _add(CallSum._meta.db_table, _MOMENT_KEY, _MOMENT_KEY, {})
_PREPARE_MOMENT: Final = CallHour._meta.get_field("hour").get_db_prep_save
_KEYS: Final = IdempotencyKey._meta.db_table
_WHOSE: Final = "caller_id = %s AND key_hash = %s AND call_id = %s"
_REPLY: Final = f"UPDATE {_KEYS} SET reply = %s WHERE {_WHOSE}"  # noqa: S608
_RELEASE: Final = f"DELETE FROM {_KEYS} WHERE {_WHOSE}"  # noqa: S608
_CLAIM: Final = f"{_insert(IdempotencyKey, _KEY_COLUMNS)} ON CONFLICT (caller_id, key_hash) DO NOTHING"
