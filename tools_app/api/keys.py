"""API keys: list, create, change, rotate and revoke."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, Self, cast

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import BeforeValidator, ConfigDict, Field

from tools_app import governance
from tools_app.access import actions
from tools_app.access.addresses import MOST_NETWORKS
from tools_app.api import budgets
from tools_app.api.answers import AsIs, NumberAsText, ResponseSchema, Timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import NOT_BLANK, Body, Reason, without_default
from tools_app.api.budgets import BudgetDecision, BudgetItem, LimitItem
from tools_app.api.cursors import Pages
from tools_app.api.errors import Failure
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, number_in_path, optional
from tools_app.api.routing import StrictRouter
from tools_app.api.tools import RateDecision, RateLimit
from tools_app.base import database
from tools_app.journal.budgets import limits
from tools_app.models import ApiKey
from tools_app.sdk.errors import NotFoundError, ValidationError
from tools_app.sdk.reach import ENVIRONMENT

router = StrictRouter(tags=["keys"])

MOST_GRACE = int(governance.LONGEST_GRACE / timedelta(hours=1))
Asks = Literal["none", "destroys", "writes"]
Scope = Literal[
    "tools:list", "tools:read", "tools:execute", "tools:manage", "sources:manage", "metrics:read", "admin:*"
]
ToolsetName = Annotated[str, Field(min_length=1, max_length=64)]
ConnectionName = Annotated[str, Field(min_length=1, max_length=64)]


Addresses = Annotated[list[Annotated[str, Field(min_length=1, max_length=50)]], Field(max_length=MOST_NETWORKS)]
_ADDRESSES = "IP addresses and networks from which the key can be used; empty: any"


class KeyItem(ResponseSchema):
    id: NumberAsText = Field(validation_alias="pk", examples=["3"])
    caller: str = Field(description="Caller id of its calls", examples=["key:3"])
    name: str
    prefix: str = Field(description="First characters of the key, to tell keys apart")
    previous_prefix: str | None = Field(description="Prefix of the previous secret, while it is still valid")
    previous_until: Timestamp | None = Field(description="When the previous secret expires")
    state: Literal["works", "stopped", "expired", "revoked"]
    scopes: AsIs[list[Scope]]
    toolsets: list[str] = Field(description="Toolsets that the key is restricted to; empty: all tools")
    connections: list[str] = Field(
        validation_alias="connection_names", description="Connections to upstreams that the key can use"
    )
    may_write: bool
    may_destroy: bool
    asks: Annotated[AsIs[Asks], BeforeValidator(lambda asks: asks or "none")] = Field(
        description="Which of its calls require an operator's approval"
    )
    rate_limit: RateLimit | None = Field(validation_alias="rate")
    budget: BudgetItem | None = Field(description=budgets.DECISION)
    budget_use: list[LimitItem] = Field(description=budgets.USE)
    addresses: AsIs[list[str]] = Field(description=_ADDRESSES)
    owner: str | None
    created_at: Timestamp
    rotated_at: Timestamp | None
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    last_used_at: Timestamp | None

    @classmethod
    def of_all(cls, keys: Sequence[ApiKey], /, **details: Any) -> list[Self]:
        """For database threads: one query for what is used of all their budgets."""
        uses = limits({f"key:{key.pk}": key.budget for key in keys}, timezone.now())
        return [cls._shown(key, budget_use=uses[f"key:{key.pk}"], **details) for key in keys]

    @classmethod
    def shown(cls, key: ApiKey, /, **details: Any) -> Self:
        return cls.of_all([key], **details)[0]

    @classmethod
    def _shown(cls, key: ApiKey, /, **details: Any) -> Self:
        now = timezone.now()
        previous_works = key.previous_works(now)
        return cls.of(
            key,
            caller=f"key:{key.pk}",
            previous_prefix=key.previous_prefix if previous_works else None,
            previous_until=key.previous_until if previous_works else None,
            state=key.state(now),
            toolsets=sorted(toolset.name for toolset in key.toolsets.all()),
            owner=key.owner.get_username() if key.owner else None,
            **details,
        )


class NewKey(KeyItem):
    key: str = Field(description="The key itself. It is returned only once and cannot be read again")


class KeyPage(ResponseSchema):
    keys: list[KeyItem]
    next_cursor: str | None


class KeysQuery(QueryString):
    cursor: Cursor | None = optional()
    limit: Limit = 50


class KeyRequest(Body):
    name: str = Field(min_length=1, max_length=100, json_schema_extra=NOT_BLANK)
    scopes: list[Scope] = Field(default=["tools:list", "tools:read", "tools:execute"], max_length=20)
    toolsets: list[ToolsetName] = Field(
        default=[], max_length=100, description="Empty: all tools, except those of sources outside"
    )
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
    budget: BudgetDecision | None = Field(default=None, description=budgets.DECISION)
    addresses: Addresses = Field(default=[], description=_ADDRESSES, examples=[["192.0.2.7", "10.0.0.0/8"]])
    expires_at: Moment | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "my-service", "toolsets": [], "mayDestroy": False, "expiresAt": "2027-01-01T00:00:00Z"}
            ]
        }
    )


class KeyChange(Body):
    """Omitted fields are unchanged."""

    scopes: list[Scope] = Field(default=[], max_length=20, json_schema_extra=without_default)
    toolsets: Annotated[list[ToolsetName], Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="All toolsets that the key is restricted to; null: all tools, except those of sources outside",
    )
    connections: list[ConnectionName] = Field(
        default=[],
        max_length=100,
        description=f"All connections to upstreams that the key can use from now on; {ENVIRONMENT}: those from "
        "environment variables",
        json_schema_extra=without_default,
    )
    may_write: bool = Field(
        default=False,
        description="Whether the key can call tools that write; false also takes destructive tools",
        json_schema_extra=without_default,
    )
    may_destroy: bool = Field(
        default=False,
        description="Whether the key can call destructive tools; requires `mayWrite`",
        json_schema_extra=without_default,
    )
    asks: Asks = Field(
        default="none", description="Which calls require an operator's approval", json_schema_extra=without_default
    )
    rate_limit: RateDecision | None = Field(
        default=None,
        description="Rate limit of all requests; null: the default from the settings",
    )
    budget: BudgetDecision | None = Field(default=None, description=budgets.DECISION)
    addresses: Addresses = Field(default=[], description=_ADDRESSES, json_schema_extra=without_default)
    expires_at: Moment | None = Field(default=None, description="null: never")
    reason: Reason = ""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"connections": [ENVIRONMENT]}, {"mayWrite": False, "addresses": ["10.0.0.0/8"]}]
        }
    )

    def changes(self) -> governance.KeyChanges:
        """Raises: ValidationError: there are none."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set - {"reason"}}
        if not given:
            raise ValidationError("Name at least one part of the key to change")
        if "asks" in given:
            given["asks"] = _stored(self.asks)
        if "rate_limit" in given:
            given["rate"] = _pair(given.pop("rate_limit"))
        if self.budget is not None:
            given["budget"] = self.budget.budget()
        return cast(governance.KeyChanges, given)


