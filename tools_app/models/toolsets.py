"""Toolsets: named selections of tools, for keys and agents."""

from __future__ import annotations

from typing import ClassVar, Final

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from tools_app.models.budgets import Budgeted
from tools_app.sdk.names import NAME, folded
from tools_app.sdk.reach import Choice, Detail, Mode, Override

LIKE_A_TOOL: Final = RegexValidator(
    rf"\A{NAME.pattern}\Z", "Lowercase letters, numbers, hyphens and underscores, the first a letter; at most 64."
)


class Toolset(Budgeted):
    """The tools that match any of the selectors, or all tools of this hub if there is none. New tools are included."""

    name = models.CharField(max_length=64, unique=True, validators=[LIKE_A_TOOL])
    description = models.CharField(max_length=500, blank=True)
    packs = models.JSONField(default=list, blank=True, help_text="All tools of these sources.")
    categories = models.JSONField(default=list, blank=True, help_text="All tools in these categories.")
    tags = models.JSONField(default=list, blank=True, help_text="All tools with at least one of these tags.")
    names = models.JSONField(default=list, blank=True, help_text="Individual tools.")
    read_only = models.BooleanField(
        default=False, db_default=False, help_text="Only read-only tools from the selection."
    )
    mode = models.CharField(
        max_length=8,
        blank=True,
        default="",
        db_default="",
        choices=[(mode.value, mode.value) for mode in Mode],
        help_text="How agents see these tools: all in a list (direct), by searching (search), or by searching if the "
        "list is long (auto). Empty: hub default.",
    )
    detail = models.CharField(
        max_length=8,
        blank=True,
        default="",
        db_default="",
        choices=[(detail.value, detail.value) for detail in Detail],
        help_text="How much of each tool agents read: its whole definition (full), what they need of it (lean), or "
        "that without the form of its answers and without labels (minimal). Empty: hub default.",
    )
    overrides = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Rename tools in this toolset or replace their descriptions: "
        '{"get_issue": {"name": "ticket", "description": "…"}}.',
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [models.CheckConstraint(condition=~models.Q(name=""), name="toolset_has_a_name")]

    def __str__(self) -> str:
        return self.name

    def choice(self) -> Choice:
        return Choice(
            packs=frozenset(self.packs),
            categories=frozenset(self.categories),
            tags=frozenset(self.tags),
            names=frozenset(map(folded, self.names)),
            read_only=self.read_only,
            mode=self.mode,
            detail=self.detail,
            overrides={folded(name): Override(**override) for name, override in self.overrides.items()},
            budget=self.budget,
        )
