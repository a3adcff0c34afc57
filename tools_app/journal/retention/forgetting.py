"""Removes a caller from the records. Cost and outcome of its calls stay, without the name."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Exists, F, Model, OuterRef, QuerySet
from django.utils import timezone

from tools_app.journal.retention.pace import BATCH, Pace
from tools_app.models import (
    ApiKey,
    Approval,
    Call,
    CallHour,
    ErrorGroup,
    ErrorLog,
    IdempotencyKey,
    PendingCount,
    StoredAnswer,
)
from tools_app.models.audit import note
from tools_app.models.calls import LONGEST
from tools_app.models.figures import SUMS
from tools_app.sdk.errors import ValidationError

FORGOTTEN: Final = "forgotten"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The number of rows that named the caller."""

    calls: int
    errors: int
    hours: int
    idempotency_keys: int
    stored_answers: int
    approvals: int


def identified(caller: str) -> str:
    """The id of a caller given by id, or by the exact name of a key or user. An id takes precedence over a name.

    Raises:
        ValidationError: there is no such caller, or more than one.
    """
    if _own_name(caller) is not None or _is_recorded(caller):
        return caller
    ids = [f"key:{pk}" for pk in ApiKey.objects.filter(name=caller).values_list("pk", flat=True)]
    users = get_user_model()
    with contextlib.suppress(users.DoesNotExist):
        ids.append(f"user:{users._default_manager.get_by_natural_key(caller).pk}")
    if not ids:
        raise ValidationError(
            f"There is no caller {caller!r}", next_step="Give the caller's id as a call shows it: key:3, local:alice."
        )
    if len(ids) > 1:
        raise ValidationError(f"{caller!r} is {' and '.join(ids)}", next_step="Give one of these ids.")
    return ids[0]


def remembered(caller_id: str) -> Forgotten:
    """What `forget` would change now."""
    calls = Call.objects.filter(caller_id=caller_id)
    return Forgotten(
        calls=calls.count(),
        errors=ErrorLog.objects.filter(call_id__in=calls.values("pk")).count()
        + _stray_errors(_names(caller_id)).count(),
        hours=CallHour.objects.filter(caller_id=caller_id).count(),
        **{kind: model._base_manager.filter(caller_id=caller_id).count() for kind, (model, _) in _DELETED.items()},
    )


def forget(caller: str, *, actor: str, reason: str = "") -> Forgotten:
    """Remove a caller from calls, errors and figures. Idempotent: an interrupted run can be repeated.

    Errors whose call is gone are matched by name: those of others with the same name are emptied too. The audit trail
    stays as it is.

    Raises:
        ValidationError: the caller is unknown or ambiguous, or has a running call, which would bring the name back.
    """
    caller_id = identified(caller)
    # The caller may keep calling; without these bounds, the loops below might never end.
    now = timezone.now()
    calls_so_far = Call.objects.filter(caller_id=caller_id, started_at__lte=now)
    running = calls_so_far.filter(status=Call.Status.STARTED, started_at__gte=now - LONGEST)
    if number := running.count():
        raise ValidationError(f"{caller_id} has {number} calls under way", next_step="Try again when they have ended.")
    names = _names(caller_id)
    with transaction.atomic():
        # Audited first: if this is interrupted, nothing is gone without a trace.
        note("caller.forget", caller_id, actor=actor, reason=reason, changes=asdict(remembered(caller_id)))
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            # Overwrite deleted content: otherwise it stays in the file until the space is reused.
            cursor.execute("PRAGMA secure_delete = ON")
    # First: what is pending now would bring the name back into the hours.
    PendingCount.objects.filter(caller_id=caller_id).update(caller_id=FORGOTTEN, caller_name=FORGOTTEN)
    hours_so_far = list(CallHour.objects.filter(caller_id=caller_id).order_by(*_HOUR).values_list("pk", flat=True))
    pace = Pace()
    errors = 0

    def forget_calls() -> int:
        nonlocal errors
        call_ids = list(calls_so_far.values_list("pk", flat=True)[:BATCH])
        # Before the calls themselves: they lead to the errors if this is repeated.
        errors += _blank(ErrorLog.objects.filter(call_id__in=call_ids))
        return Call.objects.filter(pk__in=call_ids).update(caller_id=FORGOTTEN, caller_name=FORGOTTEN, **_BLANK_TEXTS)

    calls = pace.repeat(forget_calls)
    stray = list(_stray_errors(names).values_list("pk", flat=True))

    def forget_errors() -> int:
        nonlocal errors
        batch = _pop_batch(stray)
        errors += _blank(ErrorLog.objects.filter(pk__in=batch))
        return len(batch)

    pace.repeat(forget_errors)
    deleted = {
        kind: pace.repeat(partial(_delete, model._base_manager.filter((f"{column}__lte", now), caller_id=caller_id)))
        for kind, (model, column) in _DELETED.items()
    }
    # Last: for calls deleted by retention, only the hours still have the caller's name.
    hours = pace.repeat(lambda: _forget_hours(_pop_batch(hours_so_far)))
    return Forgotten(calls, errors, hours, **deleted)


