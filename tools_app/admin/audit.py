"""The audit trail: who changed what, when, and from what to what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import links
from tools_app.admin.definitions import readable
from tools_app.admin.exports import Columns
from tools_app.admin.filters import ActionFilter, ActorFilter, NotedFilter, SubjectFilter
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.narrowing import between
from tools_app.models import AuditEntry

FromFilter, UntilFilter = between("at")
# What leaves everything as it is.
LOOKING: Final = ("payload.read", "list.export", "connection.test")
MOST_LOOKED_THROUGH: Final = 1_000
_HASH: Final = re.compile("[0-9a-f]{64}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@admin.register(AuditEntry)
class AuditAdmin(JournalAdmin[AuditEntry]):
    list_display = ("moment", "shown_actor", "action", "shown_subject", "shown_changes", "reason")
    list_display_links = ("moment",)
    nothing_yet = (
        gettext_lazy("No changes yet"),
        gettext_lazy("Changes to tools, limits, keys, connections and settings are recorded here."),
    )
    change_form_template = "admin/tools_app/auditentry/change_form.html"
    list_filter = (ActionFilter, NotedFilter, FromFilter, UntilFilter, ActorFilter, SubjectFilter)
    search_fields = ("actor", "subject")
    search_help_text = gettext_lazy("Actor or subject (starts with)")
    fields = ("at_exactly", "shown_actor", "address", "client", "action", "shown_subject", "reason")
    readonly_fields = ("at_exactly", "shown_actor", "shown_subject")
    exported: Columns = {
        "id": "pk",
        "at": "at",
        "actor": "actor",
        "action": "action",
        "subject": "subject",
        "changes": "changes",
        "reason": "reason",
        "address": "address",
        "client": "client",
    }

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        of_actor = Q(actor__startswith=term) | Q(actor__startswith=f"user:{term}")
        return queryset.filter(of_actor | Q(subject__startswith=term) | Q(subject__startswith=f"key:{term}")), False

    @admin.display(description=gettext_lazy("Time"))
    def moment(self, entry: AuditEntry) -> SafeString:
        return format_html('<span class="hub-whole">{}</span>', links.stamp(entry.at))

    @admin.display(description=gettext_lazy("Time"))
    def at_exactly(self, entry: AuditEntry) -> str:
        return links.in_full(entry.at)

    @admin.display(description=gettext_lazy("Subject"))
    def shown_subject(self, entry: AuditEntry) -> SafeString:
        return links.to_subject(entry.subject)

    @admin.display(description=gettext_lazy("Change"))
    def shown_changes(self, entry: AuditEntry) -> str:
        return in_words(entry.changes) or links.NOTHING

    @admin.display(description=gettext_lazy("Actor"))
    def shown_actor(self, entry: AuditEntry) -> SafeString:
        address = links.address("auditentry", "changelist", actor=entry.actor)
        return format_html('<a class="hub-link hub-whole" href="{}">{}</a>', address, entry.actor)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        entry: AuditEntry = kwargs["obj"]
        context.update(
            entry=entry,
            parts=parts(entry.changes),
            as_recorded=readable(entry.changes),
            others=links.address("auditentry", "changelist", subject=entry.subject),
        )
        return super().render_change_form(request, context, *args, **kwargs)


def newest_changes(number: int) -> QuerySet[AuditEntry]:
    """The newest entries that tell of a change; of those who only looked, the trail itself tells."""
    newest = AuditEntry.objects.order_by("-at", "-pk").values("pk")[:MOST_LOOKED_THROUGH]
    return AuditEntry.objects.filter(pk__in=newest).exclude(action__in=LOOKING)[:number]


def rows(entries: QuerySet[AuditEntry]) -> list[dict[str, Any]]:
    """Entries as the other pages list them."""
    return [
        {"entry": entry, "subject": links.to_subject(entry.subject), "words": in_words(entry.changes)}
        for entry in entries
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of what changed: what it was, and what it is now. Of lists, what they lost and got."""

    name: str
    before: str
    after: str
    lost: tuple[str, ...] = ()
    got: tuple[str, ...] = ()


def parts(changes: object) -> list[Part]:
    """Changes as rows of a table."""
    if not isinstance(changes, dict):
        return []
    return [_part(str(name), change) for name, change in changes.items()]


def _part(name: str, change: Any) -> Part:
    if not (isinstance(change, list) and len(change) == 2):
        return Part(name, "", _word(change))
    before, after = change
    if isinstance(before, list) and isinstance(after, list):
        was, is_now = list(map(_word, before)), list(map(_word, after))
        lost = tuple(one for one in was if one not in is_now)
        return Part(name, _word(before), _word(after), lost, tuple(one for one in is_now if one not in was))
    return Part(name, links.NOTHING if before is None else _word(before), _word(after))


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
            return _("nothing")
        case bool():
            return _("on") if value else _("off")
        case list():
            return ", ".join(map(_word, value)) or _("nothing")
        case str() if _HASH.fullmatch(value):
            return f"{value[:8]}…"
        case str() if _MOMENT.match(value):
            return value[:19].replace("T", " ")
    return str(value)
