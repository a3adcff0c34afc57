"""What something other than the hub does to the audit trail is found, and named by the first entry."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tests.trail.conftest import entries, fault, now, sealed, sql
from tools_app.journal import retention, trail
from tools_app.journal.trail import sealing
from tools_app.models import AuditCheckpoint, AuditEntry, AuditKey, AuditSeal

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = ENTRY, SEAL, *_ = [f"tools_app_audit{name}" for name in ("entry", "seal", "checkpoint", "key")]
COLUMNS = ("actor", "action", "subject", "reason", "address", "client")


@pytest.fixture
def ids() -> list[int]:
    """Three checkpoints."""
    found = sealed(4)
    sealed(4)
    sealed(4)
    assert fault() == ""
    return [*found, *AuditEntry.objects.filter(pk__gt=found[-1]).order_by("pk").values_list("pk", flat=True)]


@pytest.mark.parametrize("column", COLUMNS)
def test_finds_one_byte_more_in_a_column(ids: list[int], column: str) -> None:
    sql("UPDATE {entry} SET {column} = {column} || 'x' WHERE id = %s", ids[5], column=column)
    assert fault() == f"entry {ids[5]} was changed"


def test_finds_another_time(ids: list[int]) -> None:
    AuditEntry.objects.filter(pk=ids[5]).update(at=now() + timedelta(microseconds=1))
    assert fault() == f"entry {ids[5]} was changed"


def test_finds_another_change(ids: list[int]) -> None:
    assert sql("UPDATE {entry} SET changes = %s WHERE id = %s", '{"enabled": [true, true], "number": 1}', ids[5]) == 1
    assert fault() == f"entry {ids[5]} was changed"


def test_finds_what_is_no_text(ids: list[int]) -> None:
    if connection.vendor == "postgresql":
        pytest.skip("columns have types there")
    sql("UPDATE {entry} SET actor = x'ff00', at = 7 WHERE id = %s", ids[5])
    assert fault() == f"entry {ids[5]} was changed"


@pytest.mark.parametrize("position", [0, 5, 11])
def test_finds_a_deleted_entry(ids: list[int], position: int) -> None:
    sql("DELETE FROM {entry} WHERE id = %s", ids[position])
    assert fault() == f"entry {ids[position]} was deleted"


@pytest.mark.parametrize("position", [1, 5, 10])
def test_finds_an_entry_that_was_deleted_with_its_seal(ids: list[int], position: int) -> None:
    sql("DELETE FROM {entry} WHERE id = %s", ids[position])
    sql("DELETE FROM {seal} WHERE entry_id = %s", ids[position])
    assert fault().startswith(f"entry {ids[position]} or another one up to ")
    assert fault().endswith("was deleted with its seal")


def test_finds_an_inserted_entry() -> None:
    first, second, *_ = sealed(4)
    sql("DELETE FROM {entry} WHERE id = %s", second)
    sql("DELETE FROM {seal} WHERE entry_id = %s", second)
    before = fault()
    _copy(first, second)
    assert fault() == f"entry {second} was added later: it has no seal, and entries after it have one"
    assert before != ""


@pytest.mark.parametrize("number", [0, -5])
def test_finds_an_entry_before_the_first(ids: list[int], number: int) -> None:
    _copy(ids[0], number)
    assert fault() == f"entry {number} was added later: it has no seal, and entries after it have one"


def test_finds_entries_that_changed_places(ids: list[int]) -> None:
    for before, after in ((ids[4], -1), (ids[6], ids[4]), (-1, ids[6])):
        sql("UPDATE {entry} SET id = %s WHERE id = %s", after, before)
    assert fault() == f"entry {ids[4]} was changed"


def test_finds_entries_that_changed_places_with_their_seals(ids: list[int]) -> None:
    for table, column in ((ENTRY, "id"), (SEAL, "entry_id")):
        for before, after in ((ids[4], -1), (ids[6], ids[4]), (-1, ids[6])):
            sql("UPDATE {table} SET {column} = %s WHERE {column} = %s", after, before, table=table, column=column)
    assert fault() == f"entry {ids[4]} was changed"


@pytest.mark.parametrize(
    "change",
    [
        "last_id = last_id - 1",
        "count = count + 1",
        "first_id = first_id + 1",
        "kind = 'before'",
        "key = key + 1",
        "head = reversed_head",
    ],
)
def test_finds_a_changed_checkpoint(ids: list[int], change: str) -> None:
    head = AuditCheckpoint.objects.get(number=2).head
    change = change.replace("reversed_head", f"'{head[::-1]}'")
    sql("UPDATE {checkpoint} SET {change} WHERE number = 2", change=change)
    assert fault().startswith((f"entry {ids[4]} ", f"entry {ids[7]} "))


def test_finds_a_missing_checkpoint(ids: list[int]) -> None:
    sql("DELETE FROM {checkpoint} WHERE number = 2")
    assert fault() == f"entry {ids[4]} and those after it lack their checkpoint"


def test_finds_a_tail_that_was_cut_off(ids: list[int]) -> None:
    _cut(ids)
    assert fault() == (
        f"entry {ids[7] + 1} and those after it were cut off, or their checkpoints were: there were 3 checkpoints"
    )


def test_finds_a_tail_that_was_cut_off_after_the_hub_has_sealed_more(ids: list[int]) -> None:
    _cut(ids)
    new = sealed(2)
    assert fault() == f"entry {new[0]} is the first after a break: checkpoints before 3 had been deleted or changed"


def test_finds_entries_that_were_unsealed_changed_and_sealed_again(ids: list[int]) -> None:
    sql("DELETE FROM {seal} WHERE entry_id >= %s", ids[8])
    sql("DELETE FROM {checkpoint} WHERE number = 3")
    sql("UPDATE {entry} SET actor = 'user:bob' WHERE id = %s", ids[9])
    trail.seal()
    assert fault() == f"entry {ids[8]} is the first after a break: checkpoints before 3 had been deleted or changed"


def test_finds_that_everything_but_the_keys_was_deleted(ids: list[int]) -> None:
    for table in TABLES[:3]:
        sql("DELETE FROM {table}", table=table)
    assert "there were 3 checkpoints" in fault()


def test_finds_with_a_checkpoint_of_the_log_that_everything_was_replaced(ids: list[int]) -> None:
    checkpoint = str(AuditCheckpoint.objects.get(number=3))
    for table in TABLES:
        sql("DELETE FROM {table}", table=table)
    sealed(12)
    assert trail.verify().faults == 0, "nothing in the database tells"
    assert f"there is no checkpoint {checkpoint}" in str(trail.verify(checkpoint).first)


def test_finds_a_replaced_key(ids: list[int]) -> None:
    sql("UPDATE {key} SET sealed = %s", b"gAAAAA")
    assert "cannot be decrypted" in fault()


def test_finds_a_seal_without_a_checkpoint(ids: list[int]) -> None:
    AuditSeal.objects.create(entry_id=ids[-1] + 5, digest=b"0" * 32)
    assert fault() == f"entry {ids[-1] + 5} has a seal, but its checkpoint is missing"


def test_counts_all_and_names_the_first(ids: list[int]) -> None:
    for position in (9, 2, 5):
        sql("UPDATE {entry} SET reason = 'x' WHERE id = %s", ids[position])
    report = trail.verify()
    assert (report.faults, str(report.first)) == (3, f"entry {ids[2]} was changed")


# ---- what the hub does


def test_pruned_entries_leave_their_digests(settings: Any) -> None:
    old = sealed(sealing.BATCH + 20, at=now() - timedelta(days=401))
    new = sealed(5)
    assert retention.prune(now()).counts["audit entries"] == len(old)
    assert list(AuditEntry.objects.order_by("pk").values_list("pk", flat=True)) == new
    assert AuditSeal.objects.count() == len(old) + len(new)
    report = trail.verify()
    assert (report.faults, report.entries, report.deleted) == (0, 5, len(old))


def test_what_is_not_sealed_is_sealed_before_it_is_pruned() -> None:
    entries(3, at=now() - timedelta(days=401))
    assert retention.prune(now()).counts["audit entries"] == 3
    report = trail.verify()
    assert (report.faults, report.deleted) == (0, 3)


@pytest.fixture
def pruned() -> list[int]:
    ids = [*sealed(3, at=now() - timedelta(days=401)), *sealed(3)]
    retention.prune(now())
    assert fault() == ""
    return ids


def test_a_mark_of_another_entry_proves_nothing(pruned: list[int]) -> None:
    sql("DELETE FROM {entry} WHERE id = %s", pruned[4])
    columns = "changed_at", "changed_by", "content", "mark"
    taken = AuditSeal.objects.filter(pk=pruned[0]).values(*columns).get()
    AuditSeal.objects.filter(pk=pruned[4]).update(**taken)
    assert fault() == f"entry {pruned[4]} was deleted or changed, and what its seal says of that is wrong"


@pytest.mark.parametrize("change", ["changed_at = NULL", "changed_by = 7", "mark = '1:00'", "mark = ''", "mark = 'x'"])
def test_finds_a_changed_mark(pruned: list[int], change: str) -> None:
    sql("UPDATE {seal} SET {change} WHERE entry_id = %s", pruned[1], change=change)
    assert fault().startswith(f"entry {pruned[1]} ")


def test_verification_is_remembered(ids: list[int]) -> None:
    assert trail.last_verified()[1]
    sql("UPDATE {entry} SET reason = 'x' WHERE id = %s", ids[0])
    trail.verify()
    at, is_good = trail.last_verified()
    assert at is not None
    assert not is_good
    sql("UPDATE {entry} SET reason = '' WHERE id = %s", ids[0])
    trail.verify()
    assert trail.last_verified()[1]


def _copy(source: int, target: int) -> None:
    columns = "at, actor, action, subject, changes, reason, address, client"
    statement = "INSERT INTO {entry} (id, {columns}) SELECT %s, {columns} FROM {entry} WHERE id = %s"
    sql(statement, target, source, columns=columns)


def _cut(ids: list[int]) -> None:
    """All of the last checkpoint."""
    sql("DELETE FROM {entry} WHERE id >= %s", ids[8])
    sql("DELETE FROM {seal} WHERE entry_id >= %s", ids[8])
    sql("DELETE FROM {checkpoint} WHERE number = 3")
    assert AuditKey.objects.get().tip == 3
