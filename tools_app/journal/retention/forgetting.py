"""Takes a caller out of the records. What the calls cost and how they ended stays, as nobody's."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from tools_app.journal.retention.pace import Pace
from tools_app.journal.retention.pruning import UNDER_WAY
from tools_app.models import ApiKey, Approval, Call, CallHour, ErrorGroup, ErrorLog, IdempotencyKey, StoredAnswer
from tools_app.models.audit import note
from tools_app.models.figures import SUMS
from tools_app.sdk.errors import ValidationError

FORGOTTEN: Final = "forgotten"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many rows knew the caller."""

    calls: int
    errors: int
    hours: int
    idempotency_keys: int
    stored_answers: int
    approvals: int


def identified(caller: str) -> str:
    """The id of a caller who is named by it, or by the exact name of a key or user. An id goes before a name.

    Raises:
        ValidationError: there is none, or more than one.
    """
    if _own_name(caller) is not None or _is_recorded(caller):
        return caller
    named = [f"key:{pk}" for pk in ApiKey.objects.filter(name=caller).values_list("pk", flat=True)]
    users = get_user_model()
    with contextlib.suppress(users.DoesNotExist):
        named.append(f"user:{users._default_manager.get_by_natural_key(caller).pk}")
    if not named:
        raise ValidationError(
            f"Nobody is known as {caller!r}", next_step="Give the caller's id as a call shows it: key:3, local:alice."
        )
    if len(named) > 1:
        raise ValidationError(f"{caller!r} is {' and '.join(named)}", next_step="Give one of these ids.")
    return named[0]


def remembered(caller_id: str) -> Forgotten:
    """What `forget` would find now."""
    calls = Call.objects.filter(caller_id=caller_id)
    return Forgotten(
        calls=calls.count(),
        errors=ErrorLog.objects.filter(call_id__in=calls.values("pk")).count()
        + _stray_errors(_names(caller_id)).count(),
        hours=CallHour.objects.filter(caller_id=caller_id).count(),
        idempotency_keys=IdempotencyKey.objects.filter(caller_id=caller_id).count(),
        stored_answers=StoredAnswer.objects.filter(caller_id=caller_id).count(),
        approvals=Approval.objects.filter(caller_id=caller_id).count(),
    )


def forget(caller: str, *, actor: str, reason: str = "") -> Forgotten:
    """Take a caller out of calls, errors and figures. Cut off, it can be repeated and does the rest.

    Errors whose call is gone know no more than a name: those of others who bear it are emptied as well. What the audit
    trail says of the caller stays.

    Raises:
        ValidationError: the caller is unknown or ambiguous, or has a call under way, which would bring back the name.
    """
    caller_id = identified(caller)
    # Whoever goes on calling is on record again; without these bounds, forgetting would never end.
    now = timezone.now()
    calls_so_far = Call.objects.filter(caller_id=caller_id, started_at__lte=now)
    keys_so_far = IdempotencyKey.objects.filter(caller_id=caller_id, created_at__lte=now)
    approvals_so_far = Approval.objects.filter(caller_id=caller_id, asked_at__lte=now)
    answers_so_far = StoredAnswer.objects.filter(caller_id=caller_id, created_at__lte=now)
    hours_so_far = list(CallHour.objects.filter(caller_id=caller_id).order_by(*_HOUR).values_list("pk", flat=True))
    running = calls_so_far.filter(status=Call.Status.STARTED, started_at__gte=now - UNDER_WAY)
    if number := running.count():
        raise ValidationError(f"{caller_id} has {number} calls under way", next_step="Try again when they have ended.")
    names = _names(caller_id)
    with transaction.atomic():
        # First of all: nothing may be gone without a word, should this be cut off.
        note("caller.forget", caller_id, actor=actor, reason=reason, changes=asdict(remembered(caller_id)))
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            # What is deleted is overwritten: otherwise it stays in the file until something else takes its place.
            cursor.execute("PRAGMA secure_delete = ON")
    pace = Pace()
    errors = 0

    def forget_calls(most: int) -> int:
        nonlocal errors
        found = list(calls_so_far.values_list("pk", flat=True)[:most])
        # Before the calls themselves: these lead to the errors when this is repeated.
        errors += _blank(ErrorLog.objects.filter(call_id__in=found))
        return Call.objects.filter(pk__in=found).update(caller_id=FORGOTTEN, caller_name=FORGOTTEN, **_NOTHING)

    calls = pace.repeat(forget_calls)
    stray = list(_stray_errors(names).values_list("pk", flat=True))

    def forget_errors(most: int) -> int:
        nonlocal errors
        batch = _taken(stray, most)
        errors += _blank(ErrorLog.objects.filter(pk__in=batch))
        return len(batch)

    pace.repeat(forget_errors)
    idempotency_keys = pace.repeat(lambda most: _delete(keys_so_far, most))
    approvals = pace.repeat(lambda most: _delete(approvals_so_far, most))
    stored_answers = pace.repeat(lambda most: _delete(answers_so_far, most))
    # Last: where calls have had their time, only these still say what the caller was called.
    hours = pace.repeat(lambda most: _forget_hours(_taken(hours_so_far, most)))
    return Forgotten(calls, errors, hours, idempotency_keys, stored_answers, approvals)


