"""Rules for alerts, and what people do with alerts: acknowledge them, and send failed messages again."""

from __future__ import annotations

import base64
import secrets as random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.validators import validate_email
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from tools_app.access import actions
from tools_app.governance.actors import Actor, changing
from tools_app.governance.managed import Kind, forget, refuse_managed
from tools_app.governance.source_checks import may_be_public
from tools_app.http import addresses, public
from tools_app.models import Alert, AlertDelivery, AlertRule
from tools_app.models.alerts import MOST_TEMPLATE, SECRET_PREFIX, Event
from tools_app.sdk.errors import ConflictError, NotFoundError, Problem, ValidationError, shortened
from tools_app.text import templates
from tools_app.text.redaction import redacted_text

# The parts of a rule that can be changed, beside its name, and the URL and secret of a webhook.
ALERT_RULE: Final = (
    *("enabled", "owner", "channel", "internal", "recipients", "events", "severity", "tools", "sources", "callers"),
    *("error_rate", "per_minute", "payloads", "template"),
)
_LISTS: Final = ("events", "tools", "sources", "callers", "recipients")
# What a template can contain.
PLACEHOLDERS: Final = frozenset(
    {"id", "event", "severity", "time", "text", "escaped_text", "link", "hub", "tool", "source", "caller", "secret"}
)
# The form of Slack's incoming webhooks, which Mattermost, Rocket.Chat and Discord (`/slack`) accept as well.
SLACK: Final = '{"text": "*{hub}* · {severity} · {escaped_text}\\n{link}"}'
MOST_NAMES: Final = 100
MOST_NAME: Final = 200
MOST_RECIPIENTS: Final = 20
MOST_URL: Final = 2_000
FEWEST_OF_SECRET: Final = 16
MOST_RULES: Final = 100


@sensitive_variables("url", "secret")
def create_alert_rule(
    name: str, *, actor: Actor, url: str = "", secret: str = "", reason: str = "", **parts: Any
) -> tuple[AlertRule, str]:
    """Create a rule. Returns it with the secret of its webhook if that was generated, which is shown once.

    `parts` holds any of the names in `ALERT_RULE`; `owner` is the name of a user.

    Raises:
        ConflictError: the name exists already, or there are too many rules.
        ValidationError: anything else is invalid; neither URL nor secret is quoted.
        AuthorizationError: the actor may not view arguments, which the rule would send.
    """
    rule = AlertRule(name=name.strip(), created_by=actor.name[:150])
    with changing(actions.ALERT_RULE_CREATE, actor, reason) as change:
        if AlertRule.objects.filter(name=rule.name).exists():
            raise ConflictError(f"An alert rule named {shortened(name)!r} exists already")
        if AlertRule.objects.count() >= MOST_RULES:
            raise ConflictError(f"There are {MOST_RULES} alert rules already", next_step="Delete one, or change one.")
        is_webhook = parts.get("channel", AlertRule.Channel.WEBHOOK) == AlertRule.Channel.WEBHOOK
        generated = new_secret() if is_webhook and not secret else ""
        changes = _decide(rule, parts, url, secret or generated, actor)
        rule.save(force_insert=True)
        change.note(f"alertrule:{rule.name}", changes)
    return rule, generated


@sensitive_variables("url", "secret")
def change_alert_rule(
    name: str, *, actor: Actor, url: str = "", secret: str = "", reason: str = "", **parts: Any
) -> list[str]:
    """Change a rule, from the next alert on. An empty URL or secret keeps the stored one. Returns the changed parts.

    Raises:
        NotFoundError, ValidationError, AuthorizationError
    """
    with changing(actions.ALERT_RULE_CHANGE, actor, reason) as change:
        rule = _rule(name)
        changes = _decide(rule, parts, url, secret, actor)
        if changes:
            refuse_managed(Kind.ALERT_RULE, [name], changes)
            rule.failing_since, rule.error = None, ""
            rule.save()
            if not rule.enabled:
                # Not weeks later, when the rule is switched on again.
                queued = rule.deliveries.filter(state=AlertDelivery.State.QUEUED)
                queued.update(state=AlertDelivery.State.FAILED, error="The rule was switched off")
            change.note(f"alertrule:{name}", changes)
    return sorted(changes)


