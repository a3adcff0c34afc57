"""What passes between a client and a source, in all combinations of eras: the table of docs/passing-through.md."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)

from tests.mcp_server.test_server import connected, texts
from tests.support import mcp_upstream
from tests.support.listings import await_listings
from tests.support.mcp_upstream import McpUpstream, text, tool
from tests.support.tools import Hub, eventually
from tools_app import governance, sources
from tools_app.base import database
from tools_app.models import Definition, Source, SourceStatus, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sources.lister import Lister

# The SDK's client finds it wrong to speak as the older era does.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

OPERATOR = governance.trusted("user:olivia")
SAYS = "Read before you write."
UI = {"ui": {"resourceUri": "ui://app"}}
TOOLS = [tool("echo", _meta=UI), tool("gone"), tool("shape", outputSchema={"type": "object"})]
FORM = {
    "mode": "form",
    "message": "Sure?",
    "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]},
}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
QUESTIONS: dict[str, Any] = {"elicitation/create": FORM, "sampling/createMessage": SAMPLE, "roots/list": {}}
ANSWERS = {"elicitation/create": '"sure": true', "sampling/createMessage": "bonjour", "roots/list": "file:///work"}


@pytest.fixture(params=["legacy", "2026-07-28"], ids=["legacy-client", "modern-client"])
def client_era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["legacy", "modern"], ids=["legacy-source", "modern-source"])
def source_era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(hub: Hub, source_era: str) -> Iterator[McpUpstream]:
    with mcp_upstream.running(TOOLS, eras=[source_era]) as upstream:
        upstream.instructions = SAYS
        upstream.resources = [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]
        upstream.templates = [{"uriTemplate": "note://all/{id}", "name": "all"}]
        upstream.prompts = [{"name": "ask", "arguments": [{"name": "what", "required": True}]}]
        row = Source.objects.create(
            name="srv",
            prefix="srv",
            kind="mcp_http",
            location=upstream.url,
            internal=True,
            declares={"elicitation": True, "sampling": True, "roots": True},
        )
        SourceStatus.objects.create(source=row)
        sources.current().describe("srv", actor="test")
        waiting = Definition.objects.open().filter(tool__pack="srv")
        governance.approve_definitions([one.pk for one in waiting], actor=OPERATOR)
        governance.set_enabled([f"srv_{one['name']}" for one in TOOLS], True, actor=OPERATOR)
        governance.approve_instructions("srv", hashlib.sha256(SAYS.encode()).hexdigest(), actor=OPERATOR)
        yield upstream


class User:
    """The person and the model behind a client."""

    async def elicit(self, _: object, params: Any) -> Any:
        assert params.message == "[srv] Sure?"
        return ElicitResult(action="accept", content={"sure": True})

    async def sample(self, _: object, params: Any) -> Any:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="bonjour"), model="m")

    async def roots(self, _: object) -> Any:
        return ListRootsResult(roots=[Root.model_validate({"uri": "file:///work"})])

    @property
    def hears(self) -> dict[str, Any]:
        callbacks = {"elicitation_callback": self.elicit, "sampling_callback": self.sample}
        return {**callbacks, "list_roots_callback": self.roots}


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that happens in the thread of the server."""
    assert await asyncio.to_thread(eventually, lambda: bool(condition()))


async def test_tools_and_instructions(server: McpUpstream, alice: Caller, client_era: str, source_era: str) -> None:
    async with connected("auto" if client_era != "legacy" else client_era, alice) as client:
        assert f"> {SAYS}" in (client.instructions or "")
        listed = {one.name: one for one in (await client.list_tools()).tools}
        assert {"srv_echo", "srv_gone", "srv_shape"} <= listed.keys()
        assert "ui" not in (listed["srv_echo"].meta or {})
        result = await client.call_tool("srv_echo", {"text": "hi"})
        assert '{"text": "hi"}' in texts(result)[0]
        assert (result.meta or {})["toolhub/untrusted"] is True
    era = await database.run(lambda: SourceStatus.objects.get(source__name="srv").era)
    assert era == (mcp_upstream.LEGACY if source_era == "legacy" else mcp_upstream.MODERN)


async def test_structured_content_and_failures(server: McpUpstream, alice: Caller, client_era: str) -> None:
    async with connected(client_era, alice) as client:
        server.behave("shape", result={**text("7"), "structuredContent": {"n": 7}})
        assert (await client.call_tool("srv_shape", {})).structured_content == {"n": 7}
        server.behave("echo", result=text("No such page", isError=True))
        failed = await client.call_tool("srv_echo", {})
        assert (failed.is_error, texts(failed)[0]) == (True, "No such page")
        server.behave("echo", error=(-32603, "broken"))
        refused = await client.call_tool("srv_echo", {})
        assert (refused.is_error, texts(refused)[0]) == (True, "srv refused the call: broken")


async def test_progress_and_log(server: McpUpstream, alice: Caller, client_era: str) -> None:
    server.behave("echo", progress=3, log=2)
    heard: list[Any] = []
    logged: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def on_log(params: Any) -> None:
        logged.append((params.level, params.data))

    async with connected(client_era, alice, logging_callback=on_log, log_level="info") as client:
        await client.call_tool("srv_echo", {"text": "hi"}, progress_callback=on_progress)
        await until(lambda: len(logged) == 2 and len(heard) == 3)
    assert heard == [(1, 3, "on"), (2, 3, "on"), (3, 3, "on")]
    assert logged == [("info", "message 0"), ("info", "message 1")]


