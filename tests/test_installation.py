"""From nothing, or from something older, to a hub that can run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from tests.support.tools import Hub
from tools_app import governance
from tools_app.access import access
from tools_app.models import ApiKey, AuditEntry, ToolRecord
from tools_app.setup import checks, installation
from tools_app.setup.installation import NotReady, Schema
from tools_app.sources import sync

pytestmark = pytest.mark.django_db(transaction=True)

Migration = MigrationRecorder.Migration


def said() -> tuple[list[str], Any]:
    lines: list[str] = []
    return lines, lines.append


@pytest.fixture
def an_unknown_migration() -> Iterator[None]:
    row = Migration.objects.create(app="tools_app", name="9999_from_the_future")
    yield
    row.delete()


@pytest.fixture
def a_missing_migration() -> Iterator[None]:
    row = Migration.objects.get(app="auth", name__startswith="0012")
    Migration.objects.filter(pk=row.pk).delete()
    yield
    if not Migration.objects.filter(app=row.app, name=row.name).exists():
        Migration.objects.create(app=row.app, name=row.name)


def test_a_current_schema_is_ready() -> None:
    assert installation.schema() is Schema.CURRENT
    lines, say = said()
    assert installation.require_ready(say) is None
    assert lines == []


def test_a_later_version_is_refused(an_unknown_migration: None) -> None:
    assert installation.schema() is Schema.NEWER
    for enter in (installation.require_ready, installation.set_up):
        with pytest.raises(NotReady, match="created by a later version"):
            enter(print)


def test_an_earlier_version_is_named_with_its_cure(a_missing_migration: None) -> None:
    assert installation.schema() is Schema.OLDER
    with pytest.raises(NotReady, match="run `toolhub migrate`"):
        installation.require_ready(print)


def test_setting_up_syncs_the_tools_and_does_so_once() -> None:
    lines, say = said()
    first = installation.set_up(say)
    assert first is not None
    assert first.added == ["calculate", "echo", "read_result"]
    second = installation.set_up(say)
    assert second is not None
    assert str(second) == "nothing has changed"
    assert lines == []


def test_setup_restores_missing_triggers(hub: Hub) -> None:
    from tools_app.models import text_index, triggers

    triggers.drop_triggers(connection)
    text_index.drop_triggers(connection)
    installation.set_up(print)
    assert triggers.missing_triggers(connection) | text_index.missing_triggers(connection) == set()


def test_the_first_start_makes_a_way_in_and_the_second_does_not(hub: Hub) -> None:
    first = installation.welcome("", actor=governance.trusted("test"))
    assert first.password is not None
    assert len(first.password) >= 16
    assert first.key is not None
    user = get_user_model().objects.get()
    assert user.check_password(first.password)
    assert ApiKey.objects.get().name == "first"
    assert set(AuditEntry.objects.filter(actor="test").values_list("action", flat=True)) == {
        "user.create",
        "key.create",
    }
    again = installation.welcome("", actor=governance.trusted("test"))
    assert (again.password, again.key) == (None, None)


def test_a_chosen_password_is_used_and_not_repeated(hub: Hub) -> None:
    assert installation.welcome("correct horse battery", actor=governance.trusted("test")).password is None
    assert get_user_model().objects.get().check_password("correct horse battery")


def test_keeps_the_last_copies_of_a_sqlite_file(hub: Hub) -> None:
    if connection.vendor != "sqlite":
        assert installation.copied() is None
        return
    copies = [installation.copied() for _ in range(installation.KEPT_COPIES + 2)]
    kept = sorted((copies[0].parent).glob("*.sqlite3"))  # type: ignore[union-attr]
    assert kept == copies[-installation.KEPT_COPIES :]
    assert kept[0].stat().st_mode & 0o077 == 0


def test_tells_of_database_trouble_without_the_password(settings: Any) -> None:
    told = installation.database_trouble(RuntimeError("connection refused\nsecond line"))
    assert "connection refused" in told
    assert "second line" not in told
    assert "check DATABASE_URL" in told


@pytest.mark.parametrize("key", ["short", "django-insecure-" + "x1" * 40, "a" * 60])
def test_a_weak_secret_is_found(settings: Any, key: str) -> None:
    settings.SECRET_KEY = key
    (finding,) = checks.secret_key_is_strong(None)
    assert finding.id == "tools_app.E001"
    settings.SECRET_KEY = "x7Kd93hSx0a8Tq2LwPz5VbN1mRc4Yf6Jg8Hs0Du2Ei4Ok6"
    assert checks.secret_key_is_strong(None) == []


def test_an_encryption_key_of_its_own_is_asked_for(settings: Any) -> None:
    settings.TOOLHUB_ENCRYPTION_KEY = settings.SECRET_KEY
    assert [finding.id for finding in checks.encryption_key_is_own(None)] == ["tools_app.W001"]


def test_a_registered_tool_survives_a_sync_of_the_same_process(hub: Hub) -> None:
    assert ToolRecord.objects.present().count() == 3
    assert sync.retire("echo", actor="test")
    assert not sync.retire("echo", actor="test")
    assert access.caller_of_process().name
