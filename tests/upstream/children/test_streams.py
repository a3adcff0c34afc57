"""Streams of several clients with one child."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.upstream.children.support import (
    SECONDS,
    Client,
    Den,
    comes,
    happens,
    is_alive,
    opened,
    origin,
    other_hubs,
)
from tools_app.upstream import children

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("streams_closed")]
CALL = {"name": "echo", "arguments": {"text": "x"}}


async def test_several_streams_share_one_child_and_its_session(den: Den) -> None:
    first, second = await asyncio.gather(opened(origin()), opened(origin()))
    assert await first.call("count") == "1"
    assert await second.call("count") == "2"
    for client in (first, second):
        answer = await client.request("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})
        assert answer["result"]["serverInfo"]["name"] == "double"
        client.send({"method": "notifications/initialized"})
        assert (await client.request("server/discover"))["error"]["code"] == -32601
    state = await first.state()
    assert (state["introduced"], state["initialized"]) == (1, 1)
    status = await children.status("double")
    assert status is not None
    assert (status.state, status.children, status.clients, status.pid) == ("up", 1, 2, state["pid"])
    assert len(den.supervisors()) == 3, "guard, supervisor and one keeper"


async def test_answers_reach_the_client_that_asked_whatever_its_ids_are(den: Den) -> None:
    clients = [await opened(origin()) for _ in range(4)]
    identifiers = [7, "7", 'a"b', 7]
    for number, (client, identifier) in enumerate(zip(clients, identifiers, strict=True)):
        client.send({"id": identifier, "method": "tools/call", "params": {**CALL, "arguments": {"text": str(number)}}})
    for number, (client, identifier) in enumerate(zip(clients, identifiers, strict=True)):
        answer = await client.read()
        assert answer is not None
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (identifier, str(number))


async def test_many_requests_at_once_are_not_mixed(den: Den) -> None:
    clients = [await opened(origin()) for _ in range(4)]

    async def ask(client: Client, sign: str) -> None:
        begun = {client.begin("echo", text=f"{sign}{number}"): number for number in range(100)}
        for identifier, number in begun.items():
            answer = await client.answer(identifier)
            assert answer["result"]["content"][0]["text"] == f"{sign}{number}"

    await asyncio.gather(*(ask(client, sign) for client, sign in zip(clients, "abcd", strict=True)))


@pytest.mark.parametrize("tool", ["sdk", "late"])
async def test_ids_are_found_wherever_servers_write_them(den: Den, tool: str) -> None:
    client = await opened(origin())
    answer = await client.answer(client.begin(tool))
    assert answer["result"]["id"] in (99, 7), "an id within the result is not the id of the answer"


async def test_progress_reaches_the_caller_only_with_its_token(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    identifier = first.begin("progress", steps=3)
    token = f"token {identifier}"
    await first.answer(identifier)
    assert [message["params"] for message in first.others] == [
        {"progressToken": token, "progress": step} for step in range(3)
    ]
    await second.call("echo", text="x")
    assert second.others == []


@pytest.mark.parametrize(
    "method", ["notifications/tools/list_changed", "notifications/resources/updated", "notifications/message"]
)
async def test_other_notifications_reach_every_client(den: Den, method: str) -> None:
    first, second = await opened(origin()), await opened(origin())
    await first.call("notify", method=method, params={"uri": "a:b"})
    for client in (first, second):
        await client.call("echo", text="x")
        assert [message["method"] for message in client.others] == [method]


async def test_a_subscription_is_its_clients(den: Den) -> None:
    first, second = await opened(origin("modern")), await opened(origin("modern"))
    assert (await second.request("server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
    second.send({"id": "listening", "method": "subscriptions/listen", "params": {}})
    changed = await second.read()
    assert changed is not None
    assert changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "listening"
    await first.call("echo", text="x")
    assert first.others == []
    # Ended by the child: in this protocol a cancellation is the end of a subscription, named by our id.
    assert (await first.state())["introduced"] == 0


async def test_a_cancellation_names_the_request_as_the_child_knows_it(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    await first.call("echo", text="x")
    second.begin("echo", text="other")
    slow = second.begin("slow", seconds=60)
    second.send({"method": "notifications/cancelled", "params": {"requestId": slow, "reason": "enough"}})

    async def is_cancelled() -> bool:
        return bool((await first.state())["cancelled"])

    await comes(is_cancelled)
    assert slow not in (await first.state())["cancelled"], "ids differ"


async def test_the_requests_of_a_client_that_has_gone_are_cancelled(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    for _ in range(3):
        second.begin("slow", seconds=60)
    await second.writer.drain()
    second.close()

    async def are_cancelled() -> bool:
        return len((await first.state())["cancelled"]) == 3

    await comes(are_cancelled)


async def test_what_the_child_asks_reaches_the_only_caller(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    asking = first.begin("ask")
    question = await first.read()
    assert question is not None
    assert question["method"] == "elicitation/create"
    second.send({"id": question["id"], "result": {"stolen": True}})
    await second.call("echo", text="behind it")
    first.send({"id": question["id"], "result": {"action": "accept"}})
    answer = await first.answer(asking)
    assert json.loads(answer["result"]["content"][0]["text"]) == {"action": "accept"}


async def test_what_the_child_asks_is_refused_if_it_is_not_clear_whom(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    second.begin("slow", seconds=60)
    await second.writer.drain()
    answer = json.loads(await first.call("ask"))
    assert answer["code"] == -32601
    assert first.others == []


async def test_pings_of_the_child_are_answered_for_its_clients(den: Den) -> None:
    client = await opened(origin())
    assert json.loads(await client.call("ask", method="ping")) == {}
    assert client.others == []


async def test_a_question_whose_client_has_gone_is_answered(den: Den) -> None:
    first, second = await opened(origin()), await opened(origin())
    second.begin("ask")
    assert await second.read() is not None
    second.close()

    async def is_cancelled() -> bool:
        return bool((await first.state())["cancelled"])

    await comes(is_cancelled)


async def test_three_processes_use_one_stateful_child(bare_den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with other_hubs(bare_den.home, 3) as hubs:
        for hub in hubs:  # at once: each starts the supervisor if it does not find one
            hub.tell(modes=[f"pid:{started}"], name="double")
        assert [hub.told() for hub in hubs] == ["open"] * 3
        assert [hub.call("count") for hub in hubs * 2] == ["1", "2", "3", "4", "5", "6"]
        assert len(started.read_text().split()) == 1
        pid = int(started.read_text())
        # A process that is killed takes nothing from the others.
        hubs[0].tell(begin="slow", arguments={"seconds": 60})
        assert hubs[0].told() == "begun"
        hubs[0].end()
        assert hubs[1].call("count") == "7"
        await happens(lambda: len(json.loads(hubs[1].call("state"))["cancelled"]) == 1)
        assert is_alive(pid)
    await happens(lambda: not is_alive(pid), 20)
    await happens(bare_den.is_free, 20)


async def test_a_child_of_each_stream_if_the_source_says_so(den: Den) -> None:
    clients = [await opened(origin(per_session=True)) for _ in range(3)]
    assert [await client.call("count") for client in clients] == ["1", "1", "1"]
    states = [await client.state() for client in clients]
    assert len({state["pid"] for state in states}) == 3
    assert len({state["cwd"] for state in states}) == 3
    clients[0].close()
    await happens(lambda: not is_alive(states[0]["pid"]))
    assert is_alive(states[1]["pid"])
    status = await children.status("double")
    assert status is not None


async def test_each_environment_has_its_child(den: Den) -> None:
    first = await opened(origin(), MY_ACCOUNT="one")
    second = await opened(origin(), MY_ACCOUNT="two")
    seen = [json.loads(await client.call("steal"))["environment"]["MY_ACCOUNT"] for client in (first, second)]
    assert seen == ["one", "two"]
    status = await children.status("double")
    assert status is not None
    assert status.children == 2


async def test_a_client_that_does_not_read_is_dropped_and_harms_no_other(den: Den) -> None:
    slow, other = await opened(origin()), await opened(origin())
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(6):
        slow.begin("big", bytes=10_000_000)
    await slow.writer.drain()

    async def is_dropped() -> bool:
        assert await other.call("echo", text="x") == "x"
        status = await children.status("double")
        return status is not None and status.clients == 1

    await comes(is_dropped)


async def test_one_that_knows_no_secret_gets_nothing(den: Den) -> None:
    await opened(origin())
    for order in ({"order": "status", "name": "double"}, {"order": "stop all", "secret": "0" * 32}, [1]):
        reader, writer = await asyncio.open_unix_connection(str(den.directory / "socket"))
        writer.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(SECONDS):
            assert json.loads(await reader.readline()) == {"denied": True}
            assert await reader.read() == b""
        writer.close()
    status = await children.status("double")
    assert status is not None
    assert status.state == "up"
    for file in ("secret", "socket", "lock", "marker"):
        assert (den.directory / file).stat().st_mode & 0o077 == 0
    assert den.directory.stat().st_mode & 0o777 == 0o700
