"""Alerts: what operators are told, the rules that say who is told, and what was sent."""

from __future__ import annotations

import json
import secrets as random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.base import secrets
from tools_app.text import hygiene
from tools_app.text.redaction import redacted_text

MOST_VALUE: Final = 500
MOST_TEMPLATE: Final = 4_000
# Of a secret that is base64, as standardwebhooks.com has it.
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 – no secret


class Severity(models.TextChoices):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Event(models.TextChoices):
    """What an alert can be about."""

    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_EXPIRING = "approval.expiring"
    APPROVAL_EXPIRED = "approval.expired"
    ISSUE_NEW = "issue.new"
    ISSUE_REOPENED = "issue.reopened"
    ERROR_RATE = "errors.rate"
    CONNECTION_FAILING = "connection.failing"
    CONNECTION_RECOVERED = "connection.recovered"
    SOURCE_FAILING = "source.failing"
    SOURCE_RECOVERED = "source.recovered"
    STOP_SET = "stop.set"
    STOP_LIFTED = "stop.lifted"
    DEFINITION_HELD = "definition.held"
    FILE_BROKEN = "file.broken"
    KEY_EXPIRING = "key.expiring"
    BUDGET_REACHED = "budget.reached"
    BACKUP_OVERDUE = "backup.overdue"
    DISK_LOW = "disk.low"
    EMERGENCY = "user.emergency"


_ERRORS: Final = frozenset(
    {
        *(Event.CONNECTION_FAILING, Event.SOURCE_FAILING, Event.STOP_SET, Event.FILE_BROKEN, Event.ERROR_RATE),
        *(Event.BACKUP_OVERDUE, Event.DISK_LOW, Event.EMERGENCY),
    }
)
_INFOS: Final = frozenset({Event.CONNECTION_RECOVERED, Event.SOURCE_RECOVERED, Event.STOP_LIFTED})


def severity_of(event: Event) -> Severity:
    return Severity.ERROR if event in _ERRORS else Severity.INFO if event in _INFOS else Severity.WARNING


