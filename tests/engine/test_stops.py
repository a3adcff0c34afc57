"""What operators stop: the hub, a pack, a connection or a key. The very next call knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.packs.desk import pack as desk
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.access import access
from tools_app.base import database
from tools_app.catalog import catalog, listed, offers
from tools_app.models import AuditEntry, Call, Connection, Stop
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError, ToolError, ValidationError
from tools_app.sdk.hub_errors import StoppedError
from tools_app.sdk.pack import Pack
from tools_app.sdk.reach import Reach

ACTOR = "user:olivia"


def call(caller: Caller, name: str = "programmable", **arguments: Any) -> Any:
    return engine.call_sync(name, arguments, caller, door="code").answer.value


def refusal(work: Callable[[], object]) -> StoppedError:
    with pytest.raises(StoppedError) as told:
        work()
    return told.value


def test_a_stopped_hub_runs_nothing_and_says_so(programmable: Programmable, alice: Caller) -> None:
    call(alice)
    assert governance.stop("hub", actor=governance.trusted(ACTOR), reason="the tracker is on fire")
    error = refusal(lambda: call(alice))
    assert error.code == "STOPPED"
    assert error.status == 403
    assert error.message.startswith("The hub has been stopped by an operator since 20")
    assert error.message.endswith(" UTC: the tracker is on fire")
    assert "olivia" not in str(error.as_dict()), "who it was is for operators"
    assert len(programmable.calls) == 1
    assert governance.resume("hub", actor=governance.trusted(ACTOR))
    call(alice)


def test_what_is_stopped_is_not_listed_and_comes_back(programmable: Programmable, alice: Caller) -> None:
    before = catalog.current().seen_by(alice)
    governance.stop("hub", actor=governance.trusted(ACTOR))
    stopped = catalog.current().seen_by(alice)
    assert stopped.callable == ()
    assert listed.digest(stopped) != listed.digest(before)
    assert not offers.of(stopped).prompts
    governance.resume("hub", actor=governance.trusted(ACTOR))
    again = catalog.current().seen_by(alice)
    assert listed.digest(again) == listed.digest(before)
    assert offers.of(again).prompts


def test_a_stopped_pack_stops_its_tools_alone(hub: Hub, programmable: Programmable, alice: Caller) -> None:
    other = Pack("other")

    @other.tool()
    def other_tool() -> str:
        """Do something else."""
        return "done"

    hub.add(other_tool)
    governance.stop("pack", "other", actor=governance.trusted(ACTOR), reason="too many")
    assert "the pack other has been stopped" in refusal(lambda: call(alice, "other_tool")).message.lower()
    call(alice)
    assert "other_tool" not in [entry.name for entry in catalog.current().callable]


@pytest.fixture
def connected(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack with an account of the environment, and one of its own."""
    monkeypatch.setenv("DESK_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("DESK_KEY", "s3cret")
    hub.add(*desk.tools)
    governance.create_connection(
        "office", "desk", url="http://127.0.0.1:9", secret="s3cret", actor=governance.trusted("test")
    )


def test_a_stopped_connection_is_used_by_nobody(connected: None, alice: Caller) -> None:
    both = replace(alice, reach=Reach(connections=frozenset({"environment", "office"})))
    governance.stop("connection", "office", actor=governance.trusted(ACTOR), reason="moving house")
    message = refusal(lambda: call(both, "list_notes", connection="office")).message
    assert message.startswith("The connection office has been stopped")
    with pytest.raises(ToolError) as told:
        call(both, "list_notes", connection="environment")
    assert told.value.code == "UPSTREAM_UNAVAILABLE", "the other one is tried"
    governance.stop("connection", "environment:desk", actor=governance.trusted(ACTOR))
    assert "the connection environment:desk" in refusal(lambda: call(alice, "list_notes")).message.lower()
    governance.resume("connection", "environment:desk", actor=governance.trusted(ACTOR))
    with pytest.raises(ToolError) as told:
        call(alice, "list_notes")
    assert told.value.code == "UPSTREAM_UNAVAILABLE"


def test_a_stopped_key_is_known_and_refused(hub: Hub) -> None:
    _, secret = governance.create_key("agent", actor=governance.trusted("test"))

    def come_in() -> Caller:
        return asyncio.run(access.caller_of_key(secret))

    assert come_in().name == "agent"
    governance.stop("key", "agent", actor=governance.trusted(ACTOR), reason="it runs wild")
    error = refusal(come_in)
    assert error.status == 403
    assert error.message.endswith("it runs wild")
    assert error.message.startswith("This key has been stopped")
    governance.resume("key", "agent", actor=governance.trusted(ACTOR))
    assert come_in().name == "agent"


def test_what_runs_already_ends(programmable: Programmable, alice: Caller) -> None:
    def stop() -> str:
        governance.stop("hub", actor=governance.trusted(ACTOR))
        return "done"

    programmable.outcomes = [lambda: database.run(stop)]
    assert call(alice) == "done"
    refusal(lambda: call(alice))


def test_a_flood_of_refusals_is_counted(programmable: Programmable, alice: Caller) -> None:
    governance.stop("hub", actor=governance.trusted(ACTOR))
    for _ in range(30):
        refusal(lambda: call(alice))
    asyncio.run(engine.close(2))
    row = Call.objects.get()
    assert (row.code, row.count, row.status) == ("STOPPED", 30, "refused")


def test_stops_are_on_record(hub: Hub) -> None:
    assert governance.stop("hub", actor=governance.trusted(ACTOR), reason=" fire ")
    assert not governance.stop("hub", actor=governance.trusted("user:oscar"), reason="later")
    stop = Stop.objects.get()
    assert (str(stop), stop.by, stop.reason) == ("hub", ACTOR, "fire")
    assert governance.resume("hub", actor=governance.trusted("user:oscar"), reason="out")
    assert not governance.resume("hub", actor=governance.trusted("user:oscar"))
    entries = AuditEntry.objects.filter(subject="stop:hub").order_by("pk").values_list("action", "actor", "reason")
    assert list(entries) == [("hub.stop", ACTOR, "fire"), ("hub.resume", "user:oscar", "out")]


@pytest.mark.parametrize(
    ("kind", "name"), [("hub", "x"), ("pack", "nothing"), ("connection", "nothing"), ("key", "nothing"), ("pack", "")]
)
def test_what_is_not_there_cannot_be_stopped(hub: Hub, kind: str, name: str) -> None:
    with pytest.raises(NotFoundError):
        governance.stop(kind, name, actor=governance.trusted(ACTOR))
    with pytest.raises(NotFoundError):
        governance.resume(kind, name, actor=governance.trusted(ACTOR))


def test_what_is_gone_can_be_resumed(connected: None) -> None:
    governance.stop("connection", "office", actor=governance.trusted(ACTOR))
    Connection.objects.all().delete()
    assert governance.resume("connection", "office", actor=governance.trusted(ACTOR))


def test_what_makes_no_sense_is_refused(hub: Hub) -> None:
    with pytest.raises(ValidationError):
        governance.stop("world", actor=governance.trusted(ACTOR))
    with pytest.raises(ValidationError):
        governance.stop("hub", actor=governance.trusted(ACTOR), reason="x" * 501)
    assert not Stop.objects.exists()
