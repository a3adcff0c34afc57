"""Budgets of keys and toolsets, and what is used of them."""

from __future__ import annotations

from typing import ClassVar, Final

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from tools_app.sdk.budgets import MOST, PARTS, Budget

_BOUNDS: Final = (MinValueValidator(1), MaxValueValidator(MOST))


HAS_BUDGET: Final = ~models.Q(calls_a_day=None, tokens_a_day=None, calls_a_month=None, tokens_a_month=None)


class Budgeted(models.Model):
    """A record with a budget: its calls are refused when that is spent."""

    calls_a_day = models.PositiveBigIntegerField(
        "budget: calls a day", null=True, blank=True, validators=_BOUNDS, help_text="Empty: no limit."
    )
    tokens_a_day = models.PositiveBigIntegerField(
        "budget: tokens a day",
        null=True,
        blank=True,
        validators=_BOUNDS,
        help_text="Estimated tokens of answers. Empty: no limit.",
    )
    calls_a_month = models.PositiveBigIntegerField(
        "budget: calls a month", null=True, blank=True, validators=_BOUNDS, help_text="Empty: no limit."
    )
    tokens_a_month = models.PositiveBigIntegerField(
        "budget: tokens a month",
        null=True,
        blank=True,
        validators=_BOUNDS,
        help_text="Estimated tokens of answers. Empty: no limit.",
    )

    class Meta:
        abstract = True

    @property
    def budget(self) -> Budget | None:
        return Budget(**{part: getattr(self, part) for part in PARTS}) or None


class BudgetUse(models.Model):
    """What the calls of one day used of the budget of a key or toolset. Added to in the commit of each call.

    Only for those that have a budget: all commits that add to one row wait for each other.
    """

    subject = models.CharField(max_length=80, help_text="key: and its number, or toolset: and its name.")
    day = models.DateField(help_text="In the time zone of the hub.")
    calls = models.PositiveBigIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = "use of a budget"
        verbose_name_plural = "use of budgets"
        constraints: ClassVar = [models.UniqueConstraint(fields=["subject", "day"], name="budget_use_once_a_day")]
        indexes: ClassVar = [models.Index(fields=["day"], name="budget_use_by_day")]

    def __str__(self) -> str:
        return f"{self.subject} {self.day}"
