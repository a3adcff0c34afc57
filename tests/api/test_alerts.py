"""Alerts and alert rules over REST: secrets go in and do not come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.alerts.conftest import alert
from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support.receivers import Receiver
from tools_app.alerts.routing import new_delivery
from tools_app.models import AlertDelivery, AlertRule, AuditEntry
from tools_app.models.alerts import Event

SECRET = "a secret of forty characters, or even more"
WRONG = [
    ({}, "/name"),
    ({"name": "x" * 65}, "/name"),
    ({"name": "new"}, "/url"),
    ({"name": "new", "url": "http://hooks.example.org/x"}, "/url"),
    ({"name": "new", "url": "https://10.0.0.1/x"}, "/url"),
    ({"name": "new", "url": "https://hooks.example.org/x", "secret": "short"}, "/secret"),
    ({"name": "new", "url": "https://hooks.example.org/x", "events": ["x"]}, "/events"),
    ({"name": "new", "url": "https://hooks.example.org/x", "severity": "loud"}, "/severity"),
    ({"name": "new", "url": "https://hooks.example.org/x", "perMinute": 0}, "/perMinute"),
    ({"name": "new", "url": "https://hooks.example.org/x", "template": "{"}, "/template"),
    ({"name": "new", "url": "https://hooks.example.org/x", "owner": "nemo"}, "/owner"),
    ({"name": "new", "channel": "mail"}, "/recipients"),
    ({"name": "new", "channel": "mail", "recipients": ["a\r\nBcc: b@example.org"]}, "/recipients"),
]


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["admin:*"])
    return rest


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def rule_at(receiver: Receiver, **parts: Any) -> dict[str, Any]:
    return {"name": "on call", "url": receiver.url, "internal": True, **parts}


def test_a_rule_is_made_changed_tested_and_deleted(root: Rest, receiver: Receiver) -> None:
    response = root.post("/v1/alert-rules", rule_at(receiver, events=["stop.set"]))
    made = response.json()
    assert response.status_code == 201, made
    check_form("CreatedAlertRule", made)
    assert made["secret"].startswith("whsec_")
    assert made["host"] == f"http://127.0.0.1:{receiver.port}"
    address = f"/v1/alert-rules/{made['id']}"
    shown = root.get(address).text
    assert "hooks/T0" not in shown
    assert made["secret"] not in shown
    changed = root.send("PATCH", address, json.dumps({"perMinute": 3, "secret": SECRET})).json()
    assert (changed["perMinute"], changed["events"]) == (3, ["stop.set"])
    tested = root.post(f"{address}/test", {}).json()
    check_form("AlertTest", tested)
    assert (tested["isSent"], tested["status"], tested["answer"]) == (True, 200, "ok")
    assert receiver.seen[0].id == tested["id"]
    assert [one["name"] for one in root.get("/v1/alert-rules").json()["alertRules"]] == ["on call"]
    assert root.send("DELETE", address).status_code == 204
    assert root.get(address).status_code == 404
    entries = json.dumps(list(AuditEntry.objects.values_list("changes", flat=True)))
    assert SECRET not in entries
    assert "hooks/T0" not in entries


def test_a_wrong_rule_is_refused_with_the_place(root: Rest, settings: Any, subtests: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    for body, path in WRONG:
        with subtests.test(body=str(body)):
            told = failure(root.post("/v1/alert-rules", body), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]
    assert not AlertRule.objects.exists()


def test_what_was_sent_is_listed_and_what_has_failed_can_be_sent_again(root: Rest, receiver: Receiver) -> None:
    made = root.post("/v1/alert-rules", rule_at(receiver)).json()
    rule = AlertRule.objects.get()
    about = alert()
    delivery = new_delivery(rule, about.at, alert=about, state="failed", attempts=10, error="HTTP 500", status=500)
    delivery.save()
    listed = root.get(f"/v1/alert-rules/{made['id']}/deliveries?state=failed").json()
    check_form("DeliveryPage", listed)
    assert [(one["id"], one["status"], one["alert"]) for one in listed["deliveries"]] == [(delivery.pk, 500, about.pk)]
    address = f"/v1/alert-rules/{made['id']}/deliveries/{delivery.pk}/resend"
    assert root.post(address, {}).json()["state"] == "queued"
    assert root.post(address, {}).status_code == 409
    assert AlertDelivery.objects.get().attempts == 0


def test_alerts_are_listed_and_acknowledged_by_those_who_may_know(root: Rest, make_key: MakeKey) -> None:
    stopped, connection = alert(Event.STOP_SET), alert(Event.CONNECTION_FAILING)
    listed = root.get("/v1/alerts").json()
    check_form("AlertPage", listed)
    assert [one["id"] for one in listed["alerts"]] == [connection.pk, stopped.pk]
    manager = make_key("manager", scopes=["tools:manage"])
    assert [one["event"] for one in root.get("/v1/alerts", key=manager).json()["alerts"]] == ["stop.set"]
    assert root.get(f"/v1/alerts/{connection.pk}", key=manager).status_code == 404
    assert root.get(f"/v1/alerts/{stopped.pk}", key=manager).json()["text"] == "Stopped: The hub was stopped"
    assert root.post("/v1/alerts/acknowledge", {"ids": [stopped.pk]}, key=manager).json() == {"acknowledged": 1}
    assert root.post("/v1/alerts/acknowledge", {"ids": [stopped.pk]}, key=manager).json() == {"acknowledged": 0}
    assert root.post("/v1/alerts/acknowledge", {"ids": ["0" * 32]}, key=manager).status_code == 404
    assert [one["id"] for one in root.get("/v1/alerts?state=open").json()["alerts"]] == [connection.pk]
    assert [one["id"] for one in root.get("/v1/alerts?event=stop.set&severity=error").json()["alerts"]] == [stopped.pk]


def test_a_key_that_is_restricted_to_toolsets_sees_no_alerts(root: Rest, make_key: MakeKey) -> None:
    root.post("/v1/toolsets", {"name": "mine", "names": ["echo"]})
    assert root.get("/v1/alerts", key=make_key("bound", scopes=["tools:manage"], toolsets=["mine"])).status_code == 403
