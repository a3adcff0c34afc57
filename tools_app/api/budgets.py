"""Budgets of keys and toolsets in REST: their limits, what is used of them, and those of the caller."""

from __future__ import annotations

from typing import Literal, Self

from django.http import HttpRequest
from django.utils import timezone
from pydantic import Field

from tools_app.access import actions
from tools_app.api.answers import ResponseSchema, Timestamp
from tools_app.api.authentication import require
from tools_app.api.bodies import Body
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.engine import budgets as callers_budgets
from tools_app.journal import budgets
from tools_app.sdk.budgets import MOST, Budget, Limit

router = StrictRouter(tags=["tools"])

Unit = Literal["calls", "tokens"]
Period = Literal["day", "month"]
DECISION = "Its calls are refused with `BUDGET_SPENT` when one of these limits is reached; null: none"
USE = "What is used of each limit of the budget. Days and months are those of the hub's time zone"


class BudgetDecision(Body):
    """Limits of calls, and of estimated tokens of answers. Null: no limit."""

    calls_per_day: int | None = Field(default=None, ge=1, le=MOST)
    tokens_per_day: int | None = Field(default=None, ge=1, le=MOST)
    calls_per_month: int | None = Field(default=None, ge=1, le=MOST)
    tokens_per_month: int | None = Field(default=None, ge=1, le=MOST)

    def budget(self) -> Budget:
        return Budget(self.calls_per_day, self.tokens_per_day, self.calls_per_month, self.tokens_per_month)


class BudgetItem(ResponseSchema):
    calls_per_day: int | None = Field(validation_alias="calls_a_day")
    tokens_per_day: int | None = Field(validation_alias="tokens_a_day")
    calls_per_month: int | None = Field(validation_alias="calls_a_month")
    tokens_per_month: int | None = Field(validation_alias="tokens_a_month")


class LimitItem(ResponseSchema):
    unit: Unit
    period: Period
    limit: int = Field(validation_alias="most")
    used: int
    percent: int = Field(description="Rounded down; above 100 if calls were in flight when it was reached")
    resets_at: Timestamp


class CallerLimit(LimitItem):
    owner: Literal["key", "toolset"] = Field(description="Whose budget it is")
    toolset: str | None = Field(description="Name of the toolset")

    @classmethod
    def shown(cls, subject: str, limit: Limit) -> Self:
        kind, _, name = subject.partition(":")
        is_toolset = kind == "toolset"
        return cls.of(limit, owner="toolset" if is_toolset else "key", toolset=name if is_toolset else None)


class CallerBudgets(ResponseSchema):
    budgets: list[CallerLimit]


@router.get("", response=CallerBudgets, url_name="budgets")
async def show_budgets(request: HttpRequest) -> CallerBudgets:
    """Show the budgets that your calls count for: that of your key, and those of your toolsets, with what is used.

    Requires `tools:list`. Empty: your calls have no budget.
    """
    caller = require(request, actions.TOOLS_LIST)
    found = callers_budgets.of_caller(caller, await catalog.fresh())
    limits = await database.run(budgets.limits, found, timezone.now())
    return CallerBudgets(budgets=[CallerLimit.shown(subject, limit) for subject in limits for limit in limits[subject]])
