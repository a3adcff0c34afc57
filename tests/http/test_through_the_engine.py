"""A pack whose upstream misbehaves, called as an agent would: what the engine makes of it, and what is written down."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.http.conftest import KEY, SOON
from tests.support.faultd import Faultd
from tests.support.tools import Hub
from tools_app import engine
from tools_app.http import ApiClient
from tools_app.models import Call, ErrorLog
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, ToolError, ToolTimeoutError, UpstreamUnavailableError
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import CircuitOpenError
from tools_app.sdk.pack import Pack


@pytest.fixture
def pack(hub: Hub, upstream: Faultd, alice: Caller) -> Iterator[Pack]:
    """Tools that request the fault in their argument."""
    pack = Pack("throwaway")
    made: dict[str, ApiClient] = {}

    def client(ctx: Context, fault: str) -> ApiClient:
        if fault not in made:
            made[fault] = ApiClient(
                f"{upstream.url}/{fault}", name="Faultd", secrets={"Authorization": f"Bearer {KEY}"}
            )
        return made[fault].for_call(ctx.call_id, ctx.remaining)

    @pack.tool(hints=Hints(read_only=True))
    async def get_thing(ctx: Context, fault: str, thing_id: str = "1") -> object:
        """Get a thing."""
        return await client(ctx, fault).get("things", thing_id, operation="get thing", resource="Thing")

    @pack.tool(hints=Hints(idempotent=False))
    async def change_thing(ctx: Context, fault: str) -> object:
        """Change a thing."""
        reply = await client(ctx, fault).put("things", 1, json={}, operation="change thing", resource="Thing")
        return {"data": reply.data, "warning": reply.warning}

    @pack.tool(hints=Hints(idempotent=True))
    async def set_thing(ctx: Context, fault: str) -> object:
        """Set a thing."""
        return (await client(ctx, fault).put("things", 1, json={}, operation="set thing", resource="Thing")).data

    @pack.tool(hints=Hints(idempotent=False))
    async def change_between_reads(ctx: Context, before: str, after: str) -> object:
        """Read, change, and read again."""
        api = ApiClient(upstream.url, name="Faultd").for_call(ctx.call_id, ctx.remaining)
        try:
            await api.get(before, operation="read before")
            await api.post("ok", json={}, operation="change")
            return await api.get(after, operation="read after")
        finally:
            await api.close()

    @pack.tool(hints=Hints(idempotent=False))
    async def change_impatiently(ctx: Context) -> object:
        """Give up on a change, and read."""
        api = ApiClient(upstream.url, name="Faultd").for_call(ctx.call_id, ctx.remaining)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await api.post("hang", json={}, operation="change")
            return await api.get("close", operation="read after")
        finally:
            await api.close()

    @pack.tool(hints=Hints(read_only=True, open_world=False))
    async def hang_up() -> None:
        """Close what belongs to the engine's loop."""
        for one in made.values():
            await one.close()

    hub.add(*pack.tools)
    yield pack
    engine.call_sync("hang_up", {}, alice, door="code")


def call(tool: str, fault: str, caller: Caller, *, timeout: int | None = None, retries: int = 0, **arguments: str):
    options = engine.Options(timeout_ms=timeout, retries=retries, retry_delay_ms=100)
    return engine.call_sync(tool, {"fault": fault, **arguments}, caller, door="code", options=options)


@pytest.mark.parametrize("fault", ["hang", "drip-headers", "drip-body"])
def test_a_call_ends_at_its_deadline(pack: Pack, alice: Caller, fault: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ToolTimeoutError, match="^Execution timeout after 300ms$"):
        call("get_thing", fault, alice, timeout=300)
    assert time.monotonic() - begun < SOON
    assert Call.objects.get().status == Call.Status.TIMEOUT


def test_neither_the_caller_nor_the_journal_gets_the_key_that_a_success_repeats(
    pack: Pack, alice: Caller, settings: Any
) -> None:
    settings.TOOLHUB_PAYLOADS = "full"
    answer = call("get_thing", "echo-all", alice).answer
    kept = Call.objects.get().result
    assert "ToolHub" in kept
    for form in (KEY, base64.b64encode(KEY.encode()).decode(), KEY.encode().hex()):
        assert form not in f"{answer} {kept}"


def test_the_upstream_knows_the_call_by_its_id(pack: Pack, alice: Caller, upstream: Faultd) -> None:
    result = call("get_thing", "ok", alice)
    assert upstream.requests[0].headers["x-request-id"] == result.call_id
    assert upstream.requests[0].headers["traceparent"].split("-")[1] == result.call_id


@pytest.mark.parametrize(
    ("tool", "fault", "asked"),
    [
        ("get_thing", "busy:503:0", 2),
        ("get_thing", "reset", 2),
        ("get_thing", "status:500", 1),
        ("get_thing", "status:401", 1),
        ("change_thing", "busy:503:0", 1),
        ("change_thing", "close", 1),
    ],
)
def test_reads_are_tried_again_where_that_helps_and_changes_never(
    pack: Pack, alice: Caller, upstream: Faultd, tool: str, fault: str, asked: int
) -> None:
    with pytest.raises(ApiError if ":" in fault else UpstreamUnavailableError):
        call(tool, fault, alice, retries=1)
    assert len(upstream.requests) == asked


