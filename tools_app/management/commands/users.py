"""Users of the admin, from the shell: list, add, give a role, end access."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from tools_app import governance
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.management.tables import aligned
from tools_app.models import PasswordLink


class Command(HubCommand):
    help = (
        "Users of the admin: list and add them, give roles, make links to choose a password, end access and sessions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        roles = [role or "none" for role in governance.ALL_ROLES]

        def verb(name: str, words: str, *, of_user: bool = True) -> CommandParser:
            made: CommandParser = verbs.add_parser(name, help=words, description=words)
            if of_user:
                made.add_argument("name", help="the name with which the user signs in")
                made.add_argument("--reason", default="", help="recorded in the audit trail")
            return made

        listing = verb("list", "List the users with role, state and last sign-in.", of_user=False)
        listing.add_argument("--json", action="store_true", dest="as_json", help="as JSON")
        add = verb("add", "Add a user, and print a link with which they choose a password, alone on the last line.")
        add.add_argument("--role", choices=roles, required=True, help="what the user can do")
        add.add_argument("--email", default="", help="shown to administrators; the hub sends no mail")
        role = verb("role", "Give a user a role, in place of all permissions they have in this hub.")
        role.add_argument("role", choices=roles)
        verb(
            "link", "Make a link to choose a password, which replaces the previous one. Printed alone on the last line."
        )
        disable = verb("disable", "Deactivate a user: sessions end, and keys are stopped or revoked.")
        disable.add_argument(
            "--keys", choices=[governance.STOP_KEYS, governance.REVOKE_KEYS], default=governance.STOP_KEYS
        )
        verb("enable", "Reactivate a user. Stopped keys stay stopped.")
        verb("unlock", "End a lock after wrong passwords.")
        sessions = verb("sessions", "List the open sessions of a user.")
        sessions.add_argument("--end", action="store_true", help="end all of them")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        getattr(self, f"_{verb}")(**options)

    def _list(self, *, as_json: bool, **_: Any) -> None:
        users = list(get_user_model()._default_manager.order_by(get_user_model().USERNAME_FIELD))
        roles, locked = governance.roles_of(users), governance.locked_names()
        items = [
            {
                "name": user.get_username(),
                "role": roles[user.pk] or None,
                "state": _state(user, locked),
                "lastSignIn": user.last_login.isoformat() if user.last_login else None,
            }
            for user in users
        ]
        if as_json:
            self.stdout.write(json.dumps(items, indent=2))
            return
        rows: list[tuple[str, ...]] = [("NAME", "ROLE", "STATE", "LAST SIGN-IN")]
        rows += [tuple(str(value or "-") for value in item.values()) for item in items]
        for line in aligned(rows):
            self.stdout.write(line)

    def _add(self, *, name: str, role: str, email: str, reason: str, **_: Any) -> None:
        by = governance.of_command()
        user = governance.add_user(name, role=_role(role), email=email, actor=by, reason=reason)
        if _role(role):
            self._print_link(user, reason)
        else:
            self.stdout.write(f"{name} is added, without access.")

    def _role(self, *, name: str, role: str, reason: str, **_: Any) -> None:
        changed = governance.set_role(_user(name), _role(role), actor=governance.of_command(), reason=reason)
        self.stdout.write(f"{name} {'now has' if changed else 'already had'} the role {role}.")

    def _link(self, *, name: str, reason: str, **_: Any) -> None:
        self._print_link(_user(name), reason)

    def _print_link(self, user: Any, reason: str) -> None:
        try:
            path = reverse("admin:auth_user_choose_password")
        except NoReverseMatch:
            raise Abort("this project has no page of the hub on which users choose a password", REFUSED) from None
        code = governance.make_link(user, actor=governance.of_command(), reason=reason)
        public = governance.public_url()
        self.tell("Send this link to that person only. It works once.")
        if not public:
            self.tell("TOOLHUB_PUBLIC_URL is not set: put the address of this hub before it.")
        self.stdout.write(f"{public}{path}#{code}")

    def _disable(self, *, name: str, keys: str, reason: str, **_: Any) -> None:
        user = _user(name)
        names = [key.name for key in governance.belongings(user).keys]
        if not governance.deactivate_user(user, keys=keys, actor=governance.of_command(), reason=reason):
            self.stdout.write(f"{name} was deactivated already.")
            return
        done = {governance.STOP_KEYS: "stopped", governance.REVOKE_KEYS: "revoked"}[keys]
        self.stdout.write(f"{name} is deactivated." + (f" Keys {done}: {', '.join(names)}." if names else ""))

    def _enable(self, *, name: str, reason: str, **_: Any) -> None:
        changed = governance.reactivate_user(_user(name), actor=governance.of_command(), reason=reason)
        self.stdout.write(f"{name} is active{'' if changed else ' already'}.")

    def _unlock(self, *, name: str, reason: str, **_: Any) -> None:
        changed = governance.unlock_user(_user(name), actor=governance.of_command(), reason=reason)
        self.stdout.write(f"{name} {'can sign in again' if changed else 'was not locked'}.")

    def _sessions(self, *, name: str, end: bool, reason: str, **_: Any) -> None:
        open_sessions = list(governance.open_sessions().filter(user=_user(name)).select_related("user"))
        if end:
            number = governance.end_sessions(open_sessions, actor=governance.of_command(), reason=reason)
            self.stdout.write(f"Sessions of {name} that have ended: {number}.")
            return
        rows: list[tuple[str, ...]] = [("SIGNED IN", "LAST SEEN", "ADDRESS", "BROWSER")]
        for one in open_sessions:
            times = (f"{at:%Y-%m-%d %H:%M}Z" for at in (one.started_at, one.seen_at))
            rows.append((*times, one.address or "-", one.client or "-"))
        for line in aligned(rows):
            self.stdout.write(line)


def _role(name: str) -> str:
    return "" if name == "none" else name


def _user(name: str) -> Any:
    """Raises: Abort."""
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise Abort(f"there is no user {name!r}; `toolhub users list` lists them", REFUSED) from None


def _state(user: Any, locked: set[str]) -> str:
    if not user.is_active:
        return "deactivated"
    if user.get_username() in locked:
        return "locked out"
    if governance.has_signed_up(user):
        return "active"
    is_invited = PasswordLink.objects.filter(user=user.pk, expires_at__gt=timezone.now()).exists()
    return "invited" if is_invited else "no valid invitation"
