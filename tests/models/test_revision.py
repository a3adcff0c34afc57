"""The number that tells every process that something has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, migrations, models, transaction
from django.db.migrations.state import ProjectState
from django.utils import timezone

from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import (
    ApiKey,
    Connection,
    Definition,
    KeyConnection,
    Revision,
    Source,
    SourceStatus,
    Stop,
    Tag,
    ToolRecord,
    Toolset,
    ToolTag,
    revision,
    triggers,
)
from tools_app.setup import installation

pytestmark = pytest.mark.django_db(transaction=True)


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def number() -> int:
    return revision.numbers(connection).value


def test_grows_with_every_kind_of_write(hub: Hub) -> None:
    echo = ToolRecord.objects.get(name="echo")
    writes = {
        "save": lambda: echo.save(update_fields=["enabled"]),
        "queryset update": lambda: ToolRecord.objects.filter(name="echo").update(enabled=True),
        "bulk update": lambda: ToolRecord.objects.bulk_update([echo], ["title"]),
        "raw SQL": lambda: execute("UPDATE tools_app_toolrecord SET category = 'x' WHERE name = 'echo'"),
        "another pack": lambda: ToolRecord.objects.filter(name="echo").update(pack="other"),
        "another source": lambda: ToolRecord.objects.filter(name="echo").update(source_kind="plugin"),
        "insert": lambda: ToolRecord.objects.create(name="other", source_kind="code"),
        "tag": lambda: ToolTag.objects.create(tool=echo, tag=Tag.objects.create(name="operators")),
        "rename a tag": lambda: Tag.objects.filter(name="operators").update(name="ops"),
        "delete": lambda: ToolRecord.objects.filter(name="other").delete(),
        "a toolset": lambda: governance.create_toolset("mine", actor=governance.trusted("test")),
        "what a toolset holds": lambda: governance.change_toolset(
            "mine", actor=governance.trusted("test"), tags=["wiki"]
        ),
        "a key": lambda: governance.create_key("somebody", actor=governance.trusted("test")),
        "a toolset of a key": lambda: ApiKey.objects.get().toolsets.add(Toolset.objects.get()),
        "what a key may use": lambda: ApiKey.objects.update(may_destroy=False),
        "a toolset taken from a key": lambda: ApiKey.objects.get().toolsets.clear(),
        "revoke": lambda: ApiKey.objects.update(revoked_at=timezone.now()),
        "approve": lambda: Definition.objects.update(approved_at=timezone.now()),
    }
    echo.enabled, echo.title = False, "New title"
    for what, write in writes.items():
        before = number()
        write()
        assert number() > before, what


def test_tools_and_access_count_apart(hub: Hub) -> None:
    """A new key rebuilds no catalog."""
    echo = ToolRecord.objects.get(name="echo")
    source = Source.objects.create(name="wiki", prefix="wiki", kind="mcp_http")
    status = SourceStatus.objects.create(source=source)
    account = Connection.objects.create(name="wiki", pack="wiki", url="https://wiki.example", sealed=b"")
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    writes: dict[str, tuple[tuple[int, int], Callable[[], Any]]] = {
        "a tool": ((1, 0), lambda: ToolRecord.objects.filter(pk=echo.pk).update(hint_read_only=True)),
        "its source": ((1, 0), lambda: ToolRecord.objects.filter(pk=echo.pk).update(source=source)),
        "a version": ((1, 0), lambda: Definition.objects.filter(tool=echo).update(body_text="{}")),
        "a tag": ((1, 0), lambda: Tag.objects.create(name="ops")),
        "a source": ((1, 0), lambda: Source.objects.filter(pk=source.pk).update(epoch=2)),
        "availability": ((1, 0), lambda: SourceStatus.objects.filter(pk=status.pk).update(availability="down")),
        "a connection": ((1, 0), lambda: Connection.objects.update(enabled=False)),
        "a key": ((0, 1), lambda: ApiKey.objects.update(may_destroy=False)),
        "a connection of a key": ((0, 1), lambda: KeyConnection.objects.create(key=key, connection=account)),
        "a toolset": ((0, 1), lambda: Toolset.objects.create(name="mine")),
        "a toolset of a key": ((0, 1), lambda: key.toolsets.add(Toolset.objects.get())),
        "a stop": ((0, 1), lambda: Stop.objects.create(kind="hub", by="test")),
        "the start of a source": ((0, 0), lambda: Source.objects.filter(pk=source.pk).update(start="always")),
        "what was observed": ((0, 0), lambda: SourceStatus.objects.filter(pk=status.pk).update(error="x", failures=1)),
    }
    for what, (expected, write) in writes.items():
        before = revision.numbers(connection)
        write()
        after = revision.numbers(connection)
        assert (after.tools - before.tools, after.access - before.access) == expected, what
        assert after.value - before.value == sum(expected), what


def test_a_transaction_counts_for_both(hub: Hub) -> None:
    before = revision.numbers(connection)
    with transaction.atomic():
        for name in ("one", "two"):
            Tag.objects.create(name=name)
            Toolset.objects.create(name=name)
    after = revision.numbers(connection)
    # Once per transaction on PostgreSQL, once per row on SQLite.
    each = 1 if connection.vendor == "postgresql" else 2
    assert [new - old for new, old in zip(after, before, strict=True)] == [2 * each, each, each]


def test_does_not_grow_when_nothing_changes_that_callers_see(hub: Hub) -> None:
    key, _ = governance.create_key("somebody", actor=governance.trusted("test"))
    governance.create_toolset("mine", actor=governance.trusted("test"))
    before = number()
    governance.change_toolset("mine", actor=governance.trusted("test"), description="For tests")
    ToolRecord.objects.update(enabled=True, place="elsewhere", updated_at=timezone.now())
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=timezone.now())
    assert number() == before


def test_does_not_grow_when_the_change_is_rolled_back(hub: Hub) -> None:
    before = number()
    with transaction.atomic():
        ToolRecord.objects.update(enabled=False)
        transaction.set_rollback(True)
    assert number() == before


def test_counts_what_another_program_writes(hub: Hub) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a second program on PostgreSQL fires the same triggers in the server")
    before = number()
    with closing(sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)) as other:
        other.execute("UPDATE tools_app_toolrecord SET enabled = 0 WHERE name = 'echo'")
    assert number() > before


def test_never_repeats_a_number_after_the_tables_were_emptied(hub: Hub) -> None:
    before = number()
    Revision.objects.all().delete()
    assert revision.numbers(connection) == (0, 0, 0)
    ToolRecord.objects.update(enabled=False)
    assert number() > before


def test_is_exact_although_a_savepoint_was_rolled_back(hub: Hub) -> None:
    before = number()
    with transaction.atomic():
        try:
            with transaction.atomic():
                ToolRecord.objects.filter(name="echo").update(enabled=False)
                ToolRecord.objects.create(name="echo", source_kind="code")
        except IntegrityError:
            pass
        ToolRecord.objects.filter(name="calculate").update(enabled=False)
    assert number() > before
    assert ToolRecord.objects.get(name="echo").enabled


def test_survives_a_later_migration_that_rebuilds_the_table(hub: Hub) -> None:
    """SQLite rebuilds a table to alter it, and drops its triggers on the way."""
    operations = [
        migrations.AddField("toolrecord", "note", models.CharField(max_length=10, default="none")),
        migrations.AlterField("toolrecord", "category", models.CharField(max_length=99, blank=True, db_index=True)),
        migrations.AddConstraint(
            "toolrecord", models.CheckConstraint(condition=~models.Q(title="forbidden"), name="later_constraint")
        ),
    ]
    from django.db.migrations.loader import MigrationLoader

    loaded: ProjectState = MigrationLoader(connection).project_state()
    states = [loaded]
    for operation in operations:
        after = states[-1].clone()
        operation.state_forwards("tools_app", after)
        states.append(after)
    triggers.drop_triggers(connection)
    try:
        for operation, before, after in zip(operations, states, states[1:], strict=False):
            with connection.schema_editor() as editor:
                operation.database_forwards("tools_app", editor, before, after)
        triggers.create_triggers(connection)
        assert triggers.missing_triggers(connection) == set()
        earlier = number()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tools_app_toolrecord SET enabled = NOT enabled WHERE name = 'echo'")
        assert number() > earlier
    finally:
        triggers.drop_triggers(connection)
        for operation, before, after in reversed(list(zip(operations, states, states[1:], strict=False))):
            with connection.schema_editor() as editor:
                operation.database_backwards("tools_app", editor, after, before)
        triggers.create_triggers(connection)


def test_migrate_mends_triggers_that_were_lost(hub: Hub) -> None:
    triggers.drop_triggers(connection)
    assert triggers.missing_triggers(connection)
    before = number()
    call_command("migrate", verbosity=0)
    assert triggers.missing_triggers(connection) == set()
    assert number() > before, "what happened in between counts as a change"


def test_those_of_an_earlier_version_are_dropped_before_a_table_more_is_watched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would be there while the migrations run, in every upgrade that adds a table."""
    assert triggers.missing_triggers(connection) == set()
    with monkeypatch.context() as later:
        later.setitem(triggers.WATCHED, "tools_app_later", ("name",))
        triggers.drop_triggers(connection)
    try:
        assert len(triggers.missing_triggers(connection)) == len(triggers._triggers(connection.vendor))
    finally:
        triggers.create_triggers(connection)


