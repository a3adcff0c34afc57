"""List alerts and alert rules, send a test, or send alerts without a server."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.utils.timezone import localtime

from tools_app import governance
from tools_app.alerts import sending, words
from tools_app.alerts.sender import Sender
from tools_app.management.hub_command import HubCommand
from tools_app.management.tables import aligned
from tools_app.models import Alert, AlertRule

MOST_SHOWN: Final = 50


class Command(HubCommand):
    help = "List alerts or alert rules, or send a test. The admin and REST create rules."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = "List open alerts, newest first."
        alerts = verbs.add_parser("list", help=listing, description=listing)
        alerts.add_argument("--all", action="store_true", dest="acknowledged", help="also acknowledged ones")
        rules = "List the alert rules, and whether they can send."
        verbs.add_parser("rules", help=rules, description=rules)
        testing = "Send a message of a rule that says that it is a test, and show the answer."
        test = verbs.add_parser("test", help=testing, description=testing)
        test.add_argument("name", help="name of the rule")
        sending = "Send alerts until interrupted, for projects that serve the hub themselves. `toolhub serve` does it."
        verbs.add_parser("send", help=sending, description=sending)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "list":
                self._list(**options)
            case "rules":
                self._list_rules()
            case "send":
                self._send()
            case _:
                self._test(options["name"])

    def _list(self, *, acknowledged: bool, **_: Any) -> None:
        rows = Alert.objects.all() if acknowledged else Alert.objects.filter(acknowledged_at=None)
        alerts = list(rows[: MOST_SHOWN + 1])
        for alert in alerts[:MOST_SHOWN]:
            time = f"{localtime(alert.at):%Y-%m-%d %H:%M:%S}"
            self.stdout.write(f"{time}  {alert.severity:<7}  {alert.event:<20}  {words.sentence(alert)}")
        if len(alerts) > MOST_SHOWN:
            self.stdout.write(f"… and older ones; the admin lists all: {words.list_page()}")
        if not alerts:
            self.stdout.write("There are no open alerts." if not acknowledged else "There are no alerts.")

    def _list_rules(self) -> None:
        rows = [("NAME", "STATE", "RECEIVER", "EVENTS")]
        for rule in AlertRule.objects.all():
            state = "off" if not rule.enabled else "failing" if rule.failing_since else "on"
            receiver = rule.host or ",".join(rule.recipients)
            rows.append((rule.name, state, receiver, " ".join(rule.events) or "all"))
        for line in aligned(rows):
            self.stdout.write(line)
        for rule in AlertRule.objects.filter(enabled=True, failing_since__isnull=False):
            self.stdout.write(f"{rule.name}: {rule.error}")

    def _send(self) -> None:
        sender = Sender(first_seconds=0)
        sender.start()
        self.stdout.write("Alerts are sent by this process while no other one does. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
        sender.stop()

    def _test(self, name: str) -> None:
        delivery, outcome = sending.send_test(name, actor=governance.of_command())
        if outcome.error:
            raise CommandError(f"The test failed: {outcome.error}")
        answer = " ".join(str(part) for part in (outcome.status, outcome.answer) if part)
        self.stdout.write(f"The test {delivery.pk} was sent{f'; answer: {answer}' if answer else ''}.")
