"""Tools as operators know them: what they decided, and every version of what a tool was."""

from __future__ import annotations

from typing import ClassVar, Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.tool import folded

MIN_TIMEOUT_MS = 100
MAX_TIMEOUT_MS = 120_000


class Tag(models.Model):
    name = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class ToolQuerySet(models.QuerySet["ToolRecord"]):
    def present(self) -> Self:
        """Those that some source still has."""
        return self.filter(retired_at=None)

    def enabled(self) -> Self:
        return self.filter(enabled=True)


class ToolRecord(models.Model):
    """One tool, and what operators decided about it. Its history stays when the tool itself is gone."""

    name = models.CharField(max_length=64, unique=True)
    folded_name = models.CharField(max_length=64, unique=True, editable=False)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    version = models.CharField(max_length=64, blank=True)
    category = models.CharField(max_length=64, blank=True, db_index=True)
    author = models.CharField(max_length=200, blank=True)
    source = models.CharField(max_length=16, help_text="The kind of source the tool came from.")
    pack = models.CharField(max_length=64, blank=True, db_index=True)
    place = models.CharField(max_length=500, blank=True, help_text="Where the tool is written.")
    tags = models.ManyToManyField(Tag, through="ToolTag", related_name="tools", blank=True)
    enabled = models.BooleanField(default=True, db_default=True, help_text="Off: every call is refused from the next.")
    read_only = models.BooleanField(default=False, db_default=False, help_text="The tool says it changes nothing.")
    timeout_ms = models.PositiveIntegerField(
        "timeout (ms)",
        null=True,
        blank=True,
        validators=[MinValueValidator(MIN_TIMEOUT_MS), MaxValueValidator(MAX_TIMEOUT_MS)],
        help_text="Empty: what the tool, its pack or the settings say.",
    )
    definition = models.ForeignKey("Definition", on_delete=models.RESTRICT, related_name="current_for", null=True)
    registered_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())
    retired_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when no source has this tool any more."
    )

    objects = ToolQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "tool"
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="tool_has_a_name"),
            models.CheckConstraint(
                condition=models.Q(timeout_ms=None)
                | models.Q(timeout_ms__gte=MIN_TIMEOUT_MS, timeout_ms__lte=MAX_TIMEOUT_MS),
                name="tool_timeout_within_bounds",
                violation_error_message=f"Between {MIN_TIMEOUT_MS} and {MAX_TIMEOUT_MS} ms.",
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


class Definition(models.Model):
    """One version of what a tool is: as an agent saw it then. Never changed, never deleted."""

    tool = models.ForeignKey(ToolRecord, on_delete=models.CASCADE, related_name="definitions")
    hash = models.CharField(max_length=64)
    version = models.CharField(max_length=64)
    body = models.JSONField()
    first_seen_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering: ClassVar = ["-first_seen_at", "-pk"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["tool", "hash"], name="definition_once_per_tool")]

    def __str__(self) -> str:
        return f"{self.tool_id} {self.version} {self.hash[:8]}"
