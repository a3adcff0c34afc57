"""Tool versions from sources that need approval: what changed, and the decision whether a version may run."""

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
    findings: list[str] = Field(description="Suspicious wording to review before approval")


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
    findings: list[str] = Field(description="Suspicious wording to review before approval")
    definition: dict[str, Any]
    since: str | None = Field(description="Hash of the last approved version, the base of `changes`")
    changes: list[Change]


class Definitions(Shown):
    definitions: list[DefinitionItem]


class DefinitionsQuery(QueryString):
    tool: Word | None = optional("Only versions of this tool (full name)")
    state: Literal["waiting", "refused"] | None = optional()
    limit: Limit = 50


class Decision(Body):
    reason: Reason = ""


@router.get("", response={200: Definitions, **failures()}, url_name="definitions")
async def list_definitions(request: HttpRequest, query: Query[DefinitionsQuery]) -> HttpResponse:
    """List tool versions that are waiting for approval or were rejected, newest first. Requires `tools:manage`."""
    rows = narrowed((await _visible(request)).open(), {"tool__name": query.tool})
    if query.state is not None:
        rows = rows.filter(refused_at__isnull=query.state == "waiting")
    definitions = await database.run(list, rows.select_related("tool").defer("body")[: query.limit])
    return answer({"definitions": [_item(definition) for definition in definitions]})


@router.get("/{definition_id}", response={200: DefinitionDetail, **failures(404)}, url_name="definition")
async def show_definition(request: HttpRequest, definition_id: str) -> HttpResponse:
    """Show a tool version and its changes since the last approved version. Requires `tools:manage`."""
    return answer(await database.run(_detail, await _visible(request), definition_id))


@router.post("/{definition_id}/approve", response={200: DefinitionDetail, **failures(404, 408, 413, 415)})
async def approve_definition(request: HttpRequest, definition_id: str, body: Decision) -> HttpResponse:
    """Approve a tool version, so that it can be called. Requires `tools:manage`."""
    return await _decide(request, definition_id, governance.approve_definitions, body)


@router.post("/{definition_id}/refuse", response={200: DefinitionDetail, **failures(404, 408, 409, 413, 415)})
async def refuse_definition(request: HttpRequest, definition_id: str, body: Decision) -> HttpResponse:
    """Reject a tool version, so that it cannot be called. Requires `tools:manage`. It can be approved later."""
    return await _decide(request, definition_id, governance.refuse_definitions, body)


async def _decide(
    request: HttpRequest, definition_id: str, decide: Callable[..., list[str]], body: Decision
) -> HttpResponse:
    visible, actor = await _visible(request), str(caller_of(request))

    def decide_and_show() -> dict[str, Any]:
        decide([_get(visible, definition_id).pk], actor=actor, reason=body.reason)
        return _detail(visible, definition_id)

    return answer(await database.run(decide_and_show))


async def _visible(request: HttpRequest) -> DefinitionQuerySet:
    """The versions of the tools in the caller's toolsets.

    Raises:
        AuthorizationError: the caller does not manage tools.
    """
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    if caller.reach.toolsets is None:
        return Definition.objects.all()
    view = (await catalog.fresh()).seen_by(caller)
    return Definition.objects.filter(tool__name__in=[entry.name for entry in view.all])


def _get(visible: QuerySet[Definition], definition_id: str) -> Definition:
    # Not a number that the database can store, or Unicode digits: no such id.
    plain = definition_id.isascii() and definition_id.isdecimal() and len(definition_id) < 19
    definition = visible.select_related("tool").filter(pk=int(definition_id) if plain else 0).first()
    if definition is None:
        raise NotFoundError("There is no such definition", next_step="Pending definitions are at /v1/definitions.")
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
    definition = _get(visible, definition_id)
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
