"""Alerts: what operators were told, and who has seen it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.exports import columns
from tools_app.admin.filters import ChoiceFilter, ToolFilter, by_link, since
from tools_app.admin.governed import FailuresAsMessages, actor, require
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.alerts import words
from tools_app.alerts.visibility import visible
from tools_app.models import Alert
from tools_app.models.alerts import Event, Severity

TONES: Final = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: "quiet"}
MOST_SHOWN: Final = 20
# Of the badge.
MOST_COUNTED: Final = 1_000


class AcknowledgedFilter(ChoiceFilter):
    words: ClassVar = {"acknowledged": gettext_lazy("Acknowledged"), "all": gettext_lazy("All")}
    default = gettext_lazy("Open")

    def restricted(self, rows: Any, value: str | None) -> QuerySet[Any]:
        alerts: QuerySet[Any] = rows if value == "all" else rows.filter(acknowledged_at__isnull=value is None)
        return alerts


class SeverityFilter(ChoiceFilter):
    title = gettext_lazy("severity")
    parameter_name = "severity"
    words = words.SEVERITIES

    def restricted(self, rows: Any, value: str) -> QuerySet[Any]:
        alerts: QuerySet[Any] = rows.filter(severity=value)
        return alerts


class EventFilter(ChoiceFilter):
    title = gettext_lazy("event")
    parameter_name = "event"
    words = words.EVENTS

    def restricted(self, rows: Any, value: str) -> QuerySet[Any]:
        alerts: QuerySet[Any] = rows.filter(event=value)
        return alerts


@admin.register(Alert)
class AlertAdmin(JournalAdmin[Alert]):
    change_form_template = "admin/tools_app/alert/change_form.html"
    list_display = ("moment", "shown_severity", "sentence", "about", "state")
    list_display_links = None
    actions = ("acknowledge_selected",)
    list_filter = (
        AcknowledgedFilter, SeverityFilter, EventFilter, since("at"), ToolFilter,
        by_link("source", gettext_lazy("source"), lambda name: Q(source=name)),
    )  # fmt: skip
    search_fields = ("tool_name", "source", "caller_name")
    search_help_text = gettext_lazy("Tool, source or caller")
    nothing_yet = (
        gettext_lazy("No open alerts"),
        gettext_lazy("What needs attention is listed here. Alert rules send it by webhook or e-mail."),
    )
    posts: ClassVar = {"acknowledge": "<str:pk>/acknowledge/"}
    fields = ("at_exactly", "event_words", "shown_severity", "about", "state", "alert_id")
    export_order = "at"
    export_columns = columns(
        "id", "at", "event", "severity", "tool_name", "source", "caller_name", "acknowledged_at", "acknowledged_by",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alert]:
        rows = super().get_queryset(request)
        # Who may not see any is refused by the page itself.
        return rows.filter(pk__in=visible(request.user).values("pk")) if self.has_view_permission(request) else rows

    def has_acknowledge_permission(self, request: HttpRequest) -> bool:
        return actions.ALERT_ACKNOWLEDGE.permits(request.user)

    @admin.action(description=gettext_lazy("Acknowledge"), permissions=["acknowledge"])
    def acknowledge_selected(self, request: HttpRequest, queryset: QuerySet[Alert]) -> None:
        self._acknowledge(request, list(queryset.values_list("pk", flat=True)))

    def acknowledge_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        require(request, actions.ALERT_ACKNOWLEDGE)
        alert = get_object_or_404(visible(request.user), pk=pk.replace("\x00", ""))
        self._acknowledge(request, [alert.pk])
        return HttpResponseRedirect(links.address("alert", "change", alert.pk))

    def _acknowledge(self, request: HttpRequest, ids: list[str]) -> None:
        with FailuresAsMessages(request):
            number = governance.acknowledge_alerts(ids, actor=actor(request))
            text = ngettext("%(n)s alert acknowledged.", "%(n)s alerts acknowledged.", number)
            messages.success(request, text % {"n": number})

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], alert: Alert) -> None:
        sees_rules = actions.ALERT_DELIVERIES_READ.permits(request.user)
        deliveries = alert.deliveries.select_related("rule")[:MOST_SHOWN] if sees_rules else None
        context.update(
            title=str(words.EVENTS[Event(alert.event)]).capitalize(),
            alert=alert,
            sentence=words.sentence(alert),
            mark=_severity(alert),
            resolve_address=words.path(alert),
            deliveries=deliveries,
            may_acknowledge=actions.ALERT_ACKNOWLEDGE.permits(request.user) and alert.acknowledged_at is None,
            acknowledge_address=links.address("alert", "acknowledge", alert.pk),
        )

    moment = Column[Alert](
        gettext_lazy("Time"),
        lambda alert: links.at(alert.at, links.link(words.page_of(alert), links.stamp(alert.at))),
    )
    at_exactly = Column[Alert](gettext_lazy("Time"), lambda alert: links.in_full(alert.at))
    shown_severity = Column[Alert](gettext_lazy("Severity"), lambda alert: _severity(alert))
    event_words = Column[Alert](gettext_lazy("Event"), lambda alert: words.EVENTS[Event(alert.event)])
    alert_id = Column[Alert](gettext_lazy("Alert id"), lambda alert: alert.pk)

    @admin.display(description=gettext_lazy("Alert"))
    def sentence(self, alert: Alert) -> SafeString:
        return links.with_sub(links.link(words.path(alert), words.sentence(alert)), words.EVENTS[Event(alert.event)])

    @admin.display(description=gettext_lazy("About"))
    def about(self, alert: Alert) -> SafeString:
        first = links.to_tool(alert.tool_name) if alert.tool_name else links.to_source(alert.source)
        return links.with_sub(first, alert.caller_name)

    @admin.display(description=gettext_lazy("State"))
    def state(self, alert: Alert) -> SafeString:
        if alert.acknowledged_at is None:
            return links.mark("warn", _("open"))
        if not alert.acknowledged_by:
            return links.mark("quiet", _("information"))
        return links.with_sub(
            format_html("{} {}", links.mark("quiet", _("acknowledged")), links.when(alert.acknowledged_at)),
            alert.acknowledged_by,
        )


def _severity(alert: Alert) -> SafeString:
    severity = Severity(alert.severity)
    return links.mark(TONES[severity], str(words.SEVERITIES[severity]))


def open_count(request: HttpRequest) -> int:
    """The number of open alerts that this user can acknowledge, for the menu; those of information only are not."""
    if not actions.ALERT_ACKNOWLEDGE.permits(request.user):
        return 0
    rows = visible(request.user).filter(acknowledged_at=None).exclude(severity=Severity.INFO)
    return rows.order_by()[:MOST_COUNTED].count()
