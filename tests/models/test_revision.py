"""The number that tells every process that something has changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, migrations, models, transaction
from django.db.migrations.state import ProjectState
from django.utils import timezone

from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import ApiKey, Definition, Revision, Tag, ToolRecord, Toolset, ToolTag, revision
from tools_app.setup import installation

pytestmark = pytest.mark.django_db(transaction=True)


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def number() -> int:
    return revision.read(connection)


def test_grows_with_every_kind_of_write(hub: Hub) -> None:
    echo = ToolRecord.objects.get(name="echo")
    writes = {
        "save": lambda: echo.save(update_fields=["enabled"]),
        "queryset update": lambda: ToolRecord.objects.filter(name="echo").update(enabled=True),
        "bulk update": lambda: ToolRecord.objects.bulk_update([echo], ["title"]),
        "raw SQL": lambda: execute("UPDATE tools_app_toolrecord SET category = 'x' WHERE name = 'echo'"),
        "another pack": lambda: ToolRecord.objects.filter(name="echo").update(pack="other"),
        "another source": lambda: ToolRecord.objects.filter(name="echo").update(source="plugin"),
        "insert": lambda: ToolRecord.objects.create(name="other", source="code"),
        "tag": lambda: ToolTag.objects.create(tool=echo, tag=Tag.objects.create(name="operators")),
        "rename a tag": lambda: Tag.objects.filter(name="operators").update(name="ops"),
        "delete": lambda: ToolRecord.objects.filter(name="other").delete(),
        "a toolset": lambda: governance.create_toolset("mine", actor="test"),
        "what a toolset holds": lambda: governance.change_toolset("mine", actor="test", tags=["wiki"]),
        "a key": lambda: governance.create_key("somebody", actor="test"),
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


def test_does_not_grow_when_nothing_changes_that_callers_see(hub: Hub) -> None:
    key, _ = governance.create_key("somebody", actor="test")
    governance.create_toolset("mine", actor="test")
    before = number()
    governance.change_toolset("mine", actor="test", description="For tests")
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
    assert number() == 0
    ToolRecord.objects.update(enabled=False)
    assert number() > before


def test_is_exact_although_a_savepoint_was_rolled_back(hub: Hub) -> None:
    before = number()
    with transaction.atomic():
        try:
            with transaction.atomic():
                ToolRecord.objects.filter(name="echo").update(enabled=False)
                ToolRecord.objects.create(name="echo", source="code")
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
    revision.drop_triggers(connection)
    try:
        for operation, before, after in zip(operations, states, states[1:], strict=False):
            with connection.schema_editor() as editor:
                operation.database_forwards("tools_app", editor, before, after)
        revision.create_triggers(connection)
        assert revision.missing_triggers(connection) == set()
        earlier = number()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tools_app_toolrecord SET enabled = NOT enabled WHERE name = 'echo'")
        assert number() > earlier
    finally:
        revision.drop_triggers(connection)
        for operation, before, after in reversed(list(zip(operations, states, states[1:], strict=False))):
            with connection.schema_editor() as editor:
                operation.database_backwards("tools_app", editor, after, before)
        revision.create_triggers(connection)


def test_migrate_mends_triggers_that_were_lost(hub: Hub) -> None:
    revision.drop_triggers(connection)
    assert revision.missing_triggers(connection)
    before = number()
    call_command("migrate", verbosity=0)
    assert revision.missing_triggers(connection) == set()
    assert number() > before, "what happened in between counts as a change"


def test_those_of_an_earlier_version_are_dropped_before_a_table_more_is_watched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would be there while the migrations run, in every upgrade that adds a table."""
    assert revision.missing_triggers(connection) == set()
    with monkeypatch.context() as later:
        later.setitem(revision.WATCHED, "tools_app_later", ("name",))
        revision.drop_triggers(connection)
    try:
        assert len(revision.missing_triggers(connection)) == 3 * len(revision.WATCHED)
    finally:
        revision.create_triggers(connection)


def test_those_that_watch_other_columns_are_missing_and_made_anew(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version may watch more without changing a table: then no migration would bring its triggers."""
    with monkeypatch.context() as earlier:
        earlier.setitem(revision.WATCHED, "tools_app_tag", ("id",))
        revision.create_triggers(connection)
    missing = revision.missing_triggers(connection)
    assert [name.rpartition("_")[0][:-9] for name in missing] == ["tools_app_tag_update"]
    installation.set_up(lambda line: None)
    assert revision.missing_triggers(connection) == set()
    Tag.objects.create(name="operators")
    before = number()
    Tag.objects.filter(name="operators").update(name="ops")
    assert number() == before + 1, "the earlier one is gone"


def test_creating_the_triggers_twice_changes_nothing_but_the_number(hub: Hub) -> None:
    revision.create_triggers(connection)
    revision.create_triggers(connection)
    before = number()
    ToolRecord.objects.filter(name="echo").update(enabled=False)
    assert number() == before + 1, "one trigger, one step"


def test_every_migration_can_be_taken_back_and_made_again(hub: Hub) -> None:
    try:
        call_command("migrate", "tools_app", "zero", verbosity=0)
        assert "tools_app_toolrecord" not in connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)
    assert revision.missing_triggers(connection) == set()
    assert number() > 0
    ToolRecord.objects.create(name="again", source="code")