def test_those_that_watch_other_columns_are_missing_and_made_anew(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version may watch more without changing a table: then no migration would bring its triggers."""
    with monkeypatch.context() as earlier:
        earlier.setitem(triggers.WATCHED, "tools_app_tag", ("id",))
        triggers.create_triggers(connection)
    missing = triggers.missing_triggers(connection)
    assert [name.rpartition("_")[0][:-9] for name in missing] == ["tools_app_tag_update"]
    installation.set_up(lambda line: None)
    assert triggers.missing_triggers(connection) == set()
    Tag.objects.create(name="operators")
    before = number()
    Tag.objects.filter(name="operators").update(name="ops")
    assert number() == before + 1, "the earlier one is gone"


def test_creating_the_triggers_twice_changes_nothing_but_the_number(hub: Hub) -> None:
    triggers.create_triggers(connection)
    triggers.create_triggers(connection)
    before = number()
    ToolRecord.objects.filter(name="echo").update(enabled=False)
    assert number() == before + 1, "one trigger, one step"


def test_every_migration_can_be_taken_back_and_made_again(hub: Hub) -> None:
    try:
        call_command("migrate", "tools_app", "zero", verbosity=0)
        assert "tools_app_toolrecord" not in connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)
    assert triggers.missing_triggers(connection) == set()
    assert number() > 0
    ToolRecord.objects.create(name="again", source_kind="code")
