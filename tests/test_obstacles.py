"""Tools of sources that do not approve themselves: nothing runs that no operator has seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.declared import DeclaredSource
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance, sources
from tools_app.catalog import catalog, offers
from tools_app.models import AuditEntry, Definition, Source, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ConflictError, NotFoundError, ToolDisabledError
from tools_app.sdk.hub_errors import DefinitionChangedError
from tools_app.sdk.prompt import prompt
from tools_app.sources import sync

ACTOR = "user:olivia"


@pytest.fixture
def careful(hub: Hub, settings: Any) -> Hub:
    """A hub where files in a directory wait for an operator."""
    settings.TOOLHUB_SOURCES_TO_APPROVE = ("file",)
    return hub


def reason(name: str = "programmable") -> str:
    entry = catalog.current().find(name)
    assert entry is not None
    return entry.refusal.reason if entry.refusal else ""


def changed(hub: Hub, version: str, **declared: Any) -> Programmable:
    made = Programmable(version=version, **declared)
    present = sources.current().providers.get("test:folder")
    if present is not None:
        present.loaded().remove("programmable")
    hub.add(made.tool, kind=Source.Kind.FOLDER)
    return made


def newest() -> Definition:
    return Definition.objects.filter(tool__name="programmable").latest("pk")


def test_a_new_tool_waits_and_runs_once_it_is_approved(careful: Hub, alice: Caller) -> None:
    made = changed(careful, "1.0.0")
    assert reason() == "not approved: no operator has reviewed this version"
    with pytest.raises(ToolDisabledError) as told:
        engine.call_sync("programmable", {}, alice, door="code")
    assert "not approved" in told.value.context["reason"]
    assert "programmable" not in [entry.name for entry in catalog.current().callable]
    assert governance.approve_definitions([newest().pk], actor=governance.trusted(ACTOR), reason="read it") == [
        "programmable"
    ]
    engine.call_sync("programmable", {}, alice, door="code")
    assert len(made.calls) == 1
    entry = AuditEntry.objects.get(action="definition.approve")
    assert (entry.subject, entry.actor, entry.reason) == ("programmable", ACTOR, "read it")


def test_a_changed_tool_keeps_its_text_and_waits_and_the_old_one_is_good_again(careful: Hub, alice: Caller) -> None:
    changed(careful, "1.0.0", title="Old words")
    governance.approve_definitions([newest().pk], actor=governance.trusted(ACTOR))
    made = changed(careful, "2.0.0", title="New words")
    entry = careful.entry("programmable")
    assert (entry.title, entry.version, reason()) == ("Old words", "1.0.0", "")
    with pytest.raises(DefinitionChangedError, match="no operator has approved the new version"):
        engine.call_sync("programmable", {}, alice, door="code")
    assert made.calls == []
    made = changed(careful, "1.0.0", title="Old words")
    assert ToolRecord.objects.get(name="programmable").offered is None
    engine.call_sync("programmable", {}, alice, door="code")
    assert len(made.calls) == 1


def test_what_was_refused_says_why_and_can_be_approved_later(careful: Hub) -> None:
    changed(careful, "1.0.0")
    assert governance.refuse_definitions([newest().pk], actor=governance.trusted(ACTOR), reason="it lies") == [
        "programmable"
    ]
    assert reason() == "an operator refused this version: it lies"
    assert governance.refuse_definitions([newest().pk], actor=governance.trusted(ACTOR)) == []
    assert governance.approve_definitions([newest().pk], actor=governance.trusted(ACTOR)) == ["programmable"]
    assert governance.approve_definitions([newest().pk], actor=governance.trusted(ACTOR)) == []
    assert reason() == ""
    with pytest.raises(ConflictError, match="approved already"):
        governance.refuse_definitions([newest().pk], actor=governance.trusted(ACTOR))
    with pytest.raises(NotFoundError):
        governance.approve_definitions([newest().pk, 999_999], actor=governance.trusted(ACTOR))


def test_a_version_that_is_not_on_record_does_not_run(careful: Hub, alice: Caller) -> None:
    """A process that has loaded something newer than what is recorded."""
    changed(careful, "1.0.0")
    governance.approve_definitions([newest().pk], actor=governance.trusted(ACTOR))
    registry = sources.current().providers["test:folder"].loaded()
    registry.remove("programmable")
    newer = Programmable(version="2.0.0")
    registry.add(newer.tool)
    for _ in range(2):
        with pytest.raises(DefinitionChangedError):
            engine.call_sync("programmable", {}, alice, door="code")
    assert newer.calls == []
    assert newest().version == "2.0.0", "the first call has recorded it"
    assert ToolRecord.objects.get(name="programmable").offered == newest()


def test_other_sources_approve_themselves(careful: Hub, programmable: Programmable) -> None:
    assert reason() == ""
    assert newest().approved_by == "source:code"


def test_what_waits_is_let_go_when_its_source_is_trusted_again(careful: Hub, settings: Any) -> None:
    changed(careful, "1.0.0")
    settings.TOOLHUB_SOURCES_TO_APPROVE = ()
    sync.sync()
    assert newest().approved_by == "source:file"
    assert reason() == ""


def test_what_an_operator_refused_stays_refused(careful: Hub, settings: Any) -> None:
    changed(careful, "1.0.0")
    governance.refuse_definitions([newest().pk], actor=governance.trusted(ACTOR))
    settings.TOOLHUB_SOURCES_TO_APPROVE = ()
    sync.sync()
    assert reason() == "an operator refused this version"


def test_the_first_versions_of_a_source_that_holds_changes_are_approved(hub: Hub, alice: Caller) -> None:
    Source.objects.create(name="test:folder", kind=Source.Kind.FOLDER, trust=Source.Trust.HOLD_CHANGES)
    changed(hub, "1.0.0")
    assert newest().approved_by == "source:file"
    engine.call_sync("programmable", {}, alice, door="code")
    changed(hub, "2.0.0")
    assert newest().approved_at is None
    with pytest.raises(DefinitionChangedError):
        engine.call_sync("programmable", {}, alice, door="code")
    hub.add(Programmable("second").tool, kind=Source.Kind.FOLDER)
    assert reason("second").startswith("not approved")


def test_all_tools_of_a_source_can_be_switched_off(hub: Hub) -> None:
    changed(hub, "1.0.0")
    Source.objects.filter(name="test:folder").update(enabled=False)
    assert reason() == "its source test:folder is switched off by an operator"
    assert reason("echo") == ""
    Source.objects.filter(name="test:folder").update(enabled=True)
    assert reason() == ""


def test_prompts_are_listed_once_they_are_approved(careful: Hub) -> None:
    def ask() -> str:
        """Ask something."""
        return "?"

    source = sources.current().providers["folder"] = DeclaredSource(prompt()(ask))
    for _ in range(2):
        sync.sync_source(source, actor="test")
        assert "ask" not in offers.of(catalog.current()).prompts
    governance.approve_definitions([Definition.objects.get(tool__name="ask").pk], actor=governance.trusted(ACTOR))
    assert "ask" in offers.of(catalog.current()).prompts
