"""Connections at the shell: which there are, and where a person signs in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.urls import reverse

from tools_app import governance
from tools_app.catalog import sign_ins
from tools_app.catalog.sign_ins import SignInState
from tools_app.management.hub_command import HubCommand
from tools_app.models import Connection


class Command(HubCommand):
    help = "List connections, or print the address at which a person signs in to one (OAuth). Prints no secrets."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", nargs="?", choices=["list", "signin"], default="list")
        parser.add_argument("name", nargs="?", default="", help="of the connection, for signin")

    def handle(self, *args: Any, action: str, name: str, **options: Any) -> None:
        if action == "signin":
            self._print_page(name)
            return
        for connection in Connection.objects.prefetch_related("tokens").order_by("name"):
            words = [f"{connection.name}: {connection.pack}", connection.form or "pack"]
            state = sign_ins.state_of(connection)
            words += [_state(state)] if state is not None else []
            self.stdout.write(", ".join([*words, *([] if connection.enabled else ["disabled"])]))
        if not Connection.objects.exists():
            self.stdout.write("There are no stored connections.")

    def _print_page(self, name: str) -> None:
        connection = Connection.objects.filter(name=name).first() if "\0" not in name else None
        if connection is None:
            raise CommandError(f"there is no connection {name!r}")
        if connection.form != Connection.Form.OAUTH:
            raise CommandError(f"{name} has no sign-in: only connections of the form oauth have one")
        # The sign-in itself begins in the browser, whose session its end must come back to.
        path = reverse("admin:tools_app_connection_change", args=[connection.pk])
        base = governance.public_url()
        self.stdout.write(f"{base}{path}" if base else f"{path} (at this hub; TOOLHUB_PUBLIC_URL is not set)")


def _state(state: SignInState) -> str:
    until = f" until {state.expires_at:%Y-%m-%d %H:%M} UTC" if state.expires_at is not None else ""
    return f"{state.state.replace('_', ' ')}{until if state.state == 'signed_in' else ''}"
