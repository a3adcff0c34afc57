"""Tags that operators give tools and take away again."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from tests.support.tools import Hub, Programmable
from tools_app import governance, sources
from tools_app.governance.tags import MOST_TAGS
from tools_app.models import AuditEntry, Tag, ToolRecord, ToolTag
from tools_app.sdk.errors import ConflictError, ToolNotFoundError, ValidationError


def tags_of(name: str) -> list[str]:
    return list(ToolTag.objects.filter(tool__name=name).order_by("tag__name").values_list("tag__name", flat=True))


def test_a_tag_is_given_and_taken_away_with_an_entry_each(hub: Hub) -> None:
    given = governance.add_tag(" night ", ["echo", "calculate"], actor=governance.trusted("user:alice"), reason="shift")
    assert (given.changed, given.already, given.declared) == (["calculate", "echo"], [], [])
    assert "night" in tags_of("echo")
    entry = AuditEntry.objects.get(action="tool.tag", subject="echo")
    assert (entry.actor, entry.reason, entry.changes) == ("user:alice", "shift", {"tag": [None, "night"]})
    assert governance.add_tag("night", ["echo"], actor=governance.trusted("test")).already == ["echo"]

    assert governance.remove_tag("night", ["echo"], actor=governance.trusted("test")).changed == ["echo"]
    assert governance.remove_tag("night", ["echo"], actor=governance.trusted("test")).already == ["echo"]
    assert "night" not in tags_of("echo")
    assert "night" in tags_of("calculate")
    assert AuditEntry.objects.get(action="tool.untag").changes == {"tag": ["night", None]}


def test_agents_and_toolsets_see_a_tag_at_once(hub: Hub) -> None:
    governance.create_toolset("nights", actor=governance.trusted("test"), tags=["night"])
    assert "night" not in hub.entry("echo").tags
    governance.add_tag("night", ["echo"], actor=governance.trusted("test"))
    assert "night" in hub.entry("echo").tags


def test_a_declared_tag_stays(hub: Hub) -> None:
    hub.add(Programmable("clock", tags=["time"]).tool)
    assert governance.remove_tag("time", ["clock"], actor=governance.trusted("test")).declared == ["clock"]
    assert tags_of("clock") == ["time"]
    assert not AuditEntry.objects.filter(action="tool.untag").exists()


def test_an_operators_tag_outlives_a_new_definition(hub: Hub) -> None:
    hub.add(Programmable("clock", tags=["time"]).tool)
    governance.add_tag("night", ["clock"], actor=governance.trusted("test"))
    sources.current().code.loaded().remove("clock")
    hub.add(Programmable("clock", tags=["hours"]).tool)
    assert tags_of("clock") == ["hours", "night"]


def test_one_unknown_name_changes_nothing(hub: Hub) -> None:
    for change in (governance.add_tag, governance.remove_tag):
        with pytest.raises(ToolNotFoundError, match="Tool not found: nope"):
            change("night", ["echo", "nope"], actor=governance.trusted("test"))
    assert not Tag.objects.filter(name="night").exists()


@pytest.mark.parametrize("wrong", ["", "  ", "x" * 65, "a,b", "a\nb", "a\u200bb", "a\x00b", "\U000e0041"])
def test_what_is_no_tag_is_refused(hub: Hub, wrong: str) -> None:
    with pytest.raises(ValidationError, match="A tag"):
        governance.add_tag(wrong, ["echo"], actor=governance.trusted("test"))


def test_a_tool_has_a_limited_number_of_tags(hub: Hub) -> None:
    record = ToolRecord.objects.get(name="echo")
    for number in range(MOST_TAGS - len(tags_of("echo"))):
        ToolTag.objects.create(tool=record, tag=Tag.objects.create(name=f"t{number}"))
    with pytest.raises(ConflictError, match="which is the maximum"):
        governance.add_tag("night", ["calculate", "echo"], actor=governance.trusted("test"))
    assert "night" not in tags_of("calculate")


def test_no_tag_is_given_without_its_audit_entry(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("tools_app.governance.actors.note_all", fail)
    with pytest.raises(OperationalError):
        governance.add_tag("night", ["echo"], actor=governance.trusted("test"))
    assert "night" not in tags_of("echo")
