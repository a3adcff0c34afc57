"""The audit trail: who changed what and when, with old and new values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.definitions import readable
from tools_app.admin.exports import columns
from tools_app.admin.filters import ActionFilter, ActorFilter, MadeByFilter, SubjectFilter, since
from tools_app.admin.governed import FailuresAsMessages, actor, require
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.admin.narrowing import between
from tools_app.models import AuditEntry, AuditSeal

FromFilter, UntilFilter = between("at")
# Entries about reads.
READ_EVENTS: Final = {action.event for action in actions.ACTIONS if not action.changes}
MOST_SCANNED: Final = 1_000
MOST_SHOWN: Final = 10
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
    list_filter = (MadeByFilter, ActionFilter, since("at"), FromFilter, UntilFilter, ActorFilter, SubjectFilter)
    search_fields = ("actor", "subject")
    search_help_text = gettext_lazy("Actor or subject (starts with)")
    fields = ("at_exactly", "shown_actor", "address", "client", "action", "shown_subject", "reason", "shown_seal")
    posts = {"review": "<int:pk>/review/"}
    export_columns = columns(
        "pk", "at", "actor", "action", "subject", "changes", "reason", "address", "client", pk="id"
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        of_actor = Q(actor__startswith=term) | Q(actor__startswith=f"user:{term}")
        return queryset.filter(of_actor | Q(subject__startswith=term) | Q(subject__startswith=f"key:{term}")), False

    moment = Column[AuditEntry](gettext_lazy("Time"), lambda entry: links.whole(links.stamp(entry.at)))
    at_exactly = Column[AuditEntry](gettext_lazy("Time"), lambda entry: links.in_full(entry.at))
    shown_subject = Column[AuditEntry](gettext_lazy("Subject"), lambda entry: links.to_subject(entry.subject))
    shown_changes = Column[AuditEntry](gettext_lazy("Change"), lambda entry: in_words(entry.changes) or links.NOTHING)

    shown_seal = Column[AuditEntry](gettext_lazy("Seal"), lambda entry: _seal(entry))

    @admin.display(description=gettext_lazy("Actor"))
    def shown_actor(self, entry: AuditEntry) -> SafeString:
        address = links.address("auditentry", "changelist", actor=entry.actor)
        return links.link(address, entry.actor, "hub-link hub-whole")

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], entry: AuditEntry) -> None:
        context.update(
            entry=entry,
            parts=parts(entry.changes),
            as_recorded=readable(entry.changes),
            others=links.address("auditentry", "changelist", subject=entry.subject),
            may_review=self._may_review(request, entry),
        )

    def _may_review(self, request: HttpRequest, entry: AuditEntry) -> bool:
        is_open = entry.action == actions.USER_BREAK_GLASS.event and entry in governance.open_emergencies()
        return (
            is_open and actions.USER_BREAK_GLASS_REVIEW.permits(request.user) and entry.subject != actor(request).name
        )

    def review_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.USER_BREAK_GLASS_REVIEW)
        with FailuresAsMessages(request):
            governance.review_emergency(pk, actor=actor(request))
            self.message_user(request, _("The emergency sign-in is marked as reviewed."), messages.SUCCESS)
        return HttpResponseRedirect(links.address("auditentry", "change", pk))


def _seal(entry: AuditEntry) -> str:
    """Whether an entry is sealed, and what recorded its redaction."""
    seal = AuditSeal.objects.filter(pk=entry.pk).first()
    if seal is None:
        return _("Not sealed yet")
    if seal.changed_at is None:
        return _("Sealed")
    redaction = {"time": f"{seal.changed_at:%Y-%m-%d %H:%M} UTC", "entry": seal.changed_by}
    return _("Sealed; redacted at %(time)s, see entry %(entry)s") % redaction


def newest_changes(number: int) -> QuerySet[AuditEntry]:
    """The newest entries about changes; reads are shown only in the audit trail itself."""
    newest = AuditEntry.objects.order_by("-at", "-pk").values("pk")[:MOST_SCANNED]
    return AuditEntry.objects.filter(pk__in=newest).exclude(action__in=READ_EVENTS)[:number]


def rows(entries: QuerySet[AuditEntry], user: actions.User) -> list[dict[str, Any]] | None:
    """The first entries in the form that other pages list; None if the user may not see any."""
    if not actions.AUDIT_READ.permits(user):
        return None
    return [
        {"entry": entry, "subject": links.to_subject(entry.subject), "words": in_words(entry.changes)}
        for entry in entries[:MOST_SHOWN]
    ]


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One changed field with its old and new value. For lists, the items removed and added."""

    name: str
    before: str
    after: str
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def parts(changes: object) -> list[ChangePart]:
    """Changes as rows of a table."""
    if not isinstance(changes, dict):
        return []
    return [_part(str(name), change) for name, change in changes.items()]


def _part(name: str, change: Any) -> ChangePart:
    if not (isinstance(change, list) and len(change) == 2):
        return ChangePart(name, "", _word(change))
    before, after = change
    if isinstance(before, list) and isinstance(after, list):
        was, is_now = list(map(_word, before)), list(map(_word, after))
        removed = tuple(one for one in was if one not in is_now)
        return ChangePart(name, _word(before), _word(after), removed, tuple(one for one in is_now if one not in was))
    return ChangePart(name, links.NOTHING if before is None else _word(before), _word(after))


def in_words(changes: object) -> str:
    """`enabled: on → off; timeout_ms: – → 5000`. A change is a pair; other values are shown unchanged."""
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
