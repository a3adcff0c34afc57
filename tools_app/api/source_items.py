"""Sources as REST shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from django.db.models import Count, Q, QuerySet
from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel

from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.definitions import DefinitionItem
from tools_app.api.tools import Pagination, RateLimit
from tools_app.catalog import catalog, listed
from tools_app.catalog.source_states import SourceState, state_of, status_of
from tools_app.governance import document_of, waiting_versions
from tools_app.models import Admission, Source
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.spec import Kind
from tools_app.sources.documents import needs_of

SourceKind = Literal["shipped", "plugin", "app", "folder", "code", "mcp_http", "mcp_stdio", "openapi"]
Trust = Literal["auto", "hold_changes", "hold_all"]
Start = Literal["on_demand", "always"]
Capability = Literal["elicitation", "sampling", "roots"]

MOST_WAITING: Final = 100


class SourceItem(ResponseSchema):
    name: str = Field(examples=["n8n"])
    kind: AsIs[SourceKind]
    location: str = Field(description="Module, directory or URL")
    enabled: bool
    trust: Annotated[AsIs[Trust | None], AfterValidator(lambda trust: trust or None)] = Field(
        description="Set by an operator; null: the default of its kind"
    )
    effective_trust: AsIs[Trust]
    state: SourceState = Field(
        description="`incomplete`: a part could not be loaded; `not_configured`: this process does not have it"
    )
    error: TextOrNone = Field(description="Why it failed or is incomplete")
    since: Timestamp | None = Field(description="Time of the first failure in a row")
    described_at: Timestamp | None = Field(description="When its tools were recorded last")
    next_try_at: Timestamp | None
    tools: int = Field(validation_alias="number_of_tools", description="Number of its tools")

    @classmethod
    def shown(cls, source: Source, **details: Any) -> Self:
        status = status_of(source)
        return cls.of(
            source,
            state=state_of(source),
            error=status.error,
            since=status.since,
            described_at=status.described_at,
            next_try_at=status.next_try_at,
            **details,
        )


class SourcePolicy(ResponseSchema):
    """Limits of calls of its tools; null inherits from the tool's author, its pack or the settings."""

    timeout_ms: int | None
    retries: int | None
    retry_delay_ms: int | None
    rate_limit: RateLimit | None
    cache_seconds: int | None
    answer_tokens: int | None


class SourceProblem(ResponseSchema):
    place: str
    reason: str
    tool: TextOrNone


class Claims(ResponseSchema):
    """What a tool says about its calls; null: nothing."""

    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None


class WaitingVersion(DefinitionItem):
    """A version that no operator has decided about. Everything that it says was written by others."""

    change: Literal["new", "changed"] = Field(description="`changed`: agents see the approved version meanwhile")
    claims: Claims


class Instructions(ResponseSchema):
    """What a server says to agents about all of its tools."""

    text: str
    untrusted: Literal[True] = True
    hash: str = Field(description="What an approval names: `PATCH` with `approvedInstructions`")
    approved: bool = Field(description="Whether an operator has approved this text")


class ConnectionNeed(ResponseSchema):
    """A security scheme of a document, as the connection that fits it."""

    scheme: str
    form: Literal["header", "bearer", "basic", "query"] | None = Field(description="Null: no connection fits it")
    names: list[str] = Field(description="Headers or parameters of the secret, or what is not supported")

    @classmethod
    def all_of(cls, needs: Iterable[Any]) -> list[Self]:
        return [cls.of(need, form=need.form or None) for need in needs]


class AnswerFinding(ResponseSchema):
    """Answers of an operation that deviate from what its document declares. It has no values of an answer."""

    operation: str = Field(description="Method and path", examples=["GET /pets/{petId}"])
    difference: str = Field(description="Of the latest of these answers: its place, and what is there instead")
    status: int = Field(description="HTTP status of the latest of these answers")
    count: int = Field(description="Number of these answers")
    first_at: Timestamp
    last_at: Timestamp


