"""Calls that must not happen twice. A caller names its call by a key; a second call with that key gets the answer of
the first.

The key is claimed in the commit that says that the call has begun, and the answer is kept in the commit that says how
it ended: whatever happens in between, the tool does not run twice. Answers have a quota; a key outlives its answer.
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
class Said:
    """What the first call with a key was told."""

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
    """The row with which a call takes a key for itself."""
    return IdempotencyKey(
        caller_id=caller_id,
        key_hash=_hash(key),
        request_hash=request_hash,
        call_id=call.id,
        created_at=datetime.now(UTC),
    )


def earlier(key: str, caller_id: str, request: str, *, repeatable: bool) -> Said | None:
    """What was said to an earlier call with this key; None when this is the first. For threads.

    Raises:
        IdempotencyMismatchError: it asked for something else.
        IdempotencyInProgressError: it is still under way.
        OutcomeUnknownError: it was broken off, and running it again could do its work twice.
        ReplyGoneError: it has ended, and what it answered is not kept any more.
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
            return _opened(bytes(row.reply))
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
    """What is kept for the next call with the key; with neither answer nor error, the key is free again."""
    text = None
    if answer is not None or error is not None:
        kept = {
            "callId": call.id,
            "durationMs": call.duration_ms,
            "answer": _kept(answer) if answer is not None else None,
            "error": error.kept() if error is not None else None,
        }
        text = secrets.encrypted(zlib.compress(json.dumps(kept, separators=(",", ":")).encode()))
    return Reply(claim.caller_id, claim.key_hash, claim.call_id, text)


def _opened(kept: bytes) -> Said | None:
    plain = secrets.decrypted(kept)
    if plain is None:
        # Kept under an encryption key that is gone. It ran; what it said nobody can tell any more.
        raise OutcomeUnknownError.of("")
    said = json.loads(zlib.decompress(plain))
    return Said(
        call_id=said["callId"],
        duration_ms=said["durationMs"] or 0,
        # What an earlier version kept does not say whose words it holds.
        answer=_answer({"untrusted": True} | said["answer"]) if said["answer"] is not None else None,
        error=restored(said["error"]) if said["error"] is not None else None,
    )


def _kept(answer: Answer) -> dict[str, Any]:
    """An answer without what follows from its value: the same words are not stored twice."""
    kept = asdict(answer)
    for part, value in _derived(answer.value).items():
        if kept[part] is not None and kept[part] == value:
            kept[part] = _AS_VALUE
    return kept


def _answer(kept: dict[str, Any]) -> Answer:
    for part, value in _derived(kept["value"]).items():
        if kept.get(part) == _AS_VALUE:
            kept[part] = value
    return Answer(**kept)


# In the place of a part of an answer that follows from its value. No part is ever a number.
_AS_VALUE: Final = 0


def _derived(value: Any) -> dict[str, Any]:
    # Under `data`: what a tool answers that says that it is done.
    data = value.get("data") if isinstance(value, dict) and value.keys() == {"success", "message", "data"} else value
    return {"text": text_of(value), "structured": data, "content": value}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