def delete_alert_rule(name: str, *, actor: Actor, reason: str = "") -> None:
    """Delete a rule with its delivery log. Alerts stay.

    Raises:
        NotFoundError
    """
    with changing(actions.ALERT_RULE_DELETE, actor, reason) as change:
        rule = _rule(name)
        refuse_managed(Kind.ALERT_RULE, [name])
        changes = {part: [_shown(rule, part), None] for part in ("channel", "host", "recipients")}
        rule.delete()
        forget(Kind.ALERT_RULE, name)
        change.note(f"alertrule:{name}", changes)


def acknowledge_alerts(ids: Iterable[str], *, actor: Actor) -> int:
    """Mark alerts as seen. Returns how many were not yet.

    Raises:
        NotFoundError: one of them does not exist; nothing is changed then.
    """
    wanted = set(ids)
    with changing(actions.ALERT_ACKNOWLEDGE, actor) as change:
        alerts = Alert.objects.select_for_update().filter(pk__in=wanted)
        if len(found := list(alerts)) != len(wanted):
            raise NotFoundError("There is no such alert", next_step="It may have been deleted by retention.")
        new = [alert for alert in found if alert.acknowledged_at is None]
        if new:
            # Again with the condition: another operator may be faster.
            rows = Alert.objects.filter(pk__in=[alert.pk for alert in new], acknowledged_at=None)
            rows.update(acknowledged_at=timezone.now(), acknowledged_by=actor.name[:150])
            subject = f"alert:{new[0].pk}" if len(new) == 1 else "alerts"
            change.note(subject, {"event": [None, sorted({alert.event for alert in new})], "count": [None, len(new)]})
    return len(new)


def resend_alert(delivery_id: str, *, actor: Actor) -> AlertDelivery:
    """Send a message again that has failed, under the same id.

    Raises:
        NotFoundError
        ConflictError: it has not failed.
    """
    with changing(actions.ALERT_RESEND, actor) as change:
        delivery = AlertDelivery.objects.select_for_update().filter(pk=delivery_id).select_related("rule").first()
        if delivery is None:
            raise NotFoundError("There is no such delivery")
        if delivery.state != AlertDelivery.State.FAILED:
            raise ConflictError(f"This message has not failed: it is {delivery.state}")
        delivery.state, delivery.attempts = AlertDelivery.State.QUEUED, 0
        delivery.next_attempt_at = timezone.now()
        delivery.save(update_fields=["state", "attempts", "next_attempt_at"])
        change.note(f"alertrule:{delivery.rule.name}", {"delivery": [None, delivery.pk]})
    return delivery


def new_secret() -> str:
    """As the libraries of standardwebhooks.com take it."""
    return f"{SECRET_PREFIX}{base64.b64encode(random.token_bytes(32)).decode()}"


def _rule(name: str) -> AlertRule:
    rule = AlertRule.objects.select_for_update(of=("self",)).filter(name=name).first()
    if rule is None:
        raise NotFoundError(f"There is no alert rule {shortened(name)!r}")
    return rule


@sensitive_variables("url", "secret")
def _decide(rule: AlertRule, parts: Mapping[str, Any], url: str, secret: str, actor: Actor) -> dict[str, list[Any]]:
    """Apply changes to a rule, and return them.

    Raises:
        ValidationError, AuthorizationError
    """
    new = rule._state.adding
    before = {part: _shown(rule, part) for part in (*ALERT_RULE, "host")}
    for part, value in parts.items():
        if part not in ALERT_RULE:
            raise ValidationError(f"{part!r} is no part of an alert rule; known are {', '.join(ALERT_RULE)}")
        setattr(rule, part, _clean(part, value))
    _check_columns(rule)
    is_new_target = _set_target(rule, url, secret)
    changes = {
        part: [None if new else was, _shown(rule, part)]
        for part, was in before.items()
        if (_shown(rule, part) not in (None, "", [], False) if new else _shown(rule, part) != was)
    }
    if is_new_target or (new and rule.sealed):
        changes["url"] = [None if new else "set", "set"]
    if rule.payloads and (changes.keys() & {"payloads", "channel", "recipients", "url", "host"}):
        # Arguments would go to all who read that channel.
        actor.require(actions.PAYLOADS_READ)
    return changes


def _shown(rule: AlertRule, part: str) -> Any:
    """A part as the audit trail has it."""
    value = getattr(rule, part)
    if part == "owner":
        return value.get_username() if value is not None else None
    return value if part != "template" else ("set" if value else "")


