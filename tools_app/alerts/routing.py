"""Applies the rules to new alerts. A rule that has many at once gets some of them, and one digest of the others."""

from __future__ import annotations

import secrets as random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from tools_app.models import Alert, AlertDelivery, AlertRule
from tools_app.models.alerts import Event, Severity

AT_ONCE: Final = 200
MINUTE: Final = timedelta(minutes=1)
# How long a digest collects. Less than a minute, so that no alert waits longer than that.
DIGEST: Final = timedelta(seconds=45)
MOST_IN_DIGEST: Final = 20
_SEVERITIES: Final = (Severity.INFO, Severity.WARNING, Severity.ERROR)


def route(now: datetime) -> int:
    """Queue messages for new alerts. Returns how many alerts were looked at."""
    if not Alert.objects.filter(routed_at=None).exists():
        return 0
    with transaction.atomic():
        # Locked: the lease of a suspended process can have ended.
        alerts = list(Alert.objects.select_for_update().filter(routed_at=None).order_by("at", "pk")[:AT_ONCE])
        for rule in AlertRule.objects.filter(enabled=True).order_by("pk"):
            _queue(rule, [alert for alert in alerts if concerns(rule, alert)], now)
        Alert.objects.filter(pk__in=[alert.pk for alert in alerts]).update(routed_at=now)
    return len(alerts)


def concerns(rule: AlertRule, alert: Alert) -> bool:
    """Whether a rule is about an alert."""
    if rule.events and alert.event not in rule.events:
        return False
    if _SEVERITIES.index(Severity(alert.severity)) < _SEVERITIES.index(Severity(rule.severity)):
        return False
    if alert.event == Event.ERROR_RATE and alert.details.get("level", 0) * 100 < rule.error_rate:
        return False
    return (
        _is_among(rule.tools, alert.tool_name)
        and _is_among(rule.sources, alert.source)
        and _is_among(rule.callers, alert.caller_id, alert.caller_name)
    )


def _is_among(wanted: Iterable[str], *names: str) -> bool:
    chosen = set(wanted)
    return not chosen or not chosen.isdisjoint(filter(None, names))


def _queue(rule: AlertRule, alerts: Sequence[Alert], now: datetime) -> None:
    if not alerts:
        return
    earlier = rule.deliveries.exclude(kind=AlertDelivery.Kind.TEST)
    digest = earlier.filter(kind=AlertDelivery.Kind.DIGEST, attempts=0, next_attempt_at__gt=now).first()
    room = 0 if digest is not None else max(0, rule.per_minute - earlier.filter(created_at__gt=now - MINUTE).count())
    single, others = alerts[:room], alerts[room:]
    # In the order of their alerts, although all are created now.
    AlertDelivery.objects.bulk_create(
        new_delivery(rule, now + timedelta(microseconds=number), alert=alert) for number, alert in enumerate(single)
    )
    if others:
        after = now + timedelta(microseconds=len(single))
        digest = digest or new_delivery(rule, after, kind=AlertDelivery.Kind.DIGEST, next_attempt_at=now + DIGEST)
        digest.alert_ids = [*digest.alert_ids, *(alert.pk for alert in others)][:MOST_IN_DIGEST]
        digest.counts = dict(Counter(digest.counts) + Counter(alert.event for alert in others))
        digest.save()


def new_delivery(rule: AlertRule, now: datetime, **columns: object) -> AlertDelivery:
    return AlertDelivery(id=random.token_hex(16), rule=rule, created_at=now, **{"next_attempt_at": now, **columns})
