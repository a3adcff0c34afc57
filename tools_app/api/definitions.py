"""Tool versions from sources that need approval: what changed, and the decision whether a version may run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import AliasPath, BeforeValidator, Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api.answers import AsIs, NumberAsText, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import caller_of, require
from tools_app.api.bodies import Body, Reason
from tools_app.api.errors import Failure
from tools_app.api.queries import Limit, QueryString, Word, apply_filters, number_in_path, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, differences
from tools_app.models import Definition, ToolRecord
from tools_app.models.tools import DefinitionQuerySet
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["approvals"])

Kind = Literal["tool", "prompt", "resource", "template"]


class DefinitionItem(ResponseSchema):
    id: NumberAsText = Field(validation_alias="pk")
    tool: str = Field(validation_alias=AliasPath("tool", "name"))
    kind: AsIs[Kind] = Field(validation_alias=AliasPath("tool", "kind"))
    original_name: str = Field(
        validation_alias=AliasPath("tool", "original_name"), description="The name or URI that the source uses"
    )
    version: str
    hash: str
    state: AsIs[Literal["waiting", "refused"]]
    first_seen_at: Timestamp
    reason: TextOrNone
    findings: list[str] = Field(description="Suspicious wording to review before approval")


Readable = Annotated[str, BeforeValidator(differences.readable)]


class DefinitionChange(ResponseSchema):
    part: str = Field(examples=["description", "parameter url constraints"])
    kind: Literal["added", "removed", "changed"]
    before: Readable
    after: Readable


class DefinitionDetail(DefinitionItem):
    state: AsIs[Literal["waiting", "refused", "approved"]]  # type: ignore[assignment]
    definition: dict[str, Any] = Field(validation_alias="body")
    since: str | None = Field(description="Hash of the listed or last approved version, the base of `changes`")
    changes: list[DefinitionChange]


class Definitions(ResponseSchema):
    definitions: list[DefinitionItem]


class DefinitionsQuery(QueryString):
    tool: Word | None = optional("Only versions of this tool (full name)")
    state: Literal["waiting", "refused"] | None = optional()
    limit: Limit = 50


class DefinitionDecision(Body):
    reason: Reason = ""


@router.get("", response=Definitions, url_name="definitions")
async def list_definitions(request: HttpRequest, query: Query[DefinitionsQuery]) -> Definitions:
    """List versions of tools, prompts and resources that are waiting for approval or were rejected, newest first.

    Requires `tools:manage`. Keys with toolsets see versions of their tools only.
    """
    rows = apply_filters((await _visible(request)).open(), {"tool__name": query.tool})
    if query.state is not None:
        rows = rows.filter(refused_at__isnull=query.state == "waiting")
    definitions = await database.run(list, rows.select_related("tool").defer("body", "body_text", "raw")[: query.limit])
    return Definitions(definitions=[DefinitionItem.of(definition) for definition in definitions])


@router.get("/{definition_id}", response=DefinitionDetail, url_name="definition")
async def show_definition(request: HttpRequest, definition_id: str) -> DefinitionDetail:
    """Show a tool version and its changes since the listed or last approved version. Requires `tools:manage`."""
    return await database.run(_detail, await _visible(request), definition_id)


@router.post("/{definition_id}/approve", response={200: DefinitionDetail, 409: Failure})
async def approve_definition(request: HttpRequest, definition_id: str, body: DefinitionDecision) -> DefinitionDetail:
    """Approve a tool version, so that it is listed and can be called. Requires `tools:manage`."""
    return await _decide(request, definition_id, governance.approve_definitions, body)


@router.post("/{definition_id}/refuse", response={200: DefinitionDetail, 409: Failure})
async def refuse_definition(request: HttpRequest, definition_id: str, body: DefinitionDecision) -> DefinitionDetail:
    """Reject a tool version, so that it cannot be called. Requires `tools:manage`. It can be approved later."""
    return await _decide(request, definition_id, governance.refuse_definitions, body)


async def _decide(
    request: HttpRequest, definition_id: str, decide: Callable[..., list[str]], body: DefinitionDecision
) -> DefinitionDetail:
    visible, actor = await _visible(request), governance.of_caller(caller_of(request))

    def decide_and_show() -> DefinitionDetail:
        decide([_get(visible, definition_id).pk], actor=actor, reason=body.reason)
        return _detail(visible, definition_id)

    return await database.run(decide_and_show)


async def _visible(request: HttpRequest) -> DefinitionQuerySet:
    """The versions of the tools in the caller's toolsets.

    Raises:
        AuthorizationError: the caller does not manage tools.
    """
    caller = require(request, actions.DEFINITIONS_READ)
    if caller.reach.toolsets is None:
        return Definition.objects.all()
    view = (await catalog.fresh()).seen_by(caller)
    names = [entry.name for entry in view.all]
    return Definition.objects.filter(tool__kind=ToolRecord.Kind.TOOL, tool__name__in=names)


def _get(visible: QuerySet[Definition], definition_id: str) -> Definition:
    definition = visible.select_related("tool").filter(pk=number_in_path(definition_id)).first()
    if definition is None:
        raise NotFoundError("There is no such definition", next_step="Pending definitions are at /v1/definitions.")
    return definition


def _detail(visible: QuerySet[Definition], definition_id: str) -> DefinitionDetail:
    definition = _get(visible, definition_id)
    before = definition.approved_before()
    return DefinitionDetail.of(
        definition,
        since=before.hash if before is not None else None,
        changes=differences.between(before.body, definition.body) if before is not None else [],
    )
