"""What the hub writes down and nobody changes: read-only lists that stay quick however long the journal is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from django.db.models import Model
from django.http import HttpRequest

from tools_app.admin.governed import GovernedAdmin
from tools_app.admin.lists import BoundedPaginator
from tools_app.models import ToolRecord

Record = TypeVar("Record", bound=Model)

MOST_NAMES: Final = 50
IDENTIFIER: Final = re.compile("[0-9a-f]{32}")


class JournalAdmin(GovernedAdmin[Record]):
    """Newest first, and no other order: there is an index for that one."""

    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    sortable_by = ()
    actions: Sequence[str] | None = None

    def has_change_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False


def tool_names(term: str) -> list[str]:
    """The tools that a search term may mean; itself too, as journals name tools that never were."""
    known = ToolRecord.objects.filter(name__icontains=term).values_list("name", flat=True)[:MOST_NAMES]
    return [*known, term]
