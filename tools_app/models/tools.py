"""Records of tools: operators' decisions, and every version of a definition."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

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

# What a definition says that lists are filtered by, as columns of `ToolRecord`; each with its maximum length.
DESCRIPTIVE = {"title": 200, "description": None, "version": 64, "category": 64, "author": 200}

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


def _within(table: str, name: str) -> models.CheckConstraint:
    low, high = POLICY[name]
    return models.CheckConstraint(
        condition=models.Q((name, None)) | models.Q((f"{name}__gte", low), (f"{name}__lte", high)),
        name=f"{table}_{name}_within_bounds",
        violation_error_message=f"Between {low:,} and {high:,}.",
    )


def policy_constraints(table: str) -> list[models.CheckConstraint]:
    """The constraints of `PolicyColumns`. Their names begin with `table`."""
    return [
        *(_within(table, name) for name in POLICY),
        models.CheckConstraint(
            condition=models.Q(rate_calls=None, rate_seconds=None)
            | models.Q(rate_calls__isnull=False, rate_seconds__isnull=False),
            name=f"{table}_rate_is_whole",
            violation_error_message="Set both the number of calls and the period.",
        ),
    ]


class PolicyColumns(models.Model):
    """Limits of calls that operators set for a tool or a source."""

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

    class Meta:
        abstract = True


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


_Manager = models.Manager.from_queryset(ToolQuerySet)


class ToolManager(_Manager["ToolRecord"]):
    """Tools only, without prompts and resources."""

    def get_queryset(self) -> ToolQuerySet:
        return ToolQuerySet(self.model, using=self._db).filter(kind=ToolRecord.Kind.TOOL)


class ToolRecord(PolicyColumns):
    """A tool, with the operators' decisions. It stays when the tool itself is removed.

    Prompts, resources and templates are records of another kind, which only `everything` returns.
    """

    class Kind(models.TextChoices):
        TOOL = "tool"
        PROMPT = "prompt"
        RESOURCE = "resource"
        TEMPLATE = "template"

    name = models.CharField(max_length=64, db_index=True)
    folded_name = models.CharField(max_length=64, editable=False)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.TOOL, db_default=Kind.TOOL, editable=False)
    # Null until a sync adopts the record: processes of the previous release do not know this column.
    source = models.ForeignKey("Source", on_delete=models.PROTECT, related_name="tools", null=True, editable=False)
    original_name = models.CharField(
        max_length=2000,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The name that the source uses.",
    )
    title = models.CharField(max_length=DESCRIPTIVE["title"], blank=True)
    description = models.TextField(blank=True)
    version = models.CharField(max_length=DESCRIPTIVE["version"], blank=True)
    category = models.CharField(max_length=DESCRIPTIVE["category"], blank=True, db_index=True)
    author = models.CharField(max_length=DESCRIPTIVE["author"], blank=True)
    source_kind = models.CharField(
        "source type", max_length=16, db_column="source", help_text="Type of the source that provides the tool."
    )
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
    definition = models.ForeignKey("Definition", on_delete=models.RESTRICT, related_name="current_for", null=True)
    offered = models.ForeignKey(
        "Definition",
        on_delete=models.RESTRICT,
        related_name="offered_for",
        null=True,
        blank=True,
        editable=False,
        help_text="The version that waits for approval while agents see the current one.",
    )
    runtime = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        editable=False,
        help_text="What a call needs that is not part of the definition.",
    )
    offered_runtime = models.JSONField(
        null=True, blank=True, editable=False, help_text="The same for the version that waits for approval."
    )
    hint_read_only = models.BooleanField(null=True, blank=True, editable=False)
    hint_destructive = models.BooleanField(null=True, blank=True, editable=False)
    hint_idempotent = models.BooleanField(null=True, blank=True, editable=False)
    hint_open_world = models.BooleanField(null=True, blank=True, editable=False)
    registered_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())
    retired_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when no source provides this tool."
    )
    absent_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when the source does not list this tool."
    )

    objects = ToolManager()
    everything = ToolQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "tool"
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="tool_has_a_name"),
            models.CheckConstraint(
                condition=models.Q(kind__in=["tool", "prompt", "resource", "template"]), name="tool_kind_is_known"
            ),
            models.UniqueConstraint(fields=["kind", "folded_name"], name="tool_name_once_per_kind"),
            models.UniqueConstraint(fields=["source", "kind", "original_name"], name="tool_once_per_source"),
            *policy_constraints("tool"),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: object, **kwargs: object) -> None:
        self.folded_name = folded(self.name)
        self.original_name = self.original_name or self.name
        super().save(*args, **kwargs)  # type: ignore[arg-type]

    @property
    def label(self) -> str:
        """Its name among records of all kinds: a prompt may have the name of a tool."""
        if self.kind == self.Kind.TOOL:
            return self.name
        family = self.Kind.RESOURCE if self.kind == self.Kind.TEMPLATE else self.kind
        return f"{family}:{self.original_name}"


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
        """Current and offered definitions that no operator has approved."""
        latest = models.Q(tool__definition=models.F("pk")) | models.Q(tool__offered=models.F("pk"))
        return self.filter(latest, approved_at=None, tool__retired_at=None)


class Definition(models.Model):
    """One version of a tool's definition, as agents see it. Only the decisions about it change."""

    tool = models.ForeignKey(ToolRecord, on_delete=models.CASCADE, related_name="definitions")
    hash = models.CharField(max_length=64)
    version = models.CharField(max_length=64)
    body = models.JSONField()
    body_text = models.TextField(
        blank=True, default="", db_default="", help_text="The definition as JSON text, with its keys in order."
    )
    raw = models.TextField(blank=True, default="", db_default="", help_text="The definition as the source sent it.")
    pin_hash = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="Hash of what an approval covers."
    )
    normaliser = models.PositiveSmallIntegerField(
        "normaliser version", default=0, db_default=0, help_text="Version of the rules that made it from `raw`."
    )
    epoch = models.PositiveIntegerField(
        default=1, db_default=1, help_text="Epoch of the source that offered this version."
    )
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
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tool", "epoch", "hash"], name="definition_once_per_epoch")
        ]

    def __str__(self) -> str:
        return f"{self.tool.name} {self.version}"

    @property
    def ordered_body(self) -> dict[str, Any]:
        """The body with its keys in order, which `body` loses on PostgreSQL. Earlier releases recorded that only."""
        body: dict[str, Any] = json.loads(self.body_text) if self.body_text else self.body
        return body

    @property
    def state(self) -> str:
        if self.approved_at is not None:
            return "approved"
        return "waiting" if self.refused_at is None else "refused"

    def approved_before(self) -> Definition | None:
        """The version that agents see while this one waits, or else the one that was approved last."""
        if self.tool.offered_id == self.pk:
            return self.tool.definition
        others = Definition.objects.filter(tool=self.tool_id, approved_at__isnull=False).exclude(pk=self.pk)
        return others.order_by("-approved_at", "-pk").first()
