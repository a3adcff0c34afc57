"""Pending decisions of operators: calls that require approval, and tool versions that are not reviewed yet."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import DatabaseError
from django.db.models import Case, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, definitions, links, phrases, standing_words
from tools_app.admin.definitions import readable
from tools_app.admin.filters import ChoiceFilter, by_link
from tools_app.admin.governed import BUSY, FailuresAsMessages, actor, posted, require, sentences
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.catalog import listed
from tools_app.governance import disclosure
from tools_app.governance.approvals import is_own_call, own_keys
from tools_app.models import Approval, AuditEntry, Definition, StandingApproval, ToolRecord
from tools_app.sdk.errors import ToolError
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.text import hygiene

log = logging.getLogger("tools_app.admin")

# Characters of a call's arguments that a row of the list shows. Longer ones are approved on their pages.
MOST_OF_ROW: Final = 4_000
# What remains below this is marked.
SOON: Final = timedelta(minutes=2)
APPROVE, REFUSE = "approve", "refuse"
EXPIRED: Final = "expired"
STANDING: Final = "standing"

# For each decision: the function, and the message afterwards.
DECISIONS: Final[dict[str, tuple[Callable[..., Approval], Any]]] = {
    APPROVE: (governance.approve_call, gettext_lazy("Approved. The agent may run this call of %(tool)s once.")),
    REFUSE: (governance.refuse_call, gettext_lazy("This call of %(tool)s is rejected.")),
}
STATES: Final[dict[str, tuple[str, Any]]] = {
    Approval.State.PENDING: ("warn", gettext_lazy("pending")),
    Approval.State.APPROVED: ("good", gettext_lazy("approved, not yet run")),
    Approval.State.REFUSED: ("bad", gettext_lazy("rejected")),
    Approval.State.USED: ("quiet", gettext_lazy("approved and run")),
    Approval.EXPIRED: ("quiet", gettext_lazy("expired")),
}


def tabs(request: HttpRequest, selected: str) -> dict[str, Any]:
    """What the lists of approvals have in common: pending calls, expired calls, all calls, standing approvals,
    and tool versions."""
    now = timezone.now()
    calls = Approval.objects.waiting(now).count()
    expired = Approval.objects.unanswered(now).count()
    standing = StandingApproval.objects.active(now).count()
    definitions = Definition.objects.open().filter(refused_at=None).count()
    state_tabs = [
        {"name": name, "count": count, "address": address, "selected": key == selected}
        for key, name, count, address, reading in (
            ("calls", _("Calls"), calls, links.address("approval", "changelist"), actions.APPROVALS_READ),
            (EXPIRED, _("Expired (24 h)"), expired, expired_address(), actions.APPROVALS_READ),
            ("all", _("All calls"), None, links.address("approval", "changelist", state="all"), actions.APPROVALS_READ),
            (STANDING, _("Standing"), standing, links.address("standingapproval", "changelist"), actions.STANDING_READ),
            ("tools", _("Tools"), definitions, links.address("definition", "changelist"), actions.DEFINITIONS_READ),
        )
        if reading.permits(request.user)
    ]
    return {"title": _("Approvals"), "tabs_title": _("Type of approval"), "state_tabs": state_tabs}


def expired_address() -> str:
    return links.address("approval", "changelist", state=EXPIRED)


# Repeats the condition of the partial index, so that the database uses it.
StandingFilter: Final = by_link(
    "standing", gettext_lazy("standing approval"), lambda pk: ~Q(standing_id="") & Q(standing_id=pk)
)


class WaitingFilter(ChoiceFilter):
    words: ClassVar = {EXPIRED: gettext_lazy("Expired without an answer (24 h)"), "all": gettext_lazy("All")}
    default = gettext_lazy("Pending")

    def restricted(self, rows: Any, value: str | None) -> QuerySet[Any]:
        now = timezone.now()
        approvals: QuerySet[Any] = rows.unanswered(now) if value == EXPIRED else rows.waiting(now)
        return rows if value == "all" else approvals


def sees_arguments(request: HttpRequest) -> bool:
    """Only users who can see the arguments can decide."""
    return actions.CALL_APPROVE.permits(request.user) or actions.PAYLOADS_READ.permits(request.user)


@admin.register(Approval)
class ApprovalAdmin(JournalAdmin[Approval]):
    change_form_template = "admin/tools_app/approval/change_form.html"
    change_list_template = "admin/tools_app/approval/change_list.html"
    list_display = ("tool_link", "parameters", "caller", "until", "shown_state", "buttons")
    follows, follows_by = "approvals", "asking"
    actions = ("approve_selected", "refuse_selected")
    list_display_links = None
    list_filter = (WaitingFilter, StandingFilter)
    search_fields = ("tool_name", "caller_name")
    search_help_text = gettext_lazy("Tool or caller")
    nothing_yet = (
        gettext_lazy("No pending approvals"),
        gettext_lazy(
            "Turn on “Require approval” for a tool or an API key. Calls that wait for a decision are listed here."
        ),
    )
    posts: ClassVar = {"decide": "<str:pk>/decide/", "standing": "<str:pk>/standing/"}
    fields = (
        "request_time",
        "until_exactly",
        "shown_door",
        "through",
        "caller_id",
        "approval_id",
        "approved_call",
        "standing",
    )

    def get_ordering(self, request: HttpRequest) -> Any:
        """Pending approvals first."""
        waits = When(state=Approval.State.PENDING, expires_at__gt=timezone.now(), then=Value(0))
        return [Case(waits, default=Value(1)).asc(), "-asked_at"]

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        hidden = set() if sees_arguments(request) else {"parameters"}
        hidden |= set() if self.has_decide_permission(request) else {"buttons"}
        return tuple(column for column in self.list_display if column not in hidden)

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return actions.CALL_APPROVE.permits(request.user)

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        keys, approvals = own_keys(actor(request)), list(rows)
        if approvals and sees_arguments(request):
            # Not shown, if it cannot be recorded.
            governance.note_arguments_read(*(approval.pk for approval in approvals), actor=actor(request))
        for approval in approvals:
            approval.is_own = is_own_call(approval, actor(request), keys)
            approval.row = _row_of(approval)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        state = request.GET.get("state", "")
        selected = state if state in {"all", EXPIRED} else "calls"
        return {**super().list_context(request), **tabs(request, selected)}

    tool_link = Column[Approval](
        gettext_lazy("Tool"),
        lambda approval: links.named(links.address("approval", "change", approval.pk), approval.tool_name),
    )

    @admin.display(description=gettext_lazy("Arguments"))
    def parameters(self, approval: Approval) -> SafeString:
        return render_to_string("admin/tools_app/approval/arguments.html", {"row": _row(approval)})

    @admin.display(description=gettext_lazy("Caller"))
    def caller(self, approval: Approval) -> SafeString:
        own = links.mark("warn", _("your own")) if getattr(approval, "is_own", False) else links.EMPTY
        return format_html("{} {} {}", approval.caller_name, links.quiet(approval.caller_kind), own)

    @admin.display(description=gettext_lazy("Decision"))
    def buttons(self, approval: Approval) -> SafeString:
        if approval.state_at(timezone.now()) != Approval.State.PENDING:
            return format_html("{}", links.NOTHING)
        context = {"approval": approval, "row": _row(approval)}
        return render_to_string("admin/tools_app/approval/buttons.html", context)

    shown_state = Column[Approval](
        gettext_lazy("State"), lambda approval: links.with_sub(_mark(approval), approval.reason)
    )

    @admin.display(description=gettext_lazy("Expires"))
    def until(self, approval: Approval) -> SafeString:
        left = approval.expires_at - timezone.now()
        is_pending = approval.state == Approval.State.PENDING and left > timedelta()
        expires = links.countdown(approval.expires_at) if is_pending else links.when(approval.expires_at)
        is_soon = is_pending and left < SOON
        requested = _("requested %(when)s") % {"when": links.ago(approval.asked_at)}
        return links.with_sub(links.mark("warn", expires) if is_soon else expires, requested)

    @admin.action(description=gettext_lazy("Approve selected"), permissions=["decide"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[Approval]) -> None:
        """Those whose arguments the list shows completely; the others are approved on their pages."""
        selected = _selected(request, queryset)
        shown = [approval for approval in selected if _row_of(approval).is_whole]
        if hidden := sorted({approval.tool_name for approval in selected if approval not in shown}):
            message = _(
                "Not approved, because the list does not show all arguments: %(names)s. Open each of these calls."
            )
            messages.warning(request, message % {"names": ", ".join(hidden)})
        self._decide_each(request, APPROVE, shown)

    @admin.action(description=gettext_lazy("Reject selected"), permissions=["decide"])
    def refuse_selected(self, request: HttpRequest, queryset: QuerySet[Approval]) -> None:
        self._decide_each(request, REFUSE, _selected(request, queryset))

    def _decide_each(self, request: HttpRequest, decision: str, selected: list[Approval]) -> None:
        """One decision each: a failure leaves the others."""
        decide, done = DECISIONS[decision][0], 0
        for approval in selected:
            try:
                decide(approval.pk, actor=actor(request))
                done += 1
            except ToolError as error:
                messages.error(request, f"{approval.tool_name}: {sentences(error)}")
            except DatabaseError:
                log.exception("a decision in the admin failed")
                messages.error(request, f"{approval.tool_name}: {BUSY}")
        if done and decision == APPROVE:
            messages.success(request, ngettext("%(n)d call approved.", "%(n)d calls approved.", done) % {"n": done})
        elif done:
            messages.success(request, ngettext("%(n)d call rejected.", "%(n)d calls rejected.", done) % {"n": done})

    # ------------------------------------------------------------------------------------------------ the page

    def decide_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Approve or refuse one call. The form names the decision, so a stale page does no harm."""
        require(request, actions.CALL_APPROVE)
        approval = get_object_or_404(Approval.objects.defer("arguments"), pk=pk.replace("\x00", ""))
        decision = request.POST.get("decision", "")
        if decision not in DECISIONS:
            return HttpResponseBadRequest("decision must be approve or refuse")
        decide, message = DECISIONS[decision]
        with FailuresAsMessages(request):
            decide(approval.pk, actor=actor(request), reason=posted(request, "reason"))
            messages.success(request, str(message) % {"tool": approval.tool_name})
        if request.POST.get("back") == "list":
            return HttpResponseRedirect(links.address("approval", "changelist"))
        return HttpResponseRedirect(links.address("approval", "change", approval.pk))

    def standing_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Ask with a sentence that says what will be covered, then grant it."""
        require(request, actions.STANDING_GRANT)
        approval = get_object_or_404(Approval, pk=pk.replace("\x00", ""))
        back = links.address("approval", "change", approval.pk)
        with FailuresAsMessages(request):
            terms = standing_words.posted_terms(request, approval)
            if request.POST.get("confirmed") == "1":
                reason = posted(request, "reason")
                standing = governance.grant_standing(approval.pk, **terms, actor=actor(request), reason=reason)
                messages.success(request, _("Granted. These calls run without asking."))
                return HttpResponseRedirect(links.address("standingapproval", "change", standing.pk))
            drafted = governance.standing.drafted(approval, **terms)
            return self.page(
                request,
                "confirm.html",
                _("Approve calls like this one"),
                text=standing_words.sentence(drafted),
                hidden=[(name, value) for name, value in request.POST.items() if name in _terms_of(request)],
                reason=posted(request, "reason"),
                button=_("Grant"),
                harmless=True,
                cancel_address=back,
            )
        return HttpResponseRedirect(back)

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], approval: Approval) -> None:
        sees = sees_arguments(request)
        if sees:
            # Not shown, if it cannot be recorded.
            governance.note_arguments_read(approval.pk, actor=actor(request))
        disclosed_arguments = disclosure.of_approval(approval) if sees else None
        context.update(
            title=str(approval),
            approval=approval,
            tool_link=links.to_tool(approval.tool_name),
            state=_mark(approval),
            waits=approval.state_at(timezone.now()) == Approval.State.PENDING,
            may_decide=actions.CALL_APPROVE.permits(request.user),
            standing_rows=_standing_rows(request, approval),
            standing_lasting=standing_words.LASTING.items(),
            standing_address=links.address("approval", "standing", approval.pk),
            sees_arguments=sees,
            # Invisible characters are written out, so that nothing is approved that looks like something else.
            arguments=hygiene.written_out(disclosed_arguments.text) if disclosed_arguments is not None else "",
            length=f"{len(disclosed_arguments.text):,}" if disclosed_arguments is not None else "",
            masked=disclosed_arguments.masked_count if disclosed_arguments is not None else 0,
            decide_address=links.address("approval", "decide", approval.pk),
            changes=audit.rows(AuditEntry.objects.filter(subject=f"approval:{approval.pk}"), request.user),
        )

    request_time = Column[Approval](gettext_lazy("Requested"), lambda approval: links.in_full(approval.asked_at))
    until_exactly = Column[Approval](gettext_lazy("Expires"), lambda approval: links.in_full(approval.expires_at))
    shown_door = Column[Approval](gettext_lazy("Channel"), lambda approval: approval.door)
    through = Column[Approval](gettext_lazy("Connection"), lambda approval: approval.connection or links.NOTHING)
    approval_id = Column[Approval](gettext_lazy("Approval id"), lambda approval: approval.pk)
    standing = Column[Approval](
        gettext_lazy("Standing approval"), lambda approval: links.to_standing(approval.standing_id)
    )
    approved_call = Column[Approval](gettext_lazy("Approved call"), lambda approval: links.to_call(approval.call_id))


@dataclass(frozen=True, slots=True)
class Row:
    """What the list shows of a call's arguments."""

    text: str
    is_whole: bool
    masked: int


