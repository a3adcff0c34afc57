"""Alert rules: who is told of which alerts, whether that works, and what was sent."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol, cast

from django.contrib import admin, messages
from django.db.models import Max, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, links
from tools_app.admin.alert_rule_form import AlertRuleForm
from tools_app.admin.exports import columns
from tools_app.admin.filters import ChoiceFilter, by_link, since
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, require
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.alerts import sending, words
from tools_app.models import AlertDelivery, AlertRule, AuditEntry
from tools_app.models.alerts import Event

State = AlertDelivery.State
STATES: Final[dict[str, tuple[str, Any]]] = {
    State.QUEUED: ("warn", gettext_lazy("queued")),
    State.SENT: ("good", gettext_lazy("sent")),
    State.FAILED: ("bad", gettext_lazy("failed")),
}
CHANNELS: Final = {AlertRule.Channel.WEBHOOK: gettext_lazy("Webhook"), AlertRule.Channel.MAIL: gettext_lazy("E-mail")}
MOST_SHOWN: Final = 20


class _WithSecret(Protocol):
    """A new rule whose secret was generated."""

    secret: str


@admin.register(AlertRule)
class AlertRuleAdmin(GovernedAdmin[AlertRule]):
    form = AlertRuleForm
    managed_editable: ClassVar = frozenset({"enabled"})
    list_display = ("shown_name", "receiver", "shown_events", "shown_owner", "last", "state")
    list_display_links = None
    search_fields = ("name",)
    search_help_text = gettext_lazy("Name")
    ordering = ("name",)
    posts: ClassVar = {"remove": "<int:pk>/remove/", "test": "<int:pk>/test/"}
    nothing_yet = (
        gettext_lazy("No alert rules yet"),
        gettext_lazy("A rule sends alerts to a webhook, such as Slack, or by e-mail."),
    )
    fieldsets = (
        (None, {"fields": ("name", "enabled", "owner")}),
        (gettext_lazy("Receiver"), {"fields": ("channel", "url", "secret", "internal", "recipients")}),
        (
            gettext_lazy("Filter"),
            {"fields": ("events", "severity", "tools", "sources", "callers", "error_rate", "per_minute")},
        ),
        (gettext_lazy("Message"), {"fields": ("payloads", "format", "template")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.ALERT_RULE_CREATE.permits(request.user)

    def get_fieldsets(self, request: HttpRequest, obj: AlertRule | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return self.fieldsets
        return [(None, {"fields": ("name", "enabled", "owner", "channel", "host", "severity", "payloads")})]

    def get_readonly_fields(self, request: HttpRequest, obj: AlertRule | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        # The name is in the audit trail.
        may_change = self.has_change_permission(request, obj)
        return ("name",) if may_change else ("name", "enabled", "owner", "channel", "host", "severity", "payloads")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRule]:
        sent = Max("deliveries__sent_at")
        return super().get_queryset(request).select_related("owner").annotate(last_sent_at=sent)

    shown_name = Column[AlertRule](
        gettext_lazy("Alert rule"), lambda rule: links.named(links.address("alertrule", "change", rule.pk), rule.name)
    )

    @admin.display(description=gettext_lazy("Receiver"))
    def receiver(self, rule: AlertRule) -> SafeString:
        return links.with_sub(rule.host or ", ".join(rule.recipients), CHANNELS[AlertRule.Channel(rule.channel)])

    @admin.display(description=gettext_lazy("Events"))
    def shown_events(self, rule: AlertRule) -> SafeString:
        if not rule.events:
            return links.cut(_("all events"))
        return links.cut(", ".join(str(words.EVENTS[Event(event)]) for event in rule.events))

    shown_owner = Column[AlertRule](gettext_lazy("Owner"), lambda rule: rule.owner or links.NOTHING)
    last = Column[Any](gettext_lazy("Last sent"), lambda rule: links.when(rule.last_sent_at))
    state = Column[AlertRule](gettext_lazy("State"), lambda rule: _state(rule))

    # ------------------------------------------------------------------------------------------------ changing

    @sensitive_variables("secret", "url")
    def save_model(self, request: HttpRequest, obj: AlertRule, form: ModelForm[AlertRule], change: bool) -> None:
        url, secret = form.cleaned_data["url"], form.cleaned_data["secret"]
        parts = cast(AlertRuleForm, form).parts()
        if change:
            governance.change_alert_rule(obj.name, url=url, secret=secret, actor=actor(request), **parts)
            return
        rule, generated = governance.create_alert_rule(
            form.cleaned_data["name"], url=url, secret=secret, actor=actor(request), **parts
        )
        obj.pk = rule.pk
        cast(_WithSecret, obj).secret = generated

    def response_add(self, request: HttpRequest, obj: AlertRule, post_url_continue: str | None = None) -> HttpResponse:
        page = links.address("alertrule", "change", obj.pk)
        if secret := cast(_WithSecret, obj).secret:
            return self._shown_once(request, obj, secret, page)
        self.message_user(request, _("Alert rule created. Send a test."), messages.SUCCESS)
        return HttpResponseRedirect(page)

    @sensitive_variables("secret")
    def _shown_once(self, request: HttpRequest, rule: AlertRule, secret: str, page: str) -> HttpResponse:
        """Without redirect or message, so that the secret is stored nowhere else."""
        title = _("Alert rule created")
        return self.page(request, "alertrule/created.html", title, rule=rule, secret=secret, page_address=page)

    def response_change(self, request: HttpRequest, obj: AlertRule) -> HttpResponse:
        self.message_user(request, _("Saved. Applies from the next alert."), messages.SUCCESS)
        return HttpResponseRedirect(request.get_full_path())

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.ALERT_RULE_TEST)
        rule = get_object_or_404(AlertRule, pk=pk)
        with FailuresAsMessages(request):
            _delivery, outcome = sending.send_test(rule.name, actor=actor(request))
            if outcome.error:
                messages.error(request, _("The test failed: %(why)s") % {"why": outcome.error})
            else:
                answer = " ".join(str(part) for part in (outcome.status, outcome.answer) if part)
                text = _("The test was sent. Answer: %(answer)s") if answer else _("The test was sent.")
                messages.success(request, text % {"answer": answer} if answer else text)
        return HttpResponseRedirect(links.address("alertrule", "change", pk))

    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.ALERT_RULE_DELETE)
        rule = get_object_or_404(AlertRule, pk=pk)
        with FailuresAsMessages(request):
            governance.delete_alert_rule(rule.name, actor=actor(request))
            self.message_user(request, _("%(name)s is deleted.") % {"name": rule.name}, messages.SUCCESS)
            return HttpResponseRedirect(links.address("alertrule", "changelist"))
        return HttpResponseRedirect(links.address("alertrule", "change", pk))

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], record: AlertRule | None) -> None:
        if record is None:
            return
        # A rejected form has changed the object; show the stored values.
        rule = AlertRule.objects.get(pk=record.pk)
        context.update(
            rule=rule,
            receiver=rule.host or ", ".join(rule.recipients),
            state=_state(rule),
            deliveries=rule.deliveries.select_related("alert")[:MOST_SHOWN],
            all_deliveries=links.address("alertdelivery", "changelist", rule=rule.name),
            changes=audit.rows(AuditEntry.objects.filter(subject=f"alertrule:{rule.name}"), request.user),
            may_test=actions.ALERT_RULE_TEST.permits(request.user),
            may_remove=actions.ALERT_RULE_DELETE.permits(request.user),
        )


def _state(rule: AlertRule) -> SafeString:
    if not rule.enabled:
        return links.mark("quiet", _("off"))
    if rule.failing_since is not None:
        return links.with_sub(links.mark("bad", _("failing")), rule.error)
    return links.mark("good", _("on"))


class DeliveryStateFilter(ChoiceFilter):
    words: ClassVar = {state: words for state, (_tone, words) in STATES.items()}

    def restricted(self, rows: Any, value: str) -> QuerySet[Any]:
        deliveries: QuerySet[Any] = rows.filter(state=value)
        return deliveries


@admin.register(AlertDelivery)
class DeliveryAdmin(JournalAdmin[AlertDelivery]):
    change_form_template = "admin/tools_app/alertdelivery/change_form.html"
    list_display = ("moment", "shown_rule", "subject", "shown_state", "attempts", "status", "shown_error")
    list_display_links = None
    list_filter = (
        DeliveryStateFilter,
        since("created_at"),
        by_link("rule", gettext_lazy("alert rule"), lambda name: Q(rule__name=name)),
    )
    nothing_yet = (gettext_lazy("No messages yet"), gettext_lazy("What alert rules send is listed here."))
    posts: ClassVar = {"resend": "<str:pk>/resend/"}
    fields = (
        "created",
        "shown_rule",
        "subject",
        "shown_state",
        "attempts",
        "status",
        "shown_error",
        "next",
        "sent",
        "id",
    )
    export_order = "created_at"
    export_columns = columns(
        "id", "created_at", "rule_id", "kind", "alert_id", "state", "attempts", "status", "error", "sent_at",
        rule_id="rule", alert_id="alert",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertDelivery]:
        return super().get_queryset(request).select_related("rule", "alert")

    def resend_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        require(request, actions.ALERT_RESEND)
        delivery = get_object_or_404(AlertDelivery, pk=pk.replace("\x00", ""))
        with FailuresAsMessages(request):
            governance.resend_alert(delivery.pk, actor=actor(request))
            messages.success(request, _("It is sent again within seconds, with the same id."))
        return HttpResponseRedirect(links.address("alertdelivery", "change", delivery.pk))

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], delivery: AlertDelivery) -> None:
        context.update(
            title=_("Message of %(rule)s") % {"rule": delivery.rule.name},
            delivery=delivery,
            may_resend=actions.ALERT_RESEND.permits(request.user) and delivery.state == State.FAILED,
            resend_address=links.address("alertdelivery", "resend", delivery.pk),
        )

    moment = Column[AlertDelivery](
        gettext_lazy("Time"),
        lambda one: links.at(
            one.created_at, links.link(links.address("alertdelivery", "change", one.pk), links.stamp(one.created_at))
        ),
    )
    created = Column[AlertDelivery](gettext_lazy("Time"), lambda one: links.in_full(one.created_at))
    shown_rule = Column[AlertDelivery](
        gettext_lazy("Alert rule"),
        lambda one: links.link(links.address("alertrule", "change", one.rule_id), one.rule.name),
    )
    shown_state = Column[AlertDelivery](gettext_lazy("State"), lambda one: links.mark(*map(str, STATES[one.state])))
    shown_error = Column[AlertDelivery](gettext_lazy("Last error"), lambda one: links.cut(one.error or links.NOTHING))
    sent = Column[AlertDelivery](gettext_lazy("Sent"), lambda one: links.in_full(one.sent_at))
    next = Column[AlertDelivery](
        gettext_lazy("Next attempt"),
        lambda one: links.in_full(one.next_attempt_at) if one.state == State.QUEUED else links.NOTHING,
    )

    @admin.display(description=gettext_lazy("Subject"))
    def subject(self, delivery: AlertDelivery) -> SafeString:
        if delivery.kind == AlertDelivery.Kind.TEST:
            return links.quiet(_("test"))
        if delivery.kind == AlertDelivery.Kind.DIGEST:
            return links.quiet(_("digest of %(n)s alerts") % {"n": f"{sum(delivery.counts.values()):,}"})
        if delivery.alert is None:
            return links.quiet(links.NOTHING)
        return links.link(words.page_of(delivery.alert), words.sentence(delivery.alert))
