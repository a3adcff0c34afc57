"""Budgets in lists and on pages: what is used of each limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tools_app.admin import links
from tools_app.alerts.words import limit_of_budget
from tools_app.journal.budgets import ALMOST, fullest
from tools_app.sdk.budgets import Limit


@dataclass(frozen=True, slots=True)
class Line:
    """A limit on the page of its key or toolset."""

    words: str
    used: int
    share: SafeString
    resets_at: datetime


def most(limit: Limit) -> str:
    return limit_of_budget(limit.unit, limit.period, limit.most)


def share(limit: Limit) -> SafeString:
    """How much of it is used, marked from 80 % on."""
    tone = "bad" if limit.is_spent else "warn" if limit.percent >= ALMOST else "good"
    return links.mark(tone, f"{limit.percent} %")


def shown(limits: Sequence[Limit]) -> SafeString:
    """In a list: the limit of which the most is used."""
    limit = fullest(limits)
    if limit is None:
        return links.quiet(_("none"))
    values = {"used": f"{limit.used:,}", "limit": most(limit)}
    return links.with_sub(share(limit), _("%(used)s of %(limit)s") % values)


def lines(limits: Sequence[Limit]) -> list[Line]:
    return [Line(most(limit), limit.used, share(limit), limit.resets_at) for limit in limits]
