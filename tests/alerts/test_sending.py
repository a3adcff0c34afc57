"""A message gets to its receiver with a signature, or is tried again; nothing else is reached with it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.admin.conftest import approval
from tests.alerts.conftest import SECRET, TEST, alert, rule
from tests.support.receivers import MailServer, Receiver
from tools_app import governance
from tools_app.alerts import sending
from tools_app.alerts.routing import route
from tools_app.governance.alert_rules import SLACK
from tools_app.http import hooks
from tools_app.models import AlertDelivery, AlertRule, AuditEntry
from tools_app.models.alerts import Event
from tools_app.sdk.errors import ValidationError

pytestmark = pytest.mark.django_db


def sent(made: AlertRule, *events: Event, **about: Any) -> list[sending.Outcome]:
    """Route an alert, and send what is due."""
    for event in events:
        alert(event, **about)
    now = timezone.now()
    route(now)
    due = made.deliveries.filter(state="queued", next_attempt_at__lte=timezone.now()).select_related("rule")
    return [sending.send(one) for one in due.order_by("created_at") if sending.claim(one, timezone.now())]


def verify(secret: str, headers: dict[str, str], body: bytes, now: float) -> None:
    """The example of docs/alerts.md: it uses nothing of the hub."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    signatures = [one.partition(",")[2] for one in headers["webhook-signature"].split()]
    assert any(hmac.compare_digest(expected, one) for one in signatures)
    assert abs(now - int(headers["webhook-timestamp"])) < 300


def test_a_webhook_says_what_happened_and_its_signature_can_be_verified(receiver: Receiver, settings: Any) -> None:
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org"
    made = rule(receiver)
    waiting = approval()
    alert(Event.APPROVAL_REQUESTED, **waiting.about)
    assert [outcome.status for outcome in sent(made)] == [200]
    (request,) = receiver.seen
    verify(SECRET, request.headers, request.body, time.time())
    assert request.path == "/hooks/T0/B0/x"
    document = request.json
    assert (document["type"], document["id"], document["hub"]) == ("alert", request.id, "hub.example.org")
    (item,) = document["alerts"]
    assert item["event"] == "approval.requested"
    assert item["text"].startswith("agent wants to call echo. The call waits until ")
    assert item["link"] == f"https://hub.example.org/admin/tools_app/approval/{waiting.pk}/change/"
    assert "arguments" not in item
    with pytest.raises(AssertionError):
        verify(SECRET, request.headers, request.body + b" ", time.time())
    with pytest.raises(AssertionError):
        verify(SECRET, request.headers, request.body, time.time() + 600)


def test_arguments_are_sent_only_if_the_rule_says_so_and_secrets_are_masked(receiver: Receiver) -> None:
    made = rule(receiver, payloads=True)
    waiting = approval(gives={"message": "hi", "password": "hunter2hunter2"})
    alert(Event.APPROVAL_REQUESTED, **waiting.about)
    sent(made)
    (item,) = receiver.seen[0].json["alerts"]
    assert item["arguments"]["message"] == "hi"
    assert b"hunter2" not in receiver.seen[0].body


def test_slack_gets_its_form_and_no_name_can_notify_a_whole_channel(receiver: Receiver) -> None:
    made = rule(receiver, template=SLACK)
    sent(made, Event.SOURCE_FAILING, source="<!channel>", details={"why": '"}, {"x": {text}'})
    document = receiver.seen[0].json
    assert document.keys() == {"text"}
    assert "<!channel>" not in document["text"]
    assert "&lt;!channel&gt;" in document["text"]
    assert '"}, {"x": {text}' in document["text"], "values are put in once, as text"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ('{"text": "{{ settings.SECRET_KEY }}", "x": "{payload}"}', "unknown placeholder {payload}"),
        ('{"text": "{text.__class__}"}', ""),
        ('{"text": "{text!r:>{id}}"}', ""),
        ('{"text": {text}}', "is not JSON"),
        ('["{text}"]', "must be a JSON object"),
        ('{"a":' * 5_000, "at most 4,000 characters"),
        ('{"token": "ghp_' + "a1" * 18 + '"}', "contains a secret"),
    ],
)
def test_a_template_can_do_nothing_but_name_what_is_known(template: str, why: str, receiver: Receiver) -> None:
    if why:
        with pytest.raises(ValidationError, match=why):
            rule(receiver, template=template)
        return
    made = rule(receiver, template=template)
    sent(made, Event.STOP_SET)
    text = receiver.seen[0].json["text"]
    assert "class" not in text or text == "{text.__class__}", "what is no placeholder stays as it is"


