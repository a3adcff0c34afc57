"""Connections: accounts at upstreams, whose secrets go in and never come out."""

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


def _written_only(schema: dict[str, Any]) -> None:
    schema.pop("default", None)
    schema["pattern"] = SENDABLE


Url = Annotated[str, Field(min_length=1, max_length=MOST_URL, examples=["https://n8n.example.org"])]
Secret = Annotated[
    SecretStr,
    Field(
        min_length=1,
        max_length=MOST_SECRET,
        description="What proves who we are at the upstream. It can be set, and never be read",
        json_schema_extra=_written_only,
    ),
]
Options = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        bool | int | float | Annotated[str, Field(max_length=MOST_OPTION)] | None,
    ],
    Field(max_length=50, description="By name, as the pack declares them; null: its default. Others stay as they are"),
]
TimeLimit = Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS)]


class ConnectionHealth(Shown):
    """How the connection was at its last test."""

    healthy: bool
    checked_at: str
    reason: str | None = Field(description="What was wrong, and what helps")


class ConnectionItem(Shown):
    id: str = Field(description="The name; with the pack behind it, where it comes from the environment")
    name: str = Field(description="By which callers choose it")
    pack: str
    source: Literal["environment", "stored"]
    url: str = Field(description="Where the interface of the upstream begins; empty where the address is wrong")
    read_only: bool
    allow_http: bool
    timeout_ms: int | None
    enabled: bool
    options: dict[str, OptionValue] = Field(description="What its pack lets you decide for it, all of it")
    fault: str | None = Field(description="Why nothing can be sent through it")
    health: ConnectionHealth | None = Field(description="null: it was not tested since it was set up")
    keys: int | None = Field(
        description="How many keys are bound to it; null: those of the environment are not counted"
    )


class Connections(Shown):
    connections: list[ConnectionItem]
    total: int


class ConnectionChange(Body):
    """What is left out stays as it is."""

    url: Url = Field(default="", json_schema_extra=without_default)
    secret: Secret = SecretStr("")
    read_only: bool = Field(default=False, description="Tools that write are refused")
    allow_http: bool = Field(
        default=False, description="Whether the address may begin with http:// beyond this machine"
    )
    timeout_ms: TimeLimit | None = Field(default=None, description="Of each request; null: that of the call")
    enabled: bool = True
    options: Options = Field(default={}, json_schema_extra=without_default)
    reason: Reason = ""

    def decided(self) -> dict[str, Any]:
        decided = self.model_dump(exclude_unset=True, exclude={"name", "pack", "reason"})
        if "secret" in self.model_fields_set:
            decided["secret"] = self.secret.get_secret_value()
        return decided


class ConnectionRequest(ConnectionChange):
    """A new connection."""

    name: str = Field(pattern=f"^{NAME.pattern}$")
    pack: str = Field(min_length=1, max_length=64, description="Whose tools are to use it")
    url: Url
    secret: Secret

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "main", "pack": "n8n", "url": "https://n8n.example.org", "secret": "made by n8n"}]
        }
    )


class Finding(Shown):
    healthy: bool
    found: str = Field(description="What was found, in words")
    next_step: str | None


@router.get("", response={200: Connections, **failures()}, url_name="connections")
async def list_connections(request: HttpRequest) -> HttpResponse:
    """List the connections, those of the environment first. Needs `admin:*`."""
    _administrator(request)
    found = await database.run(lambda: list(_all()))
    return answer({"connections": found, "total": len(found)})


@router.post("", response={201: ConnectionItem, **failures(408, 409, 413, 415)})
async def create_connection(request: HttpRequest, body: ConnectionRequest) -> HttpResponse:
    """Set up a connection. Needs `admin:*`. No key may use it before one is made that names it."""
    caller = _administrator(request)
    await database.run(
        governance.create_connection, body.name, body.pack, actor=str(caller), reason=body.reason, **body.decided()
    )
    return answer(await database.run(_item, body.name), 201)


@router.get("/{connection_id}", response={200: ConnectionItem, **failures(404)}, url_name="connection")
async def show_connection(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show a connection, without its secret. Needs `admin:*`."""
    _administrator(request)
    return answer(await database.run(_item, connection_id))


@router.patch("/{connection_id}", response={200: ConnectionItem, **failures(404, 408, 409, 413, 415)})
async def change_connection(request: HttpRequest, connection_id: str, body: ConnectionChange) -> HttpResponse:
    """Change a connection, from the very next call on. Needs `admin:*`.

    Whoever sends it to another origin has to set the secret again: what is stored goes only where it was set for.
    """
    caller = _administrator(request)
    _refuse_environment(connection_id)
    await database.run(
        governance.change_connection, _known(connection_id), actor=str(caller), reason=body.reason, **body.decided()
    )
    return answer(await database.run(_item, connection_id))


@router.delete("/{connection_id}", response={204: None, **failures(404, 409)})
async def delete_connection(request: HttpRequest, connection_id: str, query: Query[Removal]) -> HttpResponse:
    """Delete a connection and its secret. Needs `admin:*`. Keys that are bound to it use no other in its place."""
    caller = _administrator(request)
    _refuse_environment(connection_id)
    await database.run(
        governance.delete_connection, _known(connection_id), actor=str(caller), reason=query.reason or ""
    )
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


@router.post("/{connection_id}/test", response={200: Finding, **failures(404)}, url_name="connection_test")
async def test_connection(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Ask the upstream whether address and secret are right. Needs `admin:*`. Nothing is changed there."""
    caller = _administrator(request)
    finding = await probes.tested(_known(connection_id), actor=str(caller))
    return answer({"healthy": finding.healthy, "found": finding.words, "nextStep": finding.next_step or None})


def _administrator(request: HttpRequest) -> Caller:
    caller = caller_of(request)
    access.require(caller, "admin:*")
    return caller


def _known(connection_id: str) -> str:
    """An id that a connection can have: no database is asked for any other."""
    if not NAME.fullmatch(connection_id.removeprefix(f"{ENVIRONMENT}:")):
        raise _nothing()
    return connection_id


def _refuse_environment(connection_id: str) -> None:
    if connection_id.startswith(f"{ENVIRONMENT}:"):
        raise ConflictError(
            "This connection comes from the environment, and is changed there", next_step="Restart the hub after that."
        )


def _nothing() -> NotFoundError:
    return NotFoundError("There is no such connection", next_step="The connections are at /v1/connections.")


def _rows() -> QuerySet[Connection]:
    return Connection.objects.annotate(number_of_keys=Count("keys")).order_by("name")


def _all() -> Iterator[dict[str, Any]]:
    kinds = connections.kinds(sources.loaded())
    for pack, kind in sorted(kinds.items()):
        if (own := connections.from_environment(pack, kind)) is not None:
            yield _of_environment(own)
    for row in _rows():
        yield _stored(row, kinds.get(row.pack))


def _item(connection_id: str) -> dict[str, Any]:
    source, _, pack = _known(connection_id).partition(":")
    if source == ENVIRONMENT:
        return _of_environment(connections.identified(f"{ENVIRONMENT}:{pack}"))
    row = _rows().filter(name=connection_id).first()
    if row is None:
        raise _nothing()
    return _stored(row, connections.kinds(sources.loaded()).get(row.pack))


def _of_environment(account: Account) -> dict[str, Any]:
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


def _stored(row: Any, kind: ConnectionKind | None) -> dict[str, Any]:
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
