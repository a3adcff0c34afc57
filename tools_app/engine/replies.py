"""Idempotency keys: a key names a call that must not run twice; a second call with the key gets the answer of the
first.
The key is claimed in the commit that records the start of the call, and the answer is stored in the commit that records
its end: whatever happens in between, the tool does not run twice. Answers have a quota; a key outlives its answer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db import DatabaseError, InterfaceError

from tools_app.base import secrets
from tools_app.engine.answers import Answer, text_of
from tools_app.journal.quotas import GONE
from tools_app.journal.rows import Reply
from tools_app.models import Call, IdempotencyKey
from tools_app.models.idempotency import REPLAYED_FOR
from tools_app.sdk.errors import Problem, ToolError, ValidationError, restored
from tools_app.sdk.hub_errors import (
    IdempotencyInProgressError,
    IdempotencyMismatchError,
    OutcomeUnknownError,
    ReplyGoneError,
    StorageBusyError,
)

log = logging.getLogger("tools_app.journal")

MOST_CHARACTERS: Final = 255


@dataclass(frozen=True, slots=True)
class EarlierOutcome:
    """The outcome of the first call with a key."""

    call_id: str
    duration_ms: int
    answer: Answer | None
    error: ToolError | None


def check(key: str) -> None:
    """Raises: ValidationError."""
    if not isinstance(key, str) or not 1 <= len(key) <= MOST_CHARACTERS or not (key.isascii() and key.isprintable()):
        message = f"Idempotency-Key must be 1 to {MOST_CHARACTERS} printable ASCII characters"
        raise ValidationError(problems=[Problem("/idempotencyKey", message, f"1 to {MOST_CHARACTERS} characters")])


def claim(key: str, caller_id: str, call: Call, request_hash: str) -> IdempotencyKey:
    """The row that claims a key for a call."""
    return IdempotencyKey(
        caller_id=caller_id,
        key_hash=_hash(key),
        request_hash=request_hash,
        call_id=call.id,
        created_at=datetime.now(UTC),
    )


def earlier(key: str, caller_id: str, request: str, *, repeatable: bool) -> EarlierOutcome | None:
    """The outcome of an earlier call with this key; None if this is the first. For threads.

    Raises:
        IdempotencyMismatchError: the earlier call was a different request.
        IdempotencyInProgressError: the earlier call is still running.
        OutcomeUnknownError: it was interrupted, and running it again could make its change twice.
        ReplyGoneError: it has ended, and its answer has been deleted.
        StorageBusyError
    """
    try:
        row = IdempotencyKey.objects.filter(caller_id=caller_id, key_hash=_hash(key)).first()
        if row is None:
            return None
        if row.created_at < datetime.now(UTC) - REPLAYED_FOR:
            row.delete()
            return None
        if row.request_hash != request:
            raise IdempotencyMismatchError
        if row.reply is not None and bytes(row.reply) != GONE:
            return _unpacked_outcome(bytes(row.reply))
        status = Call.objects.filter(pk=row.call_id).values_list("status", flat=True).first()
        if row.reply is not None:
            raise ReplyGoneError.of(row.call_id, status or "")
        if status == Call.Status.STARTED:
            raise IdempotencyInProgressError
        if not repeatable:
            raise OutcomeUnknownError.of(row.call_id)
        IdempotencyKey.objects.filter(pk=row.pk, reply=None).delete()
    except (DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error
    return None


def reply(claim: IdempotencyKey, call: Call, answer: Answer | None, error: ToolError | None) -> Reply:
    """The outcome to store for the next call with the key; with neither answer nor error, the key is released."""
    text = None
    if answer is not None or error is not None:
        outcome = {
            "callId": call.id,
            "durationMs": call.duration_ms,
            "answer": _packed(answer) if answer is not None else None,
            "error": error.kept() if error is not None else None,
        }
        text = secrets.encrypted(zlib.compress(json.dumps(outcome, separators=(",", ":")).encode()))
    return Reply(claim.caller_id, claim.key_hash, claim.call_id, text)


def _unpacked_outcome(encrypted_reply: bytes) -> EarlierOutcome | None:
    plain = secrets.decrypted(encrypted_reply)
    if plain is None:
        # Encrypted under a key that no longer exists. The call ran; its outcome cannot be read any more.
        raise OutcomeUnknownError.of("")
    outcome = json.loads(zlib.decompress(plain))
    return EarlierOutcome(
        call_id=outcome["callId"],
        duration_ms=outcome["durationMs"] or 0,
        # What an earlier version stored does not say whether it contains text from outside.
        answer=_unpacked({"untrusted": True} | outcome["answer"]) if outcome["answer"] is not None else None,
        error=restored(outcome["error"]) if outcome["error"] is not None else None,
    )


def _packed(answer: Answer) -> dict[str, Any]:
    """An answer without the fields that follow from its value, so that nothing is stored twice."""
    fields = asdict(answer)
    for part, value in _derived(answer.value).items():
        if fields[part] is not None and fields[part] == value:
            fields[part] = _AS_VALUE
    return fields


def _unpacked(fields: dict[str, Any]) -> Answer:
    for part, value in _derived(fields["value"]).items():
        if fields.get(part) == _AS_VALUE:
            fields[part] = value
    return Answer(**fields)


# Placeholder for a field that follows from the value. No such field is ever a number.
_AS_VALUE: Final = 0


def _derived(value: Any) -> dict[str, Any]:
    # Under `data`: the answer of a tool with a success message.
    data = value.get("data") if isinstance(value, dict) and value.keys() == {"success", "message", "data"} else value
    return {"text": text_of(value), "structured": data, "content": value}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
