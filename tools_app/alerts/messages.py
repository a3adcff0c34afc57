"""What is sent: the body and signature of a webhook, the text of an e-mail."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

from tools_app.alerts import words
from tools_app.governance import disclosure
from tools_app.governance.sign_ins import public_url
from tools_app.models import Alert, AlertDelivery, AlertRule, Approval
from tools_app.models.alerts import SECRET_PREFIX, Event, Severity
from tools_app.text import templates

# Larger arguments are left out: receivers limit the size of a message.
MOST_ARGUMENTS: Final = 16 * 1024


@dataclass(frozen=True)
class Message:
    """One message, for any channel."""

    id: str
    type: str
    event: str
    severity: str
    at: datetime
    text: str
    link: str
    hub: str
    alerts: tuple[dict[str, Any], ...] = ()
    counts: Mapping[str, int] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The hub's own JSON."""
        about: dict[str, Any] = {
            "id": self.id,
            "type": self.type,
            "hub": self.hub,
            "severity": self.severity,
            "time": self.at.isoformat(),
            "text": self.text,
            "link": self.link,
        }
        if self.counts is not None:
            about |= {"count": sum(self.counts.values()), "counts": dict(self.counts)}
        return {**about, "alerts": list(self.alerts)}

    def values(self, secret: str) -> dict[str, str]:
        """What placeholders stand for."""
        first = self.alerts[0] if len(self.alerts) == 1 else {}
        return {
            "id": self.id,
            "event": self.event,
            "severity": self.severity,
            "time": self.at.isoformat(),
            "text": self.text,
            "escaped_text": escaped(self.text),
            "link": self.link,
            "hub": self.hub,
            "secret": secret,
            **{name: str(first.get(name) or "") for name in ("tool", "source", "caller")},
        }


def message_of(delivery: AlertDelivery, rule: AlertRule, now: datetime) -> Message:
    """In English, for all readers: receivers are programs, and the hub has one language for its logs."""
    with override("en"):
        return _message_of(delivery, rule, now)


def _message_of(delivery: AlertDelivery, rule: AlertRule, now: datetime) -> Message:
    root = public_url()
    hub = root.partition("://")[2] or socket.gethostname()
    match delivery.kind:
        case AlertDelivery.Kind.TEST:
            text = _("This is a test of the alert rule %(name)s. Nothing has happened.") % {"name": rule.name}
            link = root + words.rule_page(rule)
            return Message(delivery.pk, "test", "test", Severity.INFO.value, now, text, link, hub)
        case AlertDelivery.Kind.DIGEST:
            return _digest(delivery, root, hub)
    alert = delivery.alert
    if alert is None:
        text = _("An alert was deleted by retention before it could be sent.")
        return Message(delivery.pk, "alert", "", Severity.INFO.value, delivery.created_at, text, root, hub)
    item = _item(alert, root, arguments=rule.payloads)
    text, link = item["text"], item["link"]
    return Message(delivery.pk, "alert", alert.event, alert.severity, alert.at, text, link, hub, (item,))


def _digest(delivery: AlertDelivery, root: str, hub: str) -> Message:
    alerts = {alert.pk: alert for alert in Alert.objects.filter(pk__in=delivery.alert_ids)}
    items = tuple(_item(alerts[pk], root) for pk in delivery.alert_ids if pk in alerts)
    number = sum(delivery.counts.values())
    counted = ", ".join(
        f"{count:,} × {words.EVENTS[Event(event)]}"
        for event, count in sorted(delivery.counts.items(), key=lambda pair: -pair[1])
    )
    title = ngettext("%(n)s more alert: %(events)s", "%(n)s more alerts: %(events)s", number)
    text = title % {"n": f"{number:,}", "events": counted}
    severities = {item["severity"] for item in items}
    severity = next((one.value for one in Severity if one.value in severities), Severity.INFO.value)
    link = root + words.list_page()
    return Message(
        delivery.pk, "digest", "digest", severity, delivery.created_at, text, link, hub, items, delivery.counts
    )


def _item(alert: Alert, root: str, *, arguments: bool = False) -> dict[str, Any]:
    item = {
        "id": alert.pk,
        "event": alert.event,
        "severity": alert.severity,
        "time": alert.at.isoformat(),
        "text": words.sentence(alert),
        "link": root + words.path(alert),
        "tool": alert.tool_name or None,
        "source": alert.source or None,
        "caller": alert.caller_name or None,
    }
    if arguments and (shown := _arguments(alert)) is not None:
        item["arguments"] = shown
    return item


def _arguments(alert: Alert) -> Any:
    """Those of a call that waits, as its page shows them; None if there are none, or too many."""
    kind, _, key = alert.subject.partition(":")
    approval = Approval.objects.filter(pk=key).first() if kind == "approval" else None
    shown = disclosure.of_approval(approval) if approval is not None else None
    if shown is None or len(json.dumps(shown.arguments, default=str)) > MOST_ARGUMENTS:
        return None
    return shown.arguments


def escaped(text: str) -> str:
    """For receivers that interpret `<…>`, such as Slack, where `<!channel>` notifies all its members."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def body_of(message: Message, template: str, secret: str) -> bytes:
    """Raises: TemplateError."""
    document = templates.filled(template, message.values(secret)) if template else message.document
    return json.dumps(document, ensure_ascii=False, default=str).encode(errors="replace")


def headers_of(message: Message, body: bytes, secret: str, now: datetime) -> dict[str, str]:
    """With the signature of standardwebhooks.com, whose libraries verify it."""
    timestamp = str(int(now.timestamp()))
    signature = hmac.digest(_key(secret), f"{message.id}.{timestamp}.".encode() + body, hashlib.sha256)
    return {
        "content-type": "application/json",
        "user-agent": "ToolHub",
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def _key(secret: str) -> bytes:
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            pass
    return secret.encode()


def subject_of(message: Message) -> str:
    """Of an e-mail: one line."""
    return f"[{message.hub}] {' '.join(message.text.split())}"[:200]


def text_of(message: Message) -> str:
    """Of an e-mail."""
    lines = [message.text, message.link]
    if message.type == "digest":
        lines += [f"– {item['text']}\n  {item['link']}" for item in message.alerts]
    elif arguments := next((item["arguments"] for item in message.alerts if "arguments" in item), None):
        lines.append(json.dumps(arguments, ensure_ascii=False, indent=2, default=str))
    return "\n\n".join([*lines, f"Alert {message.id}"])
