"""Where the next page begins. A cursor is signed, and good for the caller and the filters that it was given for."""

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
    """The pages of one list as one caller asked for it: latest first, by primary key, or by `moment` before that."""

    resource: str
    caller: Caller
    query: BaseModel
    moment: str | None = None

    def cut(self, rows: QuerySet[Any], cursor: str | None, limit: int) -> tuple[list[Any], str | None]:
        """A page, and the cursor of the next one; none where this is the last. One query.

        Raises:
            ValidationError: the cursor was not given for this.
        """
        rows = rows.order_by(*([f"-{self.moment}"] if self.moment else []), "-pk")
        if cursor is not None:
            key, moment = self._read(cursor)
            then = None if moment is None else datetime.fromisoformat(moment)
            rows = paging.after(rows, key, self.moment, then)
        found = list(rows[: limit + 1])
        page = found[:limit]
        return page, self._written(page[-1]) if len(found) > limit else None

    def _written(self, last: Model) -> str:
        moment = getattr(last, self.moment).isoformat() if self.moment else None
        return signing.dumps((last.pk, moment), salt=self._salt)

    def _read(self, cursor: str) -> tuple[Any, str | None]:
        try:
            key, moment = signing.loads(cursor, salt=self._salt, max_age=LIFETIME_SECONDS)
        except signing.BadSignature as error:
            message = "The cursor is not valid for this list"
            raise ValidationError(
                message,
                problems=[Problem("/cursor", message)],
                next_step="Begin again without a cursor, and keep the key and the filters from page to page.",
            ) from error
        return key, moment

    @property
    def _salt(self) -> str:
        filters = self.query.model_dump(mode="json", exclude={"cursor", "limit"}, exclude_none=True)
        return f"toolhub cursor {self.resource} {self.caller.id} {json_text.digest(filters)}"
