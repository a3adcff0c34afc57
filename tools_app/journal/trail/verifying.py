"""Looks for entries that something other than the hub has changed, deleted, added or moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from tools_app.journal.trail import digests, keys
from tools_app.journal.trail.sealing import BATCH, unsealed
from tools_app.models import AuditCheckpoint, AuditKey, AuditSeal, Chore

# The last verification that found nothing, and the last that found something.
_PASSED, _FAILED = "audit-verified", "audit-not-verified"
_PAGE: Final = 200
_LEAST: Final = Value(-(2**63))
_UNREADABLE: Final = (
    "cannot be verified: key {} of the seals cannot be decrypted. Add the encryption key of that time to "
    "TOOLHUB_ENCRYPTION_KEY (new,old)"
)
_CHANGED: Final = "was changed"


@dataclass(frozen=True, slots=True)
class Fault:
    """`entry`: its id, or the first id that is concerned."""

    entry: int
    text: str

    def __str__(self) -> str:
        return f"entry {self.entry} {self.text}"


@dataclass(slots=True)
class Report:
    """What a verification found. `entries`: those that are there; `newest`: the newest checkpoint."""

    entries: int = 0
    redacted: int = 0
    deleted: int = 0
    # Written before this hub sealed: what happened to them until then is not known.
    before: int = 0
    unsealed: int = 0
    checkpoints: int = 0
    newest: str = ""
    faults: int = 0
    first: Fault | None = None

    def add(self, fault: Fault) -> None:
        self.faults += 1
        self.first = self.first or fault


def verify(expected: str = "") -> Report:
    """Verify the whole trail, in bounded memory. `expected`: a checkpoint from a log or an export, `number:head`."""
    verification = _Verification(expected)
    verification.run()
    report = verification.report
    name = _FAILED if report.faults else _PASSED
    Chore.objects.update_or_create(name=name, defaults={"done_at": timezone.now()})
    return report


def last_verified() -> tuple[datetime | None, bool]:
    """When the trail was verified last, and whether it was good."""
    times = dict(Chore.objects.filter(name__in=(_PASSED, _FAILED)).values_list("name", "done_at"))
    passed, failed = times.get(_PASSED), times.get(_FAILED)
    if failed is not None and (passed is None or passed < failed):
        return failed, False
    return passed, True


class _Verification:
    def __init__(self, expected: str) -> None:
        self.report = Report()
        # First: a hub that is running adds checkpoints meanwhile.
        self._keys = keys.all_keys()
        self._tip = AuditKey.objects.order_by("-pk").first()
        self._has_tip = False
        self._expected, self._has_expected = expected, not expected
        self._last: AuditCheckpoint | None = None

    def run(self) -> None:
        while page := self._page():
            for checkpoint in page:
                self._check(checkpoint)
                self._last = checkpoint
                self.report.checkpoints += 1
        last_id = 0 if self._last is None else self._last.last_id
        self._check_end(last_id)
        self.report.newest = "" if self._last is None else str(self._last)
        self.report.unsealed = unsealed(self._last)

    def _page(self) -> list[AuditCheckpoint]:
        found = AuditCheckpoint.objects.order_by("number")
        return list((found if self._last is None else found.filter(number__gt=self._last.number))[:_PAGE])

    # ---- one checkpoint

    def _check(self, checkpoint: AuditCheckpoint) -> None:
        last, counts = self._last, Report()
        if checkpoint.number != (1 if last is None else last.number + 1):
            counts.add(Fault(1 if last is None else last.last_id + 1, "and those after it lack their checkpoint"))
        if checkpoint.kind == AuditCheckpoint.Kind.CUT:
            text = f"is the first after a break: checkpoints before {checkpoint.number} had been deleted or changed"
            counts.add(Fault(checkpoint.first_id, text))
        secret = self._keys.get(checkpoint.key)
        if secret is None:
            counts.add(Fault(checkpoint.first_id, _UNREADABLE.format(checkpoint.key)))
        else:
            found = list(self._faults(checkpoint, secret, counts))
            # Once more: a caller may have been forgotten between the two queries.
            for fault in found and self._faults(checkpoint, secret, Report()):
                counts.add(fault)
        self._add(counts, checkpoint)
        if self._tip is not None and self._tip.tip == checkpoint.number:
            newest_secret = self._keys.get(self._tip.pk, b"")
            mac = digests.of_tip(newest_secret, checkpoint.number, checkpoint.head)
            self._has_tip = digests.are_equal(mac, self._tip.tip_mac)
        self._has_expected |= str(checkpoint) == self._expected

    def _add(self, counts: Report, checkpoint: AuditCheckpoint) -> None:
        report = self.report
        report.entries += counts.entries
        report.redacted += counts.redacted
        report.deleted += counts.deleted
        report.before += checkpoint.count if checkpoint.kind == AuditCheckpoint.Kind.BEFORE else 0
        report.faults += counts.faults
        report.first = report.first or counts.first

    def _faults(self, checkpoint: AuditCheckpoint, secret: bytes, counts: Report) -> Iterator[Fault]:
        after = None if self._last is None else self._last.last_id
        # Entries first: what is deleted or redacted after they were read is still proved by its digest.
        entries = {row.id: row for row in digests.rows(after=after, until=checkpoint.last_id, most=BATCH + 1)}
        seals = {seal.entry_id: seal for seal in digests.seals_of(checkpoint, after, BATCH + 1)}
        for number in sorted(entries.keys() | seals.keys()):
            text = (
                _of_entry(entries.get(number), seals[number], secret, self._keys, counts)
                if number in seals
                else "was added later: it has no seal, and entries after it have one"
            )
            if text:
                yield Fault(number, text)
        before = "" if self._last is None else self._last.head
        pairs = ((number, digests.plain_bytes(seals[number].digest)) for number in sorted(seals))
        if not digests.are_equal(digests.of_checkpoint(secret, before, checkpoint, pairs), checkpoint.head):
            yield _of_head(checkpoint, seals)

    # ---- after the last one

    def _check_end(self, last_id: int) -> None:
        tip, report = self._tip, self.report
        # In one query: a checkpoint that is added now comes with its seals.
        newest = AuditCheckpoint.objects.order_by("-number").values("last_id")[:1]
        stray = AuditSeal.objects.filter(entry_id__gt=Coalesce(Subquery(newest), _LEAST)).order_by("entry_id")
        if (number := stray.values_list("pk", flat=True).first()) is not None:
            report.add(Fault(number, "has a seal, but its checkpoint is missing"))
        if tip is not None and self._keys.get(tip.pk) is None:
            report.add(Fault(last_id + 1, _UNREADABLE.format(tip.pk)))
        elif tip is not None and not self._has_tip and (self._last is not None or tip.tip):
            text = f"and those after it were cut off, or their checkpoints were: there were {tip.tip} checkpoints"
            report.add(Fault(last_id + 1, text))
        if not self._has_expected:
            text = f"or another one was changed or cut off: there is no checkpoint {self._expected}"
            report.add(Fault(last_id + 1, text))


def _of_entry(
    row: digests.Row | None, seal: AuditSeal, secret: bytes, all_keys: Mapping[int, bytes], counts: Report
) -> str:
    """What is wrong with an entry that was sealed; empty if nothing is."""
    if row is not None and digests.are_equal(digests.of_entry(secret, row), seal.digest):
        counts.entries += 1
        return ""
    if not seal.mark:
        return "was deleted" if row is None else _CHANGED
    number, _, mac = seal.mark.partition(":")
    mark_secret = all_keys.get(int(number)) if number.isascii() and number.isdigit() else None
    if mark_secret is None:
        return _UNREADABLE.format(number)
    if not digests.are_equal(digests.of_mark(mark_secret, seal), mac):
        return "was deleted or changed, and what its seal says of that is wrong"
    if row is None:
        counts.deleted += 1
        return "" if seal.content is None else "was deleted"
    counts.entries += 1
    counts.redacted += 1
    is_redaction = seal.content is not None and digests.are_equal(digests.of_entry(mark_secret, row), seal.content)
    return "" if is_redaction else _CHANGED


def _of_head(checkpoint: AuditCheckpoint, seals: Mapping[int, AuditSeal]) -> Fault:
    """The seals are not those of the checkpoint."""
    number = min(seals, default=checkpoint.first_id)
    if len(seals) < checkpoint.count:
        # Ids of transactions that were rolled back are missing as well, so that another one may be meant.
        missing = (number for number in range(checkpoint.first_id, checkpoint.last_id + 1) if number not in seals)
        return Fault(next(missing, number), f"or another one up to {checkpoint.last_id} was deleted with its seal")
    return Fault(number, f"or another one up to {checkpoint.last_id} was changed with its seal or checkpoint")