class KeyRevocation(Body):
    reason: Reason = ""


class KeyRotation(Body):
    grace_hours: int = Field(
        default=0,
        ge=0,
        le=MOST_GRACE,
        description=f"Hours during which the previous secret remains valid, at most {MOST_GRACE}",
    )
    reason: Reason = ""


@router.get("", response=KeyPage, url_name="keys")
async def list_keys(request: HttpRequest, query: Query[KeysQuery]) -> KeyPage:
    """List the keys, newest first. Requires `admin:*`. Secrets are never returned."""
    caller = require(request, actions.KEYS_READ)
    pages = Pages("keys", caller, query)

    def page() -> KeyPage:
        keys, cursor = pages.page(_rows(), query.cursor, query.limit)
        return KeyPage(keys=KeyItem.of_all(keys), next_cursor=cursor)

    return await database.run(page)


@router.post("", response={201: NewKey, 409: Failure})
async def create_key(request: HttpRequest, body: KeyRequest) -> NewKey:
    """Create a key. Requires `admin:*`. Only this response contains the key itself.

    The new key cannot exceed the limits of your key: toolsets, access level, required approvals, rate limit, budget,
    addresses.
    """
    actor = actor_of(request, actions.KEY_CREATE)

    def create_and_show() -> NewKey:
        key, secret = governance.create_key(
            body.name,
            actor=actor,
            scopes=body.scopes,
            toolsets=body.toolsets,
            connections=body.connections,
            may_write=body.may_write,
            may_destroy=body.may_destroy,
            asks=_stored(body.asks),
            rate=_pair(body.rate_limit),
            budget=body.budget.budget() if body.budget else None,
            addresses=body.addresses,
            expires_at=body.expires_at,
        )
        return NewKey.shown(_rows().get(pk=key.pk), key=secret)

    return await database.run(create_and_show)