class DocumentItem(ResponseSchema):
    """The OpenAPI document of a source. Its texts were written by others."""

    url: TextOrNone = Field(validation_alias="address", description="Where it is read again; null: it was uploaded")
    title: str
    version: str
    digest: str = Field(description="SHA-256 of the document")
    fetched_at: Timestamp | None = Field(description="When it was read, or confirmed, last")
    error: TextOrNone = Field(description="Why it could not be read again: the version before it applies")
    operations: int = Field(description="Number of its operations that can be tools")
    unsupported: int = Field(description="Number of those that cannot; `GET …/operations` has the reasons")
    selected: list[str] | None = Field(description="Operations that are imported; null: all")
    needs: list[ConnectionNeed] = Field(description="Connections that fit its security schemes; agents need one")
    answer_findings: list[AnswerFinding] = Field(
        description="Operations whose answers deviate from the document, latest first; no call fails for that. "
        "A changed document or selection, and `POST …/reconnect`, clear them"
    )

    @classmethod
    def shown(cls, source: Source) -> Self | None:
        document = document_of(source)
        if document is None:
            return None
        numbers = {name: document.facts.get(name, 0) for name in ("operations", "unsupported")}
        texts = {name: document.facts.get(name, "") for name in ("title", "version")}
        return cls.of(
            document,
            **numbers,
            **texts,
            needs=ConnectionNeed.all_of(needs_of(document.facts)),
            answer_findings=[AnswerFinding.of(finding) for finding in document.findings.all()],
        )


class OperationItem(ResponseSchema):
    key: str = Field(description="Method and path: what a selection names", examples=["GET /pets/{petId}"])
    tag: TextOrNone
    summary: TextOrNone
    name: str = Field(description="Of the tool, as agents see it")
    tokens: int = Field(description="Estimated tokens in the MCP tool list")
    access: Literal["read", "write", "destructive"] = Field(description="As its method claims")
    problems: list[str] = Field(description="What to know before it is imported, such as clients that cannot use it")
    selected: bool = Field(validation_alias="is_selected")


class UnsupportedOperation(ResponseSchema):
    key: str
    reason: str


class ServerChoice(ResponseSchema):
    choices: list[str]
    proposal: TextOrNone = Field(description="Used if no `location` is given; null: it is not certain which one")


class DocumentPreview(ResponseSchema):
    """What a document has. All of its texts were written by others."""

    title: str
    version: str
    digest: str = Field(description="SHA-256 of the document")
    bytes: int
    tokens: int = Field(description="Estimated tokens of the selected operations in the MCP tool list")
    operations: list[OperationItem]
    unsupported: list[UnsupportedOperation] = Field(description="Operations that cannot be tools, and why")
    notes: list[str] = Field(description="What else the document has, and what of it is ignored")
    servers: ServerChoice = Field(description="Base URLs that the document names")
    needs: list[ConnectionNeed] = Field(description="Connections that fit its security schemes; agents need one")
    untrusted: Literal[True] = True

    @classmethod
    def shown(cls, preview: Any) -> Self:
        unsupported = [UnsupportedOperation(key=key, reason=reason) for key, reason in preview.unsupported]
        return cls.of(preview, unsupported=unsupported, needs=ConnectionNeed.all_of(preview.needs))


class OutsideSource(ResponseSchema):
    """What only a source outside has."""

    command: list[str] = Field(description="Program and arguments; empty: it has a URL")
    connection: str | None = Field(description="The account with which it is listed")
    internal: bool = Field(description="A private address and plain http are permitted")
    start: AsIs[Start]
    per_session: bool
    declares: AsIs[list[Capability]]
    failure_pattern: TextOrNone
    pin_defaults: bool
    epoch: int = Field(description="Increases when the URL or the command changes: approvals are for one epoch")
    server: TextOrNone = Field(description="Name and version of the server")
    era: TextOrNone = Field(description="Protocol version")
    unstable: list[str] = Field(description="Tools that two listings in a row described differently")
    instructions: Instructions | None
    tokens: int = Field(description="Estimated tokens of its tools that can be called, in the MCP tool list")
    document: DocumentItem | None = Field(description="Null: it is an MCP server")

    @classmethod
    def shown(cls, source: Source) -> Self:
        status = status_of(source)
        snapshot = catalog.current()
        costs = listed.costs(snapshot)
        instructions = None
        if status.instructions:
            instructions = Instructions(
                text=status.instructions,
                hash=status.instructions_hash,
                approved=source.approved_instructions == status.instructions_hash,
            )
        return cls.of(
            source,
            connection=source.connection.name if source.connection is not None else None,
            declares=sorted(source.declares),
            failure_pattern=source.failure_rule.get("pattern", ""),
            server=status.server,
            era=status.era,
            unstable=status.unstable,
            instructions=instructions,
            document=DocumentItem.shown(source),
            tokens=sum(costs[entry.name] for entry in snapshot.callable if entry.source_name == source.name),
        )


class SourceDetail(SourceItem):
    problems: list[SourceProblem] = Field(description="What could not be loaded")
    policy: SourcePolicy
    outside: OutsideSource | None = Field(description="Null: its tools are Python code of this hub")
    waiting: int = Field(description="Number of versions that wait for approval")
    waiting_versions: list[WaitingVersion] = Field(description=f"The first {MOST_WAITING} of them")

    @classmethod
    def named(cls, name: str) -> SourceDetail:
        """Raises: NotFoundError."""
        source = rows().filter(name=named(name)).first()
        if source is None:
            raise _not_found()
        return detail(source)


