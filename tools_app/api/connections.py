"""Connections: accounts at upstreams, whose secrets are write-only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import BeforeValidator, ConfigDict, Field, SecretStr

from tools_app import governance
from tools_app.access import actions
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp, timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import Body, Reason, without_default
from tools_app.api.errors import Failure
from tools_app.api.queries import Removal
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import accounts, catalog, connections, sign_ins
from tools_app.governance import probes
from tools_app.models import Connection
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.sdk.accounts import (
    MOST_NAMES,
    MOST_OPTION,
    MOST_SECRET,
    MOST_URL,
    SENDABLE,
    Account,
    ConnectionKind,
    OptionValue,
)
from tools_app.sdk.errors import ConflictError, NotFoundError, Problem, ValidationError
from tools_app.sdk.names import NAME
from tools_app.sdk.reach import ENVIRONMENT

router = StrictRouter(tags=["connections"])


def _write_only(schema: dict[str, Any]) -> None:
    schema.pop("default", None)
    schema["pattern"] = SENDABLE


Url = Annotated[str, Field(min_length=1, max_length=MOST_URL, examples=["https://n8n.example.org"])]
Secret = Annotated[
    SecretStr,
    Field(
        min_length=1,
        max_length=MOST_SECRET,
        description="API key for the upstream. Write-only: no response contains it",
        json_schema_extra=_write_only,
    ),
]
Form = Literal["header", "bearer", "basic", "query", "environment", "oauth", "client_credentials"]
Secrets = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=200)],
        Annotated[SecretStr, Field(min_length=1, max_length=MOST_SECRET)] | None,
    ],
    Field(
        max_length=MOST_NAMES,
        description="Values of a source outside the hub, by name: headers, query parameters, variables, or `user` and "
        "`password`. Omitted names are unchanged, null removes one. A value can contain `${TOOLHUB_SECRET_NAME}` and "
        "`${file:NAME}`. Write-only: no response contains values",
        examples=[{"X-Api-Key": "${file:acme-key}"}],
    ),
]
Options = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        bool | int | float | Annotated[str, Field(max_length=MOST_OPTION)] | None,
    ],
    Field(
        max_length=50,
        description="Options that the pack declares, by name; null resets one to its default. Omitted options are "
        "unchanged. Of the forms of OAuth: `scopes`, `issuer`, `token_url`, `per_user`",
    ),
]
TimeLimit = Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS)]


class ConnectionHealth(ResponseSchema):
    """Result of the last connection test."""

    healthy: bool
    checked_at: Annotated[str, BeforeValidator(lambda moment: timestamp(moment) if moment is not None else "")]
    reason: TextOrNone = Field(validation_alias="health", description="What failed and how to fix it")


class SignIn(ResponseSchema):
    """The tokens of a connection, without the tokens."""

    state: Literal["signed_in", "sign_in_required", "failing", "not_used"] = Field(
        description="`sign_in_required`: a person signs in on the page of the connection in the admin; `not_used`: the "
        "first call requests a token"
    )
    issuer: TextOrNone = Field(description="The authorization server")
    scopes: TextOrNone
    expires_at: Timestamp | None = Field(description="End of the token; before, the hub requests another")
    signed_in_at: Timestamp | None
    signed_in_by: TextOrNone
    error: TextOrNone = Field(description="Why the last request for a token failed")


class ConnectionItem(ResponseSchema):
    id: str = Field(description="The name, or `environment:<pack>` for a connection from environment variables")
    name: str = Field(description="Name by which callers choose the connection")
    pack: str
    source: Literal["environment", "stored"]
    form: AsIs[Form | None] = Field(description="How the secret is sent; null: as the pack says")
    names: AsIs[list[str]] = Field(description="Names of the values that the secret consists of, if it has a form")
    references: AsIs[list[str]] = Field(description="Variables and files that these values refer to")
    url: str = Field(
        description="Base URL of the upstream's API; empty if the configured URL is invalid, and for child processes"
    )
    read_only: bool
    allow_http: bool
    timeout_ms: int | None
    enabled: bool
    options: AsIs[dict[str, OptionValue]] = Field(
        description="All options that the pack declares, with their current values; those of the forms of OAuth that "
        "are set"
    )
    fault: TextOrNone = Field(description="Why the connection cannot be used; null if it can")
    sign_in: SignIn | None = Field(description="null: the hub requests no tokens for this connection")
    health: ConnectionHealth | None = Field(description="null: not tested yet")
    keys: int | None = Field(
        description="Number of keys that use the connection; null for connections from environment variables"
    )


class Connections(ResponseSchema):
    connections: list[ConnectionItem]
    total: int


class ConnectionChange(Body):
    """Omitted fields are unchanged."""

    url: Url = Field(default="", json_schema_extra=without_default)
    secret: Secret = SecretStr("")
    form: Form | None = Field(
        default=None, description="How the secret is sent to a source outside the hub; null for packs"
    )
    secrets: Secrets = Field(default={}, json_schema_extra=without_default)
    read_only: bool = Field(default=False, description="Refuse tools that write")
    allow_http: bool = Field(default=False, description="Allow unencrypted http:// to hosts other than this machine")
    timeout_ms: TimeLimit | None = Field(
        default=None, description="Timeout of each request in milliseconds; null: the timeout of the call"
    )
    enabled: bool = True
    options: Options = Field(default={}, json_schema_extra=without_default)
    reason: Reason = ""

    def values(self) -> dict[str, Any]:
        values = self.model_dump(exclude_unset=True, exclude={"name", "pack", "reason", "secrets"})
        if "form" in values:
            values["form"] = self.form or ""
        if "secret" in self.model_fields_set:
            values["secret"] = self.secret.get_secret_value()
        if self.secrets:
            if values.get("secret"):
                raise ValidationError(problems=[Problem("/secrets", "Give `secret` or `secrets`, not both")])
            values["secret"] = {
                name: value.get_secret_value() if value is not None else None for name, value in self.secrets.items()
            }
        return values


class ConnectionRequest(ConnectionChange):
    """A new connection."""

    name: str = Field(pattern=f"^{NAME.pattern}$")
    pack: str = Field(min_length=1, max_length=64, description="Pack or source whose tools use the connection")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "main", "pack": "n8n", "url": "https://n8n.example.org", "secret": "made by n8n"}]
        }
    )


class ConnectionTestResult(ResponseSchema):
    healthy: bool
    found: str = Field(validation_alias="words", description="Result of the test in words")
    next_step: TextOrNone


@router.get("", response=Connections, url_name="connections")
async def list_connections(request: HttpRequest) -> Connections:
    """List connections, those from environment variables first. Requires `admin:*`."""
    require(request, actions.CONNECTIONS_READ)
    items = await database.run(lambda: list(_all()))
    return Connections(connections=items, total=len(items))


@router.post("", response={201: ConnectionItem, 409: Failure})
async def create_connection(request: HttpRequest, body: ConnectionRequest) -> ConnectionItem:
    """Create a connection. Requires `admin:*`. It is not used until you assign it to a key.

    That of a pack needs `url` and `secret`; that of a source outside the hub needs `form`, and `secrets` or, for a
    bearer token, `secret`. With the form `oauth`, a person signs in afterwards, on its page in the admin.
    """
    actor = actor_of(request, actions.CONNECTION_CREATE)
    values = {"secret": "", **body.values()}
    await database.run(governance.create_connection, body.name, body.pack, actor=actor, reason=body.reason, **values)
    return await database.run(_item, body.name)


@router.get("/{connection_id}", response=ConnectionItem, url_name="connection")
async def show_connection(request: HttpRequest, connection_id: str) -> ConnectionItem:
    """Show a connection, without its secret. Requires `admin:*`."""
    require(request, actions.CONNECTIONS_READ)
    return await database.run(_item, connection_id)


@router.patch("/{connection_id}", response={200: ConnectionItem, 409: Failure})
async def change_connection(request: HttpRequest, connection_id: str, body: ConnectionChange) -> ConnectionItem:
    """Change a connection. Requires `admin:*`. Takes effect on the next call.

    If you change the origin of the URL, send the secret again: a stored secret is sent only to the origin it was set
    for.
    """
    actor = actor_of(request, actions.CONNECTION_CHANGE)
    _refuse_environment(connection_id)
    await database.run(
        governance.change_connection, _valid_name(connection_id), actor=actor, reason=body.reason, **body.values()
    )
    return await database.run(_item, connection_id)


@router.delete("/{connection_id}", response={204: None, 409: Failure})
async def delete_connection(request: HttpRequest, connection_id: str, query: Query[Removal]) -> None:
    """Delete a connection and its secret. Requires `admin:*`. Its keys do not fall back to another connection."""
    actor = actor_of(request, actions.CONNECTION_DELETE)
    _refuse_environment(connection_id)
    await database.run(governance.delete_connection, _valid_name(connection_id), actor=actor, reason=query.reason or "")


@router.post("/{connection_id}/test", response=ConnectionTestResult, url_name="connection_test")
async def test_connection(request: HttpRequest, connection_id: str) -> ConnectionTestResult:
    """Test the URL and the secret with a request to the upstream. Requires `admin:*`. Changes nothing there."""
    actor = actor_of(request, actions.CONNECTION_TEST)
    result = await probes.test(_valid_name(connection_id), actor=actor)
    return ConnectionTestResult.of(result)


def _valid_name(connection_id: str) -> str:
    """The id if it is well-formed; the database is not queried for any other."""
    if not NAME.fullmatch(connection_id.removeprefix(f"{ENVIRONMENT}:")):
        raise _not_found()
    return connection_id


def _refuse_environment(connection_id: str) -> None:
    if connection_id.startswith(f"{ENVIRONMENT}:"):
        raise ConflictError(
            "This connection is set by environment variables and cannot be changed here",
            next_step="Change the environment variables and restart the hub.",
        )


def _not_found() -> NotFoundError:
    return NotFoundError("There is no such connection", next_step="The connections are at /v1/connections.")


def _rows() -> QuerySet[Connection]:
    return Connection.objects.annotate(number_of_keys=Count("keys")).prefetch_related("tokens").order_by("name")


def _all() -> Iterator[ConnectionItem]:
    kinds = catalog.current().connection_kinds
    for pack, kind in sorted(kinds.items()):
        if (account := accounts.from_environment(pack, kind)) is not None:
            yield _environment_item(account)
    places = accounts.places()
    for row in _rows():
        yield _stored_item(row, connections.kind_of(row, kinds), places)


def _item(connection_id: str) -> ConnectionItem:
    source, _, pack = _valid_name(connection_id).partition(":")
    if source == ENVIRONMENT:
        return _environment_item(connections.identified(f"{ENVIRONMENT}:{pack}", catalog.current().connection_kinds))
    row = _rows().filter(name=connection_id).first()
    if row is None:
        raise _not_found()
    return _stored_item(row, connections.kind_of(row, catalog.current().connection_kinds))


def _environment_item(account: Account) -> ConnectionItem:
    return ConnectionItem.of(
        account,
        id=accounts.identifier(account),
        source="environment",
        form=None,
        references=[],
        url=account.base,
        enabled=True,
        options=dict(account.options),
        sign_in=None,
        health=None,
        keys=None,
    )


def _stored_item(row: Any, kind: ConnectionKind | None, places: accounts.Places | None = None) -> ConnectionItem:
    return ConnectionItem.of(
        row,
        id=row.name,
        source="stored",
        form=row.form or None,
        options=dict(kind.settled(row.options)) if kind is not None and not row.form else row.options,
        fault=connections.fault(row, kind, places),
        sign_in=sign_ins.state_of(row),
        health=row if row.healthy is not None else None,
        keys=row.number_of_keys,
    )
