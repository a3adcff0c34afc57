"""The hub's own resources, for each caller: its tools and its calls."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError
from django.utils import timezone

from tools_app.base import database
from tools_app.catalog.snapshot import Snapshot
from tools_app.engine import budgets
from tools_app.journal.budgets import limits as limits_of
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
    """A resource. `read` returns None if it does not exist. Only a `lasting` resource can be subscribed to."""

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


async def text(uri: str, view: Snapshot, caller: Caller) -> str | None:
    """The content; None if it does not exist for this caller.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    if (match := find(uri)) is None:
        return None
    resource, values = match
    return await resource.read(view, caller, values)


async def digest(uri: str, view: Snapshot, caller: Caller) -> str:
    """A hash that changes with the content."""
    return hashlib.sha256((await text(uri, view, caller) or "").encode(errors="replace")).hexdigest()


async def _overview(view: Snapshot, _: Caller, __: Values) -> str:
    # Cached: it is the longest, and the same for all callers with the same view.
    text = _overviews.get(view)
    if text is None:
        text = _overviews[view] = handbook.overview(view)
    return text


async def _tool(view: Snapshot, _: Caller, values: Values) -> str | None:
    entry = view.find(values["name"])
    return handbook.page(entry) if entry is not None else None


async def _calls_of_tool(view: Snapshot, caller: Caller, values: Values) -> str | None:
    entry = view.find(values["name"])
    if entry is None:
        return None
    rows = Call.objects.filter(caller_id=caller.id, tool_name=entry.name).order_by("-started_at")
    latest = await _query(lambda: list(rows.defer("arguments", "result")[:LATEST]))
    return handbook.calls(entry, latest)


async def _call(_: Snapshot, caller: Caller, values: Values) -> str | None:
    call_id = values["id"]
    if not call_id.isalnum():
        return None
    call = await _query(Call.objects.filter(caller_id=caller.id, pk=call_id).first)
    return handbook.call(call) if call is not None else None


async def _budgets(view: Snapshot, caller: Caller, _: Values) -> str:
    found = budgets.of_caller(caller, view)
    now = timezone.now()
    limits = await _query(lambda: limits_of(found, now))
    return handbook.budgets({budgets.in_words(subject, caller): limits[subject] for subject in limits})


async def _names(view: Snapshot, _: Caller) -> list[str]:
    return [entry.shown_name for entry in view.all]


async def _ids(_: Snapshot, caller: Caller) -> list[str]:
    rows = Call.objects.filter(caller_id=caller.id).order_by("-started_at").values_list("pk", flat=True)
    return await _query(lambda: list(rows[:MOST_COMPLETED]))


async def _query(query: Callable[[], RowT]) -> RowT:
    try:
        return await database.run(query)
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error


ALL: Final = (
    Own(
        UriTemplate("toolhub://tools"),
        "tools",
        "Tools at a glance",
        "The tools that you can call, by category, and those that cannot be called now.",
        _overview,
        lasting=True,
    ),
    Own(
        UriTemplate("toolhub://budgets"),
        "budgets",
        "Your budgets",
        "How many calls and tokens you can use a day and a month, what is used, and when it resets.",
        _budgets,
    ),
    Own(
        UriTemplate("toolhub://tools/{name}"),
        "tool",
        "Tool details",
        "What a tool does, its parameters, examples and limits.",
        _tool,
        _names,
        lasting=True,
    ),
    Own(
        UriTemplate("toolhub://tools/{name}/calls"),
        "calls",
        "Your latest calls of a tool",
        f"Your last {LATEST} calls of a tool, and how they ended.",
        _calls_of_tool,
        _names,
    ),
    Own(
        UriTemplate("toolhub://calls/{id}"),
        "call",
        "One of your calls",
        "Details of one of your calls, by its id (`toolhub/callId` in the result).",
        _call,
        _ids,
    ),
)
FIXED: Final = tuple(one for one in ALL if not one.template.variables)
TEMPLATES: Final = tuple(one for one in ALL if one.template.variables)
