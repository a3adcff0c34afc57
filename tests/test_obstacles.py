"""Tools of sources that do not approve themselves: nothing runs that no operator has seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tools import Hub, Programmable
from tools_app import engine, governance, sources
from tools_app.catalog import catalog
from tools_app.models import AuditEntry, Definition
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ConflictError, NotFoundError, ToolDisabledError
from tools_app.sources import sync
from tools_app.sources.registry import Origin

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
    sources.loaded().remove("programmable")
    hub.add(made.tool, origin=Origin.FILE)
    return made


def newest() -> Definition:
    return Definition.objects.filter(tool__name="programmable").latest("pk")


def test_a_new_tool_waits_and_runs_once_it_is_approved(careful: Hub, alice: Caller) -> None:
    made = changed(careful, "1.0.0")
    assert reason() == "not approved: this version is pending"
    with pytest.raises(ToolDisabledError) as told:
        engine.call_sync("programmable", {}, alice, door="code")
    assert "not approved" in told.value.context["reason"]
    assert "programmable" not in [entry.name for entry in catalog.current().callable]
    assert governance.approve_definitions([newest().pk], actor=ACTOR, reason="read it") == ["programmable"]
    engine.call_sync("programmable", {}, alice, door="code")
    assert len(made.calls) == 1
    entry = AuditEntry.objects.get(action="definition.approve")
    assert (entry.subject, entry.actor, entry.reason) == ("programmable", ACTOR, "read it")


def test_a_changed_tool_waits_and_the_old_one_is_good_again(careful: Hub) -> None:
    changed(careful, "1.0.0")
    governance.approve_definitions([newest().pk], actor=ACTOR)
    changed(careful, "1.0.0\N{CYRILLIC SMALL LETTER A}")
    assert reason().startswith("not approved")
    changed(careful, "1.0.0")
    assert reason() == ""


def test_what_was_refused_says_why_and_can_be_approved_later(careful: Hub) -> None:
    changed(careful, "1.0.0")
    assert governance.refuse_definitions([newest().pk], actor=ACTOR, reason="it lies") == ["programmable"]
    assert reason() == "an operator refused this version: it lies"
    assert governance.refuse_definitions([newest().pk], actor=ACTOR) == []
    assert governance.approve_definitions([newest().pk], actor=ACTOR) == ["programmable"]
    assert governance.approve_definitions([newest().pk], actor=ACTOR) == []
    assert reason() == ""
    with pytest.raises(ConflictError, match="approved already"):
        governance.refuse_definitions([newest().pk], actor=ACTOR)
    with pytest.raises(NotFoundError):
        governance.approve_definitions([newest().pk, 999_999], actor=ACTOR)


def test_a_version_that_is_not_on_record_does_not_run(careful: Hub) -> None:
    """A process that has loaded something newer than `serve` has written down."""
    changed(careful, "1.0.0")
    governance.approve_definitions([newest().pk], actor=ACTOR)
    sources.loaded().remove("programmable")
    sources.loaded().add(Programmable(version="2.0.0").tool, Origin.FILE)
    assert reason() == "not approved: no operator has reviewed this version"


def test_other_sources_approve_themselves(careful: Hub, programmable: Programmable) -> None:
    assert reason() == ""
    assert newest().approved_by == "source:code"


def test_what_waits_is_let_go_when_its_source_is_trusted_again(careful: Hub, settings: Any) -> None:
    changed(careful, "1.0.0")
    settings.TOOLHUB_SOURCES_TO_APPROVE = ()
    sync.sync(sources.loaded())
    assert newest().approved_by == "source:file"
    assert reason() == ""


def test_what_an_operator_refused_stays_refused(careful: Hub, settings: Any) -> None:
    changed(careful, "1.0.0")
    governance.refuse_definitions([newest().pk], actor=ACTOR)
    settings.TOOLHUB_SOURCES_TO_APPROVE = ()
    sync.sync(sources.loaded())
    assert reason() == "an operator refused this version"
