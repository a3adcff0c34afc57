"""Toolsets: what a caller cannot reach does not exist for it, through whichever door."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tests.support.agents import LEGACY, MODERN
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.access import access
from tools_app.catalog import catalog
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import MOST_VIEWS
from tools_app.mcp_server.listing import Listings
from tools_app.models import ApiKey, AuditEntry, Tag, ToolRecord, Toolset, ToolTag
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    NotFoundError,
    ToolDisabledError,
    ToolNotFoundError,
    ValidationError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.reach import Reach

WRITES = Hints(read_only=False, destructive=False)
DESTROYS = Hints(read_only=False, destructive=True)


def within(*toolsets: str, **kinds: Any) -> Caller:
    return access.caller_of_process(Reach(frozenset(toolsets) if toolsets else None, **kinds))


def names(entries: Iterable[Entry]) -> list[str]:
    """Without the tool that comes with any other."""
    return [entry.name for entry in entries if entry.name != READER]


def seen(caller: Caller) -> list[str]:
    return names(catalog.current().seen_by(caller).all)


def call(name: str, caller: Caller) -> Any:
    arguments = {"message": "hi"} if name == "echo" else {}
    return asyncio.run(engine.call(name, arguments, caller, door="rest")).answer.value


@pytest.fixture
def tools(hub: Hub) -> Hub:
    hub.add(
        Programmable("find_page", category="pages", tags=("wiki",)).tool,
        Programmable("write_page", category="pages", tags=("wiki",), aliases=("edit_page",), hints=WRITES).tool,
        Programmable("drop_page", category="pages", hints=DESTROYS).tool,
    )
    return hub


@pytest.mark.parametrize(
    ("chosen", "held"),
    [
        ({}, ["calculate", "drop_page", "echo", "find_page", "write_page"]),
        ({"read_only": True}, ["calculate", "echo", "find_page"]),
        ({"packs": ["builtin"]}, ["calculate", "echo"]),
        ({"categories": ["pages"]}, ["drop_page", "find_page", "write_page"]),
        ({"categories": ["pages"], "read_only": True}, ["find_page"]),
        ({"tags": ["wiki"]}, ["find_page", "write_page"]),
        ({"names": ["drop-page", "echo"]}, ["drop_page", "echo"]),
        ({"tags": ["wiki"], "names": ["echo"]}, ["echo", "find_page", "write_page"]),
        ({"names": ["nothing_of_the_kind"]}, []),
    ],
)
def test_holds_what_any_selector_fits(tools: Hub, chosen: dict[str, Any], held: list[str]) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"), **chosen)
    assert seen(within("mine")) == held


def test_several_toolsets_add_up_and_none_is_everything(tools: Hub) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    assert seen(within("wiki", "sums")) == ["calculate", "find_page", "write_page"]
    assert catalog.current().seen_by(within()) is catalog.current()


def test_a_toolset_that_is_gone_holds_nothing(tools: Hub) -> None:
    assert seen(within("gone")) == []


def test_what_lies_outside_does_not_exist(tools: Hub) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])
    caller = within("wiki")
    view = catalog.current().seen_by(caller)
    assert view.find("echo") is None
    assert view.find("edit-page") == view.find("write_page"), "an alias leads to what can be seen"
    assert view.matching("echo") == []
    assert names(view.matching("page")) == ["find_page", "write_page"]
    told = set()
    for name in ("echo", "drop_page", "never_was"):
        with pytest.raises(ToolNotFoundError) as caught:
            call(name, caller)
        told.add((caught.value.message.replace(name, "…"), caught.value.next_step, str(caught.value.context)))
    assert len(told) == 1, "nothing tells what is hidden from what was never there"
    assert call("find_page", caller) == {"value": 0}


def test_an_alias_does_not_open_what_is_hidden(tools: Hub) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    assert catalog.current().seen_by(within("sums")).find("edit_page") is None


def test_a_tool_above_the_access_level_of_a_caller_is_found_and_refused(tools: Hub) -> None:
    reader = within(writes=False, destroys=False)
    view = catalog.current().seen_by(reader)
    assert names(view.callable) == ["calculate", "echo", "find_page"]
    shown = view.find("write_page")
    assert shown is not None
    assert shown.refusal is not None
    assert shown.refusal.reason == "Permission denied: write_page can write, and you may not use tools that do"
    with pytest.raises(AuthorizationError, match="write_page can write") as caught:
        call("write_page", reader)
    assert caught.value.context == {"tool": "write_page", "requires": "write"}
    careful = within(destroys=False)
    assert call("write_page", careful) == {"value": 0}
    with pytest.raises(AuthorizationError, match="drop_page can destroy"):
        call("drop_page", careful)


def test_a_tool_that_says_nothing_counts_as_one_that_destroys(tools: Hub) -> None:
    tools.add(Programmable("silent", hints=Hints()).tool)
    with pytest.raises(AuthorizationError):
        call("silent", within(destroys=False))


def test_what_is_missing_comes_before_the_switch(tools: Hub) -> None:
    governance.set_enabled(["write_page"], False, actor=governance.trusted("test"))
    with pytest.raises(AuthorizationError):
        call("write_page", within(writes=False, destroys=False))
    with pytest.raises(ToolDisabledError):
        call("write_page", within())


def test_a_change_is_true_for_the_next_call(tools: Hub) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["echo"])
    caller = within("mine")
    assert call("echo", caller)
    governance.change_toolset("mine", actor=governance.trusted("test"), names=["calculate"])
    with pytest.raises(ToolNotFoundError):
        call("echo", caller)
    assert seen(caller) == ["calculate"]


def test_a_tool_comes_into_a_toolset_with_its_tag(tools: Hub) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"), tags=["trusted"])
    assert seen(within("mine")) == []
    ToolTag.objects.create(tool=ToolRecord.objects.get(name="echo"), tag=Tag.objects.create(name="trusted"))
    assert seen(within("mine")) == ["echo"]


def test_callers_who_see_the_same_share_one_view(tools: Hub) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["echo"])
    one, other = within("mine"), replace(within("mine"), id="key:7")
    assert catalog.current().seen_by(one) is catalog.current().seen_by(other)
    assert catalog.current().seen_by(one) is not catalog.current().seen_by(within("mine", writes=False))


def test_no_number_of_views_fills_the_memory(tools: Hub) -> None:
    snapshot = catalog.current()
    for number in range(MOST_VIEWS + 10):
        snapshot.seen_by(within(f"set-{number}"))
    assert len(snapshot._views) <= MOST_VIEWS


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_agents_are_listed_only_tools_within_their_reach(tools: Hub, version: str) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])
    listings = Listings()

    def listed(caller: Caller) -> list[str]:
        page = listings.of(catalog.current().seen_by(caller), version).page(None)
        return [tool["name"] for tool in page["tools"]]

    assert listed(within("wiki")) == ["find_page", "read_result", "write_page"]
    assert listed(within("wiki", writes=False, destroys=False)) == ["find_page", "read_result"]
    assert listed(within()) == ["calculate", "drop_page", "echo", "find_page", "read_result", "write_page"]
    whole = listings.of(catalog.current(), version).page(None)["tools"]
    part = listings.of(catalog.current().seen_by(within("wiki")), version).page(None)["tools"]
    assert part[0] is next(tool for tool in whole if tool["name"] == "find_page"), "prepared once for all callers"


# ---- deciding


def test_every_decision_leaves_an_audit_entry(hub: Hub) -> None:
    governance.create_toolset(
        "mine", actor=governance.trusted("user:ann"), tags=["b", "a", "a "], description="For tests"
    )
    changed = governance.change_toolset(
        "mine", actor=governance.trusted("user:ann"), reason="too much", tags=["a"], names=[]
    )
    assert changed == ["tags"]
    assert governance.change_toolset("mine", actor=governance.trusted("user:ann"), tags=["a"]) == []
    governance.delete_toolset("mine", actor=governance.trusted("user:ann"))
    entries = AuditEntry.objects.filter(subject="toolset:mine").order_by("pk")
    assert [(entry.action, entry.actor, entry.changes) for entry in entries] == [
        ("toolset.create", "user:ann", {"description": [None, "For tests"], "tags": [None, ["a", "b"]]}),
        ("toolset.change", "user:ann", {"tags": [["a", "b"], ["a"]]}),
        ("toolset.delete", "user:ann", {"description": ["For tests", None], "tags": [["a"], None]}),
    ]
    assert not Toolset.objects.exists()


@pytest.mark.parametrize("name", ["", "Mine", "1st", "mine!", "mine\n", "x" * 65])
def test_refuses_a_name_that_is_none(hub: Hub, name: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        governance.create_toolset(name, actor=governance.trusted("test"))
    assert not AuditEntry.objects.filter(action="toolset.create").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tags": "wiki"}, "tags must be a list of names"),
        ({"tags": 7}, "tags must be a list of names"),
        ({"names": [""]}, "names must hold names of 1 to 64 characters"),
        ({"packs": [None]}, "packs must hold names"),
        ({"read_only": "perhaps"}, "read_only"),
        ({"description": "x" * 501}, "description"),
        ({"owner": "me"}, "'owner' is no part of a toolset"),
    ],
)
def test_refuses_what_is_no_choice(hub: Hub, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        governance.create_toolset("mine", actor=governance.trusted("test"), **given)
    assert not Toolset.objects.exists()


def test_names_are_taken_once_and_what_is_not_there_cannot_change(hub: Hub) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="exists already"):
        governance.create_toolset("mine", actor=governance.trusted("test"))
    with pytest.raises(NotFoundError, match="no toolset 'other'"):
        governance.change_toolset("other", actor=governance.trusted("test"), tags=["a"])
    with pytest.raises(NotFoundError):
        governance.delete_toolset("other", actor=governance.trusted("test"))


def test_a_toolset_that_a_key_has_cannot_be_deleted(hub: Hub) -> None:
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["echo"])
    key, _ = governance.create_key("agent", actor=governance.trusted("test"), toolsets=["mine"])
    with pytest.raises(ValidationError, match="in use by agent"):
        governance.delete_toolset("mine", actor=governance.trusted("test"))
    governance.revoke_key(key, actor=governance.trusted("test"))
    with pytest.raises(ProtectedError), transaction.atomic():
        Toolset.objects.all().delete()
    ApiKey.objects.all().delete()
    governance.delete_toolset("mine", actor=governance.trusted("test"))
    assert not Toolset.objects.exists()


# ---- keys


def test_a_key_reaches_its_toolsets_and_kinds(tools: Hub) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])
    _, secret = governance.create_key(
        "agent", actor=governance.trusted("test"), toolsets=["wiki"], may_write=False, rate=(5, 60)
    )
    caller = asyncio.run(access.caller_of_key(secret))
    assert caller.reach == Reach(frozenset({"wiki"}), writes=False, destroys=False)
    assert caller.rate is not None
    assert (caller.rate.most, caller.rate.seconds) == (5, 60)
    created = AuditEntry.objects.get(subject="key:agent")
    assert created.changes["toolsets"] == [None, ["wiki"]]
    assert created.changes["may_write"] == [None, False]
    assert created.changes["rate"] == [None, [5, 60]]


def test_a_key_without_any_of_this_reaches_everything(hub: Hub) -> None:
    _, secret = governance.create_key("agent", actor=governance.trusted("test"))
    caller = asyncio.run(access.caller_of_key(secret))
    assert caller.reach.everything
    assert caller.rate is None


def test_a_toolset_given_to_a_key_elsewhere_is_true_for_its_next_request(tools: Hub) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])
    key, secret = governance.create_key("agent", actor=governance.trusted("test"))
    assert asyncio.run(access.caller_of_key(secret)).reach.everything
    key.toolsets.add(Toolset.objects.get(name="wiki"))
    assert asyncio.run(access.caller_of_key(secret)).reach.toolsets == frozenset({"wiki"})


@pytest.mark.parametrize(
    "columns", [{"rate_calls": 5}, {"rate_seconds": 60}, {"rate_calls": 0, "rate_seconds": 60}, {"may_write": False}]
)
def test_the_database_takes_no_key_that_contradicts_itself(hub: Hub, columns: dict[str, int | bool]) -> None:
    governance.create_key("agent", actor=governance.trusted("test"))
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.update(**columns)


@pytest.mark.parametrize("given", [{"toolsets": ["none"]}, {"rate": (0, 60)}, {"rate": (5, 0)}, {"rate": (5, 10**6)}])
def test_refuses_a_key_with_what_does_not_exist(hub: Hub, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        governance.create_key("agent", actor=governance.trusted("test"), **given)
    assert not ApiKey.objects.exists()
