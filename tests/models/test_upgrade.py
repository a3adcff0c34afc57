"""A database of the previous release: nothing is lost, and its processes keep working."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps.registry import Apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from tools_app.models import Source, SourceStatus, ToolRecord, revision, triggers

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "0015_limits_of_callers"
RECORDS = {
    "echo": ("shipped", "builtin"),
    "search_issues": ("shipped", "redmine"),
    "old_tool": ("shipped", "no_such_pack"),
    "odd": ("shipped", "folder"),
    "mine": ("file", "notes"),
    "yours": ("file", ""),
    "by_code": ("code", "shop"),
    "installed": ("plugin", "weather"),
    "of_app": ("app", "shop"),
}


@pytest.fixture
def earlier() -> Iterator[Apps]:
    """The models of the previous release, with its tables; afterwards, the tables of this one."""
    call_command("migrate", "tools_app", BEFORE, verbosity=0)
    yield MigrationLoader(connection).project_state(("tools_app", BEFORE)).apps
    call_command("migrate", verbosity=0)
    call_command("flush", verbosity=0, interactive=False)


def fill(earlier: Apps) -> None:
    now = timezone.now()
    tag = earlier.get_model("tools_app", "Tag").objects.create(name="wiki")
    for name, (source, pack) in RECORDS.items():
        record = row(earlier, name, source=source, pack=pack, retries=2, ask=True, category="text")
        define(earlier, record, "first", approved_at=now, approved_by="ann")
        record.definition = define(earlier, record, "second", findings=["odd wording"])
        record.retired_at = now if name == "old_tool" else None
        record.save()
        earlier.get_model("tools_app", "ToolTag").objects.create(tool=record, tag=tag, declared=True)
    earlier.get_model("tools_app", "Toolset").objects.create(name="some", packs=["builtin"], names=["mine"])
    earlier.get_model("tools_app", "Approval").objects.create(
        id="a1", tool_name="mine", definition_hash="second", request_hash="r", arguments=b"x", door="mcp",
        caller_kind="key", caller_id="key:1", caller_name="first", asked_at=now, expires_at=now,
    )  # fmt: skip
    journal(earlier, "c1")


def row(earlier: Apps, name: str, **values: Any) -> Any:
    return earlier.get_model("tools_app", "ToolRecord").objects.create(
        name=name, folded_name=name.replace("-", "_"), **values
    )


def define(earlier: Apps, record: Any, hash: str, **values: Any) -> Any:
    definition, _ = earlier.get_model("tools_app", "Definition").objects.get_or_create(
        tool=record, hash=hash, defaults={"version": "1", "body": {"name": record.name}, **values}
    )
    return definition


def journal(earlier: Apps, id: str) -> None:
    earlier.get_model("tools_app", "Call").objects.create(
        id=id, tool_name="mine", door="mcp", caller_kind="key", caller_id="key:1", caller_name="first",
        status="succeeded", started_at=timezone.now(),
    )  # fmt: skip


def contents(earlier: Apps) -> dict[str, list[Any]]:
    """The rows, in the columns of the previous release."""
    names = ("ToolRecord", "Definition", "Tag", "ToolTag", "Toolset", "Approval", "Call")
    return {name: list(earlier.get_model("tools_app", name).objects.order_by("pk").values()) for name in names}


def test_an_upgrade_keeps_every_row_and_gives_each_tool_its_source(earlier: Apps) -> None:
    fill(earlier)
    before = contents(earlier)
    call_command("migrate", verbosity=0)
    assert contents(earlier) == before
    records = ToolRecord.objects.select_related("source", "source__status")
    assert {
        record.name: (record.source.name, record.source.kind, record.source.location, record.source.epoch)
        for record in records
        if record.source
    } == {
        "echo": ("builtin", "shipped", "tools_app.packs.builtin", 1),
        "search_issues": ("redmine", "shipped", "tools_app.packs.redmine", 1),
        "old_tool": ("no_such_pack", "shipped", "", 0),
        "odd": ("shipped:folder", "shipped", "", 0),
        "mine": ("folder", "folder", "", 1),
        "yours": ("folder", "folder", "", 1),
        "by_code": ("code", "code", "", 1),
        "installed": ("plugin", "plugin", "", 0),
        "of_app": ("app", "app", "", 0),
    }
    assert all(record.original_name == record.name and record.kind == "tool" for record in records)
    assert SourceStatus.objects.filter(availability="ok").count() == Source.objects.count() == 8
    record = records.get(name="mine")
    assert {(version.hash, version.pin_hash, version.epoch) for version in record.definitions.all()} == {
        ("first", "first", 1),
        ("second", "second", 1),
    }
    assert triggers.missing_triggers(connection) == set()
    assert min(revision.numbers(connection)) > 1_000_000_000


def test_what_no_release_has_used_is_dropped_and_what_the_last_one_uses_stays(transactional_db: None) -> None:
    call_command("migrate", "tools_app", "0020_sources_outside", verbosity=0)
    assert "tools_app_child" in connection.introspection.table_names()
    kinds = [ContentType.objects.get_or_create(app_label="tools_app", model=name)[0] for name in ("child", "callsum")]
    for kind in kinds:
        Permission.objects.get_or_create(codename=f"view_{kind.model}", content_type=kind)
    call_command("migrate", verbosity=0)
    tables = connection.introspection.table_names()
    assert ("tools_app_child" in tables, "tools_app_callsum" in tables) == (False, True)
    old = Permission.objects.filter(codename__in=("view_child", "view_callsum"))
    assert [permission.codename for permission in old] == ["view_callsum"]
    call_command("flush", verbosity=0, interactive=False)


def test_batches_reach_every_row(earlier: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    monkeypatch.setattr(import_module("tools_app.migrations.0018_sources_of_tools"), "BATCH", 2)
    for number in range(7):
        define(earlier, row(earlier, f"tool_{number}", source="file"), "first")
    call_command("migrate", verbosity=0)
    assert ToolRecord.objects.filter(source__name="folder", definitions__pin_hash="first").count() == 7


def test_an_upgrade_can_be_taken_back_and_made_again(earlier: Apps) -> None:
    fill(earlier)
    before = contents(earlier)
    call_command("migrate", verbosity=0)
    prompt = ToolRecord.everything.create(name="echo", kind="prompt", source_kind="code")
    prompt.definition = prompt.definitions.create(hash="a", version="1", body={})
    prompt.save()
    record = ToolRecord.objects.get(name="mine")
    offered = record.definitions.create(hash="second", version="1", body={}, epoch=2)
    ToolRecord.objects.filter(pk=record.pk).update(offered=offered)
    call_command("migrate", "tools_app", BEFORE, verbosity=0)
    assert contents(earlier) == before, "but for what the previous release does not know"
    with pytest.raises(IntegrityError), transaction.atomic():
        row(earlier, "echo", source="code")
    call_command("migrate", verbosity=0)
    assert contents(earlier) == before
    assert not ToolRecord.objects.filter(source=None).exists()


def test_processes_of_the_previous_release_keep_working(earlier: Apps) -> None:
    """They have read the code of the previous release, and run on until they are restarted."""
    fill(earlier)
    call_command("migrate", verbosity=0)
    before = revision.numbers(connection)
    added = row(earlier, "added", source="file", pack="notes")
    added.definition = define(earlier, added, "first")
    added.save()
    assert define(earlier, added, "first") == added.definition
    for taken in ("added", "echo"):
        with pytest.raises(IntegrityError), transaction.atomic():
            row(earlier, taken, source="code")
    known: Any = earlier.get_model("tools_app", "ToolRecord").objects
    assert known.filter(folded_name="mine", source="file").update(enabled=False) == 1
    assert known.get(name="mine").definition.hash == "second"
    journal(earlier, "c2")
    numbers = revision.numbers(connection)
    assert numbers.value > before.value, "the only number that they read"
    earlier.get_model("tools_app", "Toolset").objects.create(name="more")
    assert revision.numbers(connection).value > numbers.value

    record = ToolRecord.objects.get(name="added")
    assert (record.source, record.kind, record.original_name, record.runtime) == (None, "tool", "", {})
    assert record.definition is not None
    assert (record.definition.epoch, record.definition.pin_hash) == (1, "")
    assert not ToolRecord.objects.get(name="mine").enabled
