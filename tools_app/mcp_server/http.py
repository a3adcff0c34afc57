"""MCP over streamable HTTP, as an ASGI application for `/mcp` and `/mcp/<toolset>`.

Every request is checked here first: its origin, its key, and that its body is a message. `transport` passes it to the
SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
from mcp_types import JSONRPCRequest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from tools_app import engine
from tools_app.access import access, limits
from tools_app.base import news
from tools_app.base.asgi import SENDER, Again, whole_body
from tools_app.mcp_server import frames, gate
from tools_app.mcp_server.frames import InvalidMessage
from tools_app.mcp_server.gate import Visitor
from tools_app.mcp_server.refusals import RequestRefused
from tools_app.mcp_server.transport import Transport, is_modern
from tools_app.models.audit import coming_from_address
from tools_app.sdk import heavy
from tools_app.sdk.errors import AuthenticationError, NotFoundError, ToolError, shortened
from tools_app.sdk.hub_errors import StoppedError, StorageBusyError

log = logging.getLogger("tools_app.mcp")

DOOR: Final = "mcp"
MAX_BODY: Final = frames.MAX_LINE
# Maximum time that a stream outlives its key, where nothing tells of the change.
KEY_SECONDS: Final = 5.0
_OF_KEYS: Final = (news.ACCESS,)
# Time for the last messages on streams at shutdown.
LEAVE_SECONDS: Final = 0.5


class Http:
    """The application. It starts with the server's lifespan, or with the first request if there is none.

    It does not limit the size of bodies; the middleware in front of it does. Browser pages are accepted from the hub's
    own origin and from `origins`; `*` is all.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)
        self._transport: Transport | None = None

    async def start(self) -> Transport:
        if self._transport is None:
            self._transport = Transport()
        await self._transport.ready()
        return self._transport

    def leave(self) -> None:
        """End the open streams, which a server would wait for at shutdown. For signal handlers."""
        if self._transport is not None:
            self._transport.leave()

    async def stop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = ended = False

        async def tracked_send(message: Message) -> None:
            nonlocal started, ended
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            transport = await self.start()
            address, client = _origin(Request(scope))
            with coming_from_address(address, client):
                await self._serve(transport, scope, receive, tracked_send)
        except Exception as error:
            refusal = await _refusal(error, scope)
            if started:
                raise
            await refusal.response()(scope, receive, tracked_send)
        if started and not ended:  # A stream that we cancelled.
            await send({"type": "http.response.body"})

    async def _serve(self, transport: Transport, scope: Scope, receive: Receive, send: Send) -> None:
        # Whitespace around a header value is not part of it; not every server strips it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        request = Request({**scope, "headers": headers})
        gate.check_place(request, self._origins)
        visitor, caller = await gate.admit(request)
        allowed_methods = ["GET", "POST", "DELETE"] if transport.has_sessions and not is_modern(request) else ["POST"]
        if request.method not in allowed_methods:
            allow = ", ".join(allowed_methods)
            raise RequestRefused.because(HTTPStatus.METHOD_NOT_ALLOWED, f"Allowed methods: {allow}", {"Allow": allow})
        message, body = None, b""
        if request.method == "POST":
            gate.check_form(request)
            scope[SENDER] = caller.id
            content = await whole_body(receive)
            if content is None:
                return
            await limits.count_body(caller, len(content))
            if len(content) > heavy.LARGE_BYTES:
                message = await heavy.in_turn(caller.id, partial(frames.read, content))
            else:
                message = frames.read(content)
            body = content
        again = Again(body, receive)
        response_task = transport.answer(message, request, visitor, caller, again, send)
        subscribes = isinstance(message, JSONRPCRequest) and message.method == "subscriptions/listen"
        try:
            if request.method == "GET" or subscribes:
                await _while_authorized(response_task, visitor, transport)
            else:
                await response_task
        finally:
            again.end()


async def _while_authorized(response_task: Coroutine[Any, Any, None], visitor: Visitor, transport: Transport) -> None:
    """Answer with a stream that ends when its key becomes invalid or the process shuts down."""
    with anyio.CancelScope() as stream:
        watch_task = asyncio.create_task(_watch(visitor, transport, stream))
        try:
            await response_task
        finally:
            watch_task.cancel()


async def _watch(visitor: Visitor, transport: Transport, stream: anyio.CancelScope) -> None:
    leaving = asyncio.create_task(transport.leaving.wait())
    changed: asyncio.Task[None] | None = None
    try:
        seen = news.of_hub().told(_OF_KEYS)
        while True:
            changed = asyncio.create_task(news.of_hub().wait(KEY_SECONDS, seen, _OF_KEYS))
            await asyncio.wait([leaving, changed], return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if leaving.done():
                await asyncio.sleep(LEAVE_SECONDS)
                break
            seen = news.of_hub().told(_OF_KEYS)
            try:
                await visitor.caller()
            except StorageBusyError:
                continue
            except ToolError:
                break
    finally:
        leaving.cancel()
        if changed is not None:
            changed.cancel()
    stream.cancel()


def _origin(request: Request) -> tuple[str, str]:
    """IP address and user agent of the client."""
    return request.client.host if request.client else "", request.headers.get("user-agent", "")


async def _refusal(error: Exception, scope: Scope) -> RequestRefused:
    request_line = f"{scope['method']} {shortened(scope['path'])}"
    match error:
        case RequestRefused():
            if error.status == HTTPStatus.MISDIRECTED_REQUEST:
                host = shortened(Request(scope).headers.get("host", ""))
                _note_wrong_address(scope, f"{host} is none of ALLOWED_HOSTS")
            return error
        case InvalidMessage():
            return RequestRefused.invalid(error)
        case ToolError():
            log.log(error.log_level, "%s: %s %s", request_line, error.code, error.message)
            if isinstance(error, AuthenticationError | StoppedError):
                address, client = _origin(Request(scope))
                engine.note_refusal(error, door=DOOR, address=address, client=client)
            elif isinstance(error, NotFoundError):
                _note_wrong_address(scope, request_line)
            return RequestRefused.by(error, gate.place(scope))
    return RequestRefused.by(await engine.report(error, door=DOOR, where=request_line), gate.place(scope))


def _note_wrong_address(scope: Scope, words: str) -> None:
    """Record a request with a key to an address where nothing is, so that operators see why it does not arrive."""
    request = Request(scope)
    try:
        key = access.read_credential(request.headers.get("x-api-key"), request.headers.get("authorization"))
    except AuthenticationError:
        return
    if (detail := access.presented(key, f"Wrong address: {words}")) is not None:
        address, client = _origin(request)
        engine.note_refusal(NotFoundError(detail=detail), door=DOOR, address=address, client=client)
