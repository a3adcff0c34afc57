"""Requests of a client from message to response, without the SDK's dispatcher.

Its tasks and streams cost more than the hub's own work on a call. Its kernel (`ServerRunner`) handles these requests
as it handles all others: it validates them, calls the handler and shapes the result. The dispatcher keeps what opens
a connection or a stream, and every notification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, modern_error_data
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
)

from tools_app.mcp_server import frames

# Sends a message without newline to the client.
Send = Callable[[bytes], Awaitable[None]]

REQUEST_CANCELLED: Final = -32800
# Time to tell a client that it need not answer a question any more.
FAREWELL_SECONDS: Final = 1.0
_DISPATCHED: Final = frozenset({"initialize", "subscriptions/listen"})
_TRANSPORTS: Final = {can_ask: TransportContext(kind="toolhub", can_send_request=can_ask) for can_ask in (False, True)}


def cancel(work: asyncio.Task[Any]) -> None:
    """Cancel the task of an exchange, which has begun then: a task that never began could not answer, nor clean up."""
    work.get_loop().call_soon(work.cancel)


def is_taken(message: JSONRPCMessage | None) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method not in _DISPATCHED


def modern_connection(message: JSONRPCRequest, headers: Mapping[str, str] | None = None) -> Connection:
    """The connection that a request of the modern era brings along.

    Raises:
        MCPError: it is invalid, or differs from the headers.
    """
    route = classify_inbound_request({"method": message.method, "params": message.params}, headers=headers)
    if isinstance(route, InboundLadderRejection):
        raise MCPError(route.code, route.message, route.data)
    return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)


class Questions:
    """Requests to one client that wait for its response."""

    def __init__(self) -> None:
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._last_number = 0
        self._is_closed = False

    async def ask(
        self, send: Send, method: str, params: Mapping[str, Any] | None, seconds: float | None
    ) -> dict[str, Any]:
        """Raises: MCPError, when the client refuses, does not answer in time or has disconnected."""
        if self._is_closed:
            raise _disconnected()
        self._last_number += 1
        # The SDK's dispatcher numbers its own requests to the same client.
        request_id = f"toolhub-{self._last_number}"
        response: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = response
        try:
            async with asyncio.timeout(seconds):
                request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
                await send(frames.encode(request))
                return await response
        except (TimeoutError, asyncio.CancelledError) as error:
            farewell = {"requestId": request_id, "reason": "not needed any more"}
            with anyio.move_on_after(FAREWELL_SECONDS):
                await send(frames.notification("notifications/cancelled", farewell))
            if isinstance(error, TimeoutError):
                raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
            raise
        finally:
            del self._waiting[request_id]

    def takes(self, message: JSONRPCMessage | None) -> bool:
        """Whether the message responds to one of these requests."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return False
        response = self._waiting.get(message.id)
        if response is None:
            return False
        if not response.done():
            if isinstance(message, JSONRPCError):
                response.set_exception(MCPError.from_error_data(message.error))
            else:
                response.set_result(message.result)
        return True

    def close(self) -> None:
        """The client is gone: questions fail, also those that are asked from now on."""
        self._is_closed = True
        for response in self._waiting.values():
            if not response.done():
                response.set_exception(_disconnected())


def _disconnected() -> MCPError:
    return MCPError(CONNECTION_CLOSED, "Connection closed")


class Exchange:
    """One request, and the way back to its client while it runs: the SDK's `DispatchContext`.

    Without `questions` the client cannot be asked. `request` is the HTTP request, if there is one.
    """

    def __init__(self, message: JSONRPCRequest, send: Send, questions: Questions | None, request: Any = None) -> None:
        self.request_id = message.id
        self.transport = _TRANSPORTS[questions is not None]
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self._message = message
        self._send = send
        self._questions = questions
        self._is_closed = False

    @property
    def can_send_request(self) -> bool:
        return self._questions is not None and not self._is_closed

    @property
    def cancel_requested(self) -> anyio.Event:
        # Never set: a cancelled exchange is cancelled as a task.
        return anyio.Event()

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if not self._is_closed:
            await self._send(frames.notification(method, params))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._questions is None or self._is_closed:
            raise NoBackChannelError(method)
        return await self._questions.ask(self._send, method, params, (opts or {}).get("timeout"))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = progress_token_from_params(self._message.params)
        if token is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {k: v for k, v in params.items() if v is not None})

    async def response(
        self, server: Server[Any], connection: Callable[[], Connection]
    ) -> tuple[ErrorData | None, bytes]:
        """The error, if it is one, and the JSON-RPC response without newline. Never raises for a request.

        `connection` may raise an MCPError, which is the response then.
        """
        try:
            runner = ServerRunner(server, connection(), {})
            result = await runner.on_request(self, self._message.method, self._message.params)
            return None, frames.response(self.request_id, result)
        except asyncio.CancelledError:
            # The engine has recorded it.
            error = ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")
        except Exception as exception:
            error = modern_error_data(exception)
        finally:
            self._is_closed = True
        return error, frames.error(self.request_id, error)
