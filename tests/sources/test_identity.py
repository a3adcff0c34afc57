"""A tool is known by its source and original name: nothing that was decided about it applies to another one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from tests.support.declared import DeclaredSource
from tests.support.tools import Programmable
from tools_app import engine, governance, sources
from tools_app.catalog import catalog
from tools_app.engine import Options
from tools_app.models import Definition, Source, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import (
    ApprovalInvalidError,
    ApprovalRequiredError,
    DefinitionChangedError,
    IdempotencyMismatchError,
)
from tools_app.sources import sync

ACTOR = "user:olivia"


def sourced(name: str, *, place: str, location: str = "", **declared: Any) -> tuple[DeclaredSource, Programmable]:
    """A plugin with the tool `twin`."""
    made = Programmable("twin", **declared)
    made.tool.place = place
    del made.tool.spec  # It was made with the place of this file.
    return DeclaredSource(made.tool, name=name, kind=Source.Kind.PLUGIN, location=location), made


def record(source: DeclaredSource) -> None:
    sources.current().providers[source.name] = source
    sync.sync_source(source, actor="test")


def described_anew(source: DeclaredSource) -> None:
    """The source was removed and added again."""
    Source.objects.filter(name=source.name).update(epoch=F("epoch") + 1)
    record(source)


def reason() -> str:
    entry = catalog.current().find("twin")
    assert entry is not None
    return entry.refusal.reason if entry.refusal else ""


pytestmark = pytest.mark.usefixtures("hub")


class TestTwoSources:
    def test_the_second_tool_with_the_same_name_and_words_is_a_problem(self, settings: Any, alice: Caller) -> None:
        settings.TOOLHUB_SOURCES_TO_APPROVE = ("plugin",)
        (first, of_first), (second, of_second) = (sourced(f"plugin:{name}", place=f"{name}.py:1") for name in "ab")
        assert of_first.tool.spec.hash == of_second.tool.spec.hash
        record(first)
        governance.approve_definitions([Definition.objects.get(tool__name="twin").pk], actor=governance.trusted(ACTOR))
        record(second)
        tool_record = ToolRecord.objects.get(name="twin")
        assert tool_record.source is not None
        assert (tool_record.source.name, tool_record.definitions.count()) == ("plugin:a", 1)
        (problem,) = sync.problems()
        assert str(problem) == 'b.py:1: Tool "twin" is already registered. The other one is at a.py:1'
        engine.call_sync("twin", {}, alice, door="code")
        assert (len(of_first.calls), len(of_second.calls)) == (1, 0)

    def test_the_name_of_a_tool_that_is_gone_is_not_given_to_another(self, alice: Caller) -> None:
        (first, _), (second, of_second) = (sourced(f"plugin:{name}", place=f"{name}.py:1") for name in "ab")
        record(first)
        governance.create_toolset("twins", actor=governance.trusted("test"), names=["twin"])
        governance.set_enabled(["twin"], False, actor=governance.trusted("test"))
        del sources.current().providers[first.name]
        sources.current().providers[second.name] = second
        assert sync.sync().retired == ["twin"]
        sync.sync_source(second, actor="test")
        assert catalog.current().find("twin") is None
        assert catalog.current().within("twins").find("twin") is None
        with pytest.raises(ToolNotFoundError):
            engine.call_sync("twin", {}, alice, door="code")
        assert of_second.calls == []
        record(first)
        assert reason() == "switched off by an operator"

    def test_an_alias_is_not_given_to_another_either(self) -> None:
        first, _ = sourced("plugin:a", place="a.py:1", aliases=["sibling"])
        other = Programmable("other", aliases=["sibling"])
        record(first)
        record(DeclaredSource(other.tool, Programmable("third").tool, name="plugin:b", kind=Source.Kind.PLUGIN))
        assert [problem.tool for problem in sync.problems()] == ["other"]
        assert catalog.current().find("other") is None
        assert catalog.current().find("third") is not None
        entry = catalog.current().find("sibling")
        assert entry is not None
        assert entry.name == "twin"


class TestASourceAddedAgain:
    def test_approvals_of_definitions_do_not_apply(self, settings: Any, alice: Caller) -> None:
        settings.TOOLHUB_SOURCES_TO_APPROVE = ("plugin",)
        source, made = sourced("plugin:a", place="a.py:1")
        record(source)
        governance.approve_definitions([Definition.objects.get(tool__name="twin").pk], actor=governance.trusted(ACTOR))
        engine.call_sync("twin", {}, alice, door="code")
        described_anew(source)
        with pytest.raises(DefinitionChangedError):
            engine.call_sync("twin", {}, alice, door="code")
        assert len(made.calls) == 1
        offered = ToolRecord.objects.get(name="twin").offered
        assert offered is not None
        assert (offered.epoch, offered.hash, offered.approved_at) == (2, made.tool.spec.hash, None)

    def test_nothing_runs_before_it_was_described(self, alice: Caller) -> None:
        source, made = sourced("plugin:a", place="a.py:1")
        record(source)
        Source.objects.filter(name=source.name).update(epoch=F("epoch") + 1)
        with pytest.raises(DefinitionChangedError):
            engine.call_sync("twin", {}, alice, door="code")
        record(source)
        engine.call_sync("twin", {}, alice, door="code")
        assert len(made.calls) == 1

    def test_a_tool_that_returns_in_the_same_epoch_keeps_its_approval(self, settings: Any, alice: Caller) -> None:
        settings.TOOLHUB_SOURCES_TO_APPROVE = ("plugin",)
        source, made = sourced("plugin:a", place="a.py:1")
        record(source)
        governance.approve_definitions([Definition.objects.get(tool__name="twin").pk], actor=governance.trusted(ACTOR))
        del sources.current().providers[source.name]
        assert sync.sync().retired == ["twin"]
        record(source)
        engine.call_sync("twin", {}, alice, door="code")
        assert len(made.calls) == 1

    def test_cached_answers_are_not_given(self, alice: Caller) -> None:
        source, made = sourced("plugin:a", place="a.py:1", cache_seconds=60)
        record(source)
        for _ in range(2):
            engine.call_sync("twin", {}, alice, door="code")
        assert len(made.calls) == 1
        described_anew(source)
        engine.call_sync("twin", {}, alice, door="code")
        assert len(made.calls) == 2

    def test_idempotency_keys_do_not_replay(self, alice: Caller) -> None:
        source, made = sourced("plugin:a", place="a.py:1", hints=Hints(read_only=False))
        record(source)
        options = Options(idempotency_key="order-17")
        for _ in range(2):
            engine.call_sync("twin", {}, alice, door="code", options=options)
        described_anew(source)
        with pytest.raises(IdempotencyMismatchError):
            engine.call_sync("twin", {}, alice, door="code", options=options)
        assert len(made.calls) == 1

    def test_approvals_of_calls_do_not_apply(self, alice: Caller) -> None:
        source, made = sourced("plugin:a", place="a.py:1")
        record(source)
        governance.set_ask("twin", True, actor=governance.trusted("test"))
        with pytest.raises(ApprovalRequiredError) as required:
            engine.call_sync("twin", {}, alice, door="code")
        approval = required.value.context["approvalId"]
        governance.approve_call(approval, actor=governance.trusted(ACTOR))
        described_anew(source)
        with pytest.raises(ApprovalRequiredError) as required_again:
            engine.call_sync("twin", {}, alice, door="code")
        assert required_again.value.context["approvalId"] != approval
        with pytest.raises(ApprovalInvalidError):
            engine.call_sync("twin", {}, alice, door="code", options=Options(approval=approval))
        assert made.calls == []

    def test_what_operators_decided_about_the_tool_stays(self) -> None:
        source, _ = sourced("plugin:a", place="a.py:1")
        record(source)
        governance.set_enabled(["twin"], False, actor=governance.trusted("test"))
        described_anew(source)
        assert reason() == "switched off by an operator"


def test_an_entry_point_that_names_other_code_begins_a_new_epoch(settings: Any, alice: Caller) -> None:
    settings.TOOLHUB_SOURCES_TO_APPROVE = ("plugin",)
    source, _ = sourced("plugin:a", place="a.py:1", location="one:pack")
    record(source)
    governance.approve_definitions([Definition.objects.get(tool__name="twin").pk], actor=governance.trusted(ACTOR))
    other, made = sourced("plugin:a", place="other.py:1", location="another:pack")
    for _ in range(2):
        record(other)
        with pytest.raises(DefinitionChangedError):
            engine.call_sync("twin", {}, alice, door="code")
        assert Source.objects.get(name="plugin:a").epoch == 2
    assert made.calls == []


def test_a_tools_directory_that_has_moved_is_the_same(settings: Any) -> None:
    settings.TOOLHUB_SOURCES_TO_APPROVE = ("file",)
    made = Programmable("twin")
    record(DeclaredSource(made.tool, location="/srv/one"))
    governance.approve_definitions([Definition.objects.get(tool__name="twin").pk], actor=governance.trusted(ACTOR))
    record(DeclaredSource(made.tool, location="/srv/two"))
    source = Source.objects.get(name="folder")
    assert (source.location, source.epoch) == ("/srv/two", 1)
    assert reason() == ""