def _clean(part: str, value: Any) -> Any:
    """Raises: ValidationError."""
    if part in _LISTS:
        return _names(part, value)
    if part == "owner":
        return _owner(value)
    if part == "template":
        return _template(value)
    return value


def _names(part: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong(part, f"{part} must be a list")
    names = list(value)
    most = MOST_RECIPIENTS if part == "recipients" else MOST_NAMES
    if len(names) > most or not all(isinstance(name, str) and 0 < len(name.strip()) <= MOST_NAME for name in names):
        raise _wrong(part, f"{part} must hold at most {most} texts of 1 to {MOST_NAME} characters")
    clean = sorted({name.strip() for name in names})
    if part == "events" and (unknown := [name for name in clean if name not in Event.values]):
        raise _wrong(part, f"{shortened(unknown[0])!r} is no event; known are {', '.join(Event.values)}")
    if part == "recipients":
        for address in clean:
            try:
                validate_email(address)
            except DjangoValidationError as error:
                raise _wrong(part, f"{shortened(address)!r} is no e-mail address") from error
    return clean


def _owner(name: Any) -> Any:
    if name in (None, ""):
        return None
    if not isinstance(name, str):
        return name
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise _wrong("owner", f"There is no user {shortened(name)!r}") from None


def _template(template: str) -> str:
    template = template.strip()
    if not template:
        return ""
    if len(template) > MOST_TEMPLATE:
        raise _wrong("template", f"The template has at most {MOST_TEMPLATE:,} characters")
    try:
        templates.checked(template, PLACEHOLDERS)
    except templates.TemplateError as error:
        raise _wrong("template", f"The template {error}") from error
    plain = templates.without_placeholders(template)
    if redacted_text(plain) != plain:
        step = "Store it as the secret of the rule, and write {secret}."
        raise _wrong("template", "The template contains a secret", step)
    return template


def _check_columns(rule: AlertRule) -> None:
    try:
        rule.clean_fields(exclude=["sealed", "owner"])
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error


@sensitive_variables("url", "secret")
def _set_target(rule: AlertRule, url: str, secret: str) -> bool:
    """Where the rule sends to. True: the stored URL or secret was replaced.

    Raises:
        ValidationError
    """
    if rule.channel == AlertRule.Channel.MAIL:
        if not rule.recipients:
            raise _wrong("recipients", "An e-mail needs at least one recipient")
        if not settings.EMAIL_HOST:
            raise _wrong("channel", "This hub has no mail server", "Set EMAIL_URL, or choose a webhook.")
        was_set, rule.sealed, rule.host = bool(rule.sealed), b"", ""
        return was_set
    rule.recipients = []
    stored = rule.target() or {}
    url, secret = url.strip() or stored.get("url", ""), secret.strip() or stored.get("secret", "")
    if not url:
        raise _wrong("url", "A webhook needs a URL")
    if len(secret) < FEWEST_OF_SECRET or len(secret) > MOST_NAME:
        raise _wrong("secret", f"The secret must have {FEWEST_OF_SECRET} to {MOST_NAME} characters")
    rule.host = _host(url, internal=rule.internal)
    if {"url": url, "secret": secret} == stored:
        return False
    rule.seal(url, secret)
    return True


def _host(url: str, *, internal: bool) -> str:
    """The server of a URL, which may be shown; the rest can be a secret.

    Raises:
        ValidationError
    """
    parts = addresses.split(url)
    if len(url) > MOST_URL or isinstance(parts, str):
        raise _wrong("url", f"The URL {parts if isinstance(parts, str) else 'is too long'}")
    scheme, host, port, _, rest = parts
    if "#" in rest:
        raise _wrong("url", "The URL must not have a fragment (`#…`)")
    if public.names_the_machine(host):
        raise _wrong("url", "The address is that of a metadata service or of this machine's own network")
    permit = "Permit an internal address for this rule, if it is one of your own."
    if not internal and scheme != "https":
        raise _wrong("url", "The URL must begin with https://", permit)
    if not internal and not may_be_public(host):
        raise _wrong("url", "The address is not public", permit)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" + ("" if port == addresses.PORTS[scheme] else f":{port}")


def _wrong(part: str, message: str, next_step: str = "") -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)], next_step=next_step or None)
