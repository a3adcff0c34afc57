"""Calls of resources, which are identified by their URI: several can have the same name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.tools import Hub
from tools_app import engine
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.resource import Resource, resource
from tools_app.sdk.spec import Kind

URIS = ("notes://first", "notes://second")


@pytest.fixture
def two(hub: Hub) -> None:
    for uri in URIS:
        hub.offer(notes(uri))


def notes(uri: str) -> Resource:
    @resource(uri, name="notes")
    async def read() -> str:
        """Read notes."""
        return uri

    return read


async def text_at(uri: str, caller: Caller) -> Any:
    result = await engine.call(f"resource:{uri}", {}, caller, door="code", kind=Kind.RESOURCE)
    assert result.answer.content is not None
    return result.answer.content[0]["resource"]["text"]


@pytest.mark.usefixtures("two")
def test_resources_with_the_same_name_are_read_by_their_uri(alice: Caller) -> None:
    async def both() -> list[Any]:
        return await asyncio.gather(*(text_at(uri, alice) for uri in URIS))

    assert asyncio.run(both()) == list(URIS), "both for the first time, and at once"
    assert set(Call.objects.values_list("tool_name", flat=True)) == {"resource:notes"}
