"""The journal's SQL: statements are built once, because the ORM costs several times as much per row.

Every statement is idempotent, or shares its transaction with one that fails when it is repeated. Rows that several
processes update are written in key order, so that there are no deadlocks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from operator import add, attrgetter
from typing import Any, Final, Generic, TypeVar

from django.db import connection, transaction
from django.db.models import F, Max, Model, Q, Sum
from django.utils import timezone

from tools_app.models import (
    Agent,
    Alert,
    ApiKey,
    BudgetUse,
    Call,
    CallHour,
    ErrorGroup,
    ErrorHour,
    ErrorLog,
    IdempotencyKey,
    PendingCount,
    PendingText,
)
from tools_app.models.alerts import Event, new_alert
from tools_app.models.figures import DAY, EVERY, HOUR, SUMS, beginning, numbers_by_duration
from tools_app.text.budget import tokens_of

M = TypeVar("M", bound=Model)

USE_SECONDS: Final = 60.0
# Every lease is longer than this.
SHORTEST_LAPSE: Final = timedelta(seconds=2)
# A refused call, or one that ended with a question, costs nothing. One whose process was killed is not counted.
_SPENDING: Final = (Call.Status.SUCCEEDED, Call.Status.FAILED, Call.Status.TIMEOUT, Call.Status.CANCELLED)
# Calls wait while these are added up: some milliseconds. Fewer cost more in all: 200 take nearly as long.
FOLDED_AT_ONCE: Final = 500


@dataclass(slots=True)
class Failure:
    """An error log entry (for operators only) and its group, if it belongs to one."""

    error: ErrorLog
    group: ErrorGroup | None


@dataclass(slots=True)
class Reply:
    """The new state of an idempotency key after its call: an answer for the next call, or a release."""

    caller_id: str
    key_hash: str
    call_id: str
    text: bytes | None


def insert_calls(calls: Iterable[Call]) -> None:
    _many(_CALLS.insert, _CALLS.rows(calls))


def upsert_calls(calls: Iterable[Call]) -> None:
    """For calls whose first row may not have been written, because the writing was interrupted."""
    _many(_UPSERT_CALL, _CALLS.rows(calls))


def insert_failures(failures: Sequence[Failure]) -> None:
    """Insert failures and count them in their groups. One that is resolved, or was muted until now, is reopened."""
    if not failures:
        return
    groups: dict[str, ErrorGroup] = {}
    for group in (failure.group for failure in failures if failure.group is not None):
        previous = groups.setdefault(group.fingerprint, group)
        if previous is not group:
            group.count += previous.count
            group.first_seen_at = previous.first_seen_at
            groups[group.fingerprint] = group
    _many(_UPSERT_GROUP, _GROUPS.rows(groups[key] for key in sorted(groups)))
    # The times of one batch are seconds apart: all count for the hour of the last one.
    hours = {key: beginning(group.last_seen_at, HOUR) for key, group in sorted(groups.items())}
    _many(_ADD_TO_ERROR_HOUR, [_adapted([key, hour, groups[key].count]) for key, hour in hours.items()])
    _many(_ERRORS.insert, _ERRORS.rows(failure.error for failure in failures))
    _insert_alerts(groups)


def _insert_alerts(groups: Mapping[str, ErrorGroup]) -> None:
    """Of issues that are new or open again. The times on record say so: of two processes, one is the first."""
    recorded = ErrorGroup.objects.filter(pk__in=sorted(groups), resolved_at=None)
    alerts = []
    for group in recorded:
        ours = groups[group.pk]
        if group.reopened_at == ours.last_seen_at:
            event, at = Event.ISSUE_REOPENED, ours.last_seen_at
        elif group.first_seen_at == ours.first_seen_at and group.reopened_at is None:
            event, at = Event.ISSUE_NEW, ours.first_seen_at
        else:
            continue
        cause, subject = f"{group.pk}:{at.isoformat()}", f"issue:{group.pk}"
        # Not its message, which can quote arguments and name callers.
        values = {"code": group.code, "place": group.place}
        alert = new_alert(event, cause, at, subject=subject, tool=group.tool_name, details=values)
        # Drivers take JSON as text.
        alert.details = json.dumps(alert.details)
        alerts.append(alert)
    _many(_INSERT_ALERT, _ALERTS.rows(alerts))


def upsert_agents(agents: Iterable[Agent]) -> None:
    _many(_UPSERT_AGENT, _AGENTS.rows(agents))


def delete_agents(agent_ids: list[str]) -> None:
    if agent_ids:
        Agent.objects.filter(pk__in=agent_ids).delete()


def insert_counts(calls: Iterable[tuple[Call, int]]) -> None:
    """Leave to `fold` what calls that have ended add to the figures, each `number` times."""
    _many(_COUNTS.insert, [_count(call, number) for call, number in calls])


def spend(calls: Iterable[tuple[Call, Collection[str]]]) -> None:
    """Add calls that have run, and the tokens of their answers, to the use of budgets."""
    used: dict[tuple[str, date], list[int]] = {}
    for call, budgets in calls:
        if call.status in _SPENDING and call.finished_at is not None:
            day, cost = timezone.localdate(call.finished_at), (1, tokens_of(call.result_bytes))
            for budget in budgets:
                used[budget, day] = list(map(add, used.get((budget, day), (0, 0)), cost))
    _many(_SPEND, [[*_adapted(key), *numbers] for key, numbers in sorted(used.items())])


def given_up(calls: Iterable[Call]) -> list[Call]:
    """Of calls that end now, those that another process has counted as interrupted. Locked: others decide, too."""
    # By the time since they began: the end of a short call can be written late, after an outage.
    lately = timezone.now() - SHORTEST_LAPSE
    long = [call.pk for call in calls if call.finished_at and call.started_at < lately]
    rows = Call.objects.select_for_update().filter(pk__in=long).order_by("pk") if long else ()
    return [call for call in rows if call.status == Call.Status.INTERRUPTED and call.finished_at]


def fold() -> int:
    """Add pending counts to the figures, each exactly once: one transaction adds and deletes. Returns their number.

    The same transaction queues their calls for the index of arguments (`texts`).
    """
    if not PendingCount.objects.exists():
        return 0
    with transaction.atomic():
        # Locked in one order: another process that folds has to wait, and then does not see the same rows.
        locked = PendingCount.objects.select_for_update().order_by("pk").values_list("pk", flat=True)
        keys = list(locked[:FOLDED_AT_ONCE])
        pending = PendingCount.objects.filter(pk__in=keys)
        keyed = pending.order_by().values_list(*_HOUR_KEY, Max("caller_name"))
        hours = keyed.annotate(**_COUNTED)  # house: allow lookup – our own names
        sums: dict[tuple[Any, ...], list[int]] = {}
        for hour, tool, caller, status, code, name, *numbers in hours:
            for key in (
                (hour, tool, caller, status, code, name, CallHour.Span.HOUR.value),
                (hour, EVERY, EVERY, status, "", "", CallHour.Span.TOTAL.value),
                (beginning(hour, DAY), tool, EVERY, status, "", "", CallHour.Span.DAY.value),
            ):
                sums[key] = list(map(add, sums.get(key, [0] * len(numbers)), numbers))
        added = [(_adapted(key), numbers) for key, numbers in sorted(sums.items())]
        _many(_ADD_TO_HOUR, [[*key, *numbers] for key, numbers in added if numbers[0] >= 0])
        # Fewer calls than before: the row exists, and a new one must not have negative numbers.
        _many(_TAKE_FROM_HOUR, [[*numbers, *key[:5], -numbers[0]] for key, numbers in added if numbers[0] < 0])
        ended = pending.exclude(call_id="").values_list("call_id", flat=True)
        PendingText.objects.bulk_create(PendingText(call_id=call_id) for call_id in ended)
        pending.delete()
    return len(keys)


def claim(key: IdempotencyKey) -> bool:
    """Claim the key for this call; False if another call has it."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, _CLAIMS.rows([key])[0])
        # The key may have been written by an attempt whose outcome was lost.
        return cursor.rowcount == 1 or _owner(key) == key.call_id


