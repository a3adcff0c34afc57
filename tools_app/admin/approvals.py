"""Pending decisions of operators: calls that require approval, and tool versions that are not reviewed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.core.exceptions import PermissionDenied
from django.db.models import Case, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.admin import audit, definitions, links
from tools_app.admin.definitions import readable
from tools_app.admin.governed import FailuresTold, actor
from tools_app.admin.journal import JournalAdmin
from tools_app.governance import disclosure
from tools_app.models import Approval, AuditEntry, Definition
from tools_app.text import hygiene, redaction

MOST_SHOWN: Final = 10
# Bytes of a call's arguments that the list shows.
MOST_BEGINNING: Final = 300
APPROVE, REFUSE = "approve", "refuse"
UNANSWERED: Final = "expired"

# What a button says, what it does, and what is said afterwards.
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


def tabs(request: HttpRequest, selected: str) -> list[dict[str, Any]]:
    """The two kinds of what waits, the calls for which it is too late, and all calls that ever waited."""
    now = timezone.now()
    calls = Approval.objects.waiting(now).count()
    expired = Approval.objects.unanswered(now).count()
    definitions = Definition.objects.open().filter(refused_at=None).count()
    return [
        {"name": name, "count": count, "address": address, "selected": key == selected}
        for key, name, count, address, permission in (
            ("calls", _("Calls"), calls, links.address("approval", "changelist"), "view_approval"),
            (UNANSWERED, _("Expired (24 h)"), expired, unanswered_address(), "view_approval"),
            ("all", _("All calls"), "", links.address("approval", "changelist", state="all"), "view_approval"),
            ("tools", _("Tools"), definitions, links.address("definition", "changelist"), "view_definition"),
        )
        if request.user.has_perm(f"tools_app.{permission}")
    ]


def unanswered_address() -> str:
    return links.address("approval", "changelist", state=UNANSWERED)


class WaitingFilter(SimpleListFilter):
    """Calls that wait, unless all are asked for."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        return [(UNANSWERED, gettext_lazy("Expired without an answer (24 h)")), ("all", gettext_lazy("All"))]

    def choices(self, changelist: Any) -> Iterator[Any]:
        first, *others = super().choices(changelist)
        yield {**first, "display": _("Pending")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: Any) -> QuerySet[Any]:
        now = timezone.now()
        match self.value():
            case "all":
                found: QuerySet[Any] = queryset
            case "expired":
                found = queryset.unanswered(now)
            case _:
                found = queryset.waiting(now)
        return found