def _row_of(approval: Approval) -> Row:
    disclosed = disclosure.of_approval(approval)
    if disclosed is None:
        return Row("", is_whole=False, masked=0)
    text = hygiene.written_out(disclosed.text)
    return Row(text[:MOST_OF_ROW], is_whole=len(text) <= MOST_OF_ROW, masked=disclosed.masked_count)


def _row(approval: Approval) -> Row:
    row = getattr(approval, "row", None)
    return row if isinstance(row, Row) else _row_of(approval)


def _standing_rows(request: HttpRequest, approval: Approval) -> list[standing_words.FormRow] | None:
    """None: there is no form, as the user may not grant, or the arguments cannot be shown."""
    return standing_words.form_rows(approval) if actions.STANDING_GRANT.permits(request.user) else None


def _terms_of(request: HttpRequest) -> Set[str]:
    """What the form of a standing approval sends, apart from the reason."""
    return request.POST.keys() - {"csrfmiddlewaretoken", "reason", "confirmed"}


def _selected(request: HttpRequest, rows: QuerySet[Approval]) -> list[Approval]:
    """Those of the page: no operator has read what is on other pages."""
    return list(rows.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME)))


def _mark(approval: Approval) -> SafeString:
    tone, words = STATES[approval.state_at(timezone.now())]
    return links.mark(tone, str(words))


