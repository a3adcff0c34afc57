"""Cursors for pagination: signed, and valid only for the caller and the filters that they were issued for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core import signing
from django.db.models import Model, QuerySet
from pydantic import BaseModel

from tools_app.base import paging
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import Problem, ValidationError
from tools_app.text import json_text

LIFETIME_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one list for one caller and its filters: newest first, by `moment` if set, then by key."""

    resource: str
    caller: Caller
    query: BaseModel
    moment: str | None = None

    def page(self, rows: QuerySet[Any], cursor: str | None, limit: int) -> tuple[list[Any], str | None]:
        """A page and the cursor of the next; None on the last page. One query.

        Raises:
            ValidationError: the cursor was issued for another list, caller or filters.
        """
        rows = rows.order_by(*([f"-{self.moment}"] if self.moment else []), "-pk")
        if cursor is not None:
            key, moment = self._parse(cursor)
            last_moment = None if moment is None else datetime.fromisoformat(moment)
            rows = paging.after(rows, key, self.moment, last_moment)
        page_and_next = list(rows[: limit + 1])
        page = page_and_next[:limit]
        return page, self._cursor_after(page[-1]) if len(page_and_next) > limit else None

    def _cursor_after(self, last: Model) -> str:
        moment = getattr(last, self.moment).isoformat() if self.moment else None
        return signing.dumps((last.pk, moment), salt=self._salt)

    def _parse(self, cursor: str) -> tuple[Any, str | None]:
        try:
            key, moment = signing.loads(cursor, salt=self._salt, max_age=LIFETIME_SECONDS)
        except signing.BadSignature as error:
            message = "The cursor is not valid for this list"
            raise ValidationError(
                message,
                problems=[Problem("/cursor", message)],
                next_step="Start again without a cursor, and use the same key and filters for every page.",
            ) from error
        return key, moment

    @property
    def _salt(self) -> str:
        filters = self.query.model_dump(mode="json", exclude={"cursor", "limit"}, exclude_none=True)
        return f"toolhub cursor {self.resource} {self.caller.id} {json_text.digest(filters)}"
