"""The audit trail: who changed what, when and why."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, Text, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import AuditEntry

router = StrictRouter(tags=["audit"])

Name = Annotated[Text, Field(max_length=150)]


class AuditItem(Shown):
    id: int
    at: str
    actor: str
    action: str
    subject: str
    changes: dict[str, Any] = Field(description="Old and new value of each changed field")
    reason: str | None
    address: str | None = Field(description="IP address of the request; null: made on the hub's own machine")
    client: str | None = Field(description="User agent of the request")


class AuditPage(Shown):
    entries: list[AuditItem]
    next_cursor: str | None


class AuditQuery(QueryString):
    actor: Name | None = optional("Only changes by this actor, for example `key:ops`")
    action: Word | None = optional("Only this action, for example `tool.disable`")
    subject: Name | None = optional("Only changes of this subject, for example `echo` or `key:ops`")
    since: Moment | None = optional("Only changes at or after this time")
    until: Moment | None = optional("Only changes before this time")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filtered(self, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        filters = {
            "actor": self.actor,
            "action": self.action,
            "subject": self.subject,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        return narrowed(rows, filters)


@router.get("", response={200: AuditPage, **failures()}, url_name="audit")
async def list_audit(request: HttpRequest, query: Query[AuditQuery]) -> HttpResponse:
    """List changes made by people, keys and commands, newest first. Requires `admin:*`. Filters are combined (AND)."""
    caller = caller_of(request)
    access.require(caller, "admin:*")
    pages = Pages("audit", caller, query)
    entries, cursor = await database.run(pages.cut, query.filtered(AuditEntry.objects.all()), query.cursor, query.limit)
    return answer({"entries": [_item(entry) for entry in entries], "nextCursor": cursor})


def _item(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.pk,
        "at": timestamp(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "changes": entry.changes,
        "reason": entry.reason or None,
        "address": entry.address or None,
        "client": entry.client or None,
    }
