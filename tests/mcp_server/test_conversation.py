"""What a running call and its client say to each other, in both eras, with the SDK's own client."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CreateMessageResult,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import BaseModel

from tests.mcp_server.test_server import ERAS, connected, texts
from tests.support.tools import Hub
from tools_app import engine
from tools_app.base import database, secrets
from tools_app.mcp_server import conversation
from tools_app.models import Call
from tools_app.sdk.context import Caller, Context
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack
from tools_app.sdk.questions import Elicit, Roots, Sample
from tools_app.sdk.tool import Tool

pytestmark = pytest.mark.anyio
READ = Hints(read_only=True)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Name(BaseModel):
    name: str


class User:
    """The person and the model behind a client: answers with what it was given, one after the other."""

    def __init__(self, *names: Any) -> None:
        self.names = list(names)
        self.asked: list[str] = []

    async def elicit(self, _: object, params: Any) -> Any:
        self.asked.append(params.message)
        said = self.names.pop(0)
        if isinstance(said, str):
            return ElicitResult(action="accept", content={"name": said})
        return said

    async def sample(self, _: object, params: Any) -> Any:
        self.asked.append(params.messages[0].content.text)
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="bonjour"), model="m")

    async def roots(self, _: object) -> Any:
        return ListRootsResult(roots=[Root.model_validate({"uri": "file:///work"})])

    @property
    def hears(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


def greeter(runs: list[int] | None = None, **declared: Any) -> Tool:
    async def greet(ctx: Context) -> str:
        """Ask for a first and a last name, and greet."""
        if runs is not None:
            runs.append(1)
        first = await ctx.elicit("First name?", Name)
        if not first.accepted:
            return f"You said {first.action}"
        last = await ctx.elicit("Last name?", Name)
        return f"Hello, {first.data.name} {last.data.name}"

    return tool(name="greet", **{"hints": READ, **declared})(greet)


async def statuses() -> list[str]:
    return await database.run(lambda: list(Call.objects.order_by("started_at").values_list("status", flat=True)))


class TestProgress:
    async def test_reaches_the_client_before_the_answer(self, hub: Hub, alice: Caller, era: str) -> None:
        @tool(hints=READ)
        async def count(ctx: Context) -> str:
            """Count."""
            for done in (1, 1, 0.5, 2, float("nan"), 3):
                ctx.progress(done, 3, f"at {done}")
            return "counted"

        heard: list[Any] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        await database.run(hub.add, count)
        async with connected(era, alice) as client:
            result = await client.call_tool("count", {}, progress_callback=hear)
            assert texts(result) == ["counted"]
            assert heard == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]
            assert texts(await client.call_tool("count", {})) == ["counted"]
            assert len(heard) == 3

    async def test_comes_from_tools_that_block_as_well(self, hub: Hub, alice: Caller, era: str) -> None:
        @tool(hints=READ)
        def count(ctx: Context) -> bool:
            """Count in a thread."""
            ctx.progress(1)
            return threading.current_thread() is threading.main_thread()

        heard: list[float] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        await database.run(hub.add, count)
        async with connected(era, alice) as client:
            assert texts(await client.call_tool("count", {}, progress_callback=hear)) == ["false"]
        assert heard == [1]

    async def test_a_client_that_does_not_read_blocks_nothing(
        self, hub: Hub, alice: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @tool(hints=READ)
        async def chat(ctx: Context) -> str:
            """Report more progress than a client reads."""
            for done in range(10_000):
                ctx.progress(done)
            return "said"

        class Deaf:
            can_send_request = False
            client_capabilities = None

            async def report_progress(self, *_: Any) -> None:
                await asyncio.Event().wait()

        class Situation:
            session = Deaf()
            protocol_version = "2026-07-28"
            params = None
            meta = None
            request_id = 1

        monkeypatch.setattr(conversation, "PATIENCE_SECONDS", 0.05)
        await database.run(hub.add, chat)
        engine.adopt_running_loop()
        try:
            situation: Any = Situation()
            client = conversation.Conversation(situation, alice, [])
            await engine.call("chat", {}, alice, door="mcp", client=client)
            await client.end()
            assert len(client._queue) <= conversation.MOST_WAITING
        finally:
            await engine.close(1)


class TestMessages:
    @pytest.fixture
    async def talking(self, hub: Hub) -> None:
        @tool(hints=READ)
        async def talk(ctx: Context) -> str:
            """Tell things."""
            ctx.tell("looking", "debug")
            ctx.tell("found\u200b password=hunter22", "warning", api_key="abc", rows=3)
            return "told"

        await database.run(hub.add, talk)

    async def heard(self, era: str, alice: Caller, **options: Any) -> list[tuple[str, Any]]:
        said: list[tuple[str, Any]] = []

        async def hear(params: Any) -> None:
            said.append((params.level, params.data))

        async with connected(era, alice, logging_callback=hear) as client:
            if level := options.pop("level", None):
                await client.session.set_logging_level(level)
            assert texts(await client.call_tool("talk", {}, **options)) == ["told"]
        return said

    @pytest.mark.usefixtures("talking")
    @pytest.mark.filterwarnings("ignore:.*deprecated")
    async def test_a_client_of_the_handshake_era_sets_from_which_level_on(self, alice: Caller) -> None:
        assert [level for level, _ in await self.heard("legacy", alice)] == ["warning"]
        assert [level for level, _ in await self.heard("legacy", alice, level="debug")] == ["debug", "warning"]
        assert await self.heard("legacy", alice, level="critical") == []

    @pytest.mark.usefixtures("talking")
    async def test_a_client_of_the_modern_era_asks_for_them_with_each_call(self, alice: Caller) -> None:
        level: Any = {"io.modelcontextprotocol/logLevel": "warning"}
        said = await self.heard("2026-07-28", alice, meta=level)
        assert [level for level, _ in said] == ["warning"]
        assert await self.heard("2026-07-28", alice) == []

    @pytest.mark.usefixtures("talking")
    async def test_say_no_secret_and_hide_nothing(self, alice: Caller) -> None:
        [(_, data)] = await self.heard("legacy", alice)
        assert data["rows"] == 3
        assert "hunter22" not in str(data)
        assert "abc" not in str(data)
        assert "\u200b" not in str(data)

    async def test_have_a_level_that_exists(self, hub: Hub, alice: Caller) -> None:
        @tool(hints=READ)
        async def shout(ctx: Context) -> None:
            """Shout."""
            with pytest.raises(ValueError, match="'loud' must be one of debug"):
                ctx.tell("hey", "loud")

        await database.run(hub.add, shout)
        async with connected("legacy", alice) as client:
            assert not (await client.call_tool("shout", {})).is_error


class TestQuestions:
    async def test_are_answered_one_after_the_other(self, hub: Hub, alice: Caller, era: str) -> None:
        runs: list[int] = []
        user = User("Ada", "Lovelace")
        await database.run(hub.add, greeter(runs))
        async with connected(era, alice, **user.hears) as client:
            assert texts(await client.call_tool("greet", {})) == ["Hello, Ada Lovelace"]
        assert user.asked == ["First name?", "Last name?"]
        if era == "legacy":
            assert (len(runs), await statuses()) == (1, ["succeeded"])
        else:
            # Each round is a call, and the tool begins anew.
            assert (len(runs), await statuses()) == (3, ["asked", "asked", "succeeded"])

    async def test_a_person_can_decline(self, hub: Hub, alice: Caller, era: str) -> None:
        await database.run(hub.add, greeter())
        async with connected(era, alice, **User(ElicitResult(action="decline")).hears) as client:
            assert texts(await client.call_tool("greet", {})) == ["You said decline"]

    async def test_several_go_out_at_once(self, hub: Hub, alice: Caller, era: str) -> None:
        @tool(hints=READ)
        async def learn(ctx: Context) -> list[Any]:
            """Ask three kinds of things."""
            said = await ctx.ask(who=Elicit("Who?", Name), word=Sample("Hello in French?"), where=Roots())
            return [said["who"].data.name, said["word"].text, said["where"][0].uri]

        await database.run(hub.add, learn)
        async with connected(era, alice, **User("Ada").hears) as client:
            assert texts(await client.call_tool("learn", {})) == ['["Ada","bonjour","file:///work"]']

    async def test_an_answer_that_does_not_fit_is_none(self, hub: Hub, alice: Caller, era: str) -> None:
        wrong = ElicitResult(action="accept", content={"name": 7})
        user = User(wrong, "Ada", "Lovelace")
        await database.run(hub.add, greeter())
        async with connected(era, alice, **user.hears) as client:
            result = await client.call_tool("greet", {})
        if era == "legacy":
            assert texts(result)[0] == "The tool asked a question and got no answer: the answer is invalid"
        else:
            assert texts(result) == ["Hello, Ada Lovelace"]
            assert user.asked == ["First name?", "First name?", "Last name?"]

    async def test_a_client_can_refuse(self, hub: Hub, alice: Caller) -> None:
        await database.run(hub.add, greeter())
        async with connected("legacy", alice, **User(ErrorData(code=-1, message="not now")).hears) as client:
            result = await client.call_tool("greet", {})
            assert texts(result)[0].endswith("the client refused or timed out")

    async def test_the_deadline_waits_for_the_person(self, hub: Hub, alice: Caller) -> None:
        class Slow(User):
            async def elicit(self, context: object, params: Any) -> Any:
                await asyncio.sleep(0.3)
                return await super().elicit(context, params)

        await database.run(hub.add, greeter(timeout=0.2))
        async with connected("legacy", alice, **Slow("Ada", "Lovelace").hears) as client:
            assert texts(await client.call_tool("greet", {})) == ["Hello, Ada Lovelace"]

    async def test_but_not_for_ever(self, hub: Hub, alice: Caller, settings: Any) -> None:
        class Gone(User):
            async def elicit(self, context: object, params: Any) -> Any:
                await asyncio.Event().wait()

        settings.TOOLHUB_ASK_SECONDS = 0.05
        await database.run(hub.add, greeter())
        async with connected("legacy", alice, **Gone().hears) as client:
            assert texts(await client.call_tool("greet", {}))[0].endswith("timed out")

    async def test_a_client_without_the_capability_gets_its_name(self, hub: Hub, alice: Caller, era: str) -> None:
        await database.run(hub.add, greeter())
        async with connected(era, alice) as client:
            if era == "legacy":
                result = await client.call_tool("greet", {})
                assert texts(result)[0].startswith("The tool needs a client that can ask its user (elicitation)")
            else:
                with pytest.raises(MCPError, match="can ask its user") as caught:
                    await client.call_tool("greet", {})
                assert caught.value.code == -32021
                assert caught.value.data == {"requiredCapabilities": {"elicitation": {}}}

    async def test_other_channels_cannot_ask(self, hub: Hub, alice: Caller) -> None:
        await database.run(hub.add, greeter())
        with pytest.raises(InputRequiredError):
            await engine.call("greet", {}, alice, door="rest")

    async def test_a_tool_with_cached_results_asks_no_question(self, hub: Hub, alice: Caller) -> None:
        await database.run(hub.add, greeter(cache_seconds=60))
        async with connected("legacy", alice, **User("Ada").hears) as client:
            assert (await client.call_tool("greet", {})).is_error

    async def test_a_key_for_idempotency_holds_from_the_last_round_on(self, hub: Hub, alice: Caller) -> None:
        runs: list[int] = []
        key: Any = {"toolhub/idempotencyKey": "k"}
        await database.run(hub.add, greeter(runs, hints=Hints()))
        async with connected("2026-07-28", alice, **User("Ada", "Lovelace").hears) as client:
            first = await client.call_tool("greet", {}, meta=key)
            again = await client.call_tool("greet", {}, meta=key)
        assert texts(first) == texts(again) == ["Hello, Ada Lovelace"]
        assert len(runs) == 3
        assert await statuses() == ["asked", "asked", "succeeded", "succeeded"]


class TestSealedState:
    """What a client brings back may be anything."""

    @pytest.fixture
    async def client(self, hub: Hub, alice: Caller) -> Any:
        await database.run(hub.add, greeter())
        other = tool(name="other", hints=READ)(greeter().function)  # type: ignore[attr-defined]
        await database.run(hub.add, other)
        async with connected("2026-07-28", alice, elicitation_callback=User().elicit) as client:
            yield client

    async def call(self, client: Client, name: str = "greet", **more: Any) -> dict[str, Any]:
        params: Any = {"name": name, "arguments": {}, **more}
        return await raw(client, params)

    @pytest.mark.parametrize("wrong", ["x", "", 1, 0, [], ["answer"], True])
    @pytest.mark.parametrize("method", ["tools/call", "prompts/list", "resources/list"])
    async def test_is_refused_where_it_is_no_object(self, client: Client, method: str, wrong: Any) -> None:
        params: Any = {"inputResponses": wrong} | ({"name": "greet"} if method == "tools/call" else {})
        with pytest.raises(MCPError) as caught:
            await raw(client, params, method)
        assert caught.value.error.code == INVALID_PARAMS

    async def test_is_taken_back_as_it_was_given(self, client: Client) -> None:
        asked = await self.call(client)
        assert asked["resultType"] == "input_required"
        assert list(asked["inputRequests"]) == ["answer"]
        asked = await self.call(client, inputResponses=said("Ada"), requestState=asked["requestState"])
        assert list(asked["inputRequests"]) == ["answer-2"]
        done = await self.call(client, inputResponses=said("Lovelace", "answer-2"), requestState=asked["requestState"])
        assert done["content"][0]["text"] == "Hello, Ada Lovelace"

    async def test_holds_no_answer_in_the_open(self, client: Client) -> None:
        asked = await self.call(client)
        asked = await self.call(client, inputResponses=said("Ada"), requestState=asked["requestState"])
        assert "Ada" not in asked["requestState"]

    async def test_is_refused_when_it_is_anything_else(self, client: Client, alice: Caller) -> None:
        state = (await self.call(client))["requestState"]
        forged = secrets.sealed(b'{"for":"somebody","about":"","said":{}}')
        for wrong in ("", "x", f"{state}-TAMPERED", f"{state}=", state[:-2], f"A{state[1:]}", forged):
            with pytest.raises(MCPError, match="Invalid or expired requestState") as caught:
                await self.call(client, inputResponses=said("Ada"), requestState=wrong)
            assert caught.value.code == INVALID_PARAMS
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await self.call(client, "other", requestState=state)

    async def test_is_refused_when_it_is_old(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        state = (await self.call(client))["requestState"]
        monkeypatch.setattr(conversation, "STATE_SECONDS", -1)
        with pytest.raises(MCPError, match="Invalid or expired"):
            await self.call(client, requestState=state)

    async def test_answers_have_a_limit(self, client: Client) -> None:
        with pytest.raises(MCPError, match="longer than 65,536 characters"):
            await self.call(client, inputResponses=said("A" * 70_000))


def said(name: str, key: str = "answer") -> dict[str, Any]:
    return {key: {"action": "accept", "content": {"name": name}}}


async def raw(client: Client, params: dict[str, Any], method: str = "tools/call") -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    dispatcher: Any = client.session._dispatcher
    result: dict[str, Any] = await dispatcher.send_raw_request(method, {**params, "_meta": meta}, None)
    return result


async def test_a_call_can_set_its_time_limit(hub: Hub, alice: Caller, era: str) -> None:
    pack = Pack("slow")

    @pack.tool(hints=READ)
    async def sleep(ctx: Context) -> None:
        """Sleep."""
        await asyncio.sleep(10)

    await database.run(hub.add, sleep)
    async with connected(era, alice) as client:
        meta: Any = {"toolhub/timeoutMs": 100}
        assert texts(await client.call_tool("sleep", {}, meta=meta))[0] == "Execution timeout after 100ms"
        for wrong in ("soon", 1.5, True, -1):
            meta = {"toolhub/timeoutMs": wrong}
            result = await client.call_tool("sleep", {}, meta=meta)
            assert texts(result)[0].startswith("options.timeout must be between")
