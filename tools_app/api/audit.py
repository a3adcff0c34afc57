"""The audit trail: who changed what, when and why."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from tools_app.access import actions
from tools_app.api.answers import ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import require
from tools_app.api.cursors import Pages
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, Text, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import AuditEntry

router = StrictRouter(tags=["audit"])

Name = Annotated[Text, Field(max_length=150)]


class AuditItem(ResponseSchema):
    id: int
    at: Timestamp
    actor: str
    action: str
    subject: str
    changes: dict[str, Any] = Field(description="Old and new value of each changed field")
    reason: TextOrNone
    address: TextOrNone = Field(description="IP address of the request; null: made on the hub's own machine")
    client: TextOrNone = Field(description="User agent of the request")


class AuditPage(ResponseSchema):
    entries: list[AuditItem]
    next_cursor: str | None


class AuditQuery(QueryString):
    actor: Name | None = optional("Only changes by this actor, for example `key:ops`")
    action: Word | None = optional("Only this action, for example `tool.disable`")
    by: Literal["people", "programs", "system"] | None = optional(
        "Only changes by people (users and commands), programs (keys, tokens, local agents) or the hub itself"
    )
    subject: Name | None = optional("Only changes of this subject, for example `echo` or `key:ops`")
    since: Moment | None = optional("Only changes at or after this time")
    until: Moment | None = optional("Only changes before this time")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filter(self) -> QuerySet[AuditEntry]:
        filters = {
            "actor": self.actor,
            "action": self.action,
            "subject": self.subject,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        rows = AuditEntry.objects.all() if self.by is None else AuditEntry.objects.made_by(self.by)
        return apply_filters(rows, filters)


@router.get("", response=AuditPage, url_name="audit")
async def list_audit(request: HttpRequest, query: Query[AuditQuery]) -> AuditPage:
    """List changes made by people, keys and commands, newest first. Requires `admin:*`. Filters are combined (AND)."""
    caller = require(request, actions.AUDIT_READ)
    pages = Pages("audit", caller, query)
    entries, cursor = await database.run(pages.page, query.filter(), query.cursor, query.limit)
    return AuditPage(entries=entries, next_cursor=cursor)
