"""Sources of tools: list, show, add, change, test, approve, list again and remove."""

from __future__ import annotations

from typing import Any, Final, Literal

from django.db import transaction
from django.http import HttpRequest
from ninja import Query
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from tools_app import governance
from tools_app.access import actions
from tools_app.api import source_items
from tools_app.api.authentication import actor_of, caller_of, require
from tools_app.api.bodies import Body, Reason, without_default
from tools_app.api.errors import Failure
from tools_app.api.queries import (
    Flag,
    Limit,
    Page,
    QueryString,
    Removal,
    apply_filters,
    number_in_path,
    optional,
    rows_of,
)
from tools_app.api.routing import StrictRouter
from tools_app.api.slow import run_apart
from tools_app.api.source_documents import MOST_SELECTED, DocumentBody
from tools_app.api.source_items import (
    AdmissionReport,
    Approved,
    Capability,
    Description,
    SourceDetail,
    SourceItem,
    SourceKind,
    SourcePage,
    SourceTest,
    Start,
    Trust,
    named,
)
from tools_app.api.tools import Pagination, PolicyDecision
from tools_app.base import database
from tools_app.governance import Actor
from tools_app.models import Definition
from tools_app.sdk.errors import Problem, ValidationError

router = StrictRouter(tags=["sources"])


class SourceQuery(QueryString):
    kind: SourceKind | None = optional("Only sources of this kind")
    enabled: Flag | None = optional("Only enabled sources, or only disabled ones")
    page: Page = 1
    limit: Limit = 50