async def test_cancel(server: McpUpstream, alice: Caller, client_era: str) -> None:
    server.behave("echo", hang=True)
    async with connected(client_era, alice) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "srv_echo", {"text": "hi"})
            await until(lambda: server.executions["echo"])
            tasks.cancel_scope.cancel()
        await until(lambda: server.cancelled)


@pytest.mark.parametrize("method", QUESTIONS)
async def test_questions(server: McpUpstream, alice: Caller, client_era: str, source_era: str, method: str) -> None:
    if source_era == "legacy":
        server.behave("echo", request=(method, QUESTIONS[method]))
    else:
        server.behave("echo", asks={"q": {"method": method, "params": QUESTIONS[method]}})
    async with connected(client_era, alice, **User().hears) as client:
        result = await client.call_tool("srv_echo", {"text": "hi"})
    if client_era != "legacy" and source_era == "legacy":
        # The call runs already, and this client could answer only by repeating it. The source decides what that means.
        assert "The client cannot answer this" in texts(result)[0]
    else:
        assert ANSWERS[method] in texts(result)[0]
    assert server.executions["echo"] == 1


async def test_questions_that_a_client_cannot_answer(
    server: McpUpstream, alice: Caller, client_era: str, source_era: str
) -> None:
    server.behave("echo", request=("elicitation/create", FORM))
    if source_era == "modern":
        server.behave("echo", asks={"q": {"method": "elicitation/create", "params": FORM}})
    async with connected(client_era, alice) as client:
        if source_era == "legacy":
            assert "The client cannot answer this" in texts(await client.call_tool("srv_echo", {}))[0]
        elif client_era == "legacy":
            result = await client.call_tool("srv_echo", {})
            assert (result.meta or {})["toolhub/error"]["code"] == "INPUT_REQUIRED"
        else:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("srv_echo", {})
            assert caught.value.data["requiredCapabilities"] == {"elicitation": {}}


@asynccontextmanager
async def lister() -> AsyncIterator[None]:
    running = Lister(0.05)
    running.start()
    try:
        yield
    finally:
        await asyncio.to_thread(running.stop, 10)
        await asyncio.to_thread(await_listings)


async def test_list_changed(server: McpUpstream, alice: Caller, client_era: str) -> None:
    told = anyio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with lister(), connected(client_era, alice, message_handler=note) as client:
        await client.call_tool("srv_echo", {"text": "hi"})
        await until(lambda: server.listening)
        await client.list_tools()

        def remove() -> None:
            server.tools = [one for one in TOOLS if one["name"] != "gone"]
            server.changed()

        if client_era == "legacy":
            remove()
            await told.wait()
        else:
            async with client.listen(tools_list_changed=True) as changes:
                remove()
                await anext(changes)
        assert "srv_gone" not in [one.name for one in (await client.list_tools()).tools]
        assert (await client.call_tool("srv_gone", {})).is_error


async def test_resources_templates_and_prompts(server: McpUpstream, alice: Caller, client_era: str) -> None:
    async with connected(client_era, alice) as client:
        [note] = [one for one in (await client.list_resources()).resources if "note" in one.uri]
        [notes] = [
            one for one in (await client.list_resource_templates()).resource_templates if "note" in one.uri_template
        ]
        for uri, original in ((note.uri, "note://one"), (notes.uri_template.replace("{id}", "7"), "note://all/7")):
            [contents] = (await client.read_resource(uri)).contents
            assert isinstance(contents, TextResourceContents)
            assert (contents.uri, f"text of {original}" in contents.text) == (uri, True)
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("note://none")
        assert "srv_ask" in [one.name for one in (await client.list_prompts()).prompts]
        [message] = (await client.get_prompt("srv_ask", {"what": "it"})).messages
        assert '"what": "it"' in getattr(message.content, "text", "")
        with pytest.raises(MCPError, match="what"):
            await client.get_prompt("srv_ask", {})
        # Not passed on, but answered.
        for reference in (
            PromptReference(type="ref/prompt", name="srv_ask"),
            ResourceTemplateReference(type="ref/resource", uri=notes.uri_template),
        ):
            name = "what" if isinstance(reference, PromptReference) else "id"
            completed = await client.complete(reference, {"name": name, "value": "i"})
            assert completed.completion.values == []
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("ui://app")
    assert server.count("completion/complete") == 0


async def test_subscriptions_are_the_hubs(server: McpUpstream, alice: Caller, client_era: str) -> None:
    async with connected(client_era, alice) as client:
        [note] = [one for one in (await client.list_resources()).resources if "note" in one.uri]
        if client_era == "legacy":
            await client.session.subscribe_resource(note.uri)
            with pytest.raises(MCPError):
                await client.session.subscribe_resource("note://none")
        else:
            async with client.listen(resource_subscriptions=[note.uri]):
                pass
    assert server.count("resources/subscribe") == 0


async def test_a_tool_that_the_source_does_not_know(server: McpUpstream, alice: Caller, client_era: str) -> None:
    server.tools = [one for one in TOOLS if one["name"] != "echo"]
    async with connected(client_era, alice) as client:
        result = await client.call_tool("srv_echo", {"text": "hi"})
        assert (result.meta or {})["toolhub/error"]["code"] == "DEFINITION_CHANGED"
    assert await database.run(ToolRecord.objects.filter(name="srv_echo").exists)
