"""Decisions about sources: switch, trust, policy, describing again; and deleting tools that have no source."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.retention.rows import approval
from tests.support.state import find_sources_again
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance, sources
from tools_app.catalog import catalog
from tools_app.models import (
    Approval,
    AuditEntry,
    Call,
    Definition,
    Source,
    SourceStatus,
    ToolCheck,
    ToolRecord,
    Toolset,
)
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    ConflictError,
    NotFoundError,
    RateLimitError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolTimeoutError,
    UpstreamUnavailableError,
    ValidationError,
)
from tools_app.sources import sync

ACTOR = "user:olivia"
PLUGIN = "test:plugin"
SMALL = "tests.support.packs.small"
HELLO = '''from toolhub import tool

@tool()
def hello() -> str:
    """Say hello."""
    return "hi"
'''


def plugin(hub: Hub, version: str = "1.0.0", **declared: Any) -> Programmable:
    """A tool of an installed package, in a new version."""
    made = Programmable(version=version, **declared)
    if (provider := sources.current().providers.get(PLUGIN)) is not None:
        provider.loaded().remove("programmable")
    hub.add(made.tool, kind=Source.Kind.PLUGIN)
    return made


def record() -> ToolRecord:
    return ToolRecord.objects.get(name="programmable")


def call(caller: Caller, **options: Any) -> Any:
    return engine.call_sync("programmable", {}, caller, door="code", **options)


def refusal() -> str:
    entry = catalog.current().find("programmable")
    assert entry is not None
    return entry.refusal.reason if entry.refusal is not None else ""


# ---- switch, trust, policy


def test_switching_a_source_off_refuses_its_tools_from_the_next_call_on(hub: Hub, alice: Caller) -> None:
    made = plugin(hub)
    call(alice)
    assert governance.change_source(PLUGIN, enabled=False, actor=governance.trusted(ACTOR), reason="it is moved") == [
        "enabled"
    ]
    with pytest.raises(ToolDisabledError) as told:
        call(alice)
    assert told.value.context["reason"] == f"its source {PLUGIN} is switched off by an operator"
    engine.call_sync("echo", {"message": "hi"}, alice, door="code")
    assert governance.change_source(PLUGIN, enabled=True, actor=governance.trusted(ACTOR)) == ["enabled"]
    call(alice)
    assert len(made.calls) == 2
    off, on = AuditEntry.objects.filter(subject=f"source:{PLUGIN}", actor=ACTOR).order_by("pk")
    assert (off.action, off.actor, off.reason, off.changes) == (
        "source.disable", ACTOR, "it is moved", {"enabled": [True, False]},
    )  # fmt: skip
    assert on.action == "source.enable"


def test_all_parts_change_in_one_transaction_or_none(hub: Hub) -> None:
    changed = governance.change_source(
        SMALL,
        enabled=False,
        trust="hold_all",
        policy={"retries": 2, "timeout_ms": None},
        actor=governance.trusted(ACTOR),
    )
    assert changed == ["enabled", "retries", "trust"]
    entries = AuditEntry.objects.filter(subject=f"source:{SMALL}", actor=ACTOR).order_by("pk")
    assert [(entry.action, entry.changes) for entry in entries] == [
        ("source.disable", {"enabled": [True, False]}),
        ("source.trust", {"trust": ["", "hold_all"]}),
        ("source.policy", {"retries": [None, 2]}),
    ]
    again = governance.change_source(
        SMALL, enabled=False, trust="hold_all", policy={"retries": 2}, actor=governance.trusted(ACTOR)
    )
    assert again == []
    wrong: list[dict[str, Any]] = [
        {"trust": "blind"},
        {"policy": {"retries": 4}},
        {"policy": {"colour": 1}},
        {"policy": {"rate_calls": 5}},
    ]
    for parts in wrong:
        with pytest.raises(ValidationError):
            governance.change_source(SMALL, enabled=True, **parts, actor=governance.trusted(ACTOR))
    assert not Source.objects.get(name=SMALL).enabled
    assert entries.count() == 3


def test_an_unknown_or_removed_source_is_not_found(hub: Hub) -> None:
    Source.objects.filter(name=SMALL).update(removed_at=timezone.now())
    for name in ("nope", SMALL):
        with pytest.raises(NotFoundError):
            governance.change_source(name, enabled=False, actor=governance.trusted(ACTOR))
        with pytest.raises(NotFoundError):
            governance.describe_source(name, actor=governance.trusted(ACTOR))


def test_stricter_trust_holds_from_the_next_change(hub: Hub) -> None:
    plugin(hub)
    pinned = record().definition
    governance.change_source(PLUGIN, trust="hold_changes", actor=governance.trusted(ACTOR))
    assert refusal() == ""
    plugin(hub, "2.0.0")
    assert record().definition == pinned
    assert record().offered is not None
    entry = catalog.current().find("programmable")
    assert entry is not None
    assert (entry.is_held, entry.version) == (True, "1.0.0")


@pytest.mark.parametrize("refused", [False, True])
def test_automatic_trust_decides_nothing_until_the_source_is_described(hub: Hub, refused: bool) -> None:
    plugin(hub)
    governance.change_source(PLUGIN, trust="hold_all", actor=governance.trusted(ACTOR))
    plugin(hub, "2.0.0")
    offered = record().offered
    assert offered is not None
    if refused:
        governance.refuse_definitions([offered.pk], actor=governance.trusted(ACTOR))
    governance.change_source(PLUGIN, trust="auto", actor=governance.trusted(ACTOR))
    assert record().offered == offered
    assert Definition.objects.get(pk=offered.pk).approved_at is None
    governance.describe_source(PLUGIN, actor=governance.trusted(ACTOR))
    offered.refresh_from_db()
    # What an operator refused stays refused.
    assert (offered.approved_at is None) == refused
    assert (record().definition == offered) == (not refused)


def test_a_new_tool_that_waits_runs_only_after_the_description_that_approves_it(hub: Hub, alice: Caller) -> None:
    plugin(hub, name="other")
    governance.change_source(PLUGIN, trust="hold_all", actor=governance.trusted(ACTOR))
    plugin(hub)
    waiting = "not approved: no operator has reviewed this version"
    assert refusal() == waiting
    governance.change_source(PLUGIN, trust="auto", actor=governance.trusted(ACTOR))
    assert refusal() == waiting
    governance.describe_source(PLUGIN, actor=governance.trusted(ACTOR))
    assert refusal() == ""
    call(alice)


def test_a_source_that_was_never_described_does_not_disturb_the_others(hub: Hub, alice: Caller) -> None:
    """An upgrade makes such sources, and so does adding one elsewhere."""
    upgraded = Source.objects.create(name="old:plugin", kind="plugin", epoch=0)
    outside = Source.objects.create(name="wiki", prefix="wiki", kind="mcp_http")
    for source in (upgraded, outside):
        tool = ToolRecord.objects.create(name=f"{source.kind}_tool", source_kind=source.kind, source=source)
        definition = Definition.objects.create(tool=tool, hash="0" * 64, version="1", body={}, epoch=source.epoch)
        ToolRecord.objects.filter(pk=tool.pk).update(definition=definition)
    engine.call_sync("echo", {"message": "hi"}, alice, door="code")
    assert hub.entry("plugin_tool").refusal is not None
    assert hub.entry("mcp_http_tool").refusal is not None


# ---- policy of calls


def test_the_policy_of_a_source_is_between_that_of_the_tool_and_that_of_its_author(hub: Hub) -> None:
    plugin(hub, timeout=4.0, retries=1)

    def effective() -> list[tuple[int, str]]:
        policy = hub.entry("programmable").policy
        return [(getattr(policy, part), policy.origins[part]) for part in ("timeout_ms", "retries")]

    assert effective() == [(4_000, "tool"), (1, "tool")]
    governance.change_source(PLUGIN, policy={"timeout_ms": 3_000, "retries": 2}, actor=governance.trusted(ACTOR))
    assert effective() == [(3_000, "source"), (2, "source")]
    governance.set_policy("programmable", {"timeout_ms": 5_000}, actor=governance.trusted(ACTOR))
    assert effective() == [(5_000, "operator"), (2, "source")]
    policy = hub.entry("programmable").policy
    assert policy.decided("retries")
    assert policy.for_caller(60_000, 3, None).retries == 2
    assert policy.for_caller(60_000, 3, None).timeout_ms == 5_000


def test_time_limit_rate_and_retries_of_a_source_apply_to_calls(hub: Hub, alice: Caller) -> None:
    made = plugin(hub, timeout=5.0)
    governance.change_source(PLUGIN, policy={"timeout_ms": 150}, actor=governance.trusted(ACTOR))
    made.outcomes = [lambda: _sleep(3)]
    with pytest.raises(ToolTimeoutError) as late:
        call(alice)
    assert "150" in str(late.value)
    governance.set_policy("programmable", {"timeout_ms": 5_000}, actor=governance.trusted(ACTOR))
    made.outcomes = [lambda: _sleep(0.3)]
    call(alice)
    governance.change_source(PLUGIN, policy={"retries": 1, "retry_delay_ms": 100}, actor=governance.trusted(ACTOR))
    made.calls.clear()
    made.outcomes = [UpstreamUnavailableError(), {"value": 1}]
    call(alice)
    assert len(made.calls) == 2
    governance.change_source(PLUGIN, policy={"rate_calls": 1, "rate_seconds": 60}, actor=governance.trusted(ACTOR))
    call(alice)
    with pytest.raises(RateLimitError):
        call(alice)


async def _sleep(seconds: float) -> dict[str, int]:
    import anyio

    await anyio.sleep(seconds)
    return {"value": 1}


# ---- describing again


def test_describing_again_records_what_the_source_contains_now(hub: Hub) -> None:
    plugin(hub)
    sources.current().providers[PLUGIN].loaded().add(Programmable("late").tool)
    report = governance.describe_source(PLUGIN, actor=governance.trusted(ACTOR), reason="it was updated")
    assert report.added == ["late"]
    entry = AuditEntry.objects.get(action="source.describe")
    assert (entry.subject, entry.actor, entry.reason) == (f"source:{PLUGIN}", ACTOR, "it was updated")


def test_describing_again_loads_changed_files(hub: Hub, settings: Any, tmp_path: Path) -> None:
    settings.TOOLHUB_TOOLS_DIR = tmp_path
    find_sources_again()
    sync.sync()
    (tmp_path / "hello.py").write_text(HELLO)
    assert governance.describe_source("folder", actor=governance.trusted(ACTOR)).added == ["hello"]


def test_a_source_that_this_process_does_not_have_cannot_be_described(hub: Hub) -> None:
    Source.objects.create(name="plugin:gone", kind="plugin")
    with pytest.raises(ConflictError, match="this process does not have it"):
        governance.describe_source("plugin:gone", actor=governance.trusted(ACTOR))
    assert not AuditEntry.objects.filter(action="source.describe").exists()


def test_an_older_version_of_a_source_is_not_recorded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(hub)
    monkeypatch.setattr(sources.current().providers[PLUGIN], "etag", lambda: "newer")
    with pytest.raises(ConflictError, match="files have changed"):
        governance.describe_source(PLUGIN, actor=governance.trusted(ACTOR))
    assert SourceStatus.objects.get(source__name=PLUGIN).etag == ""


# ---- deleting retired tools


def retired(hub: Hub) -> ToolRecord:
    plugin(hub)
    sources.current().providers[PLUGIN].loaded().remove("programmable")
    sync.sync_source(sources.current().providers[PLUGIN], actor="test")
    assert record().retired_at is not None
    return record()


def test_a_deleted_tool_leaves_its_name_and_nothing_that_was_decided(hub: Hub, alice: Caller) -> None:
    plugin(hub)
    call(alice)
    governance.set_policy("programmable", {"timeout_ms": 500}, actor=governance.trusted(ACTOR))
    governance.set_ask("programmable", True, actor=governance.trusted(ACTOR))
    governance.add_tag("mine", ["programmable"], actor=governance.trusted(ACTOR))
    overrides = {"programmable": {"name": "other"}, "echo": {"description": "Repeats."}}
    governance.create_toolset(
        "both", names=["echo", "programmable"], overrides=overrides, actor=governance.trusted(ACTOR)
    )
    governance.create_toolset("tagged", tags=["mine"], actor=governance.trusted(ACTOR))
    gone = retired(hub)
    now = timezone.now()
    ToolCheck.objects.create(tool=gone, passed=True, examples=1, definition_hash="", checked_at=now)
    approval(now, tool_name="programmable")
    assert governance.delete_tool("programmable", actor=governance.trusted(ACTOR), reason="the package is gone") == [
        "both"
    ]
    assert not ToolRecord.everything.filter(pk=gone.pk).exists()
    assert not Definition.objects.filter(tool_id=gone.pk).exists()
    assert not ToolCheck.objects.exists()
    both = Toolset.objects.get(name="both")
    assert (both.names, both.overrides) == (["echo"], {"echo": {"description": "Repeats."}})
    entry = AuditEntry.objects.get(action="tool.delete")
    assert (entry.subject, entry.reason) == ("programmable", "the package is gone")
    assert entry.changes["source"] == [PLUGIN, None]
    assert len(entry.changes["definitions"][0]) == 1
    assert entry.changes["timeout_ms"] == [500, None]
    assert (entry.changes["ask"], entry.changes["tags"]) == ([True, None], [["mine"], None])
    assert entry.changes["toolsets"] == [["both"], []]
    assert AuditEntry.objects.get(action="toolset.change").subject == "toolset:both"
    assert Call.objects.get().tool_name == "programmable"
    # Another source takes the name.
    made = Programmable()
    hub.add(made.tool)
    successor = hub.entry("programmable")
    assert (successor.source_name, successor.ask, successor.tags, successor.refusal) == ("code", False, (), None)
    assert successor.policy.origins["timeout_ms"] == "settings"
    call(alice)


def test_only_retired_tools_are_deleted(hub: Hub) -> None:
    with pytest.raises(ConflictError, match="its source provides it") as told:
        governance.delete_tool("echo", actor=governance.trusted(ACTOR))
    assert told.value.next_step == "Switch the tool off instead."
    with pytest.raises(ToolNotFoundError):
        governance.delete_tool("nope", actor=governance.trusted(ACTOR))
    assert ToolRecord.objects.filter(name="echo").exists()


@pytest.mark.parametrize("state", [Approval.State.PENDING, Approval.State.APPROVED])
def test_an_open_approval_protects_a_tool(hub: Hub, state: str) -> None:
    retired(hub)
    later = timezone.now() + timedelta(hours=1)
    approval(later, tool_name="programmable", state=state)
    with pytest.raises(ConflictError, match="an approval of a call of it is open"):
        governance.delete_tool("programmable", actor=governance.trusted(ACTOR))
    Approval.objects.update(state=Approval.State.USED)
    governance.delete_tool("programmable", actor=governance.trusted(ACTOR))


def test_a_toolset_that_names_no_other_tool_protects_it(hub: Hub) -> None:
    """Without a selector, a toolset includes every tool."""
    plugin(hub)
    governance.create_toolset("a", names=["echo", "programmable"], actor=governance.trusted(ACTOR))
    governance.create_toolset("b", names=["programmable"], actor=governance.trusted(ACTOR))
    retired(hub)
    with pytest.raises(ConflictError, match="toolset b would be empty and include every tool"):
        governance.delete_tool("programmable", actor=governance.trusted(ACTOR))
    assert Toolset.objects.get(name="a").names == ["echo", "programmable"]
    assert not AuditEntry.objects.filter(action__in=["tool.delete", "toolset.change"]).exists()
    governance.change_toolset("b", packs=["builtin"], actor=governance.trusted(ACTOR))
    assert governance.delete_tool("programmable", actor=governance.trusted(ACTOR)) == ["a", "b"]


def test_a_deletion_that_fails_changes_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    retired(hub)

    def fail(*_args: Any, **_others: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(ToolRecord, "delete", fail)
    governance.create_toolset("both", names=["echo", "programmable"], actor=governance.trusted(ACTOR))
    with pytest.raises(OperationalError):
        governance.delete_tool("programmable", actor=governance.trusted(ACTOR))
    assert Toolset.objects.get(name="both").names == ["echo", "programmable"]
    assert not AuditEntry.objects.filter(action="toolset.change").exists()
    assert record().definitions.exists()
