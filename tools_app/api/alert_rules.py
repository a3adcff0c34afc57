"""Alert rules: who is told of which alerts, tests of them, and what they have sent."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from django.db import connections
from django.http import HttpRequest
from ninja import Query
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import actions
from tools_app.alerts import sending
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.cursors import Pages
from tools_app.api.errors import Failure
from tools_app.api.queries import Cursor, Limit, QueryString, Removal, number_in_path, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.governance import Actor
from tools_app.governance.alert_rules import MOST_NAME, MOST_NAMES, MOST_RECIPIENTS, MOST_URL
from tools_app.models import AlertDelivery, AlertRule
from tools_app.models.alerts import MOST_TEMPLATE, Event, Severity
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["alerts"])

Channel = Literal["webhook", "mail"]
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME, json_schema_extra=NOT_BLANK)]
EventName = Annotated[str, Field(max_length=24, json_schema_extra={"enum": [*Event.values]})]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]

_URL = "Where a webhook is sent. Write-only. Empty: keep the stored one"
_SECRET = "Signs webhooks, at least 16 characters. Write-only. Empty: generated for a new rule, else kept"  # noqa: S105


class AlertRuleItem(ResponseSchema):
    id: int
    name: str
    enabled: bool
    owner: str | None = Field(description="User who takes care of the rule")
    channel: AsIs[Channel]
    host: TextOrNone = Field(description="Server of the webhook. The rest of its URL is not shown")
    internal: bool
    recipients: list[str]
    events: list[str] = Field(description="Empty: all")
    severity: AsIs[Severity] = Field(description="Less severe alerts are not sent")
    tools: list[str]
    sources: list[str]
    callers: list[str]
    error_rate: int
    per_minute: int
    payloads: bool = Field(description="Whether arguments of calls that wait for approval are sent")
    template: str
    failing_since: Timestamp | None
    error: TextOrNone = Field(description="Why the last attempt failed")
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def shown(cls, rule: AlertRule, **more: Any) -> Any:
        return cls.of(rule, owner=rule.owner.get_username() if rule.owner is not None else None, **more)


class CreatedAlertRule(AlertRuleItem):
    secret: TextOrNone = Field(description="Only if it was generated, and only here")


class AlertRules(ResponseSchema):
    alert_rules: list[AlertRuleItem]


class AlertRuleChange(Body):
    """Omitted fields are unchanged."""

    enabled: bool = True
    owner: str | None = Field(default=None, max_length=150)
    channel: Channel = "webhook"
    url: str = Field(default="", max_length=MOST_URL, description=_URL)
    secret: str = Field(default="", max_length=MOST_NAME, description=_SECRET)
    internal: bool = Field(default=False, description="Permit a private address, and plain http")
    recipients: list[Name] = Field(default=[], max_length=MOST_RECIPIENTS, description="E-mail addresses")
    events: list[EventName] = Field(default=[], max_length=MOST_NAMES, description="Empty: all")
    severity: Literal["error", "warning", "info"] = Field(default="info", description="Less severe alerts are not sent")
    tools: Names = Field(default=[], description="Only alerts about these tools")
    sources: Names = Field(default=[], description="Only alerts about these sources")
    callers: Names = Field(default=[], description="Only alerts about calls of these callers, by name or id")
    error_rate: int = Field(default=5, ge=5, le=100, description="Lower error rates (%) are not sent")
    per_minute: int = Field(default=10, ge=1, le=60, description="More alerts than these are sent as one digest")
    payloads: bool = Field(default=False, description="Send the arguments of calls that wait, with secrets masked")
    template: str = Field(default="", max_length=MOST_TEMPLATE, description="JSON with placeholders such as `{text}`")
    reason: Reason = ""

    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"name", "reason"})


class AlertRuleRequest(AlertRuleChange):
    """A new rule."""

    name: str = Field(min_length=1, max_length=64, json_schema_extra=NOT_BLANK)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "on call",
                    "url": "https://hooks.example.org/alerts",
                    "events": ["approval.requested", "approval.expired"],
                }
            ]
        }
    )


class DeliveryItem(ResponseSchema):
    id: str = Field(description="The `webhook-id` of every attempt")
    kind: AsIs[AlertDelivery.Kind]
    alert: str | None = Field(validation_alias="alert_id")
    state: AsIs[AlertDelivery.State]
    attempts: int
    status: int | None = Field(description="HTTP status of the last attempt")
    error: TextOrNone
    created_at: Timestamp
    next_attempt_at: Timestamp | None
    sent_at: Timestamp | None

    @classmethod
    def shown(cls, delivery: AlertDelivery) -> Any:
        is_queued = delivery.state == AlertDelivery.State.QUEUED
        return cls.of(delivery, next_attempt_at=delivery.next_attempt_at if is_queued else None)


class DeliveryPage(ResponseSchema):
    deliveries: list[DeliveryItem]
    next_cursor: str | None


class DeliveriesQuery(QueryString):
    state: AlertDelivery.State | None = optional()
    cursor: Cursor | None = optional()
    limit: Limit = 50


class AlertTest(ResponseSchema):
    id: str
    is_sent: bool
    status: int | None = Field(description="HTTP status of the receiver")
    error: TextOrNone
    answer: TextOrNone = Field(description="Beginning of what the receiver answered")


@router.get("", response=AlertRules, url_name="alert_rules")
async def list_alert_rules(request: HttpRequest) -> AlertRules:
    """List the alert rules by name. Requires `admin:*`."""
    require(request, actions.ALERT_RULES_READ)
    rows = await database.run(list, AlertRule.objects.select_related("owner"))
    return AlertRules(alert_rules=[AlertRuleItem.shown(rule) for rule in rows])


@router.post("", response={201: CreatedAlertRule, 409: Failure})
async def create_alert_rule(request: HttpRequest, body: AlertRuleRequest) -> CreatedAlertRule:
    """Create an alert rule. Requires `admin:*`. Returns the secret of its webhook if that was generated."""
    actor = actor_of(request, actions.ALERT_RULE_CREATE)

    def create() -> CreatedAlertRule:
        rule, secret = governance.create_alert_rule(body.name, actor=actor, reason=body.reason, **body.values())
        created: CreatedAlertRule = CreatedAlertRule.shown(AlertRule.objects.get(pk=rule.pk), secret=secret)
        return created

    return await database.run(create)


@router.get("/{rule_id}", response=AlertRuleItem, url_name="alert_rule")
async def show_alert_rule(request: HttpRequest, rule_id: str) -> AlertRuleItem:
    """Show an alert rule. Requires `admin:*`."""
    require(request, actions.ALERT_RULES_READ)
    return await database.run(lambda: AlertRuleItem.shown(_rule(rule_id)))


@router.patch("/{rule_id}", response=AlertRuleItem)
async def change_alert_rule(request: HttpRequest, rule_id: str, body: AlertRuleChange) -> AlertRuleItem:
    """Change an alert rule. Requires `admin:*`. Applies from the next alert."""
    actor = actor_of(request, actions.ALERT_RULE_CHANGE)

    def change() -> AlertRuleItem:
        governance.change_alert_rule(_rule(rule_id).name, actor=actor, reason=body.reason, **body.values())
        item: AlertRuleItem = AlertRuleItem.shown(_rule(rule_id))
        return item

    return await database.run(change)


@router.delete("/{rule_id}", response={204: None})
async def delete_alert_rule(request: HttpRequest, rule_id: str, query: Query[Removal]) -> None:
    """Delete an alert rule with its deliveries. Requires `admin:*`. Alerts stay."""
    actor = actor_of(request, actions.ALERT_RULE_DELETE)
    await database.run(
        lambda: governance.delete_alert_rule(_rule(rule_id).name, actor=actor, reason=query.reason or "")
    )


@router.post("/{rule_id}/test", response=AlertTest)
async def test_alert_rule(request: HttpRequest, rule_id: str) -> AlertTest:
    """Send a message that says that it is a test, once, and return the answer. Requires `admin:*`."""
    actor = actor_of(request, actions.ALERT_RULE_TEST)
    # Not in a database thread: a receiver may take seconds.
    return await asyncio.to_thread(_test, rule_id, actor)


@router.get("/{rule_id}/deliveries", response=DeliveryPage, url_name="alert_deliveries")
async def list_deliveries(request: HttpRequest, rule_id: str, query: Query[DeliveriesQuery]) -> DeliveryPage:
    """List what a rule has sent or tried to send, newest first. Requires `admin:*`."""
    caller = require(request, actions.ALERT_DELIVERIES_READ)
    pages = Pages(f"deliveries {rule_id}", caller, query, moment="created_at")

    def page() -> DeliveryPage:
        rows = _rule(rule_id).deliveries.all()
        rows = rows if query.state is None else rows.filter(state=query.state)
        found, cursor = pages.page(rows, query.cursor, query.limit)
        return DeliveryPage(deliveries=[DeliveryItem.shown(one) for one in found], next_cursor=cursor)

    return await database.run(page)


@router.post("/{rule_id}/deliveries/{delivery_id}/resend", response={200: DeliveryItem, 409: Failure})
async def resend_alert(request: HttpRequest, rule_id: str, delivery_id: str) -> DeliveryItem:
    """Send a message again that has failed, under the same id. Requires `admin:*`."""
    actor = actor_of(request, actions.ALERT_RESEND)

    def resend() -> DeliveryItem:
        if not delivery_id.isalnum() or not _rule(rule_id).deliveries.filter(pk=delivery_id).exists():
            raise NotFoundError("There is no such delivery")
        item: DeliveryItem = DeliveryItem.shown(governance.resend_alert(delivery_id, actor=actor))
        return item

    return await database.run(resend)


def _rule(rule_id: str) -> AlertRule:
    rule = AlertRule.objects.select_related("owner").filter(pk=number_in_path(rule_id)).first()
    if rule is None:
        raise NotFoundError("There is no such alert rule", next_step="The alert rules are at /v1/alert-rules.")
    return rule


def _test(rule_id: str, actor: Actor) -> AlertTest:
    """In a thread that keeps no connection to the database."""
    try:
        delivery, outcome = sending.send_test(_rule(rule_id).name, actor=actor)
        return AlertTest.of(outcome, id=delivery.pk, is_sent=not outcome.error)
    finally:
        connections.close_all()
