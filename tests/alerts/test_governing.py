"""Who may have arguments sent, and what else a change of a rule checks; the command; the admin's badge."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command

from tests.admin.conftest import browser
from tests.alerts.conftest import TEST, alert, rule
from tests.support.receivers import Receiver
from toolhub.environment import Environment
from tools_app import governance
from tools_app.admin import alerts
from tools_app.models import AlertRule, AuditEntry
from tools_app.models.alerts import Event
from tools_app.sdk.errors import AuthorizationError, ConflictError, ToolError

pytestmark = pytest.mark.django_db


def manager(*more: str) -> governance.Actor:
    ann = User.objects.create_user("ann")
    codenames = ["add_alertrule", "change_alertrule", "view_alertrule", *more]
    ann.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return governance.of_user(User.objects.get(pk=ann.pk))


def test_arguments_are_sent_only_by_rules_of_those_who_may_read_them(receiver: Receiver) -> None:
    ann = manager()
    with pytest.raises(AuthorizationError):
        rule(receiver, payloads=True, actor=ann)
    rule(receiver, payloads=True)
    with Receiver() as other, pytest.raises(AuthorizationError):
        governance.change_alert_rule("on call", url=other.url, actor=ann)
    assert governance.change_alert_rule("on call", per_minute=3, actor=ann) == ["per_minute"]
    assert governance.change_alert_rule("on call", payloads=False, actor=ann) == ["payloads"]


def test_who_may_read_arguments_may_have_them_sent(receiver: Receiver) -> None:
    assert rule(receiver, payloads=True, actor=manager("view_payload")).payloads


def test_an_internal_receiver_needs_its_permission_also_after_it_was_permitted(receiver: Receiver) -> None:
    rule(receiver)
    with pytest.raises(ToolError, match="https"):
        governance.change_alert_rule("on call", internal=False, actor=TEST)


def test_a_name_is_given_once(receiver: Receiver) -> None:
    rule(receiver)
    with pytest.raises(ConflictError, match="exists already"):
        rule(receiver)


def test_a_rule_that_sends_mail_keeps_no_url(receiver: Receiver, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    rule(receiver)
    governance.change_alert_rule("on call", channel="mail", recipients=["ann@example.org"], actor=TEST)
    made = AlertRule.objects.get()
    assert (bytes(made.sealed), made.host, made.target()) == (b"", "", None)
    entry = AuditEntry.objects.filter(action="alertrule.change").latest("pk")
    assert entry.changes["url"] == ["set", "set"] or entry.changes["channel"] == ["webhook", "mail"]


def test_the_command_lists_tests_and_says_why_a_rule_cannot_send(receiver: Receiver) -> None:
    def said(*words: str) -> str:
        out = StringIO()
        call_command("alerts", *words, stdout=out)
        return out.getvalue()

    assert said("list") == "There are no open alerts.\n"
    alert()
    assert "stop.set" in said("list")
    rule(receiver)
    assert "answer: 200 ok" in said("test", "on call")
    receiver.status = 500
    with pytest.raises(CommandError, match="HTTP 500"):
        said("test", "on call")
    assert "on call: HTTP 500: ok" in said("rules")
    with pytest.raises(SystemExit):
        said("test", "none")


def test_the_badge_counts_what_the_user_may_know_and_acknowledge(rf: Any) -> None:
    for event in (Event.STOP_SET, Event.CONNECTION_FAILING, Event.STOP_LIFTED):
        alert(event)
    request = rf.get("/")
    numbers = {}
    for name, permissions in {
        "operator": ("view_alert", "change_alert", "view_stop"),
        "viewer": ("view_alert", "view_stop"),
        "admin": ("view_alert", "change_alert", "view_stop", "view_connection"),
    }.items():
        browser(name, *permissions)
        request.user = User.objects.get(username=name)
        numbers[name] = alerts.open_count(request)
    assert numbers == {"operator": 1, "viewer": 0, "admin": 2}


def test_a_user_sees_no_alert_about_what_they_may_not_read() -> None:
    about = alert(Event.CONNECTION_FAILING, details={"name": "desk-9", "why": "it said no"})
    client = browser("operator", "view_alert", "change_alert")
    assert "desk-9" not in client.get("/admin/tools_app/alert/?state=all").content.decode()
    assert client.get(f"/admin/tools_app/alert/{about.pk}/change/").status_code == 302
    assert client.post(f"/admin/tools_app/alert/{about.pk}/acknowledge/").status_code == 404


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "smtp+tls://hub:p%40ss@mail.example.org?from=hub@example.org",
            {"EMAIL_HOST": "mail.example.org", "EMAIL_PORT": 587, "EMAIL_HOST_PASSWORD": "p@ss", "EMAIL_USE_TLS": True},
        ),
        ("smtp://127.0.0.1:2525?from=hub@example.org", {"EMAIL_PORT": 2525, "EMAIL_USE_TLS": False}),
        ("smtp+ssl://mail.example.org?from=hub@example.org", {"EMAIL_PORT": 465, "EMAIL_USE_SSL": True}),
    ],
)
def test_a_mail_server_is_one_variable(url: str, expected: dict[str, Any]) -> None:
    env = Environment({"EMAIL_URL": url})
    value = env("EMAIL_URL")
    env.finish()
    assert value["DEFAULT_FROM_EMAIL"] == "hub@example.org"
    assert {name: value[name] for name in expected} == expected


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.org",
        "http://mail.example.org?from=hub@example.org",
        "smtp://mail.example.org",
        "smtp://hunter2:hunter2@mail.example.org?from=hub",
        "smtp://mail.example.org/x?from=hub@example.org",
        "smtp://mail.example.org?from=hub@example.org&ssl=yes",
        "smtp://mail.example.org:port?from=hub@example.org",
        "smtp://?from=hub@example.org",
    ],
)
def test_a_wrong_mail_server_stops_the_start_and_is_not_repeated(url: str) -> None:
    env = Environment({"EMAIL_URL": url})
    env("EMAIL_URL")
    (fault,) = env.faults
    assert fault.startswith("EMAIL_URL: expected smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS")
    assert "hunter2" not in fault
