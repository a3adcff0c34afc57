"""The audit trail: who changed what, when, and from what to what."""

from __future__ import annotations

import re
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tools_app.admin import links
from tools_app.admin.definitions import readable
from tools_app.admin.filters import ActionFilter, NotedFilter, SubjectFilter
from tools_app.admin.journal import JournalAdmin
from tools_app.models import AuditEntry

_HASH: Final = re.compile("[0-9a-f]{64}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@admin.register(AuditEntry)
class AuditAdmin(JournalAdmin[AuditEntry]):
    list_display = ("moment", "actor", "action", "shown_subject", "shown_changes", "reason")
    list_display_links = ("moment",)
    nothing_yet = ("Nothing was changed yet", "Who switches a tool, sets a limit, makes or revokes a key stands here.")
    list_filter = (ActionFilter, NotedFilter, SubjectFilter)
    search_fields = ("actor", "subject")
    search_help_text = "Start of an actor or a subject"
    fields = ("at_exactly", "actor", "action", "shown_subject", "shown_changes", "all_changes", "reason")
    readonly_fields = ("at_exactly", "shown_subject", "shown_changes", "all_changes")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        of_actor = Q(actor__startswith=term) | Q(actor__startswith=f"user:{term}")
        return queryset.filter(of_actor | Q(subject__startswith=term) | Q(subject__startswith=f"key:{term}")), False

    @admin.display(description="When")
    def moment(self, entry: AuditEntry) -> SafeString:
        return format_html('<span class="hub-whole">{}</span>', links.stamp(entry.at))

    @admin.display(description="When")
    def at_exactly(self, entry: AuditEntry) -> str:
        return links.in_full(entry.at)

    @admin.display(description="Subject")
    def shown_subject(self, entry: AuditEntry) -> SafeString:
        return links.to_subject(entry.subject)

    @admin.display(description="Change")
    def shown_changes(self, entry: AuditEntry) -> str:
        return in_words(entry.changes) or links.NOTHING

    @admin.display(description="As recorded")
    def all_changes(self, entry: AuditEntry) -> SafeString:
        return links.preformatted(readable(entry.changes))


def rows(entries: QuerySet[AuditEntry]) -> list[dict[str, Any]]:
    """Entries as the other pages list them."""
    return [
        {"entry": entry, "subject": links.to_subject(entry.subject), "words": in_words(entry.changes)}
        for entry in entries
    ]


def in_words(changes: object) -> str:
    """`enabled: on → off; timeout_ms: – → 5000`. A change is a pair; anything else is shown as it is."""
    if not isinstance(changes, dict):
        return ""
    return "; ".join(f"{name}: {_pair(change)}" for name, change in changes.items())


def _pair(change: Any) -> str:
    if isinstance(change, list) and len(change) == 2:
        before, after = map(_word, change)
        return after if change[0] is None else f"{before} → {after}"
    return _word(change)


def _word(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "on" if value else "off"
        case list():
            return ", ".join(map(_word, value)) or "nothing"
        case str() if _HASH.fullmatch(value):
            return f"{value[:8]}…"
        case str() if _MOMENT.match(value):
            return value[:19].replace("T", " ")
    return str(value)
