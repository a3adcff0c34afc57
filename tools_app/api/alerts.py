"""Alerts: what operators were told. Only those about what the caller may read elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import actions
from tools_app.alerts import words
from tools_app.alerts.visibility import visible
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import Body
from tools_app.api.cursors import Pages
from tools_app.api.errors import Failure
from tools_app.api.queries import Cursor, Limit, QueryString, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.governance.sign_ins import public_url
from tools_app.models import Alert
from tools_app.models.alerts import Event, Severity
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["alerts"])

AlertId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class AlertItem(ResponseSchema):
    id: str
    event: AsIs[Event]
    severity: AsIs[Severity]
    text: str = Field(description="The alert in one sentence")
    link: str = Field(description="Page of the admin that resolves it")
    tool: TextOrNone = Field(validation_alias="tool_name")
    source: TextOrNone
    caller: TextOrNone = Field(validation_alias="caller_name")
    at: Timestamp
    acknowledged_at: Timestamp | None
    acknowledged_by: TextOrNone

    @classmethod
    def shown(cls, alert: Alert) -> AlertItem:
        return cls.of(alert, text=words.sentence(alert), link=public_url() + words.path(alert))


class AlertPage(ResponseSchema):
    alerts: list[AlertItem]
    next_cursor: str | None


class AlertsQuery(QueryString):
    state: Literal["open", "acknowledged"] | None = optional()
    severity: Severity | None = optional()
    event: Event | None = optional()
    tool: Word | None = optional("Only those about this tool (full name)")
    source: Word | None = optional("Only those about this source")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filter(self, rows: QuerySet[Alert]) -> QuerySet[Alert]:
        columns = {"severity": self.severity, "event": self.event, "tool_name": self.tool, "source": self.source}
        rows = apply_filters(rows, columns)
        return rows if self.state is None else rows.filter(acknowledged_at__isnull=self.state == "open")


class Acknowledgement(Body):
    ids: list[AlertId] = Field(min_length=1, max_length=100, description="Alerts that were seen")


class Acknowledged(ResponseSchema):
    acknowledged: int = Field(description="How many of them were still open")


@router.get("", response=AlertPage, url_name="alerts")
async def list_alerts(request: HttpRequest, query: Query[AlertsQuery]) -> AlertPage:
    """List alerts, newest first. Requires `tools:manage` and a key not restricted to toolsets.

    Alerts about connections, keys, backups and disks require `admin:*`.
    """
    caller = require(request, actions.ALERTS_READ)
    pages = Pages("alerts", caller, query, moment="at")

    def page() -> AlertPage:
        found, cursor = pages.page(query.filter(visible(caller)), query.cursor, query.limit)
        return AlertPage(alerts=[AlertItem.shown(alert) for alert in found], next_cursor=cursor)

    return await database.run(page)


# Before the path with an id, which would match it.
@router.post("/acknowledge", response={200: Acknowledged, 404: Failure})
async def acknowledge_alerts(request: HttpRequest, body: Acknowledgement) -> Acknowledged:
    """Mark alerts as seen. Requires `tools:manage` and a key not restricted to toolsets."""
    actor = actor_of(request, actions.ALERT_ACKNOWLEDGE)
    number = await database.run(governance.acknowledge_alerts, body.ids, actor=actor)
    return Acknowledged(acknowledged=number)


@router.get("/{alert_id}", response=AlertItem, url_name="alert")
async def show_alert(request: HttpRequest, alert_id: str) -> AlertItem:
    """Show an alert. Requires `tools:manage` and a key not restricted to toolsets."""
    caller = require(request, actions.ALERTS_READ)

    def show() -> AlertItem:
        alert = visible(caller).filter(pk=alert_id).first() if alert_id.isalnum() else None
        if alert is None:
            raise NotFoundError("There is no such alert", next_step="The alerts are at /v1/alerts.")
        return AlertItem.shown(alert)

    return await database.run(show)