def test_a_template_can_send_the_secret_of_the_rule(receiver: Receiver) -> None:
    made = rule(receiver, template='{"routing_key": "{secret}", "payload": {"summary": "{text}"}}', secret="k" * 32)
    sent(made, Event.STOP_SET)
    assert receiver.seen[0].json["routing_key"] == "k" * 32


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    with Receiver() as other:
        receiver.status, receiver.location = 307, other.url
        made = rule(receiver)
        (outcome,) = sent(made, Event.STOP_SET)
        assert other.seen == []
    assert (outcome.status, outcome.error) == (307, "HTTP 307: redirects are not followed")


def test_a_receiver_that_does_not_answer_is_given_up(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hooks.post.__kwdefaults__ or {}, "seconds", 0.5)
    receiver.open.clear()
    made = rule(receiver)
    begun = time.monotonic()
    (outcome,) = sent(made, Event.STOP_SET)
    assert outcome.error == "No answer within 0.5 seconds"
    assert time.monotonic() - begun < 5


def test_of_a_large_answer_only_the_beginning_is_read(receiver: Receiver) -> None:
    receiver.status, receiver.answer = 500, b"no " * 10_000_000
    made = rule(receiver)
    (outcome,) = sent(made, Event.STOP_SET)
    assert outcome.status == 500
    assert len(outcome.error) < 400


def test_an_answer_that_repeats_the_secret_is_masked(receiver: Receiver) -> None:
    receiver.answer = f"you sent {SECRET}".encode()
    rule(receiver)
    _, outcome = sending.send_test("on call", actor=TEST)
    assert outcome.answer == "you sent ***"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/x",
        "https://127.0.0.1/x",
        "https://10.0.0.7/x",
        "https://[::1]/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://0x7f000001/x",
        "https://2130706433/x",
        "https://localhost/x",
        "https://printer.lan/x",
        "https://169.254.169.254/latest/meta-data/",
        "https://user:password@example.org/x",
        "ftp://example.org/x",
        "https://example.org/x#y",
        "https://example.org\\@127.0.0.1/x",
    ],
)
def test_an_address_that_is_not_public_is_refused_when_it_is_entered(url: str, receiver: Receiver) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(receiver, url=url, internal=False)
    assert "password" not in str(refused.value).replace("user name or password", "")


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "http://metadata.google.internal/x"])
def test_metadata_services_are_refused_even_if_internal_addresses_are_permitted(url: str, receiver: Receiver) -> None:
    with pytest.raises(ValidationError):
        rule(receiver, url=url, internal=True)


@pytest.mark.parametrize(
    ("internal", "address"), [(False, "10.0.0.7"), (False, "127.0.0.1"), (True, "169.254.169.254")]
)
def test_a_name_is_judged_by_the_address_that_it_has_when_it_is_used(internal: bool, address: str) -> None:
    """DNS rebinding: the name was public when the rule was made."""

    async def resolver(host: str, port: int) -> list[str]:
        return [address]

    with pytest.raises(hooks.HookError, match="address of the receiver"):
        asyncio.run(hooks.post("https://hooks.example.org/x", b"{}", {}, internal=internal, resolver=resolver))


def test_a_failure_is_tried_again_later_each_time_and_then_given_up(receiver: Receiver) -> None:
    receiver.status, receiver.answer = 503, b"down"
    made = rule(receiver)
    sent(made, Event.STOP_SET)
    waits = []
    for _ in range(sending.MOST_ATTEMPTS - 1):
        delivery = made.deliveries.get()
        waits.append((delivery.next_attempt_at - timezone.now()).total_seconds())
        made.deliveries.update(next_attempt_at=timezone.now())
        sent(made)
    delivery = made.deliveries.get()
    assert (delivery.state, delivery.attempts, delivery.status) == ("failed", sending.MOST_ATTEMPTS, 503)
    assert len({request.id for request in receiver.seen}) == 1, "every attempt has the same id"
    assert waits[0] < 20
    assert all(before < after * 1.7 for before, after in itertools.pairwise(waits))
    made.refresh_from_db()
    assert made.failing_since is not None
    assert made.error == "HTTP 503: down"
    receiver.status = 200
    governance.resend_alert(delivery.pk, actor=TEST)
    sent(made)
    delivery.refresh_from_db()
    made.refresh_from_db()
    assert (delivery.state, receiver.seen[-1].id) == ("sent", delivery.pk)
    assert not made.error


