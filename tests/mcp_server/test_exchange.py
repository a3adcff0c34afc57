"""Requests are handled without the SDK's dispatcher, and answered as it would answer them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.agents import LEGACY, MODERN, PREFIX
from tests.support.http_agents import ACCEPT, scope_of
from tests.support.tools import Hub
from tools_app import engine, governance
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.mcp_server import answering, exchange, sessions, transport
from tools_app.mcp_server.http import Http
from tools_app.models import Call
from tools_app.sdk.content import Image, ResourceLink
from tools_app.sdk.context import Context
from tools_app.sdk.decorator import SchemaTool, tool
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import StorageBusyError

pytestmark = pytest.mark.anyio
READ = Hints(read_only=True)
META: dict[str, Any] = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
INFO = {f"{PREFIX}clientInfo": {"name": "test", "version": "1"}}


@tool(hints=READ)
async def picture() -> list[Any]:
    """Draw."""
    return ["Look:", Image(b"\x89PNG"), ResourceLink("https://example.org/a", "a")]


@tool(hints=READ)
async def no_json() -> Any:
    """Answer with what JSON does not know."""
    return {"nan": float("nan")}


@tool(hints=READ)
async def broken() -> None:
    """Break."""
    raise RuntimeError("inside")


@tool(hints=READ, output_schema={"type": "object", "properties": {"n": {"type": ["integer", "null"]}}})
async def structured(n: int | None = None) -> dict[str, Any]:
    """Answer with an object."""
    return {"n": n, "deep": [{"none": None, "zero": 0.0}]}


@tool(hints=READ)
async def speaking(ctx: Context) -> str:
    """Speak."""
    ctx.tell("hello")
    return "spoken"


class Site:
    """The hub over HTTP."""

    def __init__(self, http: Http, key: str) -> None:
        self.http = http
        self.key = key
        self.session: str | None = None
        # Called with each message before the response.
        self.hears: Callable[[dict[str, Any]], None] = lambda message: None

    async def ask(
        self, message: dict[str, Any] | bytes, era: str = MODERN, gone: asyncio.Event | None = None, **changed: str
    ) -> tuple[int, str, Any]:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {
            "host": "localhost:3000",
            "x-api-key": self.key,
            "content-type": "application/json",
            "accept": ACCEPT,
        }
        if isinstance(message, dict) and era == MODERN:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
            params = message.get("params") or {}
            if isinstance(name := params.get("name", params.get("uri")), str):
                headers["mcp-name"] = name
        elif self.session is not None:
            headers["mcp-session-id"] = self.session
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        waiting = [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop(0)
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        sent: list[MutableMapping[str, Any]] = []

        async def send(part: MutableMapping[str, Any]) -> None:
            sent.append(part)
            for line in part.get("body", b"").splitlines():
                if line.startswith(b"data: {") and "method" in (message := json.loads(line[6:])):
                    self.hears(message)

        await self.http(scope_of(headers), receive, send)
        self.told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        kind = self.told.get("content-type", "")
        answer = b"".join(part.get("body", b"") for part in sent)
        if kind.startswith("text/event-stream"):
            events = [line[6:] for line in answer.splitlines() if line.startswith(b"data: {")]
            return sent[0]["status"], kind, json.loads(events[-1]) if events else None
        return sent[0]["status"], kind, json.loads(answer) if answer else None

    async def open(self, version: str = LEGACY, capabilities: dict[str, Any] | None = None) -> None:
        self.session = None
        info = {"name": "t", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        await self.ask(request("initialize", params, 0), LEGACY)
        self.session = self.told["mcp-session-id"]
        await self.ask({"jsonrpc": "2.0", "method": "notifications/initialized"}, LEGACY)


def request(method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
    made: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return made if params is None else {**made, "params": params}


def called(name: Any, arguments: Any = None, meta: Any = None, **more: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "_meta": META if meta is None else meta, **more}
    return request("tools/call", params if arguments is None else {**params, "arguments": arguments})


@pytest.fixture
async def site(hub: Hub) -> AsyncIterator[Site]:
    await database.run(hub.add, *(one for one in (picture, no_json, broken, structured, speaking)))
    key = (await database.run(lambda: governance.create_key("somebody", actor=governance.trusted("test"))))[1]
    engine.adopt_running_loop()
    http = Http()
    yield Site(http, key)
    await http.stop()
    await engine.close(1)


class Watch:
    """Sees which requests are exchanges, and may leave all of them to the SDK."""

    def __init__(self) -> None:
        self.open = True
        self.taken: list[str] = []


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watching = Watch()

    def is_taken(message: Any) -> bool:
        return watching.open and exchange.is_taken(message)

    class Watched(exchange.Exchange):
        def __init__(self, message: Any, *arguments: Any) -> None:
            super().__init__(message, *arguments)
            watching.taken.append(message.method)

    for module in (transport, sessions):
        monkeypatch.setattr(module, "is_taken", is_taken)
        monkeypatch.setattr(module, "Exchange", Watched)
    return watching


VALID: list[dict[str, Any]] = [
    called("echo", {"message": "hi"}),
    called("echo", {"message": "ü \U0001f600"}),
    called("echo", {"message": 5}),
    called("echo", {}),
    called("echo"),
    called("echo", {"message": "hi", "more": 1}),
    called("echo", {"message": "hi"}, META | INFO),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}clientCapabilities": {"sampling": {}, "elicitation": {}}}),
    called("echo", {"message": "hi"}, {**META, "progressToken": "p"}),
    called("echo", {"message": "hi"}, {**META, "progressToken": 7}),
    called("echo", {"message": "hi"}, {**META, "toolhub/timeoutMs": "soon"}),
    called("echo", {"message": "hi"}, {**META, "anything/else": [1]}),
    called("speaking"),
    called("speaking", {}, {**META, f"{PREFIX}logLevel": "info"}),
    called("picture"),
    called("broken"),
    called("no_json"),
    called("structured", {"n": 3}),
    called("structured"),
    called("calculate", {"expression": "1/0"}),
    called("off", {}),
    request("tools/list", {"_meta": META}),
    request("tools/list", {"_meta": META | INFO}, "an id"),
    called("echo", {"message": "hi"}, inputResponses={}),
    request("prompts/list", {"_meta": META}),
    request("resources/read", {"_meta": META, "uri": "toolhub://tools"}),
]
INVALID: list[dict[str, Any]] = [
    called("nothing"),
    called("", {}),
    called(5, {}),
    called("echo", []),
    called("echo", "message"),
    called("echo", {"message": "hi"}, {}),
    called("echo", {"message": "hi"}, 5),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}protocolVersion": "2027-01-01"}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}protocolVersion": 5}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}clientCapabilities": {"sampling": 5}}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}clientCapabilities": []}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}clientInfo": {"name": "only"}}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}clientInfo": None}),
    called("echo", {"message": "hi"}, {**META, f"{PREFIX}unknown": 1}),
    called("echo", {"message": "hi"}, {**META, "progressToken": 1.5}),
    called("echo", {"message": "hi"}, {**META, "progressToken": True}),
    called("echo", {"message": "hi"}, more=1),
    called("echo", {"message": "hi"}, requestState="x"),
    request("tools/call", {"arguments": {}, "_meta": META}),
    request("tools/call"),
    request("tools/list", {"_meta": META, "cursor": ""}),
    request("tools/list", {"_meta": META, "cursor": 5}),
    request("tools/list", {"_meta": META, "cursor": None}),
    request("tools/list"),
    request("ping", {"_meta": META}),
]


@pytest.fixture
async def switched(site: Site, hub: Hub) -> None:
    @tool(hints=READ)
    async def off() -> None:
        """Be switched off."""

    await database.run(hub.add, off)
    await database.run(lambda: governance.set_enabled(["off"], False, actor=governance.trusted("test")))


def same(answer: tuple[int, str, Any]) -> tuple[int, Any]:
    """Without what differs between any two calls, and without the kind of body that a session of the SDK has."""
    status, _, body = answer
    for part in (body or {}).get("result", {}), (body or {}).get("error", {}):
        meta = part.get("_meta", {}) if isinstance(part, dict) else {}
        meta.pop("toolhub/callId", None)
        for error in (meta.get("toolhub/error"), part.get("data")):
            if isinstance(error, dict):
                error.pop("errorId", None)
        for piece in part.get("content", []):
            if "text" in piece and "errorId: " in piece["text"]:
                piece["text"] = piece["text"].partition("errorId: ")[0]
    return status, body


@pytest.mark.usefixtures("switched")
async def test_both_ways_answer_the_same_in_the_modern_era(site: Site, watch: Watch) -> None:
    for message in [*VALID, *INVALID]:
        watch.open = True
        watch.taken.clear()
        taken = same(await site.ask(message))
        assert message in INVALID or watch.taken == [message["method"]], message
        watch.open = False
        assert same(await site.ask(message)) == taken, message


@pytest.mark.usefixtures("switched")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_both_ways_answer_the_same_in_the_handshake_era(site: Site, watch: Watch, version: str) -> None:
    await site.open(version)
    watch.taken.clear()
    for message in [*VALID, *INVALID]:
        params = dict(message.get("params") or {})
        if isinstance(params.get("_meta"), dict):
            params["_meta"] = {key: value for key, value in params["_meta"].items() if not key.startswith(PREFIX)}
        message = {**message, "params": params} if "params" in message else message
        watch.open = True
        taken = same(await site.ask(message, LEGACY))
        watch.open = False
        assert same(await site.ask(message, LEGACY)) == taken, message
    assert len(watch.taken) == len(VALID) + len(INVALID)


@pytest.mark.usefixtures("switched")
async def test_both_ways_answer_the_same_without_sessions(site: Site, watch: Watch, settings: Any) -> None:
    settings.TOOLHUB_MCP_SESSIONS = 0
    for message in (called("echo", {"message": "hi"}, {}), called("speaking", {}, {}), called("nothing", {}, {})):
        watch.open = True
        taken = same(await site.ask(message, LEGACY))
        watch.open = False
        assert same(await site.ask(message, LEGACY)) == taken, message
    assert watch.taken == ["tools/call"] * 3


@pytest.mark.parametrize(
    "changed",
    [
        {"mcp_method": "tools/list"},
        {"mcp_name": "calculate"},
        {"mcp_name": "=?base64?ZWNobw==?="},
        {"mcp_param_region": "eu"},
        {"mcp_protocol_version": "2027-01-01"},
    ],
)
async def test_headers_that_say_something_else_are_the_sdks(site: Site, watch: Watch, changed: dict[str, str]) -> None:
    message = called("echo", {"message": "hi"})
    first = same(await site.ask(message, MODERN, None, **changed))
    watch.open = False
    assert same(await site.ask(message, MODERN, None, **changed)) == first
    assert await database.run(Call.objects.count) in (0, 2)


async def test_a_tool_with_parameters_in_headers_is_the_sdks(site: Site, hub: Hub) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    one = SchemaTool(lambda given: given, schema, name="headed", description="Has a header.", hints=READ)
    await database.run(hub.add, one)
    status, _, body = await site.ask(called("headed", {"a": "x"}))
    assert (status, body["error"]["code"]) == (400, -32020)
    status, _, body = await site.ask(called("headed", {"a": "x"}), mcp_param_a="x")
    assert (status, body["result"]["isError"]) == (200, False)


class TestSlowCalls:
    @pytest.fixture
    async def slow(self, site: Site, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
        monkeypatch.setattr(answering, "PING_SECONDS", 0.05)
        release = asyncio.Event()

        @tool(hints=READ)
        async def slow() -> str:
            """Wait."""
            await release.wait()
            return "waited"

        await database.run(hub.add, slow)
        return release

    async def statuses(self) -> list[str]:
        return await database.run(lambda: list(Call.objects.values_list("status", flat=True)))

    @pytest.mark.parametrize("era", [LEGACY, MODERN])
    async def test_become_a_stream_that_stays_alive(self, site: Site, slow: asyncio.Event, era: str) -> None:
        if era == LEGACY:
            await site.open()
        asyncio.get_running_loop().call_later(0.2, slow.set)
        status, kind, body = await site.ask(called("slow", meta=META if era == MODERN else {}), era)
        assert (status, kind) == (200, "text/event-stream")
        assert body["result"]["content"][0]["text"] == "waited"

    async def test_hanging_up_cancels_in_the_modern_era(self, site: Site, slow: asyncio.Event) -> None:
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, gone.set)
        await site.ask(called("slow"), gone=gone)
        assert await self.statuses() == ["cancelled"]

    async def test_hanging_up_does_not_in_the_handshake_era(self, site: Site, slow: asyncio.Event) -> None:
        await site.open()
        gone = asyncio.Event()
        gone.set()
        asyncio.get_running_loop().call_later(0.2, slow.set)
        await site.ask(called("slow", meta={}), LEGACY, gone=gone)
        assert await self.statuses() == ["succeeded"]

    async def test_saying_so_cancels_in_the_handshake_era(self, site: Site, slow: asyncio.Event) -> None:
        await site.open()
        asking = asyncio.create_task(site.ask(called("slow", meta={}), LEGACY))
        other = Site(site.http, site.key)
        other.session = site.session
        await asyncio.sleep(0.1)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await other.ask(cancel, LEGACY))[0] == 202
        _, _, body = await asking
        assert body["error"] == {"code": -32800, "message": "Request cancelled"}
        assert await self.statuses() == ["cancelled"]

    async def test_a_cancellation_that_comes_at_once_is_answered_too(self, site: Site, slow: asyncio.Event) -> None:
        """Before the task of the exchange has begun."""
        await site.open()
        other = Site(site.http, site.key)
        other.session = site.session
        for number in range(20):
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            asking = asyncio.create_task(site.ask({**called("slow", meta={}), "id": number}, LEGACY))
            for _ in range(number):
                await asyncio.sleep(0)
            cancelling = asyncio.create_task(other.ask(cancel, LEGACY))
            done, _ = await asyncio.wait({asking}, timeout=0.2)
            slow.set()
            status, _, body = await asking
            assert status == 200
            assert not done or body["error"]["code"] == exchange.REQUEST_CANCELLED
            await cancelling
            slow.clear()

    async def test_keep_their_session_while_others_end(self, site: Site, slow: asyncio.Event, settings: Any) -> None:
        settings.TOOLHUB_MCP_IDLE_SECONDS = 0.1
        await site.open()
        asking = asyncio.create_task(site.ask(called("slow", meta={}), LEGACY))
        await asyncio.sleep(0.05)
        other = Site(site.http, site.key)
        other.session = site.session
        notification = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        assert (await other.ask(notification, LEGACY))[0] == 202
        await asyncio.sleep(0.3)
        assert (await other.ask(request("ping", {}, 9), LEGACY))[0] == 200
        slow.set()
        assert (await asking)[2]["result"]["content"][0]["text"] == "waited"

    async def test_keep_their_session(self, site: Site, slow: asyncio.Event, settings: Any) -> None:
        settings.TOOLHUB_MCP_IDLE_SECONDS = 0.1
        await site.open()
        asyncio.get_running_loop().call_later(0.3, slow.set)
        assert (await site.ask(called("slow", meta={}), LEGACY))[0] == 200
        assert (await site.ask(called("echo", {"message": "hi"}, {}), LEGACY))[0] == 200
        await asyncio.sleep(0.3)
        assert (await site.ask(called("echo", {"message": "hi"}, {}), LEGACY))[0] == 404


async def test_an_unreadable_database_is_reported_as_such(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy() -> None:
        raise StorageBusyError

    await site.ask(request("tools/list", {"_meta": META}))
    monkeypatch.setattr(catalog, "fresh", busy)
    _, _, body = await site.ask(request("tools/list", {"_meta": META}))
    error = body["error"]
    assert (error["code"], error["data"]["code"], error["data"]["retryable"]) == (-32603, "STORAGE_BUSY", True)
    assert "errorId" not in error["data"]


async def test_a_bug_on_the_way_is_answered_with_its_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("what nobody may see")

    monkeypatch.setattr(engine, "call", fails)
    _, _, body = await site.ask(called("echo", {"message": "hi"}))
    assert body["error"]["code"] == -32603
    assert "errorId" in body["error"]["data"]
    assert "nobody" not in json.dumps(body)


class Form(BaseModel):
    name: str


@tool(hints=READ)
async def asking(ctx: Context) -> str:
    """Ask."""
    ctx.progress(1, 2, "half")
    ctx.tell("asking")
    reply = await ctx.elicit("Who?", Form)
    return f"{reply.action} {reply.data.name if reply.data else ''}"


class TestSpeakingTools:
    """Messages to the client are on the stream of the request, and its answers come with requests of their own."""

    @pytest.fixture
    async def questions(self, site: Site, hub: Hub) -> asyncio.Queue[dict[str, Any]]:
        """What the client hears before the response."""
        await database.run(hub.add, asking)
        await site.open(capabilities={"elicitation": {}})
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        site.hears = heard.put_nowait
        return heard

    async def other(self, site: Site, message: dict[str, Any]) -> int:
        another = Site(site.http, site.key)
        another.session = site.session
        return (await another.ask(message, LEGACY))[0]

    async def next(self, questions: asyncio.Queue[dict[str, Any]], method: str) -> dict[str, Any]:
        while (message := await questions.get())["method"] != method:
            questions.put_nowait(message)
            await asyncio.sleep(0)
        return message

    async def question(self, questions: asyncio.Queue[dict[str, Any]]) -> dict[str, Any]:
        return await self.next(questions, "elicitation/create")

    async def test_report_and_ask(self, site: Site, watch: Watch, questions: asyncio.Queue[dict[str, Any]]) -> None:
        call = asyncio.create_task(site.ask(called("asking", {}, {"progressToken": "p"}), LEGACY))
        assert (await self.next(questions, "notifications/progress"))["params"]["progressToken"] == "p"
        assert (await self.next(questions, "notifications/message"))["params"]["data"] == "asking"
        asked = await self.question(questions)
        assert asked["params"]["message"] == "Who?"
        result = {"action": "accept", "content": {"name": "Ada"}}
        assert await self.other(site, {"jsonrpc": "2.0", "id": asked["id"], "result": result}) == 202
        _, kind, body = await call
        assert kind == "text/event-stream"
        assert body["result"]["content"][0]["text"] == "accept Ada"
        assert watch.taken == ["tools/call"]

    async def test_hear_that_the_client_refuses(self, site: Site, questions: asyncio.Queue[dict[str, Any]]) -> None:
        call = asyncio.create_task(site.ask(called("asking", {}, {}), LEGACY))
        asked = await self.question(questions)
        error = {"code": -1, "message": "no"}
        assert await self.other(site, {"jsonrpc": "2.0", "id": asked["id"], "error": error}) == 202
        assert "refused or timed out" in (await call)[2]["result"]["content"][0]["text"]

    async def test_wait_no_longer_than_allowed(
        self, site: Site, questions: asyncio.Queue[dict[str, Any]], settings: Any
    ) -> None:
        settings.TOOLHUB_ASK_SECONDS = 0.05
        _, _, body = await site.ask(called("asking", {}, {}), LEGACY)
        assert "refused or timed out" in body["result"]["content"][0]["text"]
        asked = await self.question(questions)
        assert (await self.next(questions, "notifications/cancelled"))["params"]["requestId"] == asked["id"]
        late = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}
        assert await self.other(site, late) == 202

    async def test_take_back_a_question_when_the_call_is_cancelled(
        self, site: Site, questions: asyncio.Queue[dict[str, Any]]
    ) -> None:
        call = asyncio.create_task(site.ask(called("asking", {}, {}), LEGACY))
        asked = await self.question(questions)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert await self.other(site, cancel) == 202
        assert (await call)[2]["error"]["code"] == exchange.REQUEST_CANCELLED
        assert (await self.next(questions, "notifications/cancelled"))["params"]["requestId"] == asked["id"]

    async def test_end_with_their_session(self, site: Site, questions: asyncio.Queue[dict[str, Any]]) -> None:
        call = asyncio.create_task(site.ask(called("asking", {}, {}), LEGACY))
        await self.question(questions)
        await site.http.stop()
        assert (await call)[2]["error"]["code"] == exchange.REQUEST_CANCELLED
