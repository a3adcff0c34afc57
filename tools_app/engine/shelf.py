"""Answers that are kept because they were too large to be sent: written and read here, by any process of the hub.

An answer belongs to the caller who got it. To everybody else it does not exist, and neither does one that has gone to
make room. All functions are for threads.
"""

from __future__ import annotations

import hashlib
import secrets as random
import zlib
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from tools_app.base import conf, secrets
from tools_app.journal.quotas import oldest_beyond
from tools_app.models import Chore, StoredAnswer
from tools_app.sdk.context import Caller, NotKeptError
from tools_app.sdk.hub_errors import AnswerNotFoundError, StorageBusyError

# Larger answers compress well enough at once; the caller waits for this.
_QUICKLY: Final = 1
# Whoever holds this row makes room; one at a time.
_CHORE: Final = "answers"


def keep(content: bytes, *, is_text: bool, caller: Caller, tool: str, call_id: str, seconds: float) -> StoredAnswer:
    """Keep an answer for its caller; the same one again gets its old handle, and new time.

    Raises:
        NotKeptError
    """
    now = datetime.now(UTC)
    until = now + timedelta(seconds=seconds)
    digest = hashlib.sha256(content).hexdigest()
    own = StoredAnswer.objects.filter(caller_id=caller.id)
    try:
        same = own.filter(tool_name=tool, digest=digest, is_text=is_text, expires_at__gt=now).defer("content").first()
        if same is not None and own.filter(pk=same.pk).update(created_at=now, expires_at=until):
            same.expires_at = until
            return same
        hidden = secrets.encrypted(zlib.compress(content, _QUICKLY))
        if len(hidden) > min(conf.value("TOOLHUB_ANSWERS_BYTES"), conf.value("TOOLHUB_ANSWERS_CALLER_BYTES")):
            raise NotKeptError("it is larger than all that this hub keeps for one caller")
        answer = StoredAnswer(
            id=random.token_hex(16),
            caller_id=caller.id,
            tool_name=tool,
            call_id=call_id,
            digest=digest,
            is_text=is_text,
            content=hidden,
            size=len(hidden),
            created_at=now,
            expires_at=until,
        )
        Chore.objects.get_or_create(name=_CHORE, defaults={"done_at": now})
        with transaction.atomic():
            Chore.objects.select_for_update().get(name=_CHORE)
            _make_room(own, answer.size, conf.value("TOOLHUB_ANSWERS_CALLER_BYTES"))
            _make_room(StoredAnswer.objects.all(), answer.size, conf.value("TOOLHUB_ANSWERS_BYTES"))
            answer.save(force_insert=True)
    except (DatabaseError, InterfaceError) as error:
        raise NotKeptError("the hub's database cannot be used right now") from error
    return answer


def found(handle: str, caller: Caller, *, with_content: bool) -> StoredAnswer:
    """What is kept under this handle for this caller.

    Raises:
        AnswerNotFoundError, StorageBusyError
    """
    answers = StoredAnswer.objects.filter(pk=handle, caller_id=caller.id)
    try:
        answer = (answers if with_content else answers.defer("content")).first()
    except (DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error
    if answer is None:
        raise AnswerNotFoundError.of(handle)
    if answer.expires_at <= datetime.now(UTC):
        raise AnswerNotFoundError.expired(handle)
    return answer


def content_of(answer: StoredAnswer) -> bytes:
    """Raises: AnswerNotFoundError."""
    plain = secrets.decrypted(bytes(answer.content))
    if plain is None:
        # Kept under an encryption key that is gone.
        raise AnswerNotFoundError.of(answer.pk)
    return zlib.decompress(plain)


def _make_room(answers: QuerySet[StoredAnswer], size: int, most: int) -> None:
    """Delete the oldest until one of this size has room."""
    if gone := oldest_beyond(answers, size, most):
        answers.filter(pk__in=gone).delete()