def test_delays_differ_so_that_a_receiver_does_not_get_everything_at_once() -> None:
    delays = {sending.delay(5) for _ in range(50)}
    assert len(delays) > 40
    assert timedelta(seconds=180) <= min(delays) <= max(delays) <= timedelta(seconds=300)


def test_a_message_that_no_process_could_send_to_its_end_is_given_up(receiver: Receiver) -> None:
    made = rule(receiver)
    alert()
    route(timezone.now())
    delivery = made.deliveries.get()
    for _ in range(sending.MOST_ATTEMPTS):
        assert sending.claim(delivery, timezone.now())
        made.deliveries.update(next_attempt_at=timezone.now())
    assert not sending.claim(delivery, timezone.now())
    assert made.deliveries.get().state == "failed"


def test_a_test_is_marked_as_one_is_sent_once_and_is_audited(receiver: Receiver) -> None:
    receiver.status = 404
    rule(receiver, enabled=False)
    delivery, outcome = sending.send_test("on call", actor=TEST)
    assert (receiver.seen[0].json["type"], outcome.status) == ("test", 404)
    assert (delivery.state, delivery.kind, delivery.attempts) == ("failed", "test", 1)
    assert AuditEntry.objects.filter(action="alertrule.test", subject="alertrule:on call").exists()
    assert not AlertDelivery.objects.filter(state="queued").exists()


@pytest.fixture
def mail_settings(settings: Any) -> Any:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.DEFAULT_FROM_EMAIL = "hub@example.org"
    return settings


def test_an_e_mail_says_the_same_and_keeps_its_message_id(mail_settings: Any) -> None:
    with MailServer() as server:
        mail_settings.EMAIL_HOST, mail_settings.EMAIL_PORT = "127.0.0.1", server.port
        made, secret = governance.create_alert_rule(
            "mail", channel="mail", recipients=["ann@example.org", "ben@example.org"], actor=TEST
        )
        assert secret == ""
        sent(made, Event.SOURCE_FAILING, source="tracker\r\nBcc: eve@example.org", details={"why": "it refuses"})
        (mail,) = server.mails
    assert sorted(server.recipients) == ["<ann@example.org>", "<ben@example.org>"]
    assert "Bcc: eve" not in mail.partition("\n\n")[0].replace("tracker Bcc: eve", "")
    assert f"Message-ID: <{made.deliveries.get().pk}@toolhub.invalid>" in mail
    assert "Auto-Submitted: auto-generated" in mail


def test_a_mail_server_that_refuses_is_a_failure(mail_settings: Any) -> None:
    with MailServer() as server:
        server.refuses = True
        mail_settings.EMAIL_HOST, mail_settings.EMAIL_PORT = "127.0.0.1", server.port
        made, _ = governance.create_alert_rule("mail", channel="mail", recipients=["ann@example.org"], actor=TEST)
        (outcome,) = sent(made, Event.STOP_SET)
    assert "no such mailbox" in outcome.error


def test_without_a_mail_server_no_rule_sends_mail(settings: Any) -> None:
    settings.EMAIL_HOST = ""
    with pytest.raises(ValidationError, match="no mail server"):
        governance.create_alert_rule("mail", channel="mail", recipients=["ann@example.org"], actor=TEST)


def test_what_is_stored_of_a_webhook_is_encrypted_and_rotated(receiver: Receiver) -> None:
    made = rule(receiver)
    row = AlertRule.objects.get()
    assert receiver.url.encode() not in bytes(row.sealed)
    assert row.host == f"http://127.0.0.1:{receiver.port}"
    entries = json.dumps(list(AuditEntry.objects.values_list("changes", flat=True)))
    assert SECRET not in entries
    assert "hooks/T0" not in entries
    assert governance.rotate_secrets(actor=TEST).unreadable == []
    assert made.target() == {"url": receiver.url, "secret": SECRET}