# ---- versions of tools


@admin.register(Definition)
class DefinitionAdmin(JournalAdmin[Definition]):
    """Versions that are not approved. A tool's page shows all its versions."""

    change_form_template = "admin/tools_app/definition/change_form.html"
    list_display = ("name", "shown_findings", "shown_version", "came_from", "first_seen", "shown_state")
    list_display_links = None
    search_fields = ("tool__name", "tool__original_name")
    search_help_text = gettext_lazy("Tool")
    actions = ("approve", "refuse")
    nothing_yet = (
        gettext_lazy("No tools awaiting review"),
        gettext_lazy("New and changed tools that need approval are listed here."),
    )
    posts: ClassVar = {"decide": "<int:pk>/decide/"}
    fields = ("first_seen_exactly", "came_from", "shown_hash")

    def may_decide(self, request: HttpRequest) -> bool:
        return actions.DEFINITION_APPROVE.permits(request.user)

    has_decide_permission = may_decide

    def get_queryset(self, request: HttpRequest) -> QuerySet[Definition]:
        """The list shows open versions; pages of decided ones stay reachable."""
        rows = Definition.objects.select_related("tool")
        match = request.resolver_match
        is_list = match is not None and match.url_name == "tools_app_definition_changelist"
        return rows.open().defer("body", "body_text", "raw") if is_list else rows

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().list_context(request), **tabs(request, "tools")}

    name = Column[Definition](
        gettext_lazy("Tool"),
        lambda definition: links.named(links.address("definition", "change", definition.pk), definition.tool.label),
    )

    @admin.display(description=gettext_lazy("Findings"))
    def shown_findings(self, definition: Definition) -> SafeString:
        if not definition.findings:
            return format_html("{}", links.NOTHING)
        number = len(definition.findings)
        words = ngettext("%(n)s finding", "%(n)s findings", number) % {"n": number}
        return links.with_sub(links.mark("warn", words), "; ".join(phrases.all_spoken(definition.findings)))

    shown_version = Column[Definition](
        gettext_lazy("Version"), lambda definition: links.with_sub(definition.version, definition.hash[:12])
    )
    came_from = Column[Definition](
        gettext_lazy("Source"),
        lambda definition: links.with_sub(definition.tool.pack or definition.tool.source_kind, _place(definition.tool)),
    )
    first_seen = Column[Definition](gettext_lazy("First seen"), lambda definition: links.when(definition.first_seen_at))
    first_seen_exactly = Column[Definition](
        gettext_lazy("First seen"), lambda definition: links.in_full(definition.first_seen_at)
    )
    shown_hash = Column[Definition](gettext_lazy("Hash"), lambda definition: definition.hash)
    shown_state = Column[Definition](
        gettext_lazy("State"), lambda definition: links.with_sub(_mark_of(definition), definition.reason)
    )

    @admin.action(description=gettext_lazy("Approve"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Definition]) -> None:
        """Approve versions without findings; the others are approved on their pages, which show the findings."""
        definitions = list(queryset)
        if names_with_findings := sorted(one.tool.label for one in definitions if one.findings):
            message = _("Not approved because of findings: %(names)s. Review and approve each on its own page.")
            messages.warning(request, message % {"names": ", ".join(names_with_findings)})
        if pks_without_findings := [one.pk for one in definitions if not one.findings]:
            with FailuresAsMessages(request):
                self._decide(request, APPROVE, pks_without_findings, "")

    @admin.action(description=gettext_lazy("Reject"), permissions=["decide"])
    def refuse(self, request: HttpRequest, queryset: QuerySet[Definition]) -> None:
        with FailuresAsMessages(request):
            self._decide(request, REFUSE, list(queryset.values_list("pk", flat=True)), "")

    def _decide(self, request: HttpRequest, decision: str, keys: list[int], reason: str) -> None:
        if decision == APPROVE:
            names = governance.approve_definitions(keys, actor=actor(request), reason=reason)
            message = ngettext("%(count)d tool approved.", "%(count)d tools approved.", len(names))
        else:
            names = governance.refuse_definitions(keys, actor=actor(request), reason=reason)
            message = ngettext("%(count)d tool rejected.", "%(count)d tools rejected.", len(names))
        messages.success(request, message % {"count": len(names)})

    # ------------------------------------------------------------------------------------------------ the page

    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.DEFINITION_APPROVE)
        definition = get_object_or_404(Definition, pk=pk)
        decision = request.POST.get("decision", "")
        if decision not in DECISIONS:
            return HttpResponseBadRequest("decision must be approve or refuse")
        with FailuresAsMessages(request):
            self._decide(request, decision, [definition.pk], posted(request, "reason"))
        return HttpResponseRedirect(links.address("definition", "change", definition.pk))

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], definition: Definition) -> None:
        before = definition.approved_before()
        label, is_offered = definition.tool.label, definition.tool.offered_id == definition.pk
        context.update(
            title=f"{label} {definition.version}",
            definition=definition,
            findings=phrases.all_spoken(definition.findings),
            listed_version=_version(before) if is_offered and before is not None else "",
            before_version=_version(before) if before is not None else "",
            tool_link=links.to_tool(label),
            state=_mark_of(definition),
            may_decide=self.may_decide(request),
            decide_address=links.address("definition", "decide", definition.pk),
            before=before,
            diff=definitions.since(before, definition) if before is not None else None,
            whole=readable(definition.body),
            listed=readable(listed.as_listed_by_default(_spec(definition)), sort=False) if _is_tool(definition) else "",
            raw=readable(json.loads(definition.raw), sort=False) if definition.raw else "",
            changes=audit.rows(
                AuditEntry.objects.filter(subject=label[:150], action__startswith="definition."), request.user
            ),
        )


def _place(tool: ToolRecord) -> str:
    return tool.place or (tool.source_kind if tool.pack else "")


def _spec(definition: Definition) -> ToolSpec:
    return ToolSpec(definition.ordered_body, definition.tool.runtime, definition.hash)


def _is_tool(definition: Definition) -> bool:
    return definition.tool.kind == Kind.TOOL


def _version(definition: Definition) -> str:
    """Sources outside have no versions."""
    return definition.version or definition.hash[:8]


def _mark_of(definition: Definition) -> SafeString:
    tones = {"waiting": "warn", "refused": "bad", "approved": "good"}
    words = {"waiting": _("pending"), "refused": _("rejected"), "approved": _("approved")}
    return links.mark(tones[definition.state], words[definition.state])


def pending_count(request: HttpRequest) -> int:
    """The number of decisions that this user can make, for the menu."""
    calls = Approval.objects.waiting(timezone.now()).count() if actions.CALL_APPROVE.permits(request.user) else 0
    definitions = Definition.objects.open().filter(refused_at=None)
    tools = definitions.count() if actions.DEFINITION_APPROVE.permits(request.user) else 0
    return calls + tools
