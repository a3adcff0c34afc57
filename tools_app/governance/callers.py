"""What is recorded of a person or key: as one file, and its removal, which concerns the same rows.

For the requests of people, and to see what a leaked key was used for.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Max, Min, Model, QuerySet, Sum
from django.utils import timezone

from tools_app.access import actions
from tools_app.base import secrets
from tools_app.governance.actors import Actor, changing
from tools_app.governance.sign_ins import sign_out
from tools_app.journal import retention
from tools_app.models import (
    ApiKey,
    Approval,
    BrowserSession,
    Call,
    CallHour,
    IdempotencyKey,
    StandingApproval,
    StoredAnswer,
    UpstreamToken,
)
from tools_app.text import redaction

BATCH: Final = 200
MOST_TOOLS: Final = 1_000
# Arguments and answers. Those of the journal are redacted when they are written, others when they are read.
PAYLOADS: Final[dict[type[Model], tuple[str, ...]]] = {
    Call: ("arguments", "result"),
    Approval: ("arguments",),
    StandingApproval: ("constraint",),
    IdempotencyKey: ("reply",),
    StoredAnswer: ("content",),
}
# What would let its reader act as the caller, here or at an upstream.
CREDENTIALS: Final[dict[type[Model], str]] = {BrowserSession: "session_key", UpstreamToken: "sealed"}
LEFT_OUT: Final = "(left out)"
UNREADABLE: Final = "(cannot be read: deleted to free space, or encrypted under another key)"


def export_caller(caller: str, *, actor: Actor, payloads: bool = True, reason: str = "") -> Iterator[str]:
    """The lines of the file, some hundred rows at a time: a head, each row, and a last line with their numbers.

    Arguments and answers are left out without `payloads`, or if the actor must not read them.

    Raises:
        AuthorizationError
        ValidationError: the caller is unknown or ambiguous.
    """
    with changing(actions.CALLER_EXPORT, actor, reason) as change:
        caller_id = retention.identified(caller)
        payloads = payloads and (actor.principal is None or actions.PAYLOADS_READ.permits(actor.principal))
        change.note(caller_id, {"payloads": payloads})
    return _lines(caller_id, payloads=payloads)


def forget_caller(caller: str, *, actor: Actor, reason: str = "") -> retention.Forgotten:
    """Remove a caller from the records, and end its sign-ins to upstreams.

    Raises:
        ValidationError: the caller is unknown or ambiguous, or has a running call.
    """
    caller_id = retention.identified(caller)
    counts = retention.forget(caller_id, actor=actor.name, reason=reason)
    # Afterwards: it may be refused, and can be repeated.
    sign_ins = list(retention.sign_ins_of(caller_id).values_list("connection__name", "caller"))
    for name, identity in sign_ins:
        sign_out(name, actor=actor, caller=identity, reason=reason)
    return replace(counts, sign_ins=len(sign_ins))


def _lines(caller_id: str, *, payloads: bool) -> Iterator[str]:
    yield _line({"export": _head(caller_id, payloads=payloads)})
    numbers = {}
    for kind, rows in retention.traces(caller_id).items():
        numbers[kind] = 0
        for batch in _batches(rows):
            numbers[kind] += len(batch)
            yield "".join(_line({"kind": kind, **_fields(row, payloads=payloads)}) for row in batch)
    yield _line({"complete": True, "rows": numbers})


def _head(caller_id: str, *, payloads: bool) -> dict[str, Any]:
    """Who it is, and what it called: the figures of its calls are kept longer than the calls."""
    hours = CallHour.objects.filter(caller_id=caller_id).order_by().values("tool_name")
    tools = hours.annotate(calls=Sum("calls"), first=Min("hour"), last=Max("hour")).order_by("-calls", "tool_name")
    kind, _, number = caller_id.partition(":")
    key = ApiKey.objects.filter(pk=int(number)).first() if kind == "key" and number.isdecimal() else None
    return {
        "caller": caller_id,
        "names": sorted(retention.names_of(caller_id)),
        "at": timezone.now(),
        "payloads": payloads,
        "key": _of_key(key) if key is not None else None,
        "tools": list(tools[:MOST_TOOLS]),
    }


def _of_key(key: ApiKey) -> dict[str, Any]:
    names = ("name", "prefix", "scopes", "created_at", "rotated_at", "expires_at", "revoked_at", "last_used_at")
    return {name: getattr(key, name) for name in names}


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Each read by itself: the lines can be written by several threads, one after the other."""
    rows, until = rows.order_by("pk"), None
    while batch := list((rows if until is None else rows.filter(pk__gt=until))[:BATCH]):
        yield batch
        until = batch[-1].pk


def _fields(row: Model, *, payloads: bool) -> dict[str, Any]:
    private = PAYLOADS.get(type(row), ())
    fields = {}
    for field in row._meta.concrete_fields:
        value = getattr(row, field.attname)
        if field.name in private and value:
            value = _payload(value) if payloads else LEFT_OUT
        if field.name == CREDENTIALS.get(type(row)):
            value = LEFT_OUT
        fields[field.attname] = value
    return fields


def _payload(value: Any) -> str:
    if isinstance(value, str):
        return value
    plain = secrets.decrypted(bytes(value))
    return UNREADABLE if plain is None else redaction.redacted_text(zlib.decompress(plain).decode(errors="replace"))


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
