"""The keys of the seals, decrypted, and the tip: which checkpoint is the newest one."""

from __future__ import annotations

import secrets as random
from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.base import secrets
from tools_app.journal.trail import digests
from tools_app.models import AuditCheckpoint, AuditEntry, AuditKey

_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Key:
    """`row` as it was read; the tip is read again where it is changed."""

    row: AuditKey
    secret: bytes

    @property
    def id(self) -> int:
        return self.row.pk


def current() -> Key:
    """The key that seals. If the newest one cannot be decrypted, a new one: sealing continues without it."""
    row = AuditKey.objects.order_by("-pk").first()
    while row is None or (secret := _decrypted(row)) is None:
        newest = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() if row is None else None
        row = _next(row, after=newest or 0)
    return Key(row, secret)


def all_keys() -> dict[int, bytes]:
    """The keys that can be decrypted, by number."""
    found = {row.pk: _decrypted(row) for row in AuditKey.objects.all()}
    return {number: secret for number, secret in found.items() if secret is not None}


def is_connected(key: Key, last: AuditCheckpoint | None) -> bool:
    """Whether the newest checkpoint is the one that was made last."""
    if last is None:
        return not key.row.tip_mac
    return digests.are_equal(digests.of_tip(key.secret, last.number, last.head), key.row.tip_mac)


def set_tip(key: Key, checkpoint: AuditCheckpoint) -> None:
    mac = digests.of_tip(key.secret, checkpoint.number, checkpoint.head)
    AuditKey.objects.filter(pk=key.id).update(tip=checkpoint.number, tip_mac=mac)


def renew() -> None:
    """Seal with a new key from now on: the present one may have leaked with the key that encrypts it."""
    with transaction.atomic():
        row = AuditKey.objects.select_for_update().order_by("-pk").first()
        secret = _decrypted(row) if row is not None else None
        if row is None or secret is None:
            return
        last = AuditCheckpoint.objects.order_by("-number").first()
        new = _next(row)
        new_secret = _decrypted(new)
        if last is not None and new_secret is not None and is_connected(Key(row, secret), last):
            set_tip(Key(new, new_secret), last)
        # Deleting the new key must not bring this one back.
        AuditKey.objects.filter(pk=row.pk).update(tip=0, tip_mac="")


def _next(row: AuditKey | None, *, after: int = 0) -> AuditKey:
    number = 1 if row is None else row.pk + 1
    sealed = secrets.encrypted(random.token_bytes(_BYTES))
    defaults = {"sealed": sealed, "created_at": timezone.now(), "after": after}
    return AuditKey.objects.get_or_create(pk=number, defaults=defaults)[0]


def _decrypted(row: AuditKey) -> bytes | None:
    return secrets.decrypted(digests.plain_bytes(row.sealed))