class NewSource(DocumentBody):
    """A server of MCP over HTTP, or an OpenAPI document. Commands are added at the shell or in the admin."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9]{1,15}$",
        description="Names of its tools begin with it; it is never used again",
        examples=["wiki"],
    )
    kind: Literal["mcp_http", "openapi"] = "mcp_http"
    location: str = Field(
        default="",
        description="URL, without secrets. Of a document: the base URL of the service; empty: the only absolute one "
        "that the document names",
        examples=["https://wiki.example.org/mcp"],
    )
    internal: bool = Field(
        default=False,
        description="Permit a private address and plain http. Only people and keys with `admin:*` can do this",
    )
    per_session: bool = Field(default=False, description="Every client session has an upstream session of its own")
    declares: list[Capability] = Field(default=[], description="Client capabilities that the server may use")
    failure_pattern: str = Field(
        default="", max_length=500, description="Regular expression: results whose text matches are failures"
    )
    select: list[str] | None = Field(
        default=None,
        max_length=MOST_SELECTED,
        description="Of a document: operations, or patterns for them, as `PATCH …/operations` takes them; null: all",
    )
    reason: Reason = ""

    def add(self, actor: Actor) -> None:
        """Raises: ToolError."""
        parts: dict[str, Any] = {
            name: getattr(self, name) for name in ("name", "location", "internal", "failure_pattern", "reason")
        }
        of_servers, of_documents = ({name: getattr(self, name) for name in names} for names in (_SERVER, _DOCUMENT))
        is_document = self.kind == "openapi"
        for name, value in (of_servers if is_document else of_documents).items():
            if value:
                problem = f"A source of the kind {self.kind} has no {to_camel(name)}"
                raise ValidationError(problems=[Problem(f"/{to_camel(name)}", problem)])
        if is_document:
            governance.import_document(**parts, **self.given(), select=self.select, actor=actor)
        else:
            governance.add_source(**parts, **of_servers, kind=self.kind, actor=actor)


_SERVER: Final = ("per_session", "declares")
_DOCUMENT: Final = ("document", "document_url", "select")


class SourceChange(Body):
    """Decisions of operators about a source. Omitted fields are unchanged."""

    enabled: bool = Field(default=True, json_schema_extra=without_default)
    trust: Trust | None = Field(
        default=None,
        description="What is approved without an operator: everything (`auto`), only the first version of new tools "
        "(`hold_changes`) or nothing (`hold_all`); null: the default of its kind. Versions that wait are not decided "
        "by the change, but when the source is described next",
    )
    policy: PolicyDecision = Field(default=PolicyDecision(), json_schema_extra=without_default)
    approved_instructions: str | None = Field(
        default=None,
        max_length=64,
        description="Hash of the instructions to approve, until the server changes them; null: none",
    )
    location: str = Field(
        default="", description="URL of a server. Another one holds the source", json_schema_extra=without_default
    )
    connection: str | None = Field(default=None, description="The account with which it is listed; null: none")
    internal: bool = Field(
        default=False,
        description="Permit a private address and plain http. Only people and keys with `admin:*` can do this",
        json_schema_extra=without_default,
    )
    start: Start = Field(default="on_demand", json_schema_extra=without_default)
    per_session: bool = Field(default=False, json_schema_extra=without_default)
    declares: list[Capability] = Field(default=[], json_schema_extra=without_default)
    failure_pattern: str = Field(default="", max_length=500, json_schema_extra=without_default)
    pin_defaults: bool = Field(default=True, json_schema_extra=without_default)
    reason: Reason = ""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"enabled": False, "reason": "The tracker is being moved"},
                {"trust": "hold_changes", "policy": {"timeoutMs": 5000, "retries": None}},
                {"location": "https://wiki.example.org/v2/mcp"},
            ]
        }
    )

    def origin(self) -> dict[str, Any]:
        """The named parts of its origin."""
        names = self.model_fields_set & _ORIGIN
        return {name: getattr(self, name) for name in names} | (
            {"connection": self.connection or ""} if "connection" in names else {}
        )


_ORIGIN: Final = frozenset(
    {
        *("location", "connection", "internal", "start", "per_session", "declares", "failure_pattern"),
        "pin_defaults",
    }
)


class Explanation(Body):
    reason: Reason = ""


class AdmissionTest(Body):
    call_read_only: bool = Field(
        default=False, description="Also call up to three tools that say they only read, with wrong arguments"
    )
    reason: Reason = ""


class Approval(Body):
    """Which versions of a source to approve: all that wait, or some. Versions that came later are not approved."""

    tools: list[str] | None = Field(default=None, max_length=2_000, description="Names of tools; null: all that wait")
    definitions: list[str] | None = Field(
        default=None, max_length=2_000, description="Ids of the versions that were seen; null: the latest ones"
    )
    enable: bool = Field(default=False, description="Also switch them on")
    accept_hints: bool = Field(
        default=False,
        description="Believe what they say about their calls. Only people and keys with `admin:*` can do this",
    )
    reason: Reason = ""


@router.get("", response={200: SourcePage, 304: None}, url_name="sources")
async def list_sources(request: HttpRequest, query: Query[SourceQuery]) -> SourcePage:
    """List the sources by name, in pages. Requires `tools:manage` and a key not restricted to toolsets."""
    require(request, actions.SOURCES_READ)
    return await database.run(_page, query)


@router.post("", response={201: SourceDetail, 409: Failure})
async def add_source(request: HttpRequest, body: NewSource) -> SourceDetail:
    """Add an MCP server or an OpenAPI document as a draft: it is off, and its tools wait for approval.

    Requires `sources:manage`. The key must not be restricted to toolsets. Without `admin:*` it cannot approve what the
    source lists. A document is read at once; `POST /v1/sources/preview` shows what it has.
    """
    actor = actor_of(request, actions.SOURCE_CREATE)
    await run_apart(body.add, actor=actor)
    return await database.run(SourceDetail.named, body.name)


@router.get("/{source_name}", response={200: SourceDetail, 304: None}, url_name="source")
async def show_source(request: HttpRequest, source_name: str) -> SourceDetail:
    """Show a source with its load problems and policy. Requires `tools:manage` and a key not restricted to toolsets.

    For a source outside, that includes what its server says, and the versions that wait for approval.
    """
    require(request, actions.SOURCES_READ)
    return await database.run(SourceDetail.named, source_name)


@router.patch("/{source_name}", response={200: SourceDetail, 409: Failure})
async def change_source(request: HttpRequest, source_name: str, body: SourceChange) -> SourceDetail:
    """Enable or disable a source, and set its trust and policy, atomically. Requires `tools:manage`.

    The key must not be restricted to toolsets. The calls of all tools of a disabled source are refused, from the next
    call on. Trust can be made less strict only by people and by keys with `admin:*`.

    The origin of a source outside (`location` and the fields below it) requires `sources:manage` instead. With another
    URL the source is disabled, its tools need approval again, and its secrets must be set again. The command of a
    source can be changed only at the shell or in the admin.
    """
    caller = caller_of(request)
    decided = body.model_fields_set - _ORIGIN - {"reason"}
    if body.origin():
        actions.SOURCE_ORIGIN.require(caller)
    if decided or not body.origin():
        actions.SOURCE_CHANGE.require(caller)
    actor = governance.of_caller(caller)
    await database.run(_change, named(source_name), body, decided, actor)
    return await database.run(SourceDetail.named, source_name)


@router.delete("/{source_name}", response={204: None, 409: Failure})
async def remove_source(request: HttpRequest, source_name: str, query: Query[Removal]) -> None:
    """Remove a source outside: its tools are retired, its secrets deleted. Requires `sources:manage`.

    The key must not be restricted to toolsets. Its name is never used again; its calls stay in the journal.
    """
    actor = actor_of(request, actions.SOURCE_REMOVE)
    await database.run(governance.remove_source, named(source_name), actor=actor, reason=query.reason or "")


@router.post("/{source_name}/test", response={200: SourceTest, 409: Failure})
async def test_source(request: HttpRequest, source_name: str) -> SourceTest:
    """Connect to a source outside, and return what it has. Records no tools. Requires `sources:manage`.

    The key must not be restricted to toolsets. Takes up to some minutes if a program has to be installed first.
    """
    actor = actor_of(request, actions.SOURCE_TEST)
    return SourceTest.of(await run_apart(governance.test_source, named(source_name), actor=actor))


@router.post("/{source_name}/admission", response={200: AdmissionReport, 409: Failure})
async def admit_source(request: HttpRequest, source_name: str, body: AdmissionTest) -> AdmissionReport:
    """Run a source outside once in isolation, and store a report about it. Requires `sources:manage`.

    The key must not be restricted to toolsets. Takes up to four minutes. Nothing else is changed.
    """
    actor = actor_of(request, actions.SOURCE_ADMIT)
    name, calls = named(source_name), body.call_read_only
    row = await run_apart(governance.admit_source, name, call_read_only=calls, actor=actor, reason=body.reason)
    return AdmissionReport.shown(row)


@router.get("/{source_name}/admission", response={200: AdmissionReport, 304: None}, url_name="source-admission")
async def show_admission(request: HttpRequest, source_name: str) -> AdmissionReport:
    """Show the last admission report about a source. Requires `tools:manage` and a key not restricted to toolsets."""
    require(request, actions.SOURCES_READ)
    return AdmissionReport.shown(await database.run(governance.latest_admission, named(source_name)))


@router.post("/{source_name}/approve", response={200: Approved, 409: Failure})
async def approve_tools(request: HttpRequest, source_name: str, body: Approval) -> Approved:
    """Approve the versions of a source outside that wait, all or some. Requires `tools:manage`.

    Without `tools` and `definitions`, versions with findings are left alone, and those that were rejected. A key that
    has set the URL of the source itself needs `admin:*`.
    """
    actor = actor_of(request, actions.SOURCE_CHANGE)
    return await database.run(_approve, named(source_name), body, actor)


@router.post("/{source_name}/describe", response={200: Description, 409: Failure})
async def describe_source(request: HttpRequest, source_name: str, body: Explanation) -> Description:
    """Describe a source again now, and record what it contains. Requires `tools:manage`.

    The key must not be restricted to toolsets. Refused if this process does not have the source.
    """
    actor = actor_of(request, actions.SOURCE_DESCRIBE)
    report = await run_apart(governance.describe_source, named(source_name), actor=actor, reason=body.reason)
    return Description.of(report, source=await database.run(SourceDetail.named, source_name))


@router.post("/{source_name}/reconnect", response={200: SourceDetail, 409: Failure})
async def reconnect_source(request: HttpRequest, source_name: str, body: Explanation) -> SourceDetail:
    """End the connections and child processes of a source outside, and list it at once. Requires `tools:manage`.

    The key must not be restricted to toolsets.
    """
    actor = actor_of(request, actions.SOURCE_RECONNECT)
    await database.run(governance.reconnect_source, named(source_name), actor=actor, reason=body.reason)
    return await database.run(SourceDetail.named, source_name)


def _change(name: str, body: SourceChange, decided: set[str], actor: Actor) -> None:
    """All parts, in one transaction."""
    with transaction.atomic():
        if origin := body.origin():
            governance.change_origin(name, **origin, actor=actor, reason=body.reason)
        if "approved_instructions" in decided:
            governance.approve_instructions(name, body.approved_instructions or "", actor=actor, reason=body.reason)
        if decided - {"approved_instructions"} or not origin:
            governance.change_source(
                name,
                enabled=body.enabled if "enabled" in decided else None,
                trust=(body.trust or "") if "trust" in decided else None,
                policy=body.policy.as_columns(),
                actor=actor,
                reason=body.reason,
            )


def _approve(name: str, body: Approval, actor: Actor) -> Approved:
    seen = None if body.definitions is None else {number_in_path(text) for text in body.definitions}
    approved = governance.approve_tools(
        name,
        body.tools,
        definitions=seen,
        enable=body.enable,
        accept_hints=body.accept_hints,
        actor=actor,
        reason=body.reason,
    )
    approved_keys = set(
        Definition.objects.filter(pk__in=seen or (), approved_at__isnull=False).values_list("pk", flat=True)
    )
    outdated = [text for text in body.definitions or () if number_in_path(text) not in approved_keys]
    managed = governance.managed_tools(approved) if body.enable or body.accept_hints else []
    return Approved(approved=approved, managed=managed, outdated=outdated, source=SourceDetail.named(name))


def _page(query: SourceQuery) -> SourcePage:
    rows = apply_filters(source_items.rows(), {"kind": query.kind, "enabled": query.enabled})
    pagination = Pagination.over(query, total=rows.count())
    return SourcePage(sources=[SourceItem.shown(source) for source in rows[rows_of(query)]], pagination=pagination)
