"""Stores answers that were too large to be sent; any process of the hub can read them.

An answer belongs to the caller who got it. For all others it does not exist, and neither does one that was evicted to
make room. All functions are for threads.
"""

from __future__ import annotations

import hashlib
import secrets as random
import zlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from tools_app.base import conf, secrets
from tools_app.journal.quotas import oldest_beyond
from tools_app.models import Chore, StoredAnswer
from tools_app.sdk.context import Caller, NotKeptError
from tools_app.sdk.hub_errors import AnswerNotFoundError, StorageBusyError

# Larger answers compress well enough even so; the caller waits for this.
_QUICKLY: Final = 1
# A lock: only the holder of this row deletes answers to make room.
_CHORE: Final = "answers"


def keep(content: bytes, *, is_text: bool, caller: Caller, tool: str, call_id: str, seconds: float) -> StoredAnswer:
    """Store an answer for its caller. An same one keeps its handle and gets a new expiry time.

    Raises:
        NotKeptError
    """
    now = datetime.now(UTC)
    expires_at = now + timedelta(seconds=seconds)
    digest = hashlib.sha256(content).hexdigest()
    own = StoredAnswer.objects.filter(caller_id=caller.id)
    try:
        same = own.filter(tool_name=tool, digest=digest, is_text=is_text, expires_at__gt=now).defer("content").first()
        if same is not None and own.filter(pk=same.pk).update(created_at=now, expires_at=expires_at):
            same.expires_at = expires_at
            return same
        encrypted = secrets.encrypted(zlib.compress(content, _QUICKLY))
        if len(encrypted) > min(conf.value("TOOLHUB_ANSWERS_BYTES"), conf.value("TOOLHUB_ANSWERS_CALLER_BYTES")):
            raise NotKeptError("it is larger than all that this hub keeps for one caller")
        answer = StoredAnswer(
            id=random.token_hex(16),
            caller_id=caller.id,
            tool_name=tool,
            call_id=call_id,
            digest=digest,
            is_text=is_text,
            content=encrypted,
            size=len(encrypted),
            created_at=now,
            expires_at=expires_at,
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


def find(handle: str, caller: Caller, *, with_content: bool) -> StoredAnswer:
    """The answer stored under this handle for this caller.

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


def contents(handles: Collection[str], caller_id: str) -> Iterator[tuple[str, bytes, bool]]:
    """The answers of a caller among these: the content of each, and whether it is text."""
    rows = StoredAnswer.objects.filter(pk__in=handles, caller_id=caller_id, expires_at__gt=datetime.now(UTC))
    for answer in rows:
        try:
            yield answer.pk, content_of(answer), answer.is_text
        except AnswerNotFoundError:
            continue


def content_of(answer: StoredAnswer) -> bytes:
    """Raises: AnswerNotFoundError."""
    plain = secrets.decrypted(bytes(answer.content))
    if plain is None:
        # Encrypted under a key that no longer exists.
        raise AnswerNotFoundError.of(answer.pk)
    return zlib.decompress(plain)


def _make_room(answers: QuerySet[StoredAnswer], size: int, most: int) -> None:
    """Evict the oldest answers until there is room for this size."""
    if oldest := oldest_beyond(answers, size, most):
        answers.filter(pk__in=oldest).delete()