@router.get("/{key_id}", response=KeyItem, url_name="key")
async def show_key(request: HttpRequest, key_id: str) -> KeyItem:
    """Show a key, without its secret. Requires `admin:*`."""
    require(request, actions.KEYS_READ)
    return await database.run(lambda: KeyItem.shown(_get(key_id)))


@router.patch("/{key_id}", response={200: KeyItem, 409: Failure})
async def change_key(request: HttpRequest, key_id: str, body: KeyChange) -> KeyItem:
    """Change a key. Requires `admin:*`. Takes effect on its next request, in every process; its secret stays the same.

    You cannot change your own key, nor one that has, or would have, more permissions than yours.
    """
    actor, changes = actor_of(request, actions.KEY_CHANGE), body.changes()

    def change_and_show() -> KeyItem:
        governance.change_key(_get(key_id), actor=actor, reason=body.reason, **changes)
        return KeyItem.shown(_get(key_id))

    return await database.run(change_and_show)


@router.post("/{key_id}/rotate", response={200: NewKey, 409: Failure})
async def rotate_key(request: HttpRequest, key_id: str, body: KeyRotation) -> NewKey:
    """Rotate the secret of a key. Requires `admin:*`. Only this response contains the new secret.

    The key keeps its name, its call history and its permissions. The previous secret is refused when the grace period
    is over. You cannot rotate a key with more permissions than yours.
    """
    actor = actor_of(request, actions.KEY_ROTATE)

    def rotate_and_show() -> NewKey:
        grace = timedelta(hours=body.grace_hours)
        secret = governance.rotate_key(_get(key_id), grace=grace, actor=actor, reason=body.reason)
        return NewKey.shown(_get(key_id), key=secret)

    return await database.run(rotate_and_show)


@router.post("/{key_id}/revoke", response=KeyItem)
async def revoke_key(request: HttpRequest, key_id: str, body: KeyRevocation) -> KeyItem:
    """Revoke a key. Requires `admin:*`. It is refused from the next request on; this cannot be undone."""
    actor = actor_of(request, actions.KEY_REVOKE)

    def revoke_and_show() -> KeyItem:
        governance.revoke_key(_get(key_id), actor=actor, reason=body.reason)
        return KeyItem.shown(_get(key_id))

    return await database.run(revoke_and_show)


def _stored(asks: Asks) -> str:
    return "" if asks == "none" else asks


def _pair(rate: RateDecision | None) -> tuple[int, int] | None:
    return (rate.max, rate.time_window // 1000) if rate else None


def _rows() -> QuerySet[ApiKey]:
    return ApiKey.objects.with_stops().select_related("owner").prefetch_related("toolsets", "connections")


def _get(key_id: str) -> ApiKey:
    key = _rows().filter(pk=number_in_path(key_id)).first()
    if key is None:
        raise NotFoundError("There is no such key", next_step="The keys are at /v1/keys.")
    return key
