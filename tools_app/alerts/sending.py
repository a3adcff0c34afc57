"""Sends one message, and records the outcome. One that fails is tried again, later each time, under the same id."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from tools_app.access import actions
from tools_app.alerts import messages
from tools_app.alerts.messages import Message
from tools_app.alerts.routing import new_delivery
from tools_app.governance.actors import Actor, changing
from tools_app.http import hooks
from tools_app.models import AlertDelivery, AlertRule
from tools_app.sdk.errors import NotFoundError, shortened
from tools_app.text import hygiene
from tools_app.text.redaction import redacted_text
from tools_app.text.templates import TemplateError

log = logging.getLogger("tools_app.alerts")

State = AlertDelivery.State
# A process that took a message and did not say what became of it: it is sent again after this time.
CLAIM: Final = timedelta(seconds=30)
MOST_ATTEMPTS: Final = 10
FIRST_SECONDS: Final = 15.0
MOST_SECONDS: Final = 3600.0
# Of the delay, in both directions: receivers that come back must not get everything at once.
JITTER: Final = 0.25
MAIL_SECONDS: Final = 10
MOST_ERROR: Final = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` is empty if the receiver has the message."""

    status: int | None = None
    error: str = ""
    answer: str = ""


def claim(delivery: AlertDelivery, now: datetime) -> bool:
    """Take a message that is due. Of several processes, one gets True."""
    if delivery.attempts >= MOST_ATTEMPTS:
        # Processes ended while they sent it, again and again.
        lost = AlertDelivery.objects.filter(pk=delivery.pk, state=State.QUEUED, next_attempt_at__lte=now)
        lost.update(state=State.FAILED, error="No process could send it to the end")
        return False
    due = AlertDelivery.objects.filter(pk=delivery.pk, state=State.QUEUED, next_attempt_at__lte=now)
    if not due.update(attempts=F("attempts") + 1, next_attempt_at=now + CLAIM):
        return False
    delivery.attempts += 1
    return True


def send(delivery: AlertDelivery) -> Outcome:
    """Send a claimed message, and record what became of it. Blocks for some seconds at most."""
    rule = delivery.rule
    try:
        message = messages.message_of(delivery, rule, timezone.now())
        outcome = _by_mail(message, rule) if rule.channel == AlertRule.Channel.MAIL else _by_webhook(message, rule)
    except TemplateError as error:
        outcome = Outcome(error=f"The template {error}")
    _record(delivery, outcome)
    return outcome


def send_test(name: str, *, actor: Actor) -> tuple[AlertDelivery, Outcome]:
    """Send a message that says that it is a test, once. Also of a rule that is switched off.

    Raises:
        NotFoundError
    """
    actor.require(actions.ALERT_RULE_TEST)
    rule = AlertRule.objects.filter(name=name).first()
    if rule is None:
        raise NotFoundError(f"There is no alert rule {shortened(name)!r}")
    now = timezone.now()
    # No other process sends it.
    delivery = new_delivery(rule, now, kind=AlertDelivery.Kind.TEST, attempts=1, state=State.FAILED)
    with changing(actions.ALERT_RULE_TEST, actor) as change:
        delivery.save(force_insert=True)
        change.note(f"alertrule:{name}", {"delivery": [None, delivery.pk]})
    outcome = send(delivery)
    delivery.refresh_from_db()
    return delivery, outcome


def _by_webhook(message: Message, rule: AlertRule) -> Outcome:
    target = rule.target()
    if target is None:
        return Outcome(error="URL and secret cannot be decrypted: enter both again")
    body = messages.body_of(message, rule.template, target["secret"])
    headers = messages.headers_of(message, body, target["secret"], timezone.now())
    try:
        answer = asyncio.run(hooks.post(target["url"], body, headers, internal=rule.internal))
    except hooks.HookError as error:
        return Outcome(error=str(error))
    text = " ".join(hygiene.cleaned(redacted_text(answer.text.replace(target["secret"], "***"))).split())
    text = shortened(text, MOST_ERROR) if text else ""
    if answer.is_success:
        return Outcome(answer.status, answer=text)
    words = "redirects are not followed" if 300 <= answer.status < 400 else text
    return Outcome(answer.status, f"HTTP {answer.status}{f': {words}' if words else ''}", text)


def _by_mail(message: Message, rule: AlertRule) -> Outcome:
    # Imported here: few hubs send e-mails.
    import smtplib

    from django.core.mail import EmailMessage, get_connection

    headers = {"Message-ID": f"<{message.id}@toolhub.invalid>", "Auto-Submitted": "auto-generated"}
    try:
        mail = EmailMessage(
            messages.subject_of(message),
            messages.text_of(message),
            to=rule.recipients,
            headers=headers,
            connection=get_connection(timeout=MAIL_SECONDS),
        )
        mail.send()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        words = hygiene.cleaned(redacted_text(f"{type(error).__name__}: {error}"))
        return Outcome(error=shortened(words, MOST_ERROR))
    return Outcome()


def _record(delivery: AlertDelivery, outcome: Outcome) -> None:
    now = timezone.now()
    changes: dict[str, object] = {"status": outcome.status, "error": outcome.error}
    rules = AlertRule.objects.filter(pk=delivery.rule_id)
    if not outcome.error:
        changes |= {"state": State.SENT, "sent_at": now}
        if delivery.rule.error or delivery.rule.failing_since:
            rules.update(failing_since=None, error="")
    else:
        is_last = delivery.kind == AlertDelivery.Kind.TEST or delivery.attempts >= MOST_ATTEMPTS
        changes |= {"state": State.FAILED} if is_last else {"next_attempt_at": now + delay(delivery.attempts)}
        rules.update(failing_since=Coalesce("failing_since", now), error=outcome.error)
        delivery.rule.error = outcome.error
        log.warning("alert rule %s cannot send: %s", delivery.rule.name, outcome.error)
    # A message that another process sent meanwhile stays sent.
    AlertDelivery.objects.filter(pk=delivery.pk).exclude(state=State.SENT).update(**changes)


def delay(attempts: int) -> timedelta:
    """Until the next attempt."""
    seconds = min(FIRST_SECONDS * 2 ** (attempts - 1), MOST_SECONDS)
    return timedelta(seconds=seconds * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 – not for secrets
