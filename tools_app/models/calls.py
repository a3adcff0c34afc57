"""The journal: every call, and every failure with details that only operators may read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from tools_app.models.audit import MOST_OF_CLIENT

# Calls from this duration on have an index of their own.
SLOW_MS: Final = 1_000
# No call takes longer than this.
LONGEST: Final = timedelta(minutes=10)


class Call(models.Model):
    """One execution of a tool, or the refusal of one."""

    class Status(models.TextChoices):
        STARTED = "started"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        TIMEOUT = "timeout"
        CANCELLED = "cancelled"
        REFUSED = "refused"
        INTERRUPTED = "interrupted"
        ASKED = "asked", "needs input"

    class Door(models.TextChoices):
        REST = "rest", "REST"
        MCP = "mcp", "MCP"
        ADMIN = "admin"
        COMMAND = "command"
        CODE = "code"

    class Sent(models.TextChoices):
        """Whether the upstream got the request."""

        UNKNOWN = "", "not recorded"
        NO = "no"
        MAYBE = "maybe"
        YES = "yes"

    class Origin(models.TextChoices):
        TOOL = "", "the tool"
        CACHE = "cache", "the cache"
        REPLAY = "replay", "an earlier call with the same Idempotency-Key"

    id = models.CharField(primary_key=True, max_length=32)
    tool_name = models.CharField("tool", max_length=100)
    tool_version = models.CharField(max_length=64, blank=True)
    definition_hash = models.CharField(max_length=64, blank=True)
    door = models.CharField("channel", max_length=8, choices=Door.choices)
    caller_kind = models.CharField(max_length=8)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    connection = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="The upstream account that was used."
    )
    via = models.CharField(
        "called via",
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="The tool that made this call. Empty: called directly.",
    )
    address = models.CharField(
        max_length=45,
        blank=True,
        default="",
        db_default="",
        help_text="IP address of the client. Empty: this machine.",
    )
    client = models.CharField(
        max_length=MOST_OF_CLIENT, blank=True, default="", db_default="", help_text="User agent of the client program."
    )
    key_prefix = models.CharField(
        "key", max_length=12, blank=True, default="", db_default="", help_text="Beginning of the API key that was sent."
    )
    status = models.CharField(max_length=12, choices=Status.choices)
    code = models.CharField(max_length=40, blank=True)
    error = models.CharField(max_length=1000, blank=True)
    error_id = models.CharField(max_length=32, blank=True)
    count = models.PositiveIntegerField(
        default=1, db_default=1, help_text="More than 1: number of identical refusals within one minute."
    )
    arguments = models.TextField(
        blank=True, help_text="Stored as TOOLHUB_PAYLOADS says: not at all, redacted or in full."
    )
    result = models.TextField(blank=True, default="", db_default="", help_text="Stored if TOOLHUB_PAYLOADS is `full`.")
    argument_bytes = models.PositiveIntegerField("request size (bytes)", default=0)
    result_bytes = models.PositiveIntegerField("response size (bytes)", default=0)
    result_hash = models.CharField(max_length=64, blank=True)
    answered_by = models.CharField(
        max_length=8, blank=True, default=Origin.TOOL, db_default=Origin.TOOL, choices=Origin.choices
    )
    attempts = models.PositiveSmallIntegerField(default=1)
    process_id = models.CharField("process", max_length=32, blank=True, default="", db_default="")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField("duration (ms)", null=True, blank=True)
    queued_ms = models.PositiveIntegerField(
        "queued (ms)", null=True, blank=True, help_text="Validation and queueing before the first attempt."
    )
    upstream_ms = models.PositiveIntegerField(
        "upstream (ms)", null=True, blank=True, help_text="Total duration of the requests to the upstream."
    )
    source = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="The source that provided the tool."
    )
    source_epoch = models.PositiveIntegerField(default=0, db_default=0, help_text="0: not recorded.")
    original_name = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="The name that the source uses."
    )
    upstream_session = models.CharField(max_length=64, blank=True, default="", db_default="")
    sent = models.CharField(
        max_length=5,
        blank=True,
        default=Sent.UNKNOWN,
        db_default=Sent.UNKNOWN,
        choices=Sent.choices,
        help_text="Whether the upstream received the request.",
    )

    class Meta:
        ordering: ClassVar = ["-started_at"]
        permissions: ClassVar = [("view_payload", "Can view what calls were given and what they answered")]
        indexes: ClassVar = [
            models.Index(fields=["-started_at"], name="call_newest"),
            models.Index(fields=["tool_name", "-started_at"], name="call_of_tool"),
            models.Index(fields=["caller_id", "-started_at"], name="call_of_caller"),
            models.Index(fields=["status", "-started_at"], name="call_by_status"),
            models.Index(
                fields=["connection", "-started_at"], name="call_by_connection", condition=~models.Q(connection="")
            ),
            # Partial indexes, so that other calls cost nothing more to write.
            models.Index(fields=["code", "-started_at"], name="call_by_code", condition=~models.Q(code="")),
            models.Index(fields=["source", "-started_at"], name="call_of_source", condition=~models.Q(source="")),
            models.Index(fields=["-started_at"], name="call_slow", condition=models.Q(duration_ms__gte=SLOW_MS)),
            models.Index(fields=["-started_at"], name="call_with_error", condition=~models.Q(error="")),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} {self.id}"


class ErrorGroupQuerySet(models.QuerySet["ErrorGroup"]):
    def open(self, now: datetime) -> ErrorGroupQuerySet:
        """Neither resolved nor muted: those that need attention."""
        return self.filter(is_open(now))

    def ignored(self, now: datetime) -> ErrorGroupQuerySet:
        return self.filter(~_unmuted(now), resolved_at=None, muted_at__isnull=False, muted_until=None)

    def snoozed(self, now: datetime) -> ErrorGroupQuerySet:
        return self.filter(resolved_at=None, muted_at__isnull=False, muted_until__gt=now)

    def resolved(self) -> ErrorGroupQuerySet:
        return self.filter(resolved_at__isnull=False)

    def in_state(self, state: str, now: datetime) -> ErrorGroupQuerySet:
        """Those that `ErrorGroup.state_at` says this state of."""
        states = ErrorGroup.State
        if state == states.RESOLVED:
            return self.resolved()
        return {states.OPEN: self.open, states.IGNORED: self.ignored, states.SNOOZED: self.snoozed}[states(state)](now)


def is_open(now: datetime) -> Q:
    return Q(Q(muted_at=None) | _unmuted(now), resolved_at=None)


def _unmuted(now: datetime) -> Q:
    """The end of a mute has come, by time or by number of errors. Both can be missing, which must not make it NULL."""
    by_time = Q(muted_until__isnull=False, muted_until__lte=now)
    return by_time | Q(muted_until_count__isnull=False, muted_until_count__lte=F("count"))


class ErrorGroup(models.Model):
    """Errors with the same tool, code and place.

    Resolved by an operator, and reopened when one happens again. Muted by an operator: ignored (for good, or up to a
    number of errors) or snoozed (until a time). A mute that has ended counts for nothing; the next error removes it.
    """

    class State(models.TextChoices):
        OPEN = "open"
        IGNORED = "ignored"
        SNOOZED = "snoozed"
        RESOLVED = "resolved"

    fingerprint = models.CharField(primary_key=True, max_length=32)
    tool_name = models.CharField("tool", max_length=100, blank=True)
    code = models.CharField(max_length=40)
    place = models.CharField("location", max_length=300, blank=True, help_text="Location in the code, if known.")
    message = models.CharField(max_length=1000, help_text="Latest message.")
    cause = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Latest exception, for operators only."
    )
    count = models.PositiveIntegerField(default=0, db_default=0)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    last_call_id = models.CharField("last call", max_length=32, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    reopened_at = models.DateTimeField(
        null=True, blank=True, help_text="When the error recurred after it was resolved, or after a mute had ended."
    )
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+",
        db_constraint=False, help_text="Who takes care of it.",
    )  # fmt: skip
    muted_at = models.DateTimeField(null=True, blank=True, help_text="When it was ignored or snoozed.")
    muted_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    mute_reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    muted_until = models.DateTimeField(null=True, blank=True, help_text="Of a snooze: when it ends.")
    muted_until_count = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The number of errors from which on it is no longer ignored. Empty: for good."
    )

    objects = ErrorGroupQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-last_seen_at"]
        verbose_name = "issue"
        indexes: ClassVar = [
            models.Index(fields=["-last_seen_at"], name="group_newest"),
            models.Index(fields=["resolved_at", "-last_seen_at"], name="group_open_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.tool_name}".strip()

    def state_at(self, now: datetime) -> State:
        if self.resolved_at is not None:
            return self.State.RESOLVED
        if self.muted_at is None:
            return self.State.OPEN
        if self.muted_until is not None:
            return self.State.SNOOZED if self.muted_until > now else self.State.OPEN
        has_reached = self.muted_until_count is not None and self.muted_until_count <= self.count
        return self.State.OPEN if has_reached else self.State.IGNORED

    @property
    def state(self) -> State:
        return self.state_at(timezone.now())

    @property
    def assignee_name(self) -> str:
        return self.assignee.get_username() if self.assignee is not None else ""


class ErrorHour(models.Model):
    """The number of errors of a group within one hour. Written with the errors; kept longer than these."""

    group = models.ForeignKey(
        ErrorGroup, on_delete=models.CASCADE, related_name="hours", db_constraint=False, db_index=False
    )
    hour = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField()

    class Meta:
        ordering: ClassVar = ["-hour"]
        verbose_name = "hour of errors"
        verbose_name_plural = "hours of errors"
        constraints: ClassVar = [models.UniqueConstraint(fields=["group", "hour"], name="hour_of_errors_once")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.group_id}"


class ErrorNote(models.Model):
    """An operator's note on an error group."""

    MOST_CHARACTERS: ClassVar[int] = 2_000

    group = models.ForeignKey(ErrorGroup, on_delete=models.CASCADE, related_name="notes", db_constraint=False)
    at = models.DateTimeField()
    author = models.CharField(max_length=150)
    text = models.CharField(max_length=MOST_CHARACTERS)

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        verbose_name = "note on an error"
        verbose_name_plural = "notes on errors"

    def __str__(self) -> str:
        return f"{self.author}: {self.text[:40]}"


class ErrorLog(models.Model):
    """One error event. `detail` (the exception, the stack, a response body) is stored here only."""

    id = models.CharField("error id", primary_key=True, max_length=32)
    group = models.ForeignKey(
        ErrorGroup,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="errors",
        verbose_name="issue",
        db_constraint=False,
        db_index=False,
    )
    call_id = models.CharField("call id", max_length=32, blank=True, db_index=True)
    tool_name = models.CharField("tool", max_length=100, blank=True)
    door = models.CharField("channel", max_length=8, choices=Call.Door.choices)
    caller_name = models.CharField("caller", max_length=150, blank=True)
    code = models.CharField(max_length=40)
    message = models.CharField(max_length=1000)
    cause = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="The exception. For operators only."
    )
    detail = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-created_at"]
        verbose_name = "error event"
        indexes: ClassVar = [
            models.Index(fields=["-created_at"], name="error_newest"),
            models.Index(fields=["group", "-created_at"], name="error_of_group"),
            models.Index(fields=["tool_name", "-created_at"], name="error_of_tool"),
            models.Index(fields=["code", "-created_at"], name="error_by_code"),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.id}"
