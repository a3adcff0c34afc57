"""Versions of tools whose sources do not approve themselves: what changed, and whether it may run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.errors import failures
from tools_app.api.queries import Limit, QueryString, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, differences
from tools_app.models import Definition
from tools_app.models.tools import DefinitionQuerySet
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["approvals"])


class DefinitionItem(Shown):
    id: str
    tool: str
    version: str
    hash: str
    state: Literal["waiting", "refused"]
    first_seen_at: str
    reason: str | None
    findings: list[str] = Field(description="What of its words an operator should look at before approving it")


class Change(Shown):
    part: str = Field(examples=["description", "parameter url constraints"])
    kind: Literal["added", "removed", "changed"]
    before: str
    after: str


class DefinitionDetail(Shown):
    id: str
    tool: str
    version: str
    hash: str
    state: Literal["waiting", "refused", "approved"]
    first_seen_at: str
    reason: str | None
    findings: list[str] = Field(description="What of its words an operator should look at before approving it")
    definition: dict[str, Any]
    since: str | None = Field(description="The hash of the version that was approved last, with which it is compared")
    changes: list[Change]


class Definitions(Shown):
    definitions: list[DefinitionItem]


class DefinitionsQuery(QueryString):
    tool: Word | None = optional("Only versions of this tool, by its full name")
    state: Literal["waiting", "refused"] | None = optional()
    limit: Limit = 50


class Decision(Body):
    reason: Reason = ""


@router.get("", response={200: Definitions, **failures()}, url_name="definitions")
async def list_definitions(request: HttpRequest, query: Query[DefinitionsQuery]) -> HttpResponse:
    """List versions of tools that wait for an operator or were refused, the latest first. Needs `tools:manage`."""
    rows = narrowed((await _visible(request)).open(), {"tool__name": query.tool})
    if query.state is not None:
        rows = rows.filter(refused_at__isnull=query.state == "waiting")
    found = await database.run(list, rows.select_related("tool").defer("body")[: query.limit])
    return answer({"definitions": [_item(definition) for definition in found]})


@router.get("/{definition_id}", response={200: DefinitionDetail, **failures(404)}, url_name="definition")
async def show_definition(request: HttpRequest, definition_id: str) -> HttpResponse:
    """Show a version of a tool, and what changed since the one that was approved last. Needs `tools:manage`."""
    return answer(await database.run(_detail, await _visible(request), definition_id))


@router.post("/{definition_id}/approve", response={200: DefinitionDetail, **failures(404, 408, 413, 415)})
async def approve_definition(request: HttpRequest, definition_id: str, body: Decision) -> HttpResponse:
    """Let a version of a tool be called. Needs `tools:manage`."""
    return await _decided(request, definition_id, governance.approve_definitions, body)


@router.post("/{definition_id}/refuse", response={200: DefinitionDetail, **failures(404, 408, 409, 413, 415)})
async def refuse_definition(request: HttpRequest, definition_id: str, body: Decision) -> HttpResponse:
    """Keep a version of a tool from being called. Needs `tools:manage`. It can be approved later."""
    return await _decided(request, definition_id, governance.refuse_definitions, body)


async def _decided(
    request: HttpRequest, definition_id: str, decide: Callable[..., list[str]], body: Decision
) -> HttpResponse:
    visible, actor = await _visible(request), str(caller_of(request))

    def decide_and_show() -> dict[str, Any]:
        decide([_found(visible, definition_id).pk], actor=actor, reason=body.reason)
        return _detail(visible, definition_id)

    return answer(await database.run(decide_and_show))


async def _visible(request: HttpRequest) -> DefinitionQuerySet:
    """Of the tools that there are for this caller, if it manages tools."""
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    if caller.reach.toolsets is None:
        return Definition.objects.all()
    seen = (await catalog.fresh()).seen_by(caller)
    return Definition.objects.filter(tool__name__in=[entry.name for entry in seen.all])


def _found(visible: QuerySet[Definition], definition_id: str) -> Definition:
    # Digits that no database could hold, or that are none to people, are no definition's.
    plain = definition_id.isascii() and definition_id.isdecimal() and len(definition_id) < 19
    definition = visible.select_related("tool").filter(pk=int(definition_id) if plain else 0).first()
    if definition is None:
        raise NotFoundError("There is no such definition", next_step="Those that wait are at /v1/definitions.")
    return definition


def _item(definition: Definition) -> dict[str, Any]:
    return {
        "id": str(definition.pk),
        "tool": definition.tool.name,
        "version": definition.version,
        "hash": definition.hash,
        "state": definition.state,
        "firstSeenAt": timestamp(definition.first_seen_at),
        "reason": definition.reason or None,
        "findings": definition.findings,
    }


def _detail(visible: QuerySet[Definition], definition_id: str) -> dict[str, Any]:
    definition = _found(visible, definition_id)
    before = definition.approved_before()
    changes = differences.between(before.body, definition.body) if before is not None else []
    return {
        **_item(definition),
        "definition": definition.body,
        "since": before.hash if before is not None else None,
        "changes": [
            {
                "part": change.part,
                "kind": change.kind,
                "before": differences.readable(change.before),
                "after": differences.readable(change.after),
            }
            for change in changes
        ],
    }