def _own_name(caller_id: str) -> str | None:
    """The name of the key or user with this id; None if there is none."""
    kind, _, number = caller_id.partition(":")
    if not (number.isascii() and number.isdigit()):
        return None
    if kind == "key":
        return ApiKey.objects.filter(pk=int(number)).values_list("name", flat=True).first()
    user = get_user_model()._default_manager.filter(pk=int(number)).first() if kind == "user" else None
    return user.get_username() if user else None


def _is_recorded(caller_id: str) -> bool:
    return caller_id != FORGOTTEN and any(
        model._base_manager.filter(caller_id=caller_id).exists() for model in _KNOWING
    )


def _names(caller_id: str) -> set[str]:
    """Current and earlier names of the caller."""
    names = {_own_name(caller_id) or ""}
    for rows in (Call.objects, CallHour.objects):
        names.update(rows.filter(caller_id=caller_id).order_by().values_list("caller_name", flat=True).distinct())
    return names - {"", FORGOTTEN}


def _stray_errors(names: set[str]) -> QuerySet[ErrorLog]:
    """Errors with these names whose call has been deleted."""
    return ErrorLog.objects.filter(
        ~Exists(Call.objects.filter(pk=OuterRef("call_id"))), caller_name__in=names
    ).order_by()


def _blank(errors: QuerySet[ErrorLog]) -> int:
    # A group shows the text of its last error. Updated one by one: the journal locks several, in its own order.
    last = errors.filter(group__last_call_id=F("call_id")).order_by().values_list("group_id", "call_id").distinct()
    for group_id, call_id in last:
        ErrorGroup.objects.filter(pk=group_id, last_call_id=call_id).update(message="")
    return errors.update(caller_name=FORGOTTEN, message="", detail="")


def _pop_batch(keys: list[Any]) -> list[Any]:
    """Remove and return the first items of the list."""
    batch = keys[:BATCH]
    del keys[:BATCH]
    return batch


def _delete(rows: QuerySet[Any]) -> int:
    return rows.filter(pk__in=list(rows.values_list("pk", flat=True)[:BATCH])).delete()[0]


def _forget_hours(keys: Sequence[int]) -> int:
    """Add these hours to those of the anonymous caller."""
    if not keys:
        return 0
    rows = CallHour.objects.filter(pk__in=keys)
    with transaction.atomic():
        # Locked in the journal's order: it may be counting calls in the newest of them.
        list(rows.select_for_update().order_by(*_HOUR).values_list("pk"))
        with connection.cursor() as cursor:
            cursor.execute(_ADD_TO_NOBODY.format(", ".join(["%s"] * len(keys))), [FORGOTTEN, FORGOTTEN, *keys])
        rows.delete()
    return len(keys)


# The texts of a call; the last three are those of a refused credential.
_BLANK_TEXTS: Final = dict.fromkeys(("arguments", "result", "error", "address", "client", "key_prefix"), "")
# What is deleted with a caller, and the column of its time.
_DELETED: Final[dict[str, tuple[type[Model], str]]] = {
    "idempotency_keys": (IdempotencyKey, "created_at"),
    "stored_answers": (StoredAnswer, "created_at"),
    "approvals": (Approval, "asked_at"),
}
_KNOWING: Final[tuple[type[Model], ...]] = (Call, CallHour, IdempotencyKey, StoredAnswer, Approval)
# The key of an hour, apart from the caller.
_HOUR: Final = ("hour", "tool_name", "status", "code")
_TABLE: Final = CallHour._meta.db_table
_ADD_TO_NOBODY: Final = (
    f"INSERT INTO {_TABLE} (caller_id, caller_name, {', '.join((*_HOUR, *SUMS))}) "  # noqa: S608 – our own names
    f"SELECT %s, %s, {', '.join((*_HOUR, *SUMS))} FROM {_TABLE} WHERE id IN ({{}}) "
    "ON CONFLICT (hour, tool_name, caller_id, status, code) DO UPDATE SET "
    + ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in SUMS)
)
