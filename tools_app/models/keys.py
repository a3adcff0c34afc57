"""API keys for REST and MCP over HTTP. The key itself is never stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, Final, Self

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from tools_app.models.budgets import Budgeted
from tools_app.models.connections import Connection
from tools_app.models.stops import Stop
from tools_app.models.tools import MAX_RATE_CALLS, MAX_RATE_SECONDS
from tools_app.models.toolsets import Toolset
from tools_app.sdk.policies import Rate
from tools_app.sdk.reach import ENVIRONMENT, Reach

OPERATORS: Final = frozenset({"tools:manage", "admin:*"})


def default_scopes() -> list[str]:
    return ["tools:list", "tools:read", "tools:execute"]


def after(day: date) -> datetime:
    """The expiry of a key that works to the end of this day (UTC)."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


class KeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> Self:
        return self.filter(revoked_at=None).exclude(expires_at__lte=now)

    def with_stops(self) -> Self:
        """Annotate each key with `stopped`: whether an operator has stopped it."""
        stops = Stop.objects.filter(kind=Stop.Kind.KEY, name=models.OuterRef("name"))
        return self.annotate(stopped=models.Exists(stops))

    def known_by(self, hashes: list[str], now: datetime) -> Self:
        """The usable key with any of these hashes, including the hash before the last rotation while it is valid."""
        before = models.Q(previous_hash__in=hashes, previous_until__gt=now) & ~models.Q(previous_hash="")
        return self.usable(now).filter(models.Q(hash__in=hashes) | before)

    def once_known_by(self, hashes: list[str]) -> Self:
        """The key with any of these hashes, whether or not it is usable."""
        before = models.Q(previous_hash__in=hashes) & ~models.Q(previous_hash="")
        return self.filter(models.Q(hash__in=hashes) | before)


class Asks(models.TextChoices):
    """Which calls of a key need an approval, in addition to the tools' own policies."""

    NOTHING = "", gettext_lazy("No calls")
    DESTROYS = "destroys", gettext_lazy("Destructive calls")
    WRITES = "writes", gettext_lazy("All writing calls")


class ApiKey(Budgeted):
    name = models.CharField(max_length=100, unique=True, help_text="The client that uses this key.")
    prefix = models.CharField(max_length=12, unique=True, editable=False, help_text="Beginning of the key.")
    hash = models.CharField(max_length=64, unique=True, editable=False)
    previous_prefix = models.CharField(max_length=12, blank=True, default="", db_default="", editable=False)
    previous_hash = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    previous_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="The previous secret is valid until then."
    )
    rotated_at = models.DateTimeField(null=True, blank=True, editable=False)
    scopes = models.JSONField(default=default_scopes)
    toolsets = models.ManyToManyField(
        Toolset,
        through="KeyToolset",
        related_name="keys",
        blank=True,
        help_text="Restricts the key to these toolsets. None = all tools.",
    )
    connections = models.ManyToManyField(
        Connection,
        through="KeyConnection",
        related_name="keys",
        blank=True,
        help_text="Upstream accounts this key may use.",
    )
    uses_environment = models.BooleanField(
        "may use the default connections",
        default=True,
        db_default=True,
        help_text="Connections read from environment variables at start.",
    )
    may_write = models.BooleanField(
        "may use tools that write", default=True, db_default=True, help_text="Off: only tools declared read-only."
    )
    may_destroy = models.BooleanField(
        "may use destructive tools",
        default=True,
        db_default=True,
        help_text="Off: only tools declared non-destructive.",
    )
    asks = models.CharField(
        "require approval for",
        max_length=8,
        blank=True,
        choices=Asks.choices,
        default=Asks.NOTHING,
        db_default=Asks.NOTHING,
        help_text="These calls wait for approval.",
    )
    rate_calls = models.PositiveIntegerField(
        "rate limit: max. requests",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_RATE_CALLS)],
        help_text="Max. requests with this key per period. Empty: hub default.",
    )
    rate_seconds = models.PositiveIntegerField(
        "rate limit: per (s)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_RATE_SECONDS)],
        help_text="Length of the period.",
    )
    addresses = models.JSONField(
        "allowed addresses",
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="IP addresses and networks from which the key can be used. Empty: any.",
    )
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = KeyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "API key"
        indexes: ClassVar = [
            models.Index(fields=["previous_hash"], name="key_before", condition=~models.Q(previous_hash=""))
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="key_has_a_name"),
            models.CheckConstraint(
                condition=models.Q(may_write=True) | models.Q(may_destroy=False),
                name="key_that_destroys_writes",
                violation_error_message="A key that may use destructive tools must be able to use tools that write.",
            ),
            models.CheckConstraint(
                condition=models.Q(rate_calls=None, rate_seconds=None)
                # Comparisons with NULL do not fail a CHECK: both columns have to be tested explicitly.
                | models.Q(
                    rate_calls__isnull=False,
                    rate_seconds__isnull=False,
                    rate_calls__gte=1,
                    rate_calls__lte=MAX_RATE_CALLS,
                    rate_seconds__gte=1,
                    rate_seconds__lte=MAX_RATE_SECONDS,
                ),
                name="key_rate_is_whole",
                violation_error_message="Set both the number of requests and the period.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    # Set by `with_stops`.
    stopped = False

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        if not self.usable(now):
            return "expired"
        return "stopped" if self.stopped else "works"

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def ends(self, hashes: list[str]) -> datetime | None:
        """When a client with one of these hashes will be refused; None: the key does not expire."""
        ends = [self.expires_at] if self.hash in hashes else [self.expires_at, self.previous_until]
        return min((moment for moment in ends if moment is not None), default=None)

    def previous_works(self, now: datetime) -> bool:
        return self.usable(now) and self.previous_until is not None and now < self.previous_until

    @property
    def connection_names(self) -> list[str]:
        """The names of its connections, that of the environment first."""
        names = sorted(connection.name for connection in self.connections.all())
        return [ENVIRONMENT, *names] if self.uses_environment else names

    @property
    def reach(self) -> Reach:
        """The scope of the key. Prefetch its toolsets and connections."""
        toolsets = frozenset(toolset.name for toolset in self.toolsets.all())
        through = frozenset(self.connection_names)
        reach = Reach(toolsets or None, self.may_write, self.may_destroy, through)
        # Programs of operators manage what they see.
        manages = not OPERATORS.isdisjoint(self.scopes)
        return reach if toolsets or manages else replace(reach, outside=False)

    @property
    def rate(self) -> Rate | None:
        if self.rate_calls is None or self.rate_seconds is None:
            return None
        return Rate(self.rate_calls, self.rate_seconds)


class KeyToolset(models.Model):
    """A toolset of a key. It protects the toolset from deletion: a key without toolsets may use more tools."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE)
    toolset = models.ForeignKey(Toolset, on_delete=models.PROTECT)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["key", "toolset"], name="toolset_once_per_key")]

    def __str__(self) -> str:
        return f"{self.key_id}:{self.toolset_id}"


class KeyConnection(models.Model):
    """A connection of a key. If the connection is deleted, the key loses it without replacement."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["key", "connection"], name="connection_once_per_key")]

    def __str__(self) -> str:
        return f"{self.key_id}:{self.connection_id}"