class SourcePage(ResponseSchema):
    sources: list[SourceItem]
    pagination: Pagination


class Description(ResponseSchema):
    """The tools that a description has added, changed, brought back and retired."""

    added: list[str]
    changed: list[str]
    returned: list[str]
    retired: list[str]
    unchanged: int
    source: SourceDetail


class SourceTest(ResponseSchema):
    """What a server has. All of its texts were written by others."""

    server: str = Field(description="Name and version")
    era: str = Field(description="Protocol version")
    seconds: float
    tools: list[str] = Field(description="Names, as agents will see them")
    tokens: int = Field(description="Estimated tokens of all of its tools in the MCP tool list")
    resources: int
    prompts: int
    instructions: TextOrNone
    untrusted: Literal[True] = True
    unstable: list[str] = Field(description="Tools that two listings in a row described differently")
    problems: list[str] = Field(description="What cannot be used, and why")
    findings: list[str] = Field(description="Suspicious wording, with the name of its tool")
    clients: list[str] = Field(description="What MCP clients do not accept, with the name of the tool")


class AdmissionCheck(ResponseSchema):
    """One check of an admission test. Parts of its texts were written by others."""

    check: str = Field(examples=["end"])
    title: str = Field(examples=["Ends at the end of input"])
    state: AsIs[Literal["passed", "finding", "not_tried"]]
    found: str = Field(description="What was seen, or why it was not tried")
    details: list[str]
    next_step: TextOrNone = Field(description="What to do about a finding")


class AdmissionReport(ResponseSchema):
    """What one run of a source in isolation has shown."""

    source: str
    epoch: int = Field(description="Of the source: another URL or command needs another test")
    is_current: bool = Field(description="Whether the source has still the URL or command that was tested")
    server: TextOrNone = Field(description="Name and version of the server")
    tested_at: Timestamp
    tested_by: str
    called_read_only: bool = Field(description="Whether calling tools that say they only read was permitted")
    checks: list[AdmissionCheck]
    figures: dict[str, float] = Field(
        description="Measured: `coldSeconds`, `warmSeconds`, `endSeconds`, `memory` (bytes), `tokens`"
    )
    tools: int
    changes: list[str] = Field(description="What is different from the report before")
    compared_with: str | None = Field(description="When the report before was made; null: there is none")
    untrusted: Literal[True] = True

    @classmethod
    def shown(cls, row: Admission) -> Self:
        report = dict(row.report)
        figures = {to_camel(name): value for name, value in report.pop("figures").items()}
        checks = [AdmissionCheck.model_validate(line) for line in report.pop("lines")]
        return cls.of(
            row,
            **report,
            source=row.source.name,
            is_current=row.epoch == row.source.epoch,
            checks=checks,
            figures=figures,
        )


class Approved(ResponseSchema):
    approved: list[str] = Field(description="The tools of the versions that were approved")
    managed: list[str] = Field(
        description="Of `approved`: those that were not switched on, as a configuration file decides; hints neither"
    )
    outdated: list[str] = Field(description="Of `definitions`: those that the source has replaced by others meanwhile")
    source: SourceDetail


def named(name: str) -> str:
    """A name that can be looked up.

    Raises:
        NotFoundError
    """
    # PostgreSQL refuses NUL in a string.
    if "\0" in name:
        raise _not_found()
    return name


def _not_found() -> NotFoundError:
    return NotFoundError("There is no such source", next_step="The sources are at /v1/sources.")


def rows() -> QuerySet[Source]:
    own = Q(tools__kind=Kind.TOOL, tools__retired_at=None)
    sources = Source.objects.filter(removed_at=None).select_related("status", "connection")
    return sources.annotate(number_of_tools=Count("tools", filter=own)).order_by("name")


def detail(source: Any) -> SourceDetail:
    problems = [
        SourceProblem(place=place, reason=reason, tool=tool) for place, reason, tool in status_of(source).problems
    ]
    policy = SourcePolicy.of(source, rate_limit=source if source.rate_calls is not None else None)
    versions = waiting_versions(source)
    return SourceDetail.shown(
        source,
        problems=problems,
        policy=policy,
        outside=OutsideSource.shown(source) if source.is_outside else None,
        waiting=len(versions),
        waiting_versions=[
            WaitingVersion.of(
                version.definition, change="changed" if version.is_change else "new", claims=dict(version.claims)
            )
            for version in versions[:MOST_WAITING]
        ],
    )
