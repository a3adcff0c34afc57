"""What a configuration file manages changes through that file only, except what ends or restricts access at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tools_app.models import ManagedRecord
from tools_app.sdk.errors import ConflictError, shortened

Kind = ManagedRecord.Kind
# Beside this, revoking, stopping, deactivating and signing out are always permitted: they check nothing here.
SWITCH_OFF: Final[Mapping[str, Any]] = {"enabled": [True, False]}

_is_applying: ContextVar[bool] = ContextVar("is_applying_file", default=False)


@contextmanager
def applying() -> Iterator[None]:
    """The changes of the block are those of the file."""
    token = _is_applying.set(True)
    try:
        yield
    finally:
        _is_applying.reset(token)


def managed_tools(names: Iterable[str]) -> list[str]:
    """Those of these tools that a file manages, by name."""
    rows = ManagedRecord.objects.filter(kind=Kind.TOOL, name__in=list(names), declared__isnull=False)
    return sorted(rows.values_list("name", flat=True))


def forget(kind: Kind, name: str) -> None:
    """Call it when a record is deleted or renamed: another one with its name is not what a file has released."""
    ManagedRecord.objects.filter(kind=kind, name=name, declared__isnull=True).delete()


def refuse_managed(kind: Kind, names: Iterable[str], changes: Mapping[str, Any] | None = None) -> None:
    """Call it in every change of such a record, with the changes if one may be to switch it off.

    Raises:
        ConflictError: a file manages one of the records.
    """
    if _is_applying.get() or changes == SWITCH_OFF:
        return
    record = ManagedRecord.objects.filter(kind=kind, name__in=list(names), declared__isnull=False).first()
    if record is not None:
        what = f"{Kind(record.kind).label} {shortened(record.name)}"
        raise ConflictError(
            f"The {what} is managed by the file {record.file}",
            next_step="Change it in the file, and run `toolhub apply`. Switching off, stopping and revoking work here.",
        )
