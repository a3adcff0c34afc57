"""Permissions, usage and warnings of a key, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, Sum
from django.db.models.functions import TruncMonth
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import links
from tools_app.journal import insights
from tools_app.models import ApiKey, CallHour
from tools_app.sdk.reach import ENVIRONMENT

MONTHS: Final = 12
# When a key counts as about to expire, or as unused.
SOON: Final = timedelta(days=7)
UNUSED: Final = timedelta(days=7)
IDLE: Final = timedelta(days=30)

SCOPE_WORDS: Final = {
    "tools:list": gettext_lazy("list tools"),
    "tools:read": gettext_lazy("read what a tool takes and returns"),
    "tools:execute": gettext_lazy("call tools"),
    "tools:manage": gettext_lazy("switch tools and set their limits"),
    "sources:manage": gettext_lazy("add, change and remove sources"),
    "metrics:read": gettext_lazy("read metrics"),
    "admin:*": gettext_lazy("everything, without limits"),
}


@dataclass(frozen=True, slots=True)
class Month:
    """Usage of a key in one month."""

    start: datetime
    calls: int
    errors: int
    refused: int


def permissions(key: ApiKey) -> list[str]:
    """The permissions of the key, one phrase each."""
    toolsets = [toolset.name for toolset in key.toolsets.all()]
    is_admin = "admin:*" in key.scopes
    deeds = [str(SCOPE_WORDS.get(scope, scope)) for scope in SCOPE_WORDS if scope in key.scopes and scope != "admin:*"]
    sentences = []
    if is_admin:
        sentences.append(_("Can do everything that the REST API offers, including creating keys."))
    elif deeds:
        sentences.append(_("Can %(deeds)s.") % {"deeds": sentence_list(deeds)})
    else:
        sentences.append(_("Has no permissions."))
    if toolsets:
        sentences.append(_("Tools: only %(toolsets)s") % {"toolsets": sentence_list(toolsets)})
    else:
        sentences.append(
            _("Tools: all of the hub, also future ones") if key.reach.outside is False else _("Tools: all")
        )
    if not key.may_write:
        sentences.append(_("Access level: read-only"))
    elif not key.may_destroy:
        sentences.append(_("Access level: read and write, not destructive"))
    if key.addresses:
        sentences.append(_("Allowed addresses: %(addresses)s") % {"addresses": ", ".join(key.addresses)})
    return [*sentences, _through(key), _rate_limit(key)]


def ends_soon(key: ApiKey, now: datetime) -> bool:
    return key.usable(now) and key.expires_at is not None and key.expires_at - now <= SOON


def attention(key: ApiKey, now: datetime) -> list[str]:
    """Warnings about a usable key."""
    if not key.usable(now):
        return []
    warnings = []
    if key.expires_at is not None and ends_soon(key, now):
        warnings.append(_("expires %(time)s") % {"time": links.ago(key.expires_at)})
    if key.last_used_at is None and now - key.created_at >= UNUSED:
        warnings.append(_("never used since it was created %(time)s") % {"time": links.ago(key.created_at)})
    if key.previous_until is not None and key.previous_works(now):
        values = {"prefix": key.previous_prefix, "time": links.ago(key.previous_until)}
        warnings.append(_("previous key thub_%(prefix)s_… expires %(time)s") % values)
    return warnings


def attention_filter(now: datetime) -> Q:
    """Selects the usable keys for which `attention` returns warnings."""
    unused = Q(last_used_at=None, created_at__lte=now - UNUSED)
    return unused | Q(expires_at__lte=now + SOON) | Q(previous_until__gt=now)


def usage(key: ApiKey, now: datetime) -> list[Month]:
    """Usage by month, newest first; months without calls are left out."""
    first = timezone.localtime(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for _number in range(MONTHS - 1):
        first = (first - timedelta(days=1)).replace(day=1)
    rows = CallHour.objects.filter(caller_id=f"key:{key.pk}", hour__gte=first).order_by()
    months = rows.annotate(month=TruncMonth("hour")).values("month").order_by("-month")
    totals = months.annotate(
        number=Sum("calls"),
        errors=Sum("calls", filter=Q(status__in=insights.ERRORS), default=0),
        refused=Sum("calls", filter=Q(status="refused"), default=0),
    )
    return [Month(row["month"], row["number"], row["errors"], row["refused"]) for row in totals if row["number"]]


def calls_this_month(keys: Iterable[ApiKey], now: datetime) -> dict[int, int]:
    """The number of calls in this month, by key, from the hourly figures."""
    by_caller = {f"key:{key.pk}": key.pk for key in keys}
    first = timezone.localtime(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    rows = CallHour.objects.filter(caller_id__in=by_caller, hour__gte=first).order_by()
    return {
        by_caller[row["caller_id"]]: row["number"] for row in rows.values("caller_id").annotate(number=Sum("calls"))
    }


def sentence_list(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *other_words, last = words
    if not other_words:
        return last
    return _("%(others)s and %(last)s") % {"others": ", ".join(other_words), "last": last}


def _through(key: ApiKey) -> str:
    names = [_("default (environment)") if name == ENVIRONMENT else name for name in key.connection_names]
    if not names:
        return _("Connections: none (tools that need an upstream account are not available)")
    return _("Connections: %(names)s") % {"names": sentence_list(names)}


def _rate_limit(key: ApiKey) -> str:
    if key.rate is None:
        return _("Rate limit: hub default")
    return _("Rate limit: %(most)s requests per %(seconds)s s") % {
        "most": f"{key.rate.most:,}",
        "seconds": f"{key.rate.seconds:,g}",
    }
