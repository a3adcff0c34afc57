"""Records of tools: operators' decisions, and every version of a definition."""

from __future__ import annotations

from typing import ClassVar, Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.sdk.names import folded
from tools_app.text.budget import FEWEST_TOKENS, MOST_TOKENS

MIN_TIMEOUT_MS = 100
MAX_TIMEOUT_MS = 120_000
MAX_RETRIES = 3
MIN_RETRY_DELAY_MS = 100
MAX_RETRY_DELAY_MS = 10_000
MAX_RATE_CALLS = 1_000_000
MAX_RATE_SECONDS = 86_400
MAX_CACHE_SECONDS = 86_400

# Limits of calls that operators can set, each with its lowest and highest value.
POLICY = {
    "timeout_ms": (MIN_TIMEOUT_MS, MAX_TIMEOUT_MS),
    "retries": (0, MAX_RETRIES),
    "retry_delay_ms": (MIN_RETRY_DELAY_MS, MAX_RETRY_DELAY_MS),
    "rate_calls": (1, MAX_RATE_CALLS),
    "rate_seconds": (1, MAX_RATE_SECONDS),
    "cache_seconds": (0, MAX_CACHE_SECONDS),
    "answer_tokens": (FEWEST_TOKENS, MOST_TOKENS),
}


def _policy_field(name: str, label: str, help_text: str) -> models.PositiveIntegerField[int | None, int | None]:
    low, high = POLICY[name]
    return models.PositiveIntegerField(
        label,
        null=True,
        blank=True,
        validators=[MinValueValidator(low), MaxValueValidator(high)],
        help_text=f"{help_text} {low:,} to {high:,}. Leave empty to inherit.",
    )


def _within(name: str) -> models.CheckConstraint:
    low, high = POLICY[name]
    return models.CheckConstraint(
        condition=models.Q((name, None)) | models.Q((f"{name}__gte", low), (f"{name}__lte", high)),
        name=f"tool_{name}_within_bounds",
        violation_error_message=f"Between {low:,} and {high:,}.",
    )


class Tag(models.Model):
    name = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class ToolQuerySet(models.QuerySet["ToolRecord"]):
    def present(self) -> Self:
        """Tools that still have a source."""
        return self.filter(retired_at=None)

    def enabled(self) -> Self:
        return self.filter(enabled=True)


class ToolRecord(models.Model):
    """A tool, with the operators' decisions. It stays when the tool itself is removed."""

    name = models.CharField(max_length=64, unique=True)
    folded_name = models.CharField(max_length=64, unique=True, editable=False)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    version = models.CharField(max_length=64, blank=True)
    category = models.CharField(max_length=64, blank=True, db_index=True)
    author = models.CharField(max_length=200, blank=True)
    source = models.CharField("source type", max_length=16, help_text="Type of the source that provides the tool.")
    pack = models.CharField("source", max_length=64, blank=True, db_index=True)
    place = models.CharField("source file", max_length=500, blank=True, help_text="File in which the tool is defined.")
    tags = models.ManyToManyField(Tag, through="ToolTag", related_name="tools", blank=True)
    enabled = models.BooleanField(default=True, db_default=True, help_text="Off: all calls are refused.")
    read_only = models.BooleanField(
        default=False, db_default=False, help_text="The tool declares that it changes nothing."
    )
    ask = models.BooleanField(
        "require approval", default=False, db_default=False, help_text="Every call needs an operator’s approval."
    )
    timeout_ms = _policy_field(
        "timeout_ms",
        "time limit (ms)",
        "Calls are cancelled after this time. Callers can set a shorter limit, not a longer one.",
    )
    retries = _policy_field(
        "retries",
        "retries",
        "Retries on transient errors (read-only or idempotent tools only). Callers can ask for fewer, not more.",
    )
    retry_delay_ms = _policy_field(
        "retry_delay_ms",
        "retry delay (ms)",
        "Delay before the first retry; doubles each time. Callers can ask for a longer delay, not a shorter one.",
    )
    rate_calls = _policy_field("rate_calls", "rate limit: max. calls", "Max. calls per caller and period.")
    rate_seconds = _policy_field("rate_seconds", "rate limit: per (s)", "Length of the period.")
    cache_seconds = _policy_field(
        "cache_seconds", "cache (s)", "Cache responses to identical calls for this long. Read-only tools only."
    )
    answer_tokens = _policy_field(
        "answer_tokens",
        "max. response size (tokens)",
        "Responses above this size are stored and summarised. Cannot exceed the hub limit.",
    )
    definition = models.ForeignKey("Definition", on_delete=models.RESTRICT, related_name="current_for", null=True)
    registered_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())
    retired_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when no source provides this tool."
    )

    objects = ToolQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "tool"
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="tool_has_a_name"),
            *(_within(name) for name in POLICY),
            models.CheckConstraint(
                condition=models.Q(rate_calls=None, rate_seconds=None)
                | models.Q(rate_calls__isnull=False, rate_seconds__isnull=False),
                name="tool_rate_is_whole",
                violation_error_message="Set both the number of calls and the period.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: object, **kwargs: object) -> None:
        self.folded_name = folded(self.name)
        super().save(*args, **kwargs)  # type: ignore[arg-type]


class ToolTag(models.Model):
    """A tag of a tool: `declared` by its author, or added by an operator."""

    tool = models.ForeignKey(ToolRecord, on_delete=models.CASCADE)
    tag = models.ForeignKey(Tag, on_delete=models.CASCADE)
    declared = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tool", "tag"], name="tag_once_per_tool")]

    def __str__(self) -> str:
        return f"{self.tool_id}:{self.tag_id}"


class DefinitionQuerySet(models.QuerySet["Definition"]):
    def open(self) -> Self:
        """Current definitions that no operator has approved."""
        return self.filter(approved_at=None, current_for__retired_at=None, current_for__isnull=False)


class Definition(models.Model):
    """One version of a tool's definition, as agents see it. Only the decisions about it change."""

    tool = models.ForeignKey(ToolRecord, on_delete=models.CASCADE, related_name="definitions")
    hash = models.CharField(max_length=64)
    version = models.CharField(max_length=64)
    body = models.JSONField()
    first_seen_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=150, blank=True)
    refused_at = models.DateTimeField(null=True, blank=True)
    refused_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    reason = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="Why it was approved or rejected."
    )
    findings = models.JSONField(
        default=list, blank=True, help_text="Wording that might mislead an agent, as of the latest check."
    )

    objects = DefinitionQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-first_seen_at", "-pk"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["tool", "hash"], name="definition_once_per_tool")]

    def __str__(self) -> str:
        return f"{self.tool.name} {self.version}"

    @property
    def state(self) -> str:
        if self.approved_at is not None:
            return "approved"
        return "waiting" if self.refused_at is None else "refused"

    def approved_before(self) -> Definition | None:
        """The version of the tool that was approved last before this one."""
        others = Definition.objects.filter(tool=self.tool_id, approved_at__isnull=False).exclude(pk=self.pk)
        return others.order_by("-approved_at", "-pk").first()