def _own_name(caller_id: str) -> str | None:
    """What the key or user of this id is called; None where there is none."""
    kind, _, number = caller_id.partition(":")
    if not (number.isascii() and number.isdigit()):
        return None
    if kind == "key":
        return ApiKey.objects.filter(pk=int(number)).values_list("name", flat=True).first()
    user = get_user_model()._default_manager.filter(pk=int(number)).first() if kind == "user" else None
    return user.get_username() if user else None


def _is_recorded(caller_id: str) -> bool:
    return caller_id != FORGOTTEN and any(rows.filter(caller_id=caller_id).exists() for rows in _KNOWING)


def _names(caller_id: str) -> set[str]:
    """What the caller is called, and was when the calls were made."""
    names = {_own_name(caller_id) or ""}
    for rows in (Call.objects, CallHour.objects):
        names.update(rows.filter(caller_id=caller_id).order_by().values_list("caller_name", flat=True).distinct())
    return names - {"", FORGOTTEN}


def _stray_errors(names: set[str]) -> QuerySet[ErrorLog]:
    """Errors under these names of which no call says whose they are."""
    return ErrorLog.objects.filter(
        ~Exists(Call.objects.filter(pk=OuterRef("call_id"))), caller_name__in=names
    ).order_by()


def _blank(errors: QuerySet[ErrorLog]) -> int:
    # A group shows the text of its last error. One at a time: the journal locks several, in an order of its own.
    last = errors.filter(group__last_call_id=F("call_id")).order_by().values_list("group_id", "call_id").distinct()
    for group_id, call_id in last:
        ErrorGroup.objects.filter(pk=group_id, last_call_id=call_id).update(message="")
    return errors.update(caller_name=FORGOTTEN, message="", detail="")


def _taken(keys: list[Any], most: int) -> list[Any]:
    """Up to so many, from the front of the list, which is left with the rest."""
    taken = keys[:most]
    del keys[:most]
    return taken


def _delete(rows: QuerySet[Any], most: int) -> int:
    return rows.filter(pk__in=list(rows.values_list("pk", flat=True)[:most])).delete()[0]


def _forget_hours(keys: Sequence[int]) -> int:
    """Add these hours to those of nobody."""
    if not keys:
        return 0
    rows = CallHour.objects.filter(pk__in=keys)
    with transaction.atomic():
        # Locked, in the journal's own order: it may be counting calls in the newest of them.
        list(rows.select_for_update().order_by(*_HOUR).values_list("pk"))
        with connection.cursor() as cursor:
            cursor.execute(_ADD_TO_NOBODY.format(", ".join(["%s"] * len(keys))), [FORGOTTEN, FORGOTTEN, *keys])
        rows.delete()
    return len(keys)


# The rows that bear the id of a caller.
# What is said of a call in texts; the last three of one that was refused for its key.
_NOTHING: Final = dict.fromkeys(("arguments", "result", "error", "address", "client", "key_prefix"), "")
_KNOWING: Final = (Call.objects, IdempotencyKey.objects, StoredAnswer.objects, Approval.objects, CallHour.objects)
# Of one caller, an hour is known by these.
_HOUR: Final = ("hour", "tool_name", "status", "code")
_TABLE: Final = CallHour._meta.db_table
_ADD_TO_NOBODY: Final = (
    f"INSERT INTO {_TABLE} (caller_id, caller_name, {', '.join((*_HOUR, *SUMS))}) "  # noqa: S608 – our own names
    f"SELECT %s, %s, {', '.join((*_HOUR, *SUMS))} FROM {_TABLE} WHERE id IN ({{}}) "
    "ON CONFLICT (hour, tool_name, caller_id, status, code) DO UPDATE SET "
    + ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in SUMS)
)
