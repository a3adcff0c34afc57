"""Connections at the shell: which there are, adding one, and where a person signs in."""

from __future__ import annotations

import getpass
import sys
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.catalog import sign_ins
from tools_app.catalog.sign_ins import SignInState
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.models import Connection
from tools_app.sdk.accounts import MOST_SECRET

_FORM: Final = Connection.Form
_FORMS: Final = [form.value for form in (_FORM.HEADER, _FORM.BEARER, _FORM.BASIC, _FORM.QUERY, _FORM.ENVIRONMENT)]


class Command(HubCommand):
    help = (
        "List connections, add one to a source, or print the address at which a person signs in to one (OAuth). "
        "Prints no secrets. They are asked for at a terminal; otherwise each is a line of stdin."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", nargs="?", choices=["list", "add", "signin"], default="list")
        parser.add_argument("name", nargs="?", default="", help="of the connection, for add and signin")
        parser.add_argument("--source", default="", help="with add: the source that it is an account at")
        parser.add_argument(
            "--form",
            choices=_FORMS,
            help="with add: how the secrets are sent; the admin also has the forms of OAuth",
        )
        parser.add_argument(
            "--secret",
            action="append",
            default=[],
            dest="secrets",
            metavar="NAME",
            help="with add: a header, parameter, variable or part; repeatable",
        )
        parser.add_argument("--reason", default="", help="with add: recorded in the audit trail")

    def handle(self, *args: Any, action: str, name: str, **options: Any) -> None:
        if action == "add":
            self._add(name, **options)
            return
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

    @sensitive_variables("secret")
    def _add(
        self, name: str, *, source: str, form: str | None, secrets: list[str], reason: str, **options: Any
    ) -> None:
        if not (name and source and form and secrets):
            raise Abort("to add a connection, give its name, --source, --form and each --secret", REFUSED)
        secret = {part: _asked(part) for part in secrets}
        governance.create_connection(
            name, source, form=form, secret=secret, actor=governance.of_command(), reason=reason
        )
        self.stdout.write(f"Connection {name} is added. A key has it with toolhub addkey KEY --connection {name}.")

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


def _asked(part: str) -> str:
    """The value of a secret: typed at a terminal, or the next line of stdin."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{part}: ")
    return sys.stdin.readline(MOST_SECRET + 2).rstrip("\r\n")


def _state(state: SignInState) -> str:
    until = f" until {state.expires_at:%Y-%m-%d %H:%M} UTC" if state.expires_at is not None else ""
    return f"{state.state.replace('_', ' ')}{until if state.state == 'signed_in' else ''}"
