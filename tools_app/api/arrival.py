"""REST requests. Their bodies are read after authentication, so that they count against the caller's limits."""

from __future__ import annotations

import asyncio
import io
from functools import partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from tools_app.access import limits
from tools_app.base.asgi import SENDER, Receive, Scope, whole_body
from tools_app.sdk import heavy
from tools_app.sdk.context import Caller
from tools_app.text import json_text
from tools_app.text.json_text import JsonError


class RestRequest(ASGIRequest):
    """A request whose body is empty until `take_body` reads it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, io.BytesIO())
        self._scope = scope
        self._receive = receive
        self._is_gone = False
        # The parsed large body, or the JsonError: parsed in advance, in a thread.
        self.parsed_body: Any = None
        self._body_read = asyncio.Event()

    async def take_body(self, caller: Caller) -> None:
        """Read the body. If the client has disconnected, wait for the cancellation of the request instead."""
        self._scope[SENDER] = caller.id
        body = await whole_body(self._receive)
        self._is_gone = body is None
        self._body_read.set()
        if body is None:
            await asyncio.Future()
            return
        self._body = body
        await limits.count_body(caller, len(body))
        if len(body) > heavy.LARGE_BYTES:
            self.parsed_body = await heavy.in_turn(caller.id, partial(_parse, body))

    async def hang_up(self) -> None:
        """Wait until the client disconnects."""
        await self._body_read.wait()
        if not self._is_gone:
            await self._receive()


async def take_body(request: HttpRequest, caller: Caller) -> None:
    """Read the body of an authenticated request. With Django's own handlers it has been read already."""
    if isinstance(request, RestRequest):
        await request.take_body(caller)


def json_body(request: HttpRequest) -> Any:
    """The body, parsed as strict JSON.

    Raises:
        JsonError
    """
    parsed_json = request.parsed_body if isinstance(request, RestRequest) else None
    if isinstance(parsed_json, JsonError):
        raise parsed_json
    return json_text.parsed(request.body) if parsed_json is None else parsed_json


def _parse(body: bytes) -> Any:
    try:
        return json_text.parsed(body)
    except JsonError as error:
        return error