@admin.register(Approval)
class ApprovalAdmin(JournalAdmin[Approval]):
    change_list_template = "admin/tools_app/approval/change_list.html"
    change_form_template = "admin/tools_app/approval/change_form.html"
    list_display = ("called", "given", "caller", "asked", "shown_state", "until")
    list_display_links = None
    list_filter = (WaitingFilter,)
    search_fields = ("tool_name", "caller_name")
    search_help_text = gettext_lazy("Tool or caller")
    nothing_yet = (
        gettext_lazy("No pending approvals"),
        gettext_lazy(
            "Turn on “Require approval” for a tool or an API key. Calls that wait for a decision are listed here."
        ),
    )
    fields = ("asked_exactly", "until_exactly", "shown_door", "through", "caller_id", "pk_shown", "run")
    readonly_fields = fields

    def may_decide(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.change_approval")

    def get_ordering(self, request: HttpRequest) -> Any:
        """What waits before what has been decided."""
        waits = When(state=Approval.State.PENDING, expires_at__gt=timezone.now(), then=Value(0))
        return [Case(waits, default=Value(1)).asc(), "-asked_at"]

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return tuple(column for column in self.list_display if column != "given" or self.sees_arguments(request))

    def sees_arguments(self, request: HttpRequest) -> bool:
        """Only users who can see the arguments can decide."""
        return self.may_decide(request) or request.user.has_perm("tools_app.view_payload")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        asked = request.GET.get("state", "")
        selected = asked if asked in {"all", UNANSWERED} else "calls"
        context = {"title": _("Approvals"), "state_tabs": tabs(request, selected), **(extra_context or {})}
        return super().changelist_view(request, context)

    @admin.display(description=gettext_lazy("Tool"))
    def called(self, approval: Approval) -> SafeString:
        address = links.address("approval", "change", approval.pk)
        return format_html('<a class="hub-name" href="{}">{}</a>', address, approval.tool_name)

    @admin.display(description=gettext_lazy("Arguments"))
    def given(self, approval: Approval) -> SafeString:
        said = hygiene.written_out(redaction.summary(approval.call_arguments(), MOST_BEGINNING))
        return format_html('<span class="hub-cut" title="{0}">{0}</span>', said)

    @admin.display(description=gettext_lazy("Requested"))
    def asked(self, approval: Approval) -> SafeString:
        return links.when(approval.asked_at)

    @admin.display(description=gettext_lazy("Caller"))
    def caller(self, approval: Approval) -> SafeString:
        shown = '{} <span class="hub-quiet">{}</span>'
        return format_html(shown, approval.caller_name, approval.caller_kind)

    @admin.display(description=gettext_lazy("State"))
    def shown_state(self, approval: Approval) -> SafeString:
        return format_html("{}{}", _mark(approval), links.sub(approval.reason))

    @admin.display(description=gettext_lazy("Expires"))
    def until(self, approval: Approval) -> SafeString:
        return links.when(approval.expires_at)

    # ------------------------------------------------------------------------------------------------ the page

    def get_urls(self) -> list[URLPattern]:
        decide = self.admin_site.admin_view(self.decide_view)
        return [path("<str:pk>/decide/", decide, name="tools_app_approval_decide"), *super().get_urls()]

    @method_decorator(require_POST)
    def decide_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Approve or refuse one call, as the button said: pressing it on a page that is out of date does no harm."""
        if not self.may_decide(request):
            raise PermissionDenied
        approval = get_object_or_404(Approval.objects.defer("arguments"), pk=pk.replace("\x00", ""))
        decision = request.POST.get("decision", "")
        if decision not in DECISIONS:
            return HttpResponseBadRequest("decision must be approve or refuse")
        decide, said = DECISIONS[decision]
        with FailuresTold(request):
            decide(approval.pk, actor=actor(request), reason=_reason(request))
            messages.success(request, str(said) % {"tool": approval.tool_name})
        return HttpResponseRedirect(links.address("approval", "change", approval.pk))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        approval: Approval = kwargs["obj"]
        may = request.user.has_perm
        sees = self.sees_arguments(request)
        shown = disclosure.of_approval(approval) if sees else None
        decisions = AuditEntry.objects.filter(subject=f"approval:{approval.pk}")[:MOST_SHOWN]
        context.update(
            title=str(approval),
            approval=approval,
            tool_link=links.to_tool(approval.tool_name),
            state=_mark(approval),
            waits=approval.state_at(timezone.now()) == Approval.State.PENDING,
            may_decide=self.may_decide(request),
            sees_arguments=sees,
            # What people would not see is written out: nothing may look like something else to those who approve.
            arguments=hygiene.written_out(shown.text) if shown is not None else "",
            length=f"{len(shown.text):,}" if shown is not None else "",
            masked=shown.masked if shown is not None else 0,
            decide_address=links.address("approval", "decide", approval.pk),
            changes=audit.rows(decisions) if may("tools_app.view_auditentry") else None,
        )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Requested"))
    def asked_exactly(self, approval: Approval) -> str:
        return links.in_full(approval.asked_at)

    @admin.display(description=gettext_lazy("Expires"))
    def until_exactly(self, approval: Approval) -> str:
        return links.in_full(approval.expires_at)

    @admin.display(description=gettext_lazy("Channel"))
    def shown_door(self, approval: Approval) -> str:
        return approval.door

    @admin.display(description=gettext_lazy("Connection"))
    def through(self, approval: Approval) -> str:
        return approval.connection or links.NOTHING

    @admin.display(description=gettext_lazy("Approval id"))
    def pk_shown(self, approval: Approval) -> str:
        return approval.pk

    @admin.display(description=gettext_lazy("Approved call"))
    def run(self, approval: Approval) -> SafeString:
        return links.to_call(approval.call_id)


def _mark(approval: Approval) -> SafeString:
    tone, words = STATES[approval.state_at(timezone.now())]
    return links.mark(tone, str(words))


# ---- versions of tools


@admin.register(Definition)
class DefinitionAdmin(JournalAdmin[Definition]):
    """Versions that are not approved; the page of a tool shows all of its versions."""

    change_list_template = "admin/tools_app/approval/change_list.html"
    change_form_template = "admin/tools_app/definition/change_form.html"
    list_display = ("name", "shown_findings", "shown_version", "came_from", "first_seen", "shown_state")
    list_display_links = None
    search_fields = ("tool__name",)
    search_help_text = gettext_lazy("Tool")
    actions = ("approve", "refuse")
    nothing_yet = (
        gettext_lazy("No tools awaiting review"),
        gettext_lazy("New and changed tools from the sources in TOOLHUB_SOURCES_TO_APPROVE are listed here."),
    )
    fields = ("first_seen_exactly", "came_from", "shown_hash")
    readonly_fields = fields

    def may_decide(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.change_definition")

    has_decide_permission = may_decide

    def get_queryset(self, request: HttpRequest) -> QuerySet[Definition]:
        """The list shows those that are open; the page of one stays when it has been decided."""
        rows = Definition.objects.select_related("tool")
        match = request.resolver_match
        listed = match is not None and match.url_name == "tools_app_definition_changelist"
        return rows.open().defer("body") if listed else rows

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"title": _("Approvals"), "state_tabs": tabs(request, "tools"), **(extra_context or {})}
        return super().changelist_view(request, context)

    @admin.display(description=gettext_lazy("Tool"))
    def name(self, definition: Definition) -> SafeString:
        address = links.address("definition", "change", definition.pk)
        return format_html('<a class="hub-name" href="{}">{}</a>', address, definition.tool.name)

    @admin.display(description=gettext_lazy("Findings"))
    def shown_findings(self, definition: Definition) -> SafeString:
        if not definition.findings:
            return format_html("{}", links.NOTHING)
        number = len(definition.findings)
        words = ngettext("%(n)s finding", "%(n)s findings", number) % {"n": number}
        return format_html("{}{}", links.mark("warn", words), links.sub("; ".join(definition.findings)))

    @admin.display(description=gettext_lazy("Version"))
    def shown_version(self, definition: Definition) -> SafeString:
        return format_html("{}{}", definition.version, links.sub(definition.hash[:12]))

    @admin.display(description=gettext_lazy("Source"))
    def came_from(self, definition: Definition) -> SafeString:
        return format_html("{}{}", definition.tool.source, links.sub(definition.tool.place))

    @admin.display(description=gettext_lazy("First seen"))
    def first_seen(self, definition: Definition) -> SafeString:
        return links.when(definition.first_seen_at)

    @admin.display(description=gettext_lazy("First seen"))
    def first_seen_exactly(self, definition: Definition) -> str:
        return links.in_full(definition.first_seen_at)

    @admin.display(description=gettext_lazy("Hash"))
    def shown_hash(self, definition: Definition) -> str:
        return definition.hash

    @admin.display(description=gettext_lazy("State"))
    def shown_state(self, definition: Definition) -> SafeString:
        return format_html("{}{}", _mark_of(definition), links.sub(definition.reason))

    @admin.action(description=gettext_lazy("Approve"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Definition]) -> None:
        """Those whose words nothing is wrong with: the others are approved on their pages, where the findings are."""
        chosen = list(queryset)
        if named := sorted(one.tool.name for one in chosen if one.findings):
            said = _("Not approved because of findings: %(names)s. Review and approve each on its own page.")
            messages.warning(request, said % {"names": ", ".join(named)})
        if plain := [one.pk for one in chosen if not one.findings]:
            with FailuresTold(request):
                self._approve(request, plain, "")

    @admin.action(description=gettext_lazy("Reject"), permissions=["decide"])
    def refuse(self, request: HttpRequest, queryset: QuerySet[Definition]) -> None:
        with FailuresTold(request):
            self._refuse(request, list(queryset.values_list("pk", flat=True)), "")

    def _approve(self, request: HttpRequest, keys: list[int], reason: str) -> None:
        names = governance.approve_definitions(keys, actor=actor(request), reason=reason)
        said = ngettext("%(count)d tool approved.", "%(count)d tools approved.", len(names))
        messages.success(request, said % {"count": len(names)})

    def _refuse(self, request: HttpRequest, keys: list[int], reason: str) -> None:
        names = governance.refuse_definitions(keys, actor=actor(request), reason=reason)
        said = ngettext("%(count)d tool rejected.", "%(count)d tools rejected.", len(names))
        messages.success(request, said % {"count": len(names)})

    # ------------------------------------------------------------------------------------------------ the page

    def get_urls(self) -> list[URLPattern]:
        decide = self.admin_site.admin_view(self.decide_view)
        return [path("<int:pk>/decide/", decide, name="tools_app_definition_decide"), *super().get_urls()]

    @method_decorator(require_POST)
    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not self.may_decide(request):
            raise PermissionDenied
        definition = get_object_or_404(Definition, pk=pk)
        decide = {APPROVE: self._approve, REFUSE: self._refuse}.get(request.POST.get("decision", ""))
        if decide is None:
            return HttpResponseBadRequest("decision must be approve or refuse")
        with FailuresTold(request):
            decide(request, [definition.pk], _reason(request))
        return HttpResponseRedirect(links.address("definition", "change", definition.pk))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        definition: Definition = kwargs["obj"]
        before = definition.approved_before()
        decisions = AuditEntry.objects.filter(subject=definition.tool.name, action__startswith="definition.")
        context.update(
            title=f"{definition.tool.name} {definition.version}",
            definition=definition,
            tool_link=links.to_tool(definition.tool.name),
            state=_mark_of(definition),
            may_decide=self.may_decide(request),
            decide_address=links.address("definition", "decide", definition.pk),
            before=before,
            changed=definitions.since(before, definition) if before is not None else None,
            whole=readable(definition.body),
            changes=audit.rows(decisions[:MOST_SHOWN]) if request.user.has_perm("tools_app.view_auditentry") else None,
        )
        return super().render_change_form(request, context, *args, **kwargs)


def _mark_of(definition: Definition) -> SafeString:
    tones = {"waiting": "warn", "refused": "bad", "approved": "good"}
    words = {"waiting": _("pending"), "refused": _("rejected"), "approved": _("approved")}
    return links.mark(tones[definition.state], words[definition.state])


def _reason(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip().replace("\x00", "")


def waiting(request: HttpRequest) -> int:
    """How much waits for this user, for the way around."""
    may = request.user.has_perm
    calls = Approval.objects.waiting(timezone.now()).count() if may("tools_app.change_approval") else 0
    tools = Definition.objects.open().filter(refused_at=None).count() if may("tools_app.change_definition") else 0
    return calls + tools
