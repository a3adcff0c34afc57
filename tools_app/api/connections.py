"""Connections: accounts at upstreams, whose secrets are write-only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import ConfigDict, Field, SecretStr

from tools_app import governance, sources
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body, Reason, without_default
from tools_app.api.errors import failures
from tools_app.api.queries import Removal
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import connections
from tools_app.governance import probes
from tools_app.models import Connection
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.sdk.accounts import (
    MOST_OPTION,
    MOST_SECRET,
    MOST_URL,
    SENDABLE,
    Account,
    ConnectionKind,
    OptionValue,
)
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ConflictError, NotFoundError
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
Options = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        bool | int | float | Annotated[str, Field(max_length=MOST_OPTION)] | None,
    ],
    Field(
        max_length=50,
        description="Options that the pack declares, by name; null resets one to its default. Omitted options are "
        "unchanged",
    ),
]
TimeLimit = Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS)]


class ConnectionHealth(Shown):
    """Result of the last connection test."""

    healthy: bool
    checked_at: str
    reason: str | None = Field(description="What failed and how to fix it")


class ConnectionItem(Shown):
    id: str = Field(description="The name, or `environment:<pack>` for a connection from environment variables")
    name: str = Field(description="Name by which callers choose the connection")
    pack: str
    source: Literal["environment", "stored"]
    url: str = Field(description="Base URL of the upstream's API; empty if the configured URL is invalid")
    read_only: bool
    allow_http: bool
    timeout_ms: int | None
    enabled: bool
    options: dict[str, OptionValue] = Field(description="All options that the pack declares, with their current values")
    fault: str | None = Field(description="Why the connection cannot be used; null if it can")
    health: ConnectionHealth | None = Field(description="null: not tested yet")
    keys: int | None = Field(
        description="Number of keys that use the connection; null for connections from environment variables"
    )


class Connections(Shown):
    connections: list[ConnectionItem]
    total: int


class ConnectionChange(Body):
    """Omitted fields are unchanged."""

    url: Url = Field(default="", json_schema_extra=without_default)
    secret: Secret = SecretStr("")
    read_only: bool = Field(default=False, description="Refuse tools that write")
    allow_http: bool = Field(default=False, description="Allow unencrypted http:// to hosts other than this machine")
    timeout_ms: TimeLimit | None = Field(
        default=None, description="Timeout of each request in milliseconds; null: the timeout of the call"
    )
    enabled: bool = True
    options: Options = Field(default={}, json_schema_extra=without_default)
    reason: Reason = ""

    def values(self) -> dict[str, Any]:
        values = self.model_dump(exclude_unset=True, exclude={"name", "pack", "reason"})
        if "secret" in self.model_fields_set:
            values["secret"] = self.secret.get_secret_value()
        return values


class ConnectionRequest(ConnectionChange):
    """A new connection."""

    name: str = Field(pattern=f"^{NAME.pattern}$")
    pack: str = Field(min_length=1, max_length=64, description="Pack whose tools use the connection")
    url: Url
    secret: Secret

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "main", "pack": "n8n", "url": "https://n8n.example.org", "secret": "made by n8n"}]
        }
    )


class Finding(Shown):
    healthy: bool
    found: str = Field(description="Result of the test in words")
    next_step: str | None


@router.get("", response={200: Connections, **failures()}, url_name="connections")
async def list_connections(request: HttpRequest) -> HttpResponse:
    """List connections, those from environment variables first. Requires `admin:*`."""
    _administrator(request)
    items = await database.run(lambda: list(_all()))
    return answer({"connections": items, "total": len(items)})


@router.post("", response={201: ConnectionItem, **failures(408, 409, 413, 415)})
async def create_connection(request: HttpRequest, body: ConnectionRequest) -> HttpResponse:
    """Create a connection. Requires `admin:*`. It is not used until you assign it to a key."""
    caller = _administrator(request)
    await database.run(
        governance.create_connection, body.name, body.pack, actor=str(caller), reason=body.reason, **body.values()
    )
    return answer(await database.run(_item, body.name), 201)


@router.get("/{connection_id}", response={200: ConnectionItem, **failures(404)}, url_name="connection")
async def show_connection(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show a connection, without its secret. Requires `admin:*`."""
    _administrator(request)
    return answer(await database.run(_item, connection_id))


