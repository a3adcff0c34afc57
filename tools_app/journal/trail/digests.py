"""What is sealed: the bytes of entries as the database stores them, and the HMACs of entries, marks and checkpoints."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.db import connection

from tools_app.models import AuditCheckpoint, AuditEntry, AuditSeal

# What is hashed is a contract: a new column needs a new version of it.
COLUMNS: Final = ("at", "actor", "action", "subject", "changes", "reason", "address", "client")
_ENTRY, _MARK, _CHECKPOINT, _TIP = (f"toolhub audit {name} 1".encode() for name in ("entry", "mark", "head", "tip"))
_TABLE: Final = AuditEntry._meta.db_table
# No moment and no JSON is parsed: another spelling of the same value is a change, too.
_SQLITE: Final = {name: f'CAST("{name}" AS BLOB)' for name in COLUMNS}
# Without the time zone and formats of the session.
_POSTGRES: Final = {name: f'"{name}"::text' for name in COLUMNS} | {
    "at": '((extract(epoch FROM "at") * 1000000)::bigint)::text'
}


class Row(NamedTuple):
    """The id of an entry, and its columns as they are stored."""

    id: int
    content: bytes


def rows(*, after: int | None = None, until: int, most: int) -> list[Row]:
    """Entries in the order of their ids."""
    return _rows('("id" > %s OR %s) AND "id" <= %s', [after or 0, after is None, until], most)


def rows_of(ids: Sequence[int]) -> list[Row]:
    return _rows(f'"id" IN ({", ".join(["%s"] * len(ids))})', list(ids), len(ids)) if ids else []


def _rows(condition: str, values: list[Any], most: int) -> list[Row]:
    columns = ", ".join((_POSTGRES if connection.vendor == "postgresql" else _SQLITE)[name] for name in COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT "id", {columns} FROM "{_TABLE}" WHERE {condition} ORDER BY "id" LIMIT {most:d}',  # noqa: S608
            values,
        )
        return [Row(number, _framed(columns)) for number, *columns in cursor.fetchall()]


def _framed(values: Iterable[Any]) -> bytes:
    """Bytes of which each value is a part of its own."""
    return b"".join(
        b"-" if value is None else b"%d:%b" % (len(encoded := plain_bytes(value)), encoded) for value in values
    )


def plain_bytes(value: Any) -> bytes:
    """Also of what something else has put into a column."""
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else str(value).encode()


def of_entry(key: bytes, row: Row) -> bytes:
    return hmac.digest(key, b"%b %d %b" % (_ENTRY, row.id, row.content), hashlib.sha256)


def of_mark(key: bytes, seal: AuditSeal) -> str:
    """Of what became of an entry."""
    parts = (
        seal.entry_id,
        seal.digest,
        _moment(seal.changed_at),
        seal.changed_by,
        None if seal.content is None else seal.content,
    )
    return hmac.new(key, _MARK + _framed(parts), hashlib.sha256).hexdigest()


def of_checkpoint(key: bytes, before: str, checkpoint: AuditCheckpoint, seals: Iterable[tuple[int, bytes]]) -> str:
    entries = hashlib.sha256()
    for number, digest in seals:
        entries.update(_framed((number, digest)))
    about = (
        before,
        checkpoint.number,
        checkpoint.kind,
        checkpoint.first_id,
        checkpoint.last_id,
        checkpoint.count,
        checkpoint.key,
        _moment(checkpoint.sealed_at),
        entries.digest(),
    )
    return hmac.new(key, _CHECKPOINT + _framed(about), hashlib.sha256).hexdigest()


def of_tip(key: bytes, number: int, head: str) -> str:
    return hmac.new(key, _TIP + _framed((number, head)), hashlib.sha256).hexdigest()


def are_equal(mine: str | bytes, theirs: Any) -> bool:
    return hmac.compare_digest(plain_bytes(mine), plain_bytes(theirs))


def seals_of(checkpoint: AuditCheckpoint, after: int | None, most: int) -> Iterator[AuditSeal]:
    found = AuditSeal.objects.filter(entry_id__lte=checkpoint.last_id).order_by("entry_id")
    yield from (found if after is None else found.filter(entry_id__gt=after))[:most]


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
