"""Entries are sealed in the order of their ids, when no entry can come between them any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from tests.support.tools import eventually
from tests.trail.conftest import entries, fault, now, sealed, sql
from tools_app import governance
from tools_app.base import secrets
from tools_app.journal import trail
from tools_app.journal.retention import keeper
from tools_app.journal.trail import sealing
from tools_app.models import AuditCheckpoint, AuditEntry, AuditKey, AuditSeal, Chore
from tools_app.models.audit import note

pytestmark = pytest.mark.django_db(transaction=True)

postgres_only = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one writer at a time")


def test_an_empty_trail_is_verified() -> None:
    assert trail.seal() == 0
    report = trail.verify()
    assert (report.faults, report.entries, report.newest) == (0, 0, "")


def test_every_entry_is_sealed_once_and_in_order() -> None:
    ids = sealed(sealing.BATCH * 2 + 1)
    assert trail.seal() == 0
    more = sealed(3)
    assert list(AuditSeal.objects.order_by("pk").values_list("pk", flat=True)) == ids + more
    numbers = AuditCheckpoint.objects.values_list("number", "first_id", "last_id", "count")
    assert list(numbers) == [
        (1, ids[0], ids[499], 500),
        (2, ids[500], ids[999], 500),
        (3, ids[1000], ids[1000], 1),
        (4, more[0], more[2], 3),
    ]
    report = trail.verify()
    assert (report.faults, report.entries, report.checkpoints, report.unsealed) == (0, len(ids) + 3, 4, 0)


def test_what_is_older_than_the_seals_is_marked() -> None:
    sealed(7)
    sealed(2)
    assert list(AuditCheckpoint.objects.values_list("kind", "count")) == [("before", 7), ("regular", 2)]
    assert trail.verify().before == 7


def test_entries_that_are_not_sealed_yet_are_counted() -> None:
    sealed(2)
    entries(3)
    report = trail.verify()
    assert (report.faults, report.entries, report.unsealed) == (0, 2, 3)


def test_ids_of_transactions_that_were_rolled_back_are_no_deleted_entries() -> None:
    entries(2)
    with transaction.atomic():
        note("tool.disable", "echo", actor="user:alice", changes={})
        transaction.set_rollback(True)
    if connection.vendor == "postgresql":
        sql("SELECT nextval(pg_get_serial_sequence('tools_app_auditentry', 'id'))")
    sealed(2)
    assert fault() == ""


def test_a_checkpoint_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tools_app.journal.trail"):
        ids = sealed(3)
        trail.seal()
    head = AuditCheckpoint.objects.get().head
    [record] = caplog.records
    assert record.getMessage() == f"audit trail sealed up to entry {ids[-1]}: checkpoint 1:{head}"
    assert trail.verify(f"1:{head}").faults == 0


def test_is_never_sealed_with_the_change() -> None:
    entries(3)
    assert not AuditSeal.objects.exists()


def test_several_processes_seal_each_entry_once() -> None:
    ids = entries(sealing.BATCH * 4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            trail.seal()
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    trail.seal()
    assert list(AuditSeal.objects.order_by("pk").values_list("pk", flat=True)) == ids
    assert fault() == ""


@contextmanager
def open_transaction() -> Iterator[threading.Event]:
    """Another connection that has written an entry, and ends its transaction when told to."""
    written, end = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with transaction.atomic():
                note("tool.disable", "late", actor="user:alice", changes={})
                written.set()
                end.wait(30)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    assert written.wait(10)
    try:
        yield end
    finally:
        end.set()
        thread.join()


@postgres_only
def test_an_open_transaction_delays_the_seal_of_later_entries_and_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SETTLE_SECONDS", 0.3)
    with open_transaction():
        entries(2)
        with pytest.raises(trail.UnsettledError):
            trail.seal()
        assert not AuditSeal.objects.exists()
    assert trail.seal() == 3
    assert AuditEntry.objects.order_by("pk")[0].subject == "late"
    assert fault() == ""


def seal_and_close() -> None:
    trail.seal()
    connections.close_all()


@postgres_only
def test_waits_for_a_transaction_that_ends() -> None:
    with open_transaction() as end:
        entries(2)
        sealer = threading.Thread(target=seal_and_close)
        sealer.start()
        end.set()
        sealer.join()
    assert AuditSeal.objects.count() == 3
    assert fault() == ""


def test_seals_survive_a_rotation_of_the_encryption_key(settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = "the-first-key-of-this-hub-0123456789"
    sealed(3)
    settings.TOOLHUB_ENCRYPTION_KEY = "the-second-key-of-this-hub-012345678,the-first-key-of-this-hub-0123456789"
    governance.rotate_secrets(actor=governance.trusted("test"))
    settings.TOOLHUB_ENCRYPTION_KEY = "the-second-key-of-this-hub-012345678"
    assert trail.seal() == 1
    assert fault() == ""
    assert list(AuditCheckpoint.objects.values_list("key", flat=True)) == list(
        AuditKey.objects.order_by("pk").values_list("pk", flat=True)
    ), "what comes after the rotation has a key of its own"


def test_a_key_that_cannot_be_decrypted_is_named_and_sealing_continues(settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = "the-first-key-of-this-hub-0123456789"
    first = sealed(3)[0]
    settings.TOOLHUB_ENCRYPTION_KEY = "the-second-key-of-this-hub-012345678"
    sealed(2)
    assert fault().startswith(f"entry {first} cannot be verified: key {AuditKey.objects.order_by('pk')[0].pk} of the")
    assert "TOOLHUB_ENCRYPTION_KEY (new,old)" in fault()
    settings.TOOLHUB_ENCRYPTION_KEY += ",the-first-key-of-this-hub-0123456789"
    assert "is the first after a break" in fault(), "what happened in between is not known"


def test_the_key_is_stored_encrypted() -> None:
    sealed(1)
    stored = bytes(AuditKey.objects.get().sealed)
    plain = secrets.decrypted(stored)
    assert plain is not None
    assert len(plain) == 32
    assert plain not in stored


def test_a_running_hub_seals_without_being_told() -> None:
    entries(2)
    running = keeper.Keeper(first_seconds=0)
    running.start()
    try:
        assert eventually(lambda: AuditSeal.objects.count() == 2, 10)
    finally:
        running.stop()
    assert Chore.objects.filter(name=keeper.SEALS, done_at__gte=now() - timedelta(minutes=1)).exists()


def test_one_process_seals_in_each_interval() -> None:
    moment = now()
    assert keeper.claim(moment, keeper.SEALS, keeper.SEAL_EVERY)
    assert not keeper.claim(moment, keeper.SEALS, keeper.SEAL_EVERY)
    assert keeper.claim(moment), "pruning is claimed apart from it"
    assert keeper.claim(moment + timedelta(seconds=60), keeper.SEALS, keeper.SEAL_EVERY)
