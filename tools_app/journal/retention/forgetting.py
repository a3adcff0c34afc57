"""Removes a caller from the records. Cost and outcome of its calls stay, without the name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Length
from django.utils import timezone

from tools_app.journal import texts, trail
from tools_app.journal.pace import BATCH, Pace, fitting
from tools_app.models import (
    Alert,
    ApiKey,
    Approval,
    AuditEntry,
    BrowserSession,
    Call,
    CallHour,
    ErrorGroup,
    ErrorLog,
    IdempotencyKey,
    PendingCount,
    StandingApproval,
    StoredAnswer,
    UpstreamToken,
)
from tools_app.models.audit import note
from tools_app.models.calls import LONGEST
from tools_app.models.figures import SUMS
from tools_app.sdk.errors import ValidationError

FORGOTTEN: Final = "forgotten"
EVENT: Final = "caller.forget"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The number of rows that named the caller."""

    calls: int
    errors: int
    hours: int
    idempotency_keys: int
    stored_answers: int
    approvals: int
    audit_entries: int
    standing_approvals: int
    sessions: int
    alerts: int
    # Ended by governance, as their tokens are revoked as well.
    sign_ins: int = 0


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


def traces(caller_id: str) -> dict[str, QuerySet[Any]]:
    """The rows that name a caller, by kind: all that `forget` changes, and all that an export contains."""
    calls = Call.objects.filter(caller_id=caller_id)
    stray = _stray_errors(names_of(caller_id)).values("pk")
    errors = ErrorLog.objects.filter(Q(call_id__in=calls.values("pk")) | Q(pk__in=stray))
    newest = errors.filter(group=OuterRef("pk"), call_id=OuterRef("last_call_id"))
    return {
        "calls": calls,
        "errors": errors,
        # Their message is that of the newest error.
        "issues": ErrorGroup.objects.filter(Exists(newest)),
        "hours": CallHour.objects.filter(caller_id=caller_id),
        "pending_counts": PendingCount.objects.filter(caller_id=caller_id),
        "audit_entries": _audit_entries(_labels(caller_id)),
        "sign_ins": sign_ins_of(caller_id),
        **{kind: model._base_manager.filter(caller_id=caller_id) for kind, (model, _) in _DELETED.items()},
    }


def sign_ins_of(caller_id: str) -> QuerySet[UpstreamToken]:
    """The sign-ins of one caller to upstreams: those of a token have a digest of its issuer after the id."""
    if caller_id.startswith("token:"):
        return UpstreamToken.objects.filter(caller__regex=f"^{re.escape(caller_id)}@[0-9a-f]+$")
    return UpstreamToken.objects.filter(caller=caller_id)


def remembered(caller_id: str) -> Forgotten:
    """What `forget` would change now."""
    rows = traces(caller_id)
    return Forgotten(**{one.name: rows[one.name].count() for one in fields(Forgotten)})


def forget(caller: str, *, actor: str, reason: str = "") -> Forgotten:
    """Remove a caller from calls, errors and figures. Idempotent: an interrupted run can be repeated.

    Errors whose call is gone, and audit entries, are matched by name: those of others with the same name are emptied
    too. The digests of audit entries stay, so that the trail still proves itself.

    Raises:
        ValidationError: the caller is unknown or ambiguous, or has a running call, which would bring the name back; or
            new audit entries cannot be sealed yet.
    """
    caller_id = identified(caller)
    # The caller may keep calling; without these bounds, the loops below might never end.
    now = timezone.now()
    calls_so_far = Call.objects.filter(caller_id=caller_id, started_at__lte=now)
    running = calls_so_far.filter(status=Call.Status.STARTED, started_at__gte=now - LONGEST)
    if number := running.count():
        raise ValidationError(f"{caller_id} has {number} calls under way", next_step="Try again when they have ended.")
    names = names_of(caller_id)
    try:
        # Only what is sealed is redacted.
        trail.seal()
    except trail.UnsettledError as error:
        raise ValidationError(f"The audit trail cannot be sealed: {error}", next_step="Try again later.") from error
    entries_so_far = list(_audit_entries(_labels(caller_id)).values_list("pk", flat=True))
    with transaction.atomic():
        # Audited first: if this is interrupted, nothing is gone without a trace.
        note(EVENT, caller_id, actor=actor, reason=reason, changes=asdict(remembered(caller_id)))
        own = AuditEntry.objects.filter(action=EVENT, subject=caller_id).latest("pk").pk
    labels = _labels(caller_id)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            # Overwrite deleted content: otherwise it stays in the file until the space is reused.
            cursor.execute("PRAGMA secure_delete = ON")
    # First: what is pending now would bring the name back into the hours.
    PendingCount.objects.filter(caller_id=caller_id).update(caller_id=FORGOTTEN, caller_name=FORGOTTEN)
    hours_so_far = list(CallHour.objects.filter(caller_id=caller_id).order_by(*_HOUR).values_list("pk", flat=True))
    UpstreamToken.objects.filter(signed_in_by__in=labels).update(signed_in_by=FORGOTTEN)
    pace = Pace()
    errors = audit_entries = 0

    def forget_calls() -> int:
        nonlocal errors
        page = list(calls_so_far.values_list("pk", Length("arguments"))[:BATCH])
        call_ids = [pk for pk, _ in page[: fitting(size for _, size in page)]]
        # Before the calls themselves: they lead to the errors if this is repeated.
        errors += _blank(ErrorLog.objects.filter(call_id__in=call_ids))
        return Call.objects.filter(pk__in=call_ids).update(caller_id=FORGOTTEN, caller_name=FORGOTTEN, **_BLANK_TEXTS)

    calls = pace.repeat(forget_calls)
    # Their texts have left the index with their arguments; this takes them out of the file.
    texts.compact(pace)
    stray = list(_stray_errors(names).values_list("pk", flat=True))

    def forget_errors() -> int:
        nonlocal errors
        batch = _pop_batch(stray)
        errors += _blank(ErrorLog.objects.filter(pk__in=batch))
        return len(batch)

    pace.repeat(forget_errors)

    def forget_entries() -> int:
        nonlocal audit_entries
        batch = _pop_batch(entries_so_far)
        audit_entries += trail.redact_entries(batch, partial(_redact, labels), by=own)
        return len(batch)

    pace.repeat(forget_entries)
    deleted = {
        kind: pace.repeat(partial(_delete, model._base_manager.filter((f"{column}__lte", now), caller_id=caller_id)))
        for kind, (model, column) in _DELETED.items()
    }
    # Last: for calls deleted by retention, only the hours still have the caller's name.
    hours = pace.repeat(lambda: _forget_hours(_pop_batch(hours_so_far)))
    return Forgotten(calls, errors, hours, audit_entries=audit_entries, **deleted)


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
    return caller_id != FORGOTTEN and (
        any(model._base_manager.filter(caller_id=caller_id).exists() for model in _KNOWING)
        or sign_ins_of(caller_id).exists()
    )