def settle(replies: Iterable[Reply]) -> None:
    for reply in replies:
        key_values = [reply.caller_id, reply.key_hash, reply.call_id]
        with connection.cursor() as cursor:
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
    if not rows:
        return
    # Through the proxy, every attribute would be looked up by thread.
    own = transaction.get_connection()
    if own.vendor == "sqlite":
        # Without Django's cursor, which converts the placeholders with a regular expression.
        own.ensure_connection()
        with own.wrap_database_errors:
            own.connection.executemany(statement.replace("%s", "?"), rows)
        return
    with own.cursor() as cursor:
        cursor.executemany(statement, rows)


class _Table(Generic[M]):
    """The columns of a model, and its instances as rows of them."""

    def __init__(self, model: type[M], *, without: str = "") -> None:
        self.columns = [field.attname for field in model._meta.concrete_fields if field.attname != without]
        self.insert = _insert(model, self.columns)
        self._values = attrgetter(*self.columns)

    def rows(self, instances: Iterable[M]) -> list[list[Any]]:
        return [_adapted(self._values(instance)) for instance in instances]


_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})


def _adapted(values: Sequence[Any]) -> list[Any]:
    """Values as the drivers take them. By their types: a call has three dozen, of which three are not plain."""
    return [value if type(value) in _PLAIN else _adapt(value) for value in values]


def _adapt(value: Any) -> Any:
    if isinstance(value, datetime):
        return transaction.get_connection().ops.adapt_datetimefield_value(value)
    if isinstance(value, date):
        return transaction.get_connection().ops.adapt_datefield_value(value)
    if isinstance(value, str):
        # Drivers do not accept enum members as text.
        return str(value)
    raise TypeError(f"the journal cannot store a {type(value).__name__}")


def _insert(model: type[Model], columns: Collection[str]) -> str:
    values = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


