"""Standing approvals: what is approved in advance, how much of it is used, and how to end it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, links, standing_words
from tools_app.admin.approvals import STANDING, sees_arguments, tabs
from tools_app.admin.filters import ChoiceFilter, ToolFilter
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.catalog import catalog
from tools_app.governance.standing import MOST_BYTES, in_state, state_of
from tools_app.models import AuditEntry, StandingApproval

State = StandingApproval.State
STATES: Final[dict[str, tuple[str, Any]]] = {
    State.ACTIVE: ("good", gettext_lazy("active")),
    State.REVOKED: ("bad", gettext_lazy("revoked")),
    State.EXPIRED: ("quiet", gettext_lazy("expired")),
    State.USED_UP: ("quiet", gettext_lazy("used up")),
    State.VOID: ("warn", gettext_lazy("void: the tool or its address has changed")),
}


class StandingStateFilter(ChoiceFilter):
    words: ClassVar = {state: words for state, (_tone, words) in STATES.items()}

    def restricted(self, rows: Any, value: str) -> QuerySet[Any]:
        approvals: QuerySet[Any] = rows.filter(in_state(value, timezone.now()))
        return approvals


@admin.register(StandingApproval)
class StandingApprovalAdmin(JournalAdmin[StandingApproval]):
    change_form_template = "admin/tools_app/standingapproval/change_form.html"
    list_display = ("tool_link", "covered", "caller", "shown_used", "until", "shown_state")
    list_display_links = None
    list_filter = (StandingStateFilter, ToolFilter)
    search_fields = ("tool_name", "caller_name")
    search_help_text = gettext_lazy("Tool or caller")
    nothing_yet = (
        gettext_lazy("No standing approvals"),
        gettext_lazy("Open a call that waits for approval, and choose “Approve calls like this one”."),
    )
    posts: ClassVar = {"revoke": "<str:pk>/revoke/"}
    fields = ("caller_id", "through", "shown_used", "until_exactly", "granted", "revoked", "standing_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[StandingApproval]:
        rows: Any = super().get_queryset(request)
        approvals: QuerySet[StandingApproval] = rows.with_address()
        return approvals

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return tuple(column for column in self.list_display if column != "covered" or sees_arguments(request))

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().list_context(request), **tabs(request, STANDING)}

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        """The states, for the tools that there are now."""
        now, snapshot = timezone.now(), catalog.current()
        for standing in rows:
            standing.state_now = state_of(standing, now, snapshot)

    def revoke_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        require(request, actions.STANDING_REVOKE)
        standing = get_object_or_404(StandingApproval.objects.defer("constraint"), pk=pk.replace("\x00", ""))
        with FailuresAsMessages(request):
            if governance.revoke_standing(standing.pk, actor=actor(request), reason=posted(request, "reason")):
                messages.success(request, _("Revoked. Calls need an approval of their own again."))
            else:
                messages.info(request, _("It was not active any more."))
        return HttpResponseRedirect(links.address("standingapproval", "change", standing.pk))

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], standing: StandingApproval) -> None:
        context.update(
            title=str(standing),
            standing=standing,
            tool_link=links.to_tool(standing.tool_name),
            state=_mark(standing),
            sees_arguments=sees_arguments(request),
            conditions=standing_words.conditions(standing, MOST_BYTES) if sees_arguments(request) else [],
            may_revoke=actions.STANDING_REVOKE.permits(request.user)
            and standing.state_at(timezone.now()) == State.ACTIVE,
            revoke_address=links.address("standingapproval", "revoke", standing.pk),
            calls_address=links.address("approval", "changelist", state="all", standing=standing.pk),
            changes=audit.rows(AuditEntry.objects.filter(subject=f"standing:{standing.pk}"), request.user),
        )

    tool_link = Column[StandingApproval](
        gettext_lazy("Tool"),
        lambda standing: links.named(links.address("standingapproval", "change", standing.pk), standing.tool_name),
    )
    covered = Column[StandingApproval](
        gettext_lazy("Covered arguments"), lambda standing: links.cut("; ".join(standing_words.conditions(standing)))
    )
    caller = Column[StandingApproval](
        gettext_lazy("Caller"),
        lambda standing: format_html("{} {}", standing.caller_name, links.quiet(standing.caller_kind)),
    )
    shown_used = Column[StandingApproval](
        gettext_lazy("Used"), lambda standing: links.whole(f"{standing.used:,} / {standing.uses:,}")
    )
    until = Column[StandingApproval](gettext_lazy("Expires"), lambda standing: links.when(standing.expires_at))
    shown_state = Column[StandingApproval](
        gettext_lazy("State"), lambda standing: links.with_sub(_mark(standing), standing.created_by)
    )
    until_exactly = Column[StandingApproval](
        gettext_lazy("Expires"), lambda standing: links.in_full(standing.expires_at)
    )
    through = Column[StandingApproval](
        gettext_lazy("Connection"), lambda standing: standing.connection or links.NOTHING
    )
    granted = Column[StandingApproval](
        gettext_lazy("Granted"), lambda standing: f"{links.in_full(standing.created_at)} · {standing.created_by}"
    )
    standing_id = Column[StandingApproval](gettext_lazy("Standing approval id"), lambda standing: standing.pk)

    @admin.display(description=gettext_lazy("Revoked"))
    def revoked(self, standing: StandingApproval) -> str:
        if standing.revoked_at is None:
            return links.NOTHING
        return f"{links.in_full(standing.revoked_at)} · {standing.revoked_by}"


def _mark(standing: StandingApproval) -> SafeString:
    tone, words = STATES[getattr(standing, "state_now", None) or state_of(standing, timezone.now())]
    return links.mark(tone, str(words))
