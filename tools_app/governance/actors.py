"""Who makes a change. Permission, transaction and audit entry are one step: no door can leave one of them out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from tools_app.access import access, actions, limits
from tools_app.access.actions import Action, User
from tools_app.models import ApiKey
from tools_app.models.approvals import MOST_REASON
from tools_app.models.audit import note_all
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError, Problem, RateLimitError, ValidationError


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller, a user of the admin, or a command."""

    # In the audit trail.
    name: str
    # Whose rights apply. None: a command or the hub itself, which may do everything.
    principal: Caller | User | None
    # Whether the user has entered the password again, for this change.
    is_confirmed: bool = False

    @property
    def caller(self) -> Caller | None:
        return self.principal if isinstance(self.principal, Caller) else None

    def require(self, action: Action, subject: str = "") -> None:
        """Raises: AuthorizationError."""
        if self.principal is not None:
            action.require(self.principal, subject)


def of_caller(caller: Caller) -> Actor:
    return Actor(str(caller), caller)


def of_user(user: Any) -> Actor:
    return Actor(f"user:{user.get_username()}", user)


@sensitive_variables("password")
def confirmed(user: Any, password: str) -> Actor:
    """A user who enters the password again: what a stolen session must not be able to do needs that.

    Raises:
        AuthorizationError: the password is wrong; the audit trail notes it.
        RateLimitError: too many attempts.
    """
    actor = of_user(user)
    # The number, not the address: a session can be used from many.
    status = limits.count_sign_in(f"user:{user.pk}")
    if status is not None and status.wait:
        raise RateLimitError("Too many attempts to enter the password", retry_after=status.wait)
    if not user.check_password(password):
        with transaction.atomic():
            note_all([(actions.USER_MISTYPE.event, actor.name, {})], actor=actor.name)
        raise AuthorizationError("The password is wrong", next_step="Enter the password with which you sign in.")
    return replace(actor, is_confirmed=True)


def trusted(name: str) -> Actor:
    """Code of this machine, which needs no permission."""
    return Actor(name, None)


def of_command() -> Actor:
    """The person at the shell."""
    return trusted(f"command:{access.account_of_process() or 'unknown'}")


@dataclass(frozen=True, slots=True)
class Change:
    """The audit entries of one change."""

    action: Action
    entries: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def note(self, subject: str, changes: dict[str, Any], action: Action | None = None) -> None:
        """Record what was changed; `action` if it is another one than that of the whole change."""
        self.entries.append(((action or self.action).event, subject, changes))


def id_of(actor: Actor) -> str:
    """What tells an actor from all others. Of tokens that is not the name, which their issuer chooses."""
    caller = actor.caller
    return (caller.id if caller is not None and caller.kind == "token" else actor.name)[:150]


def person_of(name: str) -> str:
    """The user behind the name of an actor or caller, as `user:name`: of a key its owner. Empty: not known."""
    kind, _, name_of_key = name.partition(":")
    if kind != "key":
        return name if kind == "user" else ""
    key = ApiKey.objects.filter(name=name_of_key).select_related("owner").first()
    return f"user:{key.owner.get_username()}" if key is not None and key.owner is not None else ""


def is_same_person(actor: Actor, name: str) -> bool:
    """With the two-person rule, people do not approve with one of their keys what they requested with another."""
    person = person_of(actor.name)
    return bool(person) and person == person_of(name)


def clean_reason(reason: str) -> str:
    """Raises: ValidationError."""
    reason = reason.strip()
    if len(reason) > MOST_REASON:
        raise ValidationError(problems=[Problem("/reason", f"A reason has at most {MOST_REASON} characters")])
    return reason


@contextmanager
def changing(action: Action, actor: Actor, reason: str = "") -> Iterator[Change]:
    """One transaction of an actor who may do this; its audit entries are written at its end.

    Raises:
        AuthorizationError: the actor may not.
    """
    actor.require(action)
    with transaction.atomic():
        change = Change(action)
        yield change
        note_all(change.entries, actor=actor.name, reason=reason)