class Alert(models.Model):
    """Something that operators should know. Written in the transaction of its cause, once for each cause."""

    id = models.CharField(primary_key=True, max_length=32)
    event = models.CharField(max_length=24)
    cause = models.CharField(max_length=200, unique=True, help_text="Identifies the cause: it has one alert.")
    severity = models.CharField(max_length=8, choices=Severity.choices)
    subject = models.CharField(max_length=120, blank=True, help_text="Kind and key of the record that it is about.")
    tool_name = models.CharField("tool", max_length=100, blank=True)
    source = models.CharField(max_length=200, blank=True)
    caller_id = models.CharField(max_length=64, blank=True)
    caller_name = models.CharField("caller", max_length=150, blank=True)
    details = models.JSONField(default=dict, blank=True, help_text="What its sentence says. No arguments, no secrets.")
    at = models.DateTimeField("time")
    routed_at = models.DateTimeField(null=True, blank=True, help_text="When rules were applied to it.")
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["-at", "-id"], name="alert_newest"),
            models.Index(fields=["at"], name="alert_to_route", condition=models.Q(routed_at=None)),
            models.Index(fields=["-at"], name="alert_open", condition=models.Q(acknowledged_at=None)),
            models.Index(fields=["subject", "-at"], name="alert_of_subject"),
            models.Index(fields=["caller_id"], name="alert_of_caller", condition=~models.Q(caller_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.id[:8]}"


def new_alert(
    event: Event,
    cause: object,
    at: datetime,
    *,
    subject: str = "",
    tool: str = "",
    source: str = "",
    caller: tuple[str, str] = ("", ""),
    details: Mapping[str, Any] | None = None,
) -> Alert:
    """An alert that is not saved yet. Texts can come from anybody: secrets are masked, invisible characters removed.

    `caller`: its id and name.
    """
    severity = severity_of(event)
    return Alert(
        id=random.token_hex(16),
        event=event.value,
        cause=f"{event}:{cause}"[:200],
        severity=severity.value,
        subject=subject[:120],
        tool_name=_clean(tool, 100),
        source=_clean(source, 200),
        caller_id=caller[0][:64],
        caller_name=_clean(caller[1], 150),
        details={name: _clean(value) if isinstance(value, str) else value for name, value in (details or {}).items()},
        at=at,
        # What is only information is not left open.
        acknowledged_at=at if severity is Severity.INFO else None,
        acknowledged_by="",
    )


def note_alerts(alerts: Iterable[Alert]) -> None:
    """Save alerts, in the transaction of their causes. A cause that has one already gets no second one."""
    if new := list(alerts):
        Alert.objects.bulk_create(new, ignore_conflicts=True)


def note_alert(event: Event, cause: object, at: datetime, **about: Any) -> None:
    note_alerts([new_alert(event, cause, at, **about)])


def close_alerts(subject: str, by: str, now: datetime) -> None:
    """Acknowledge what is over: in the transaction that ends it."""
    rows = Alert.objects.filter(subject=subject, acknowledged_at=None)
    # Checked before the update: even one without effect would wait for the lock.
    if rows.exists():
        rows.update(acknowledged_at=now, acknowledged_by=by[:150])


def _clean(text: str, most: int = MOST_VALUE) -> str:
    clean = " ".join(hygiene.cleaned(redacted_text(text)).split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


class AlertRule(models.Model):
    """Who is told of which alerts, and how."""

    class Channel(models.TextChoices):
        WEBHOOK = "webhook"
        MAIL = "mail", "E-mail"

    name = models.CharField(max_length=64, unique=True)
    enabled = models.BooleanField(default=True, help_text="Off: nothing is sent. Alerts are still listed.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+",
        help_text="Who takes care of the rule.",
    )  # fmt: skip
    channel = models.CharField(max_length=8, choices=Channel.choices, default=Channel.WEBHOOK)
    sealed = models.BinaryField(blank=True, default=b"", help_text="URL and secret of a webhook, encrypted.")
    host = models.CharField(max_length=300, blank=True, default="", help_text="Where the webhook sends to.")
    internal = models.BooleanField(
        "internal address", default=False, help_text="The receiver may have a private address, and plain http."
    )
    recipients = models.JSONField(default=list, blank=True, help_text="E-mail addresses.")
    events = models.JSONField(default=list, blank=True, help_text="Empty: all events.")
    severity = models.CharField(
        "minimum severity", max_length=8, choices=Severity.choices, default=Severity.INFO,
        help_text="Less severe alerts are not sent.",
    )  # fmt: skip
    tools = models.JSONField(default=list, blank=True, help_text="Only alerts about these tools. Empty: all.")
    sources = models.JSONField(default=list, blank=True, help_text="Only alerts about these sources. Empty: all.")
    callers = models.JSONField(
        default=list, blank=True, help_text="Only alerts about calls of these callers, by name or id. Empty: all."
    )
    error_rate = models.PositiveSmallIntegerField(
        "error rate (%)", default=5, validators=[MinValueValidator(5), MaxValueValidator(100)],
        help_text="Error rates below this are not sent. Alerts begin at 5, 10, 20 and 50 %.",
    )  # fmt: skip
    per_minute = models.PositiveSmallIntegerField(
        "alerts a minute", default=10, validators=[MinValueValidator(1), MaxValueValidator(60)],
        help_text="More than these are sent as one digest.",
    )  # fmt: skip
    payloads = models.BooleanField(
        "include arguments", default=False,
        help_text="Sends the arguments of calls that wait for approval to the receiver; secrets are masked.",
    )  # fmt: skip
    template = models.TextField(
        "body", max_length=MOST_TEMPLATE, blank=True, default="", help_text="Empty: the hub's own JSON."
    )
    failing_since = models.DateTimeField(null=True, blank=True, editable=False)
    error = models.CharField(max_length=500, blank=True, default="", editable=False)
    created_by = models.CharField(max_length=150, blank=True, default="", editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "alert rule"
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="alert_rule_has_a_name"),
            models.CheckConstraint(
                condition=models.Q(per_minute__gte=1, per_minute__lte=60), name="alert_rule_has_a_rate"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def seal(self, url: str, secret: str) -> None:
        self.sealed = secrets.encrypted(json.dumps({"url": url, "secret": secret}).encode())

    def target(self) -> Mapping[str, str] | None:
        """`url` and `secret` of the webhook; None if there is none, or the encryption key is missing."""
        plain = secrets.decrypted(bytes(self.sealed)) if self.sealed else None
        return None if plain is None else json.loads(plain)


class AlertDelivery(models.Model):
    """One message of a rule: of an alert, a digest of several, or a test. Its id is the same at every attempt."""

    class Kind(models.TextChoices):
        ALERT = "alert"
        DIGEST = "digest"
        TEST = "test"

    class State(models.TextChoices):
        QUEUED = "queued"
        SENT = "sent"
        FAILED = "failed"

    id = models.CharField(primary_key=True, max_length=32)
    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=6, choices=Kind.choices, default=Kind.ALERT)
    alert = models.ForeignKey(
        Alert, on_delete=models.SET_NULL, null=True, blank=True, related_name="deliveries", db_constraint=False
    )
    alert_ids = models.JSONField(default=list, blank=True, help_text="Of a digest: its first alerts.")
    counts = models.JSONField(default=dict, blank=True, help_text="Of a digest: number of alerts by event.")
    state = models.CharField(max_length=6, choices=State.choices, default=State.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    status = models.PositiveSmallIntegerField("HTTP status", null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField("time")
    next_attempt_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-pk"]
        verbose_name = "message of an alert"
        verbose_name_plural = "messages of alerts"
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="delivery_newest"),
            models.Index(fields=["rule", "-created_at"], name="delivery_of_rule"),
            models.Index(fields=["next_attempt_at"], name="delivery_due", condition=models.Q(state="queued")),
            models.Index(fields=["rule", "state"], name="delivery_by_state"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["rule", "alert"], name="delivered_once", condition=models.Q(alert__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id[:8]}"
