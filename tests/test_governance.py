"""Changes: in one transaction with their audit entry, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import override_settings
from django.utils import timezone

from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.base import secrets
from tools_app.models import ApiKey, AuditEntry, Definition, ErrorGroup, Source, ToolRecord
from tools_app.models.audit import note
from tools_app.sdk.errors import ToolNotFoundError, ValidationError
from tools_app.sdk.hints import Hints


def test_switching_off_leaves_an_audit_entry(hub: Hub) -> None:
    assert governance.set_enabled(["echo"], False, actor=governance.trusted("user:alice"), reason="too loud") == [
        "echo"
    ]
    assert not ToolRecord.objects.get(name="echo").enabled
    entry = AuditEntry.objects.get(action="tool.disable")
    assert (entry.actor, entry.subject, entry.reason) == ("user:alice", "echo", "too loud")
    assert entry.changes == {"enabled": [True, False]}


def test_switching_twice_is_one_change(hub: Hub) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    assert governance.set_enabled(["echo", "calculate"], False, actor=governance.trusted("test")) == ["calculate"]
    assert AuditEntry.objects.filter(action="tool.disable").count() == 2


def test_one_unknown_name_changes_nothing(hub: Hub) -> None:
    with pytest.raises(ToolNotFoundError, match="Tool not found: nope"):
        governance.set_enabled(["echo", "nope"], False, actor=governance.trusted("test"))
    assert ToolRecord.objects.get(name="echo").enabled
    assert not AuditEntry.objects.filter(action="tool.disable").exists()


def test_switching_many_takes_few_statements(hub: Hub, django_assert_max_num_queries: Any) -> None:
    """While they run, no call of this hub can be written down."""
    hub.add(*(Programmable(f"many_{number}").tool for number in range(40)))
    names = [f"many_{number}" for number in range(40)]
    with django_assert_max_num_queries(5):
        assert governance.set_enabled(names, False, actor=governance.trusted("test")) == sorted(names)
    assert AuditEntry.objects.filter(action="tool.disable").count() == 40


def test_deciding_about_many_versions_takes_few_statements(hub: Hub, django_assert_max_num_queries: Any) -> None:
    hub.add(*(Programmable(f"many_{number}").tool for number in range(40)))
    versions = Definition.objects.filter(tool__name__startswith="many_")
    versions.update(approved_at=None, approved_by="")
    keys = list(versions.values_list("pk", flat=True))
    with django_assert_max_num_queries(5):
        assert len(governance.refuse_definitions(keys, actor=governance.trusted("test"), reason="no")) == 40
    with django_assert_max_num_queries(6):
        assert len(governance.approve_definitions(keys, actor=governance.trusted("test"))) == 40
    entry = AuditEntry.objects.filter(action="definition.approve", subject="many_7").get()
    assert entry.changes["state"] == ["refused", "approved"]
    assert {version.state for version in versions.all()} == {"approved"}


def test_a_policy_is_bounded_and_can_be_taken_back(hub: Hub) -> None:
    for part, wrong in (("timeout_ms", 0), ("timeout_ms", 120_001), ("retries", 4), ("rate_calls", 0)):
        with pytest.raises(ValidationError, match=f"{part} must be between"):
            governance.set_policy("echo", {part: wrong}, actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="'colour' is no policy"):
        governance.set_policy("echo", {"colour": 1}, actor=governance.trusted("test"))
    assert governance.set_policy("echo", {"timeout_ms": 100, "retries": 2}, actor=governance.trusted("test")) == [
        "retries",
        "timeout_ms",
    ]
    assert governance.set_policy("echo", {"timeout_ms": 100}, actor=governance.trusted("test")) == []
    assert governance.set_policy("echo", {"timeout_ms": None, "retries": 2}, actor=governance.trusted("test")) == [
        "timeout_ms"
    ]
    assert [entry.changes for entry in AuditEntry.objects.filter(action="tool.policy")] == [
        {"timeout_ms": [100, None]},
        {"timeout_ms": [None, 100], "retries": [None, 2]},
    ]
    with pytest.raises(ToolNotFoundError):
        governance.set_policy("nope", {"timeout_ms": 500}, actor=governance.trusted("test"))


def test_a_rate_limit_is_whole_or_not_there(hub: Hub) -> None:
    for half in ({"rate_calls": 5}, {"rate_seconds": 5}):
        with pytest.raises(ValidationError, match="needs both"):
            governance.set_policy("echo", half, actor=governance.trusted("test"))
    governance.set_policy("echo", {"rate_calls": 5, "rate_seconds": 60}, actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="needs both"):
        governance.set_policy("echo", {"rate_seconds": None}, actor=governance.trusted("test"))


def test_a_key_is_shown_once_and_stored_as_a_hash(hub: Hub) -> None:
    key, secret = governance.create_key("agent", actor=governance.trusted("test"), scopes=["tools:read"])
    stored = ApiKey.objects.values().get()
    assert stored["hash"] == secrets.key_hash(secret)
    assert secret not in str(stored)
    assert secret.startswith(f"thub_{key.prefix}_")
    assert secret not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(("name", "scopes"), [("", None), ("  ", None), ("x" * 101, None), ("a", ["tools:everything"])])
def test_refuses_a_key_that_makes_no_sense(hub: Hub, name: str, scopes: list[str] | None) -> None:
    with pytest.raises(ValidationError):
        governance.create_key(name, actor=governance.trusted("test"), scopes=scopes)
    assert not ApiKey.objects.exists()


def test_names_of_keys_are_unique(hub: Hub) -> None:
    governance.create_key("agent", actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="exists already"):
        governance.create_key("agent", actor=governance.trusted("test"))


def test_revoking_is_done_once(hub: Hub) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    assert governance.revoke_key(key, actor=governance.trusted("test"))
    assert key.revoked_at is not None
    assert not key.usable(timezone.now())
    assert not governance.revoke_key(key, actor=governance.trusted("test"))
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_an_easy_password_is_refused(hub: Hub) -> None:
    for easy in ("admin", "password", "1234567890"):
        with pytest.raises(ValidationError, match="The password for 'admin' is refused"):
            governance.create_admin("admin", easy, actor=governance.trusted("test"))
    assert not get_user_model().objects.exists()


def test_an_audit_entry_needs_the_transaction_of_its_change(transactional_db: None) -> None:
    with pytest.raises(RuntimeError, match="transaction of its change"):
        note("tool.disable", "echo", actor="test", changes={})


def group(fingerprint: str, **given: Any) -> ErrorGroup:
    now = timezone.now()
    return ErrorGroup.objects.create(
        fingerprint=fingerprint, tool_name="echo", code="TIMEOUT", message="late", first_seen_at=now, last_seen_at=now,
        **given,
    )  # fmt: skip


def test_resolving_errors_is_audited(db: None) -> None:
    one = group("1")
    group("2")
    assert governance.resolve_errors(["1"], actor=governance.trusted("user:alice"), reason="the disk is back") == ["1"]
    one.refresh_from_db()
    assert one.resolved_at is not None
    assert one.resolved_by == "user:alice"
    entry = AuditEntry.objects.get(action="error.resolve")
    assert (entry.actor, entry.subject, entry.reason) == ("user:alice", "error:1", "the disk is back")
    assert entry.changes == {"error": [None, "TIMEOUT echo"], "resolved_at": [None, one.resolved_at.isoformat()]}
    assert ErrorGroup.objects.get(pk="2").resolved_at is None


def test_resolved_errors_are_opened_again_with_an_audit_entry(db: None) -> None:
    one = group("1", resolved_at=timezone.now(), resolved_by="user:alice", reopened_at=timezone.now())
    assert one.resolved_at is not None
    assert governance.reopen_errors(["1"], actor=governance.trusted("user:bob"), reason="not yet") == ["1"]
    entry = AuditEntry.objects.get(action="error.reopen")
    assert (entry.actor, entry.subject, entry.reason) == ("user:bob", "error:1", "not yet")
    assert entry.changes == {"error": [None, "TIMEOUT echo"], "resolved_at": [one.resolved_at.isoformat(), None]}
    assert ErrorGroup.objects.filter(pk="1", resolved_at=None, resolved_by="", reopened_at=None).exists()


def test_only_errors_that_change_are_noted(db: None) -> None:
    group("1", resolved_at=timezone.now())
    group("2")
    group("3")
    assert governance.resolve_errors(iter(["3", "1", "2", "nothing"]), actor=governance.trusted("test")) == ["2", "3"]
    assert governance.resolve_errors(["1", "2", "3"], actor=governance.trusted("test")) == []
    assert governance.resolve_errors([], actor=governance.trusted("test")) == []
    assert AuditEntry.objects.count() == 2
    assert governance.reopen_errors(["2", "nothing"], actor=governance.trusted("test")) == ["2"]
    assert governance.reopen_errors(["2"], actor=governance.trusted("test")) == []
    assert AuditEntry.objects.count() == 3


def test_errors_are_not_resolved_without_their_audit_entry(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("disk full")

    group("1")
    monkeypatch.setattr("tools_app.governance.actors.note_all", fail)
    with pytest.raises(OperationalError):
        governance.resolve_errors(["1"], actor=governance.trusted("test"))
    assert ErrorGroup.objects.get().resolved_at is None


@pytest.mark.django_db
def test_a_stopped_key_is_shown_as_stopped_until_it_is_resumed():
    key, _ = governance.create_key("reporting", actor=governance.trusted("test"))

    def state():
        return ApiKey.objects.with_stops().get(pk=key.pk).state(timezone.now())

    assert state() == "works"
    governance.stop("key", "reporting", actor=governance.trusted("test"))
    assert state() == "stopped"
    governance.resume("key", "reporting", actor=governance.trusted("test"))
    assert state() == "works"
    governance.stop("key", "reporting", actor=governance.trusted("test"))
    governance.revoke_key(key, actor=governance.trusted("test"))
    assert state() == "revoked"


# ---- versions that wait behind an approved one


@pytest.fixture
def folder(settings: Any) -> Source.Kind:
    """A source whose changes need approval."""
    settings.TOOLHUB_SOURCES_TO_APPROVE = ("file",)
    return Source.Kind.FOLDER


def offer_version(hub: Hub, kind: Source.Kind, version: str, **declared: Any) -> Definition:
    """Let the source describe this version of `filed`; the version as it is recorded."""
    hub.loaded_by(kind).remove("filed")
    hub.add(Programmable("filed", version=version, **declared).tool, kind=kind)
    return Definition.objects.get(tool__name="filed", version=version)


def approved_and_waiting(hub: Hub, kind: Source.Kind, **declared: Any) -> Definition:
    with override_settings(TOOLHUB_SOURCES_TO_APPROVE=()):
        offer_version(hub, kind, "1.0.0", tags=["old"])
    return offer_version(hub, kind, "2.0.0", **declared)


@pytest.mark.django_db(transaction=True)
def test_an_approved_version_replaces_the_listed_one_as_a_whole(hub: Hub, folder: Source.Kind) -> None:
    definition = approved_and_waiting(hub, folder, tags=["new"], category="files", timeout=7, hints=Hints())
    assert list(Definition.objects.open()) == [definition]
    entry = hub.entry("filed")
    assert (entry.version, entry.tags, entry.policy.timeout_ms, entry.hints.read_only) == (
        "1.0.0", ("old",), 30_000, True
    )  # fmt: skip
    assert governance.approve_definitions([definition.pk], actor=governance.trusted("test"), reason="read it") == [
        "filed"
    ]
    entry = hub.entry("filed")
    assert (entry.version, entry.tags, entry.policy.timeout_ms, entry.hints.read_only, entry.is_held) == (
        "2.0.0", ("new",), 7_000, False, False
    )  # fmt: skip
    record = ToolRecord.objects.get(name="filed")
    assert (record.definition, record.offered, record.offered_runtime) == (definition, None, None)
    assert (record.version, record.category, record.read_only) == ("2.0.0", "files", False)
    assert not Definition.objects.open().exists()
    assert AuditEntry.objects.get(action="definition.approve").reason == "read it"


@pytest.mark.django_db(transaction=True)
def test_a_version_that_is_no_longer_offered_is_approved_but_not_listed(hub: Hub, folder: Source.Kind) -> None:
    second = approved_and_waiting(hub, folder)
    third = offer_version(hub, folder, "3.0.0")
    assert list(Definition.objects.open()) == [third]
    governance.approve_definitions([second.pk], actor=governance.trusted("test"))
    assert (hub.entry("filed").version, hub.entry("filed").is_held) == ("1.0.0", True)
    assert offer_version(hub, folder, "2.0.0") == second
    assert (hub.entry("filed").version, hub.entry("filed").is_held) == ("2.0.0", False)


@pytest.mark.django_db(transaction=True)
def test_nothing_waits_once_the_source_has_gone_back(hub: Hub, folder: Source.Kind) -> None:
    definition = approved_and_waiting(hub, folder)
    governance.refuse_definitions([definition.pk], actor=governance.trusted("test"))
    assert [one.state for one in Definition.objects.open()] == ["refused"]
    assert hub.entry("filed").is_held
    offer_version(hub, folder, "1.0.0", tags=["old"])
    assert not Definition.objects.open().exists()
    assert not hub.entry("filed").is_held


@pytest.mark.django_db(transaction=True)
def test_limits_that_change_while_a_version_waits_apply_when_it_is_approved(hub: Hub, folder: Source.Kind) -> None:
    definition = approved_and_waiting(hub, folder)
    assert offer_version(hub, folder, "2.0.0", timeout=7) == definition
    assert hub.entry("filed").policy.timeout_ms == 30_000
    governance.approve_definitions([definition.pk], actor=governance.trusted("test"))
    assert hub.entry("filed").policy.timeout_ms == 7_000


@pytest.mark.django_db(transaction=True)
def test_nothing_of_a_removed_tool_waits(hub: Hub, folder: Source.Kind) -> None:
    approved_and_waiting(hub, folder)
    hub.loaded_by(folder).remove("filed")
    hub.add(Programmable("other").tool, kind=folder)
    assert [one.tool.name for one in Definition.objects.open()] == ["other"]
