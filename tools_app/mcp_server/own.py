"""The resources that the hub itself has, each for its caller: the tools, and the calls."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError

from tools_app.base import database
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import handbook
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.hub_errors import StorageBusyError
from tools_app.sdk.resource import OWN_SCHEME
from tools_app.sdk.uris import UriTemplate

MIME_TYPE: Final = "text/markdown"
LATEST: Final = 20
MOST_COMPLETED: Final = 1_000

_overviews: WeakKeyDictionary[Snapshot, str] = WeakKeyDictionary()

Values = Mapping[str, str]
RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Own:
    """One of them. `read` knows nothing: None. Only what is `lasting` can be subscribed to."""

    template: UriTemplate
    name: str
    title: str
    description: str
    read: Callable[[Snapshot, Caller, Values], Awaitable[str | None]]
    complete: Callable[[Snapshot, Caller], Awaitable[list[str]]] | None = None
    lasting: bool = False

    @property
    def uri(self) -> str:
        return self.template.text

    def wire(self) -> dict[str, Any]:
        return {
            ("uriTemplate" if self.template.variables else "uri"): self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": MIME_TYPE,
        }


def find(uri: str) -> tuple[Own, dict[str, str]] | None:
    if uri.startswith(OWN_SCHEME):
        for one in ALL:
            if (values := one.template.values(uri)) is not None:
                return one, values
    return None


async def text(uri: str, seen: Snapshot, caller: Caller) -> str | None:
    """What is to be read there; None when there is nothing for this caller.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    if (found := find(uri)) is None:
        return None
    one, values = found
    return await one.read(seen, caller, values)


async def digest(uri: str, seen: Snapshot, caller: Caller) -> str:
    """Differs when there is something else to read."""
    return hashlib.sha256((await text(uri, seen, caller) or "").encode(errors="replace")).hexdigest()


async def _overview(seen: Snapshot, _: Caller, __: Values) -> str:
    # The longest of them, and the same for all who see the same.
    text = _overviews.get(seen)
    if text is None:
        text = _overviews[seen] = handbook.overview(seen)
    return text


async def _tool(seen: Snapshot, _: Caller, values: Values) -> str | None:
    entry = seen.find(values["name"])
    return handbook.page(entry) if entry is not None else None


async def _calls_of_tool(seen: Snapshot, caller: Caller, values: Values) -> str | None:
    entry = seen.find(values["name"])
    if entry is None:
        return None
    theirs = Call.objects.filter(caller_id=caller.id, tool_name=entry.name).order_by("-started_at")
    latest = await _asked(lambda: list(theirs.defer("arguments", "result")[:LATEST]))
    return handbook.calls(entry, latest)


async def _call(_: Snapshot, caller: Caller, values: Values) -> str | None:
    call_id = values["id"]
    if not call_id.isalnum():
        return None
    call = await _asked(Call.objects.filter(caller_id=caller.id, pk=call_id).first)
    return handbook.call(call) if call is not None else None


async def _names(seen: Snapshot, _: Caller) -> list[str]:
    return [entry.shown_name for entry in seen.all]


async def _ids(_: Snapshot, caller: Caller) -> list[str]:
    theirs = Call.objects.filter(caller_id=caller.id).order_by("-started_at").values_list("pk", flat=True)
    return await _asked(lambda: list(theirs[:MOST_COMPLETED]))


async def _asked(question: Callable[[], RowT]) -> RowT:
    try:
        return await database.run(question)
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error


ALL: Final = (
    Own(
        UriTemplate("toolhub://tools"),
        "tools",
        "Tools at a glance",
        "The tools that you can use, by category, and those that you cannot use now.",
        _overview,
        lasting=True,
    ),
    Own(
        UriTemplate("toolhub://tools/{name}"),
        "tool",
        "A tool, explained",
        "What a tool does, its parameters, examples and limits.",
        _tool,
        _names,
        lasting=True,
    ),
    Own(
        UriTemplate("toolhub://tools/{name}/calls"),
        "calls",
        "Your latest calls of a tool",
        f"How your last {LATEST} calls of a tool ended.",
        _calls_of_tool,
        _names,
    ),
    Own(
        UriTemplate("toolhub://calls/{id}"),
        "call",
        "One of your calls",
        "How a call of yours went, by its id (`toolhub/callId` in the answer).",
        _call,
        _ids,
    ),
)
FIXED: Final = tuple(one for one in ALL if not one.template.variables)
TEMPLATES: Final = tuple(one for one in ALL if one.template.variables)
