"""Requests of the REST door, whose bodies are read when it is known who sends them."""

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
    """A request that has its head, and gets its body from `take_body`. Where nobody asks for it, it has none."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, io.BytesIO())
        self._scope = scope
        self._receive = receive
        self._is_gone = False
        # What a large body says, or why it says nothing: read before anybody asks, since that takes a thread.
        self.parsed: Any = None
        self._read = asyncio.Event()

    async def take_body(self, caller: Caller) -> None:
        """Does not return where the client has gone: its request is cancelled."""
        self._scope[SENDER] = caller.id
        body = await whole_body(self._receive)
        self._is_gone = body is None
        self._read.set()
        if body is None:
            await asyncio.Future()
            return
        self._body = body
        limits.count_body(caller, len(body))
        if len(body) > heavy.LARGE_BYTES:
            self.parsed = await heavy.in_turn(caller.id, partial(_parsed, body))

    async def hang_up(self) -> None:
        """Returns when the client does not wait for an answer any more."""
        await self._read.wait()
        if not self._is_gone:
            await self._receive()


async def take_body(request: HttpRequest, caller: Caller) -> None:
    """Read the body of a request whose caller is known. Django's own handlers have read it long before."""
    if isinstance(request, RestRequest):
        await request.take_body(caller)


def parsed_body(request: HttpRequest) -> Any:
    """What the body says, read strictly.

    Raises:
        JsonError
    """
    parsed = request.parsed if isinstance(request, RestRequest) else None
    if isinstance(parsed, JsonError):
        raise parsed
    return json_text.parsed(request.body) if parsed is None else parsed


def _parsed(body: bytes) -> Any:
    try:
        return json_text.parsed(body)
    except JsonError as error:
        return error