def _count(call: Call, number: int) -> list[Any]:
    # Unknown tools share the empty name: requests for a thousand of them make one hour.
    is_unknown = call.code == "TOOL_NOT_FOUND" and call.status == Call.Status.REFUSED
    # A caller can send any name. That of the sums would be added to them.
    tool = "" if is_unknown or call.tool_name == EVERY else call.tool_name
    hour = beginning(call.finished_at or call.started_at, HOUR)
    counted = (hour, tool, call.caller_id, call.caller_name, call.status, call.code, number)
    numbers = (call.answered_by == Call.Origin.CACHE, call.duration_ms or 0, call.result_bytes)
    return _adapted((*counted, *numbers, call.id if call.arguments else ""))


def _on_conflict(keys: str, changes: dict[str, str]) -> str:
    return f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(f'{name} = {value}' for name, value in changes.items())}"


_CALLS: Final = _Table(Call)
_ERRORS: Final = _Table(ErrorLog)
_GROUPS: Final = _Table(ErrorGroup)
_CLAIMS: Final = _Table(IdempotencyKey, without="id")
_COUNTS: Final = _Table(PendingCount, without="id")
_AGENTS: Final = _Table(Agent)
_ALERTS: Final = _Table(Alert)
_INSERT_ALERT: Final = f"{_ALERTS.insert} ON CONFLICT (cause) DO NOTHING"
_UPSERT_CALL: Final = _CALLS.insert + _on_conflict(
    "id", {name: f"excluded.{name}" for name in _CALLS.columns if name != "id"}
)
_GROUP: Final = ErrorGroup._meta.db_table
# A comparison with an end that there is not is no end.
_MUTE_ENDED: Final = (
    f"({_GROUP}.muted_until <= excluded.last_seen_at OR {_GROUP}.muted_until_count <= {_GROUP}.count + excluded.count)"
)
_NOT_MUTED: Final = {
    **dict.fromkeys(("muted_at", "muted_until", "muted_until_count"), "NULL"),
    **dict.fromkeys(("muted_by", "mute_reason"), "''"),
}
_UPSERT_GROUP: Final = _GROUPS.insert + _on_conflict(
    "fingerprint",
    {
        "count": f"{_GROUP}.count + excluded.count",
        **{name: f"excluded.{name}" for name in ("message", "cause", "last_seen_at", "last_call_id")},
        "reopened_at": f"CASE WHEN {_GROUP}.resolved_at IS NOT NULL OR {_MUTE_ENDED} THEN excluded.last_seen_at "
        f"ELSE {_GROUP}.reopened_at END",
        **{name: f"CASE WHEN {_MUTE_ENDED} THEN {none} ELSE {_GROUP}.{name} END" for name, none in _NOT_MUTED.items()},
        "resolved_at": "NULL",
        "resolved_by": "''",
    },
)
_ERROR_HOURS: Final = ErrorHour._meta.db_table
_ADD_TO_ERROR_HOUR: Final = (
    f"INSERT INTO {_ERROR_HOURS} (group_id, hour, count) VALUES (%s, %s, %s)"  # noqa: S608
    + _on_conflict("group_id, hour", {"count": f"{_ERROR_HOURS}.count + excluded.count"})
)
_UPSERT_AGENT: Final = _AGENTS.insert + _on_conflict(
    "id", {name: f"excluded.{name}" for name in ("seen_at", "called_at", "calls")}
)
_HOURS: Final = CallHour._meta.db_table
_HOUR_KEY: Final = ("hour", "tool_name", "caller_id", "status", "code")
_ADD_TO_HOUR: Final = _insert(CallHour, (*_HOUR_KEY, "caller_name", "span", *SUMS)) + _on_conflict(
    ", ".join(_HOUR_KEY),
    {"caller_name": "excluded.caller_name"} | {name: f"{_HOURS}.{name} + excluded.{name}" for name in SUMS},
)
# In the order of SUMS.
_COUNTED: Final = numbers_by_duration() | {
    "sum_from_cache": Sum("count", filter=Q(from_cache=True), default=0),
    "sum_total_ms": Sum(F("count") * F("duration_ms")),
    "sum_result_bytes": Sum(F("count") * F("result_bytes")),
}
_TAKE_FROM_HOUR: Final = (
    f"UPDATE {_HOURS} SET {', '.join(f'{name} = {name} + %s' for name in SUMS)} "  # noqa: S608
    f"WHERE {' AND '.join(f'{name} = %s' for name in _HOUR_KEY)} AND calls >= %s"
)
_USES: Final = BudgetUse._meta.db_table
_SPEND: Final = _insert(BudgetUse, ("subject", "day", "calls", "tokens")) + _on_conflict(
    "subject, day", {name: f"{_USES}.{name} + excluded.{name}" for name in ("calls", "tokens")}
)
_KEYS: Final = IdempotencyKey._meta.db_table
_WHOSE: Final = "caller_id = %s AND key_hash = %s AND call_id = %s"
_REPLY: Final = f"UPDATE {_KEYS} SET reply = %s WHERE {_WHOSE}"  # noqa: S608
_RELEASE: Final = f"DELETE FROM {_KEYS} WHERE {_WHOSE}"  # noqa: S608
_CLAIM: Final = f"{_CLAIMS.insert} ON CONFLICT (caller_id, key_hash) DO NOTHING"
