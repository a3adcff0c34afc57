"""Which rule is told of which alert, and how many messages a flood makes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.alerts.conftest import TEST, alert, rule
from tests.support.receivers import Receiver
from tools_app import governance
from tools_app.alerts.messages import message_of
from tools_app.alerts.routing import AT_ONCE, concerns, route
from tools_app.models import Alert, AlertDelivery, AlertRule
from tools_app.models.alerts import Event

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("parts", "is_told"),
    [
        ({}, True),
        ({"events": ["source.failing"]}, False),
        ({"events": ["errors.rate", "stop.set"]}, True),
        ({"severity": "error"}, True),
        ({"tools": ["echo"]}, True),
        ({"tools": ["calculate"]}, False),
        ({"sources": ["builtin"]}, True),
        ({"sources": ["desk"], "tools": ["echo"]}, False),
        ({"callers": ["agent"]}, True),
        ({"callers": ["key:1"]}, True),
        ({"callers": ["key:11"]}, False),
        ({"error_rate": 20}, True),
        ({"error_rate": 21}, False),
    ],
)
def test_a_rule_is_told_of_what_its_filters_let_through(
    parts: dict[str, Any], is_told: bool, receiver: Receiver
) -> None:
    made = alert(
        Event.ERROR_RATE, tool="echo", source="builtin", caller=("key:1", "agent"), details={"level": 0.2, "share": 0.3}
    )
    assert concerns(rule(receiver, **parts), made) is is_told


def test_a_rule_for_errors_is_not_told_of_warnings(receiver: Receiver) -> None:
    strict = rule(receiver, severity="error")
    assert not concerns(strict, alert(Event.APPROVAL_REQUESTED))
    assert concerns(strict, alert(Event.STOP_SET))
    assert not concerns(rule(receiver, "middle", severity="warning"), alert(Event.STOP_LIFTED))


def test_an_alert_makes_one_message_for_each_rule_and_is_looked_at_once(receiver: Receiver) -> None:
    rule(receiver)
    rule(receiver, "others")
    rule(receiver, "off", enabled=False)
    alert()
    now = timezone.now()
    assert [route(now), route(now)] == [1, 0]
    assert sorted(AlertDelivery.objects.values_list("rule__name", flat=True)) == ["on call", "others"]


def test_a_thousand_alerts_at_once_are_a_few_messages_and_one_digest(receiver: Receiver) -> None:
    made = rule(receiver, per_minute=10)
    for number in range(1_000):
        alert(Event.STOP_SET if number % 4 else Event.SOURCE_FAILING, source="tracker")
    now = timezone.now()
    while route(now) == AT_ONCE:
        continue
    kinds = [delivery.kind for delivery in made.deliveries.all()]
    assert sorted(kinds) == ["alert"] * 10 + ["digest"]
    digest = made.deliveries.get(kind="digest")
    assert sum(digest.counts.values()) == 990
    assert digest.next_attempt_at - now < timedelta(minutes=1), "no alert waits longer"
    message = message_of(digest, made, now)
    assert message.document["count"] == 990
    assert len(message.alerts) == 20
    assert message.text.startswith("990 more alerts: 74")
    alert()
    assert route(now + timedelta(seconds=30)) == 1
    digest.refresh_from_db()
    assert sum(digest.counts.values()) == 991, "while it collects, it gets all of them"


def test_after_a_minute_alerts_are_messages_of_their_own_again(receiver: Receiver) -> None:
    made = rule(receiver, per_minute=1)
    now = timezone.now()
    for _ in range(3):
        alert()
    route(now)
    made.deliveries.update(state="sent", attempts=1)
    alert()
    route(now + timedelta(seconds=61))
    assert list(made.deliveries.order_by("created_at").values_list("kind", flat=True)) == ["alert", "digest", "alert"]


def test_messages_of_a_rule_that_is_switched_off_are_not_sent_weeks_later(receiver: Receiver) -> None:
    made = rule(receiver)
    alert()
    route(timezone.now())
    governance.change_alert_rule("on call", enabled=False, actor=TEST)
    delivery = made.deliveries.get()
    assert (delivery.state, delivery.error) == ("failed", "The rule was switched off")


def test_alerts_without_rules_are_listed_all_the_same() -> None:
    alert()
    assert route(timezone.now()) == 1
    assert Alert.objects.count() == 1
    assert not AlertRule.objects.exists()
