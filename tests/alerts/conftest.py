"""Receivers, and rules that send to them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from tests.support.receivers import Receiver
from tools_app import governance
from tools_app.models import Alert, AlertRule
from tools_app.models.alerts import Event, new_alert

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
TEST = governance.trusted("test")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def rule(receiver: Receiver, name: str = "on call", **parts: Any) -> AlertRule:
    """A rule whose receiver is on this machine."""
    about: dict[str, Any] = {"url": receiver.url, "secret": SECRET, "internal": True, "actor": TEST}
    made, _ = governance.create_alert_rule(name, **(about | parts))
    return made


def alert(event: Event = Event.STOP_SET, **about: Any) -> Alert:
    """An alert that no rule has been applied to."""
    values = {"kind": "hub", "what": "The hub was stopped", "name": "main", "why": "it said no", "code": "API_ERROR"}
    made = new_alert(event, secrets.token_hex(8), timezone.now(), **({"details": values} | about))
    made.save()
    return made