def names_of(caller_id: str) -> set[str]:
    """Current and earlier names of the caller."""
    names = {_own_name(caller_id) or ""}
    for rows in (Call.objects, CallHour.objects):
        names.update(rows.filter(caller_id=caller_id).order_by().values_list("caller_name", flat=True).distinct())
    return names - {"", FORGOTTEN}


def _labels(caller_id: str) -> set[str]:
    """How audit entries name the caller, now and earlier."""
    kind = caller_id.partition(":")[0]
    return {f"{kind}:{name}"[:150] for name in names_of(caller_id)}


def _audit_entries(labels: set[str]) -> QuerySet[AuditEntry]:
    """Entries of changes by the caller, and about it."""
    return AuditEntry.objects.filter(Q(actor__in=labels) | Q(subject__in=labels)).order_by("pk")


def _redact(labels: set[str], entry: AuditEntry) -> None:
    """What was done and when stays, with the changes that the caller made to others."""
    if entry.subject in labels:
        kind = entry.subject.partition(":")[0]
        entry.subject, entry.changes, entry.reason = f"{kind}:{FORGOTTEN}", {}, ""
        if entry.actor == "hub":
            # Of sign-ins that failed: the address is that of the caller.
            entry.address = entry.client = ""
    if entry.actor in labels:
        kind = entry.actor.partition(":")[0]
        entry.actor, entry.reason, entry.address, entry.client = f"{kind}:{FORGOTTEN}", "", "", ""


def _stray_errors(names: set[str]) -> QuerySet[ErrorLog]:
    """Errors with these names whose call has been deleted."""
    return ErrorLog.objects.filter(
        ~Exists(Call.objects.filter(pk=OuterRef("call_id"))), caller_name__in=names
    ).order_by()


def _blank(errors: QuerySet[ErrorLog]) -> int:
    # A group shows the text of its last error. Updated one by one: the journal locks several, in its own order.
    last = errors.filter(group__last_call_id=F("call_id")).order_by().values_list("group_id", "call_id").distinct()
    for group_id, call_id in last:
        ErrorGroup.objects.filter(pk=group_id, last_call_id=call_id).update(message="", cause="")
    return errors.update(caller_name=FORGOTTEN, message="", cause="", detail="")


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
    "standing_approvals": (StandingApproval, "created_at"),
    "sessions": (BrowserSession, "started_at"),
    "alerts": (Alert, "at"),
}
_KNOWING: Final[tuple[type[Model], ...]] = (Call, CallHour, IdempotencyKey, StoredAnswer, Approval, StandingApproval)
# The key of an hour, apart from the caller.
_HOUR: Final = ("hour", "tool_name", "status", "code")
_TABLE: Final = CallHour._meta.db_table
_ADD_TO_NOBODY: Final = (
    f"INSERT INTO {_TABLE} (caller_id, caller_name, {', '.join((*_HOUR, *SUMS))}) "  # noqa: S608 – our own names
    f"SELECT %s, %s, {', '.join((*_HOUR, *SUMS))} FROM {_TABLE} WHERE id IN ({{}}) "
    "ON CONFLICT (hour, tool_name, caller_id, status, code) DO UPDATE SET "
    + ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in SUMS)
)
