"""The journal's SQL: statements are built once, because the ORM costs several times as much per row.

Every statement is idempotent, or shares its transaction with one that fails when it is repeated. Rows that several
processes update are written in key order, so that there are no deadlocks.
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
# Every lease is longer than this.
SHORTEST_LAPSE: Final = timedelta(seconds=2)


@dataclass(slots=True)
class Failure:
    """An error log entry (for operators only) and its group."""

    error: ErrorLog
    group: ErrorGroup


@dataclass(slots=True)
class Reply:
    """The new state of an idempotency key after its call: an answer for the next call, or a release."""

    caller_id: str
    key_hash: str
    call_id: str
    text: bytes | None


def insert_calls(calls: Iterable[Call]) -> None:
    _many(_INSERT_CALL, [_row(call, _CALL_COLUMNS) for call in calls])


def upsert_calls(calls: Iterable[Call]) -> None:
    """For calls whose first row may not have been written, because the writing was interrupted."""
    _many(_UPSERT_CALL, [_row(call, _CALL_COLUMNS) for call in calls])


def insert_failures(failures: Sequence[Failure]) -> None:
    """Insert failures and count them in their groups. A resolved group is reopened."""
    if not failures:
        return
    groups: dict[str, ErrorGroup] = {}
    for failure in failures:
        previous = groups.setdefault(failure.group.fingerprint, failure.group)
        if previous is not failure.group:
            failure.group.count += previous.count
            failure.group.first_seen_at = previous.first_seen_at
            groups[failure.group.fingerprint] = failure.group
    _many(_UPSERT_GROUP, [_row(groups[key], _GROUP_COLUMNS) for key in sorted(groups)])
    # The times of one batch are seconds apart: all count for the hour of the last one.
    hours = {key: beginning(group.last_seen_at, HOUR) for key, group in sorted(groups.items())}
    _many(_ADD_TO_ERROR_HOUR, [[key, _moment(hour), groups[key].count] for key, hour in hours.items()])
    _many(_INSERT_ERROR, [_row(failure.error, _ERROR_COLUMNS) for failure in failures])


def upsert_agents(agents: Iterable[Agent]) -> None:
    _many(_UPSERT_AGENT, [_row(agent, _AGENT_COLUMNS) for agent in agents])


def delete_agents(agent_ids: list[str]) -> None:
    if agent_ids:
        Agent.objects.filter(pk__in=agent_ids).delete()


def add_to_figures(calls: Iterable[tuple[Call, int]]) -> None:
    """Count calls that have ended, each `number` times, in their hours and their moments."""
    hours: dict[tuple[Any, ...], list[int]] = {}
    moments: dict[tuple[Any, ...], list[int]] = {}
    for call, number in calls:
        ended_at = call.finished_at or call.started_at
        # Unknown tools share the empty name: requests for a thousand of them make one row.
        tool = "" if call.code == "TOOL_NOT_FOUND" and call.status == Call.Status.REFUSED else call.tool_name
        hour = (beginning(ended_at, HOUR), tool, call.caller_id, call.status, call.code, call.caller_name)
        moment = (beginning(ended_at, MOMENT), tool, call.status)
        duration_ms = call.duration_ms or 0
        length = 4 + sum(duration_ms > bound for bound in DURATIONS)
        for sums in (hours.setdefault(hour, [0] * len(SUMS)), moments.setdefault(moment, [0] * len(SUMS))):
            sums[0] += number
            sums[1] += number if call.answered_by == Call.Origin.CACHE else 0
            sums[2] += duration_ms * number
            sums[3] += call.result_bytes * number
            sums[length] += number
    _many(_ADD_TO_HOUR, [[_moment(key[0]), *key[1:], *hours[key]] for key in sorted(hours)])
    _many(
        _ADD_TO_MOMENT,
        [[CallSum.Span.MOMENT.value, _moment(key[0]), *key[1:], *moments[key]] for key in sorted(moments)],
    )
    _unfold(key[0] for key in hours)


def take_back(calls: Iterable[Call]) -> None:
    """Correct the figures for calls that end now, after another process had counted them as interrupted."""
    long = [call.pk for call in calls if call.finished_at and call.finished_at - call.started_at > SHORTEST_LAPSE]
    if not long:
        return
    times = []
    for call in Call.objects.filter(pk__in=long, status=Call.Status.INTERRUPTED, finished_at__isnull=False):
        ended_at = call.finished_at or call.started_at
        rows: Sequence[QuerySet[Any]] = (
            CallHour.objects.filter(hour=beginning(ended_at, HOUR), caller_id=call.caller_id, code=call.code),
            CallSum.objects.filter(start=beginning(ended_at, MOMENT), span=CallSum.Span.MOMENT),
        )
        for figures in rows:
            figures.filter(tool_name=call.tool_name, status=call.status, calls__gt=0).update(
                calls=F("calls") - 1, within_10=F("within_10") - 1
            )
        times.append(ended_at)
    _unfold(times)


def _unfold(moments: Iterable[datetime]) -> None:
    """Delete the sums of past days that have changed; they are aggregated again later."""
    today = beginning(timezone.now(), DAY)
    for day in {beginning(moment, DAY) for moment in moments} - {today}:
        CallSum.objects.filter(span__in=FOLDED, start__gte=day, start__lt=day + DAY).delete()


def claim(key: IdempotencyKey) -> bool:
    """Claim the key for this call; False if another call has it."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, _row(key, _KEY_COLUMNS))
        # The key may have been written by an attempt whose outcome was lost.
        return cursor.rowcount == 1 or _owner(key) == key.call_id


def settle(replies: Iterable[Reply]) -> None:
    with connection.cursor() as cursor:
        for reply in replies:
            key_values = [reply.caller_id, reply.key_hash, reply.call_id]
            if reply.text is None:
                cursor.execute(_RELEASE, key_values)
            else:
                cursor.execute(_REPLY, [reply.text, *key_values])


def name_key(call: Call, hashes: Sequence[str]) -> None:
    """Complete a refused call with the key that was presented, if it belongs (or belonged) to this hub."""
    owner = ApiKey.objects.once_known_by(list(hashes)).values_list("pk", "name").first()
    if owner is not None:
        call.caller_kind, call.caller_id, call.caller_name = "key", f"key:{owner[0]}", owner[1]


def note_uses(key_ids: set[int]) -> None:
    if key_ids:
        now = timezone.now()
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=USE_SECONDS))
        ApiKey.objects.filter(stale, pk__in=key_ids).update(last_used_at=now)


def finished(call_ids: list[str]) -> set[str]:
    """Which of these calls have been recorded as ended."""
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
    """Column names with the functions that prepare values for the database; looked up once instead of per row."""
    return tuple(
        (field.attname, _PLAIN.get(field.get_internal_type(), field.get_db_prep_save))
        for field in model._meta.concrete_fields
    )


def _text(value: Any, connection: Any) -> str | None:
    # Drivers do not accept enum members as text.
    return value if value is None or type(value) is str else str(value)


def _number(value: Any, connection: Any) -> Any:
    return value


# Django's preparation does nothing for these types, but its cost is measurable: a call has two dozen of them.
_PLAIN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("CharField", "TextField"), _text),
    **dict.fromkeys(("PositiveIntegerField", "PositiveSmallIntegerField"), _number),
}


def _insert(model: type[Model], columns: Columns) -> str:
    names = ", ".join(name for name, _ in columns)
    return f"INSERT INTO {model._meta.db_table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608


def _add(table: str, columns: Sequence[str], keys: Sequence[str], changes: dict[str, str]) -> str:
    """An upsert that adds sums to a row."""
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
