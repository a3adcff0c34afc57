"""API keys: list, create, rotate and revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, optional
from tools_app.api.routing import StrictRouter
from tools_app.api.tools import Rate, RateDecision
from tools_app.base import database
from tools_app.models import ApiKey
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.reach import ENVIRONMENT

router = StrictRouter(tags=["keys"])

MOST_GRACE = int(governance.LONGEST_GRACE / timedelta(hours=1))
Asks = Literal["none", "destroys", "writes"]
Scope = Literal["tools:list", "tools:read", "tools:execute", "tools:manage", "admin:*"]
ToolsetName = Annotated[str, Field(min_length=1, max_length=64)]
ConnectionName = Annotated[str, Field(min_length=1, max_length=64)]


class KeyItem(Shown):
    id: str = Field(examples=["3"])
    caller: str = Field(description="Caller id of its calls", examples=["key:3"])
    name: str
    prefix: str = Field(description="First characters of the key, to tell keys apart")
    previous_prefix: str | None = Field(description="Prefix of the previous secret, while it is still valid")
    previous_until: str | None = Field(description="When the previous secret expires")
    state: Literal["works", "stopped", "expired", "revoked"]
    scopes: list[Scope]
    toolsets: list[str] = Field(description="Toolsets that the key is restricted to; empty: all tools")
    connections: list[str] = Field(description="Connections to upstreams that the key can use")
    may_write: bool
    may_destroy: bool
    asks: Asks = Field(description="Which of its calls require an operator's approval")
    rate_limit: Rate | None
    owner: str | None
    created_at: str
    rotated_at: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKey(KeyItem):
    key: str = Field(description="The key itself. It is returned only once and cannot be read again")


class KeyPage(Shown):
    keys: list[KeyItem]
    next_cursor: str | None


class KeysQuery(QueryString):
    cursor: Cursor | None = optional()
    limit: Limit = 50


class KeyRequest(Body):
    name: str = Field(min_length=1, max_length=100, json_schema_extra=NOT_BLANK)
    scopes: list[Scope] = Field(default=["tools:list", "tools:read", "tools:execute"], max_length=20)
    toolsets: list[ToolsetName] = Field(default=[], max_length=100, description="Empty: all tools")
    connections: list[ConnectionName] = Field(
        default=[ENVIRONMENT],
        max_length=100,
        description=f"Connections to upstreams that the key can use; {ENVIRONMENT}: those from environment variables",
    )
    may_write: bool = Field(default=True, description="Whether the key can call tools that write")
    may_destroy: bool = Field(
        default=True, description="Whether the key can call destructive tools; requires `mayWrite`"
    )
    asks: Asks = Field(
        default="none",
        description="Which calls require an operator's approval: none, destructive calls, or all that write",
    )
    rate_limit: RateDecision | None = Field(
        default=None, description="Rate limit of all requests; null: the default from the settings"
    )
    expires_at: Moment | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "my-service", "toolsets": [], "mayDestroy": False, "expiresAt": "2027-01-01T00:00:00Z"}
            ]
        }
    )


class Revocation(Body):
    reason: Reason = ""


class Rotation(Body):
    grace_hours: int = Field(
        default=0,
        ge=0,
        le=MOST_GRACE,
        description=f"Hours during which the previous secret remains valid, at most {MOST_GRACE}",
    )
    reason: Reason = ""


@router.get("", response={200: KeyPage, **failures()}, url_name="keys")
async def list_keys(request: HttpRequest, query: Query[KeysQuery]) -> HttpResponse:
    """List the keys, newest first. Requires `admin:*`. Secrets are never returned."""
    caller = caller_of(request)
    access.require(caller, "admin:*")
    pages = Pages("keys", caller, query)
    keys, cursor = await database.run(pages.cut, _rows(), query.cursor, query.limit)
    return answer({"keys": [_item(key) for key in keys], "nextCursor": cursor})


@router.post("", response={201: NewKey, **failures(408, 409, 413, 415)})
async def create_key(request: HttpRequest, body: KeyRequest) -> HttpResponse:
    """Create a key. Requires `admin:*`. Only this response contains the key itself.

    The new key cannot exceed the limits of your key: toolsets, access level, required approvals, rate limit.
    """
    caller = caller_of(request)
    access.require(caller, "admin:*")
    rate = body.rate_limit

    def create_and_show() -> dict[str, Any]:
        key, secret = governance.create_key(
            body.name,
            actor=str(caller),
            scopes=body.scopes,
            toolsets=body.toolsets,
            connections=body.connections,
            may_write=body.may_write,
            may_destroy=body.may_destroy,
            asks="" if body.asks == "none" else body.asks,
            rate=(rate.max, rate.time_window // 1000) if rate else None,
            expires_at=body.expires_at,
            within=caller,
        )
        return {**_item(_rows().get(pk=key.pk)), "key": secret}

    return answer(await database.run(create_and_show), 201)


@router.get("/{key_id}", response={200: KeyItem, **failures(404)}, url_name="key")
async def show_key(request: HttpRequest, key_id: str) -> HttpResponse:
    """Show a key, without its secret. Requires `admin:*`."""
    access.require(caller_of(request), "admin:*")
    return answer(_item(await database.run(_get, key_id)))


@router.post("/{key_id}/rotate", response={200: NewKey, **failures(404, 408, 409, 413, 415)})
async def rotate_key(request: HttpRequest, key_id: str, body: Rotation) -> HttpResponse:
    """Rotate the secret of a key. Requires `admin:*`. Only this response contains the new secret.

    The key keeps its name, its call history and its permissions. The previous secret is refused when the grace period
    is over. You cannot rotate a key with more permissions than yours.
    """
    caller = caller_of(request)
    access.require(caller, "admin:*")

    def rotate_and_show() -> dict[str, Any]:
        grace = timedelta(hours=body.grace_hours)
        secret = governance.rotate_key(_get(key_id), grace=grace, actor=str(caller), reason=body.reason, within=caller)
        return {**_item(_get(key_id)), "key": secret}

    return answer(await database.run(rotate_and_show))


@router.post("/{key_id}/revoke", response={200: KeyItem, **failures(404, 408, 413, 415)})
async def revoke_key(request: HttpRequest, key_id: str, body: Revocation) -> HttpResponse:
    """Revoke a key. Requires `admin:*`. It is refused from the next request on; this cannot be undone."""
    caller = caller_of(request)
    access.require(caller, "admin:*")

    def revoke_and_show() -> dict[str, Any]:
        governance.revoke_key(_get(key_id), actor=str(caller), reason=body.reason)
        return _item(_get(key_id))

    return answer(await database.run(revoke_and_show))


def _rows() -> QuerySet[ApiKey]:
    return ApiKey.objects.with_stops().select_related("owner").prefetch_related("toolsets", "connections")


def _get(key_id: str) -> ApiKey:
    # Not a number that the database can store, or Unicode digits: no such id.
    number = int(key_id) if key_id.isascii() and key_id.isdecimal() and len(key_id) < 19 else 0
    key = _rows().filter(pk=number).first()
    if key is None:
        raise NotFoundError("There is no such key", next_step="The keys are at /v1/keys.")
    return key


def _item(key: ApiKey) -> dict[str, Any]:
    rate, now = key.rate, timezone.now()
    return {
        "id": str(key.pk),
        "caller": f"key:{key.pk}",
        "name": key.name,
        "prefix": key.prefix,
        "previousPrefix": key.previous_prefix if key.previous_works(now) else None,
        "previousUntil": timestamp(key.previous_until) if key.previous_until and key.previous_works(now) else None,
        "state": key.state(now),
        "scopes": key.scopes,
        "toolsets": sorted(toolset.name for toolset in key.toolsets.all()),
        "connections": key.connection_names,
        "mayWrite": key.may_write,
        "mayDestroy": key.may_destroy,
        "asks": key.asks or "none",
        "rateLimit": {"max": rate.most, "timeWindow": round(rate.seconds * 1000)} if rate else None,
        "owner": key.owner.get_username() if key.owner else None,
        "createdAt": timestamp(key.created_at),
        "rotatedAt": timestamp(key.rotated_at) if key.rotated_at else None,
        "expiresAt": timestamp(key.expires_at) if key.expires_at else None,
        "revokedAt": timestamp(key.revoked_at) if key.revoked_at else None,
        "lastUsedAt": timestamp(key.last_used_at) if key.last_used_at else None,
    }
