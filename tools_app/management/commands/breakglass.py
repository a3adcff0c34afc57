"""Print a link with which a superuser signs in once, while the sign-in service is down."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.urls import NoReverseMatch, reverse

from tools_app import governance
from tools_app.management.hub_command import REFUSED, Abort, HubCommand

LINK = "break_glass"


class Command(HubCommand):
    help = (
        "Print a link with which a local superuser can sign in to the admin once, within ten minutes, without a "
        "password: for emergencies, such as an outage of the sign-in service. It is recorded, and shown on the "
        "Overview."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="user name of the superuser")
        parser.add_argument("--reason", default="", help="recorded in the audit trail")

    def handle(self, *args: Any, name: str, reason: str, **options: Any) -> None:
        try:
            reverse(LINK, args=["token"])
        except NoReverseMatch:
            raise Abort("this project has a sign-in of its own, without emergency links", REFUSED) from None
        token = governance.open_emergency(name, actor=governance.of_command(), reason=reason)
        path, base = reverse(LINK, args=[token]), governance.public_url()
        self.stdout.write(f"{base}{path}" if base else f"{path} (at this hub; TOOLHUB_PUBLIC_URL is not set)")
        self.tell(f"Valid for ten minutes and one sign-in as {name}. Recorded in the audit trail as user.break_glass.")