@pytest.mark.parametrize(
    ("tool", "fault", "retryable", "unknown"),
    [
        ("change_thing", "close", False, True),
        ("change_thing", "reset", False, True),
        ("change_thing", "status:502", False, True),
        ("change_thing", "status:504", False, True),
        ("change_thing", "busy:503:0", True, False),
        ("change_thing", "busy:429:1", True, False),
        ("set_thing", "close", True, False),
        ("set_thing", "status:504", True, False),
        ("get_thing", "close", True, False),
        ("get_thing", "status:504", True, False),
    ],
)
def test_an_error_says_whether_the_call_can_be_repeated(
    pack: Pack, alice: Caller, tool: str, fault: str, retryable: bool, unknown: bool
) -> None:
    with pytest.raises(ToolError) as caught:
        call(tool, fault, alice)
    told = caught.value.as_dict()
    assert (told["retryable"], told.get("outcomeUnknown", False)) == (retryable, unknown)
    assert ("check whether the change was made" in told.get("nextStep", "")) == unknown


@pytest.mark.parametrize(("tool", "retryable"), [("change_thing", False), ("set_thing", True), ("get_thing", True)])
def test_a_deadline_error_says_whether_the_call_can_be_repeated(
    pack: Pack, alice: Caller, tool: str, retryable: bool
) -> None:
    with pytest.raises(ToolTimeoutError) as caught:
        call(tool, "hang", alice, timeout=200)
    assert (caught.value.retryable, caught.value.outcome_unknown) == (retryable, not retryable)


def test_a_change_that_was_never_sent_can_be_repeated(hub: Hub, alice: Caller) -> None:
    with socket.socket() as nothing_listens:
        nothing_listens.bind(("127.0.0.1", 0))
        api = ApiClient(f"http://127.0.0.1:{nothing_listens.getsockname()[1]}", name="Nobody")
        pack = Pack("unreachable")

        @pack.tool(hints=Hints())
        async def create_thing(ctx: Context) -> object:
            """Create a thing."""
            return await api.for_call(ctx.call_id, ctx.remaining).post("things", json={}, operation="create thing")

        hub.add(create_thing)
        with pytest.raises(UpstreamUnavailableError) as caught:
            engine.call_sync("create_thing", {}, alice, door="code")
    assert caught.value.retryable
    assert caught.value.next_step.startswith("Nothing was sent.")


@pytest.mark.parametrize(
    ("before", "after", "retryable"), [("close", "ok", True), ("ok", "close", False), ("ok", "status:503", False)]
)
def test_a_failure_after_a_change_is_not_repeatable(
    pack: Pack, alice: Caller, before: str, after: str, retryable: bool
) -> None:
    with pytest.raises(ToolError) as caught:
        engine.call_sync("change_between_reads", {"before": before, "after": after}, alice, door="code")
    assert (caught.value.retryable, caught.value.outcome_unknown) == (retryable, not retryable)


def test_a_failure_after_an_abandoned_change_is_not_repeatable(pack: Pack, alice: Caller) -> None:
    with pytest.raises(UpstreamUnavailableError) as caught:
        engine.call_sync("change_impatiently", {}, alice, door="code")
    assert (caught.value.retryable, caught.value.outcome_unknown) == (False, True)


def test_an_upstream_that_keeps_failing_gets_a_rest(pack: Pack, alice: Caller, upstream: Faultd) -> None:
    for _ in range(5):
        with pytest.raises(UpstreamUnavailableError):
            call("get_thing", "close", alice)
    with pytest.raises(CircuitOpenError):
        call("get_thing", "ok", alice)
    assert len(upstream.requests) == 5


@pytest.mark.parametrize(
    "fault", ["big:10500000", "wide-json", "status:404", "status:422", "busy:429:1", "redirect:302"]
)
def test_an_upstream_that_answers_is_well(pack: Pack, alice: Caller, fault: str) -> None:
    for _ in range(6):
        with pytest.raises(ToolError):
            call("get_thing", fault, alice)
    assert call("get_thing", "ok", alice).answer.value["method"] == "GET"


def test_ids_of_agents_stay_in_their_place(pack: Pack, alice: Caller, upstream: Faultd) -> None:
    said = call("get_thing", "ok", alice, thing_id="a/b?raw=1#x").answer.value
    assert said["target"] == "/ok/things/a%2Fb%3Fraw%3D1%23x"
    with pytest.raises(InvalidArgumentsError, match="^Thing ID is not valid"):
        call("get_thing", "ok", alice, thing_id="../../users")
    assert len(upstream.requests) == 1


def test_a_change_whose_answer_is_lost_says_so(pack: Pack, alice: Caller, upstream: Faultd) -> None:
    said = call("change_thing", "truncated-json", alice).answer.value
    assert said == {"data": None, "warning": "The change was made, but the response of Faultd could not be read."}
    assert len(upstream.requests) == 1


def test_no_key_is_ever_written_down(pack: Pack, alice: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    for fault in ("echo-secret", "status:500", "html", "close", "redirect:302", "not-gzip"):
        with pytest.raises(ToolError) as caught:
            call("get_thing", fault, alice)
        assert KEY not in str(caught.value.as_dict())
    written = [str(row) for model in (Call, ErrorLog) for row in model.objects.values()]
    assert ErrorLog.objects.count() == 6
    assert "Faultd" in "".join(written)
    assert KEY not in "".join(written) + caplog.text
