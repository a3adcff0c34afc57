"""The rows of the journal, which are written without the ORM: nothing of a model may be lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

import pytest
from django.db import models, transaction

from tools_app.journal import rows
from tools_app.journal.journal import Journal
from tools_app.journal.notes import CallNotes
from tools_app.journal.rows import Failure
from tools_app.models import Agent, Call, ErrorGroup, ErrorLog, IdempotencyKey, PendingCount
from tools_app.sdk.context import Caller

M = TypeVar("M", bound=models.Model)

pytestmark = pytest.mark.django_db(transaction=True)

# A zone that is not the database's: every moment must be the same one there.
ZONE = timezone(timedelta(hours=5, minutes=30))


def value_of(field: models.Field[Any, Any], number: int) -> Any:
    """A value that no other field of the row has, and no default. A new kind of field needs a new line."""
    match field:
        case models.BooleanField():
            return not field.get_default()
        case models.BinaryField():
            return bytes([number, 0, 255])
        case models.DateTimeField():
            return datetime(2026, 3, 1, 0, 0, number, number * (number % 2), tzinfo=ZONE)
        case models.CharField() if field.choices:
            return next(value for value, _ in field.choices if value not in ("", field.get_default()))
        case models.TextField() | models.CharField():
            return f"{number} \N{SNOWMAN} %s ?"[: field.max_length]
        case models.ForeignKey():
            return field.target_field.to_python(str(number))
        case models.IntegerField():
            return 1_000 + number
    raise AssertionError(f"the journal has never written a {type(field).__name__}")


def filled(model: type[M]) -> M:
    fields = [field for field in model._meta.concrete_fields if field.attname != "id" or field.max_length]
    return model(**{field.attname: value_of(field, number) for number, field in enumerate(fields, start=1)})


def insert_error(error: ErrorLog) -> None:
    group = ErrorGroup(fingerprint=str(error.group_id), first_seen_at=error.created_at, last_seen_at=error.created_at)
    rows.insert_failures([Failure(error, group)])


def insert_group(group: ErrorGroup) -> None:
    rows.insert_failures([Failure(ErrorLog(id="e", group=group, created_at=group.first_seen_at), group)])


@pytest.mark.parametrize(
    ("model", "insert"),
    [
        (Call, lambda call: rows.insert_calls([call])),
        (Call, lambda call: rows.upsert_calls([call])),
        (ErrorLog, insert_error),
        (ErrorGroup, insert_group),
        (IdempotencyKey, rows.claim),
        (Agent, lambda agent: rows.upsert_agents([agent])),
    ],
    ids=["call", "call that is known", "error", "group", "claim", "agent"],
)
def test_every_column_is_written(model: type[models.Model], insert: Callable[[Any], None]) -> None:
    instance = filled(model)
    with transaction.atomic():
        insert(instance)
    names = [field.attname for field in model._meta.concrete_fields if getattr(instance, field.attname) is not None]
    stored = model._default_manager.get()
    assert len(names) >= len(model._meta.concrete_fields) - 1  # the database may give the number
    assert {name: comparable(stored, name) for name in names} == {name: comparable(instance, name) for name in names}


def comparable(instance: models.Model, name: str) -> object:
    value = getattr(instance, name)
    return bytes(value) if isinstance(value, memoryview) else value


def test_an_update_replaces_every_column() -> None:
    before = Call(id=value_of(Call._meta.pk, 1), tool_name="other", started_at=datetime.now(UTC))
    rows.insert_calls([before])
    call = filled(Call)
    assert call.pk == before.pk
    rows.upsert_calls([call])
    names = [field.attname for field in Call._meta.concrete_fields]
    assert Call.objects.values(*names).get() == {name: getattr(call, name) for name in names}


def test_members_of_enumerations_are_stored_as_their_text() -> None:
    now = datetime.now(UTC)
    call = Call(id="a", status=Call.Status.TIMEOUT, door=Call.Door.CODE, sent=Call.Sent.MAYBE, started_at=now)
    rows.insert_calls([call])
    rows.insert_counts([(call, 1)])
    assert Call.objects.values_list("status", "door", "sent").get() == ("timeout", "code", "maybe")
    assert PendingCount.objects.values_list("status", "hour__minute").get() == ("timeout", 0)


@pytest.mark.parametrize("value", [{}, [], object(), timedelta(1), b"".join])
def test_refuses_what_it_would_not_store_as_it_is(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        rows.insert_calls([Call(id="a", tool_name=value, started_at=datetime.now(UTC))])


def test_a_new_call_has_the_defaults_of_its_model(alice: Caller) -> None:
    call = CallNotes(Journal(), "echo", alice, "code", quiet=False).call
    given = ("id", "tool_name", "door", "caller_kind", "caller_id", "caller_name", "status", "attempts", "process_id",
             "started_at")  # fmt: skip
    assert fields(call) == fields(Call(**{name: getattr(call, name) for name in given}))
    assert (call.tool_name, call.caller_id, call.status, call.attempts) == ("echo", alice.id, Call.Status.STARTED, 0)
    assert call._state.adding


def fields(call: Call) -> dict[str, object]:
    return {field.attname: getattr(call, field.attname) for field in Call._meta.concrete_fields}
