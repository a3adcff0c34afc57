"""Refused calls cannot fill the disk, and are all counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from django.db.models import Sum

from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.journal.refusals import MINUTE, MOST_KINDS, MOST_STRANGERS, ROWS_A_MINUTE, Refusals
from tools_app.models import Call, CallHour
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, ToolError


def refused(code: str = "TOOL_DISABLED", tool: str = "echo", caller: str = "key:1", number: int = 0) -> Call:
    return Call(
        id=f"{number:032x}", tool_name=tool, code=code, caller_id=caller, door="rest", started_at=datetime.now(UTC)
    )


def test_the_first_of_a_minute_are_rows_and_the_rest_is_one() -> None:
    refusals = Refusals(lambda: 0.0)
    rows = [refusals.count(refused(number=number)) for number in range(ROWS_A_MINUTE + 5)]
    assert rows[:ROWS_A_MINUTE] == [None] * ROWS_A_MINUTE
    assert {row.id for row in rows[ROWS_A_MINUTE:] if row} == {f"{ROWS_A_MINUTE:032x}"}
    [(row, new)] = refusals.unsaved()
    assert (row.count, new) == (5, 5)


def test_what_was_written_is_not_new_again() -> None:
    refusals = Refusals(lambda: 0.0)
    for number in range(3):
        refusals.count(refused("RATE_LIMIT_EXCEEDED", number=number))
    first = refusals.unsaved()
    refusals.count(refused("RATE_LIMIT_EXCEEDED"))
    refusals.mark_written(first)
    assert [(row.count, new) for row, new in refusals.unsaved()] == [(4, 1)]
    refusals.mark_written(refusals.unsaved())
    assert not refusals.waiting


def test_what_could_not_be_written_stays_new() -> None:
    refusals = Refusals(lambda: 0.0)
    refusals.count(refused("AUTHENTICATION_ERROR"))
    refusals.unsaved()
    assert [new for _, new in refusals.unsaved()] == [1]


def test_every_minute_begins_anew() -> None:
    now = 0.0
    refusals = Refusals(lambda: now)
    first = refusals.count(refused("RATE_LIMIT_EXCEEDED", number=1))
    now = MINUTE
    second = refusals.count(refused("RATE_LIMIT_EXCEEDED", number=2))
    assert first is not second
    assert sorted((row.count, new) for row, new in refusals.unsaved()) == [(1, 1), (1, 1)]


@pytest.mark.parametrize("other", [refused(tool="calculate"), refused(caller="key:2"), refused("AUTHORIZATION_ERROR")])
def test_callers_tools_and_reasons_are_counted_apart(other: Call) -> None:
    refusals = Refusals(lambda: 0.0)
    for number in range(ROWS_A_MINUTE):
        refusals.count(refused(number=number))
    assert refusals.count(other) is None
    assert refusals.count(refused()) is not None


def test_a_thousand_names_that_do_not_exist_are_one_kind() -> None:
    refusals = Refusals(lambda: 0.0)
    rows = [refusals.count(refused("TOOL_NOT_FOUND", f"tool_{number}")) for number in range(1000)]
    assert rows.count(None) == ROWS_A_MINUTE
    assert len(refusals.unsaved()) == 1


def test_memory_is_bounded() -> None:
    refusals = Refusals(lambda: 0.0)
    for number in range(MOST_KINDS + 100):
        refusals.count(refused(caller=f"key:{number}", number=number))
    assert len(refusals._kinds) == MOST_KINDS


# ---- in the engine


def test_a_flood_of_refusals_leaves_a_handful_of_rows_and_every_one_is_counted(
    hub: Hub, programmable: Programmable, alice: Caller
) -> None:
    governance.set_enabled(["programmable"], enabled=False, actor=governance.trusted("test"))

    async def story() -> set[str]:
        calls = (engine.call("programmable", {}, alice, door="code") for _ in range(300))
        told = await asyncio.gather(*calls, return_exceptions=True)
        await engine.close()
        return {error.call_id or "" for error in told if isinstance(error, ToolError)}

    ids = asyncio.run(story())
    assert Call.objects.count() == ROWS_A_MINUTE + 1
    assert ids == set(Call.objects.values_list("pk", flat=True))
    assert Call.objects.aggregate(all=Sum("count"))["all"] == 300
    assert list(CallHour.objects.values_list("tool_name", "status", "code", "calls")) == [
        ("programmable", "refused", "TOOL_DISABLED", 300)
    ]


def test_strangers_are_counted_apart_and_beyond_a_number_together() -> None:
    now = 0.0
    refusals = Refusals(lambda: now)

    def knock(address: str, prefix: str = "") -> Call:
        call = refused("AUTHENTICATION_ERROR", tool="", caller="")
        call.address, call.key_prefix, call.client = address, prefix, "curl"
        row = refusals.count(call)
        assert row is not None
        return row

    first = knock("192.0.2.1", "AbCd1234")
    assert knock("192.0.2.1", "AbCd1234") is first
    assert knock("192.0.2.1", "Other123") is not first
    assert knock("192.0.2.2", "AbCd1234") is not first
    rows = {id(knock(f"198.51.100.{number}", f"{number:08}")) for number in range(1_000)}
    assert len(rows) == MOST_STRANGERS - 3 + 1
    last = knock("203.0.113.9", "Zz123456")
    assert (last.address, last.key_prefix, last.client) == ("", "", "")
    assert knock("192.0.2.1", "AbCd1234") is first
    now = MINUTE
    assert knock("203.0.113.9").address == "203.0.113.9"


@pytest.mark.django_db(transaction=True)
def test_it_is_on_record_who_knocked_with_which_key() -> None:
    presented = engine.Presented("AbCd1234", "key:7", "old one")
    refusal = AuthenticationError("The key is unknown, revoked or expired", detail=presented)
    client = "thub_AbCd1234_secretsecretsecret\x00\u202e agent " + "x" * 500
    engine.note_refusal(refusal, door="mcp", address="192.0.2.1", client=client)
    asyncio.run(engine.close())
    call = Call.objects.get()
    assert (call.caller_kind, call.caller_id, call.caller_name) == ("key", "key:7", "old one")
    assert (call.address, call.key_prefix, call.error) == ("192.0.2.1", "AbCd1234", refusal.message)
    assert "secret" not in call.client
    assert "\u202e" not in call.client
    assert "agent" in call.client
    assert len(call.client) <= 200


@pytest.mark.django_db(transaction=True)
def test_those_without_a_key_are_counted_by_the_minute() -> None:
    for _ in range(50):
        engine.note_refusal(AuthenticationError("whatever was sent"), door="rest")
    asyncio.run(engine.close())
    call = Call.objects.get()
    assert (call.code, call.count, call.caller_id) == ("AUTHENTICATION_ERROR", 50, "")
    assert "whatever" not in call.error