@router.patch("/{connection_id}", response={200: ConnectionItem, **failures(404, 408, 409, 413, 415)})
async def change_connection(request: HttpRequest, connection_id: str, body: ConnectionChange) -> HttpResponse:
    """Change a connection. Requires `admin:*`. Takes effect on the next call.

    If you change the origin of the URL, send the secret again: a stored secret is sent only to the origin it was set
    for.
    """
    caller = _administrator(request)
    _refuse_environment(connection_id)
    await database.run(
        governance.change_connection, _checked(connection_id), actor=str(caller), reason=body.reason, **body.values()
    )
    return answer(await database.run(_item, connection_id))


@router.delete("/{connection_id}", response={204: None, **failures(404, 409)})
async def delete_connection(request: HttpRequest, connection_id: str, query: Query[Removal]) -> HttpResponse:
    """Delete a connection and its secret. Requires `admin:*`. Its keys do not fall back to another connection."""
    caller = _administrator(request)
    _refuse_environment(connection_id)
    await database.run(
        governance.delete_connection, _checked(connection_id), actor=str(caller), reason=query.reason or ""
    )
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


@router.post("/{connection_id}/test", response={200: Finding, **failures(404)}, url_name="connection_test")
async def test_connection(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Test the URL and the secret with a request to the upstream. Requires `admin:*`. Changes nothing there."""
    caller = _administrator(request)
    finding = await probes.tested(_checked(connection_id), actor=str(caller))
    return answer({"healthy": finding.healthy, "found": finding.words, "nextStep": finding.next_step or None})


def _administrator(request: HttpRequest) -> Caller:
    caller = caller_of(request)
    access.require(caller, "admin:*")
    return caller


def _checked(connection_id: str) -> str:
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
    return Connection.objects.annotate(number_of_keys=Count("keys")).order_by("name")


def _all() -> Iterator[dict[str, Any]]:
    kinds = connections.kinds(sources.loaded())
    for pack, kind in sorted(kinds.items()):
        if (account := connections.from_environment(pack, kind)) is not None:
            yield _environment_item(account)
    for row in _rows():
        yield _stored_item(row, kinds.get(row.pack))


def _item(connection_id: str) -> dict[str, Any]:
    source, _, pack = _checked(connection_id).partition(":")
    if source == ENVIRONMENT:
        return _environment_item(connections.identified(f"{ENVIRONMENT}:{pack}"))
    row = _rows().filter(name=connection_id).first()
    if row is None:
        raise _not_found()
    return _stored_item(row, connections.kinds(sources.loaded()).get(row.pack))


def _environment_item(account: Account) -> dict[str, Any]:
    return {
        "id": connections.identifier(account),
        "name": account.name,
        "pack": account.pack,
        "source": "environment",
        "url": account.base,
        "readOnly": account.read_only,
        "allowHttp": account.allow_http,
        "timeoutMs": account.timeout_ms,
        "enabled": True,
        "options": dict(account.options),
        "fault": account.fault or None,
        "health": None,
        "keys": None,
    }


def _stored_item(row: Any, kind: ConnectionKind | None) -> dict[str, Any]:
    health = {"healthy": row.healthy, "reason": row.health or None, "checkedAt": ""}
    if row.checked_at is not None:
        health["checkedAt"] = timestamp(row.checked_at)
    return {
        "id": row.name,
        "name": row.name,
        "pack": row.pack,
        "source": "stored",
        "url": row.url,
        "readOnly": row.read_only,
        "allowHttp": row.allow_http,
        "timeoutMs": row.timeout_ms,
        "enabled": row.enabled,
        "options": dict(kind.settled(row.options)) if kind is not None else row.options,
        "fault": connections.fault(row, kind) or None,
        "health": health if row.healthy is not None else None,
        "keys": row.number_of_keys,
    }
