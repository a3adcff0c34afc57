"""The audit trail: who changed what, when and why. Written in the transaction of each change, and sealed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Self

from django.db import models, transaction
from django.db.models.functions import Now
from django.http import HttpRequest

from tools_app.text import hygiene, redaction

MOST_OF_CLIENT: Final = 200
MOST_OF_ADDRESS: Final = 45

# IP address and user agent of the current request; empty for commands and background work.
_origin: ContextVar[tuple[str, str]] = ContextVar("audit_origin", default=("", ""))
# Action, subject and changes of an entry.
Entry = tuple[str, str, dict[str, Any]]
# Where the entries of one large change are collected; None: each is written.
_collection: ContextVar[list[Entry] | None] = ContextVar("audit_collection", default=None)


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    def made_by(self, kind: str) -> Self:
        """Entries of one of the kinds `people`, `programs` and `system`."""
        known = {name: _begins_with(prefixes) for name, prefixes in _PREFIXES.items()}
        return self.filter(known[kind]) if kind in known else self.exclude(known["people"] | known["programs"])


class AuditEntry(models.Model):
    at = models.DateTimeField(db_default=Now(), db_index=True)
    actor = models.CharField(max_length=150, help_text="The user, API key or command that made the change.")
    action = models.CharField(max_length=40)
    subject = models.CharField(max_length=150)
    changes = models.JSONField(default=dict, help_text="Values before and after the change.")
    reason = models.CharField(max_length=500, blank=True)
    address = models.CharField(
        max_length=MOST_OF_ADDRESS, blank=True, help_text="IP address of the client. Empty: this machine."
    )
    client = models.CharField(max_length=MOST_OF_CLIENT, blank=True, help_text="User agent of the client program.")

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [models.Index(fields=["subject", "-at"], name="audit_of_subject")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class AuditKey(models.Model):
    """A key of the seals. The newest one seals; the others prove what they have sealed.

    It is random and stored encrypted, so that it survives a rotation of TOOLHUB_ENCRYPTION_KEY like any other secret.
    """

    # Given, not generated: of two processes that make the next key, one does.
    id = models.IntegerField(primary_key=True)
    sealed = models.BinaryField(editable=False, help_text="The key, encrypted.")
    created_at = models.DateTimeField()
    after = models.BigIntegerField(
        default=0, db_default=0, help_text="For the first key: entries up to this id are older than the seals."
    )
    # Which checkpoint is the newest one, so that deleting the newest ones is noticed.
    tip = models.BigIntegerField(default=0, db_default=0)
    tip_mac = models.CharField(max_length=64, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return str(self.pk)


class AuditCheckpoint(models.Model):
    """The seal of some entries in the order of their ids, chained to the checkpoint before."""

    class Kind(models.TextChoices):
        REGULAR = "regular"
        # Entries that are older than the first key.
        BEFORE = "before"
        # The checkpoints before it were not those that had been made.
        CUT = "cut"

    number = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    count = models.PositiveIntegerField()
    key = models.IntegerField(help_text="Number of the AuditKey.")
    head = models.CharField(max_length=64, help_text="HMAC of the entries and of the checkpoint before.")
    sealed_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["number"]

    def __str__(self) -> str:
        return f"{self.number}:{self.head}"


class AuditSeal(models.Model):
    """The digest of an entry. It stays when the entry is deleted or redacted; a mark proves that the hub did that."""

    entry_id = models.BigIntegerField(primary_key=True)
    digest = models.BinaryField(max_length=32)
    changed_at = models.DateTimeField(null=True, help_text="When the entry was deleted or redacted.")
    changed_by = models.BigIntegerField(null=True, help_text="The entry that records the redaction.")
    content = models.BinaryField(max_length=32, null=True, help_text="Digest of the redacted entry.")
    mark = models.CharField(max_length=80, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return str(self.entry_id)


def coming_from(request: HttpRequest) -> AbstractContextManager[None]:
    """Record IP address and user agent of this request in the audit entries and calls of the block."""
    return coming_from_address(request.META.get("REMOTE_ADDR") or "", request.META.get("HTTP_USER_AGENT") or "")


@contextmanager
def coming_from_address(address: str, client: str) -> Iterator[None]:
    """The same for a request that is not Django's."""
    token = _origin.set((address, client))
    try:
        yield
    finally:
        _origin.reset(token)


def address_of_request() -> str:
    """The IP address of the current request, as it is stored; empty for commands and background work."""
    return _origin.get()[0][:MOST_OF_ADDRESS]


def current_origin() -> tuple[str, str]:
    """IP address and user agent of the current request, as they are stored."""
    return shown_origin(*_origin.get())


def note(action: str, subject: str, *, actor: str, changes: dict[str, Any], reason: str = "") -> None:
    """Write an entry. Only inside the transaction of its change: neither must exist without the other."""
    note_all([(action, subject, changes)], actor=actor, reason=reason)


@contextmanager
def collected() -> Iterator[list[Entry]]:
    """Entries of the block are not written one by one: the caller writes a single one with all of them."""
    entries: list[Entry] = []
    token = _collection.set(entries)
    try:
        yield entries
    finally:
        _collection.reset(token)


def note_all(entries: list[Entry], *, actor: str, reason: str = "") -> None:
    """Write many entries (action, subject, changes) at once."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an audit entry must be written in the transaction of its change")
    if (collection := _collection.get()) is not None:
        collection.extend(entries)
        return
    address, client = current_origin()
    AuditEntry.objects.bulk_create(
        AuditEntry(
            actor=actor[:150],
            action=action,
            subject=subject[:150],
            changes=changes,
            reason=reason[:500],
            address=address,
            client=client,
        )
        for action, subject, changes in entries
    )


def shown_origin(address: str, client: str) -> tuple[str, str]:
    """IP address and user agent of a request, as they are stored."""
    # Untrusted input. Cleaned only here, since most requests change nothing.
    line = " ".join(hygiene.cleaned(client[:1_000]).split())
    return address[:MOST_OF_ADDRESS], redaction.redacted_beginning(line, MOST_OF_CLIENT)[:MOST_OF_CLIENT].rstrip()


# Of actors. A command is run by a person, or by a schedule that one has made.
_PREFIXES: Final = {"people": ("user:", "command:"), "programs": ("key:", "token:", "local:")}


def _begins_with(prefixes: tuple[str, ...]) -> models.Q:
    condition = models.Q()
    for prefix in prefixes:
        condition |= models.Q(actor__startswith=prefix)
    return condition
