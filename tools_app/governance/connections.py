"""Changes of connections. A secret goes in and never comes out: the audit trail says that it was set, and no more."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import Model
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from tools_app import sources
from tools_app.base import secrets
from tools_app.catalog import connections
from tools_app.models import Approval, Connection, IdempotencyKey, StoredAnswer
from tools_app.models.audit import note
from tools_app.sdk.accounts import MOST_SECRET, OptionValue, is_sendable
from tools_app.sdk.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)
from tools_app.sdk.reach import ENVIRONMENT

# What can be decided about a connection, beside its name, its pack and its secret.
CONNECTION: Final = ("url", "read_only", "allow_http", "timeout_ms", "enabled", "options")
# What was found out about the old one says nothing about the new one.
_WHERE: Final = {"url", "allow_http", "secret"}
# Everything that is stored encrypted.
SEALED: Final[tuple[tuple[type[Model], str], ...]] = (
    (Connection, "sealed"),
    (Approval, "arguments"),
    (IdempotencyKey, "reply"),
    (StoredAnswer, "content"),
)


@sensitive_variables("secret")
def create_connection(name: str, pack: str, *, secret: str, actor: str, reason: str = "", **given: Any) -> Connection:
    """Set up an account at an upstream. Nobody may use it before they are given it.

    `given` holds the `url`, and any other of the names in `CONNECTION`.

    Raises:
        ConflictError: the name is taken.
        ValidationError: something else is wrong with it; the secret is never repeated.
    """
    connection = Connection(name=name, pack=pack)
    with transaction.atomic():
        if Connection.objects.filter(name=name).exists():
            raise ConflictError(f"A connection named {shortened(name)!r} exists already")
        changes = _decide(connection, secret, given)
        connection.save(force_insert=True)
        note("connection.create", f"connection:{name}", actor=actor, reason=reason, changes=changes)
    return connection


@sensitive_variables("secret")
def change_connection(name: str, *, actor: str, secret: str = "", reason: str = "", **given: Any) -> list[str]:
    """Change a connection; true for the very next call. An empty secret keeps the one there is. Returns what changed.

    A stored secret is sent only to the origin that it was given for: another one needs it again.

    Raises:
        NotFoundError, ValidationError
    """
    with transaction.atomic():
        connection = _connection(name)
        changes = _decide(connection, secret, given)
        if _WHERE & changes.keys():
            connection.checked_at, connection.healthy, connection.health = None, None, ""
        if changes:
            connection.save()
            note("connection.change", f"connection:{name}", actor=actor, reason=reason, changes=changes)
    return sorted(changes)


def delete_connection(name: str, *, actor: str, reason: str = "") -> list[str]:
    """Delete a connection and its secret. The keys that had it, which are returned, use no other in its place.

    Raises:
        NotFoundError
    """
    with transaction.atomic():
        connection = _connection(name)
        keys = list(connection.keys.order_by("name").values_list("name", flat=True))
        changes = {part: [getattr(connection, part), None] for part in ("pack", "url")} | {"keys": [keys, []]}
        connection.delete()
        note("connection.delete", f"connection:{name}", actor=actor, reason=reason, changes=changes)
    return keys


def note_check(name: str, pack: str, *, healthy: bool, words: str, actor: str) -> None:
    """Write down how a connection was found to be. That of the environment has only the audit trail for it."""
    subject = f"connection:{name}" if name != ENVIRONMENT else f"connection:{ENVIRONMENT}:{pack}"
    with transaction.atomic():
        note_health(name, healthy=healthy, words=words)
        note("connection.test", subject, actor=actor, changes={"healthy": [None, healthy], "found": [None, words]})


def note_health(name: str, *, healthy: bool, words: str) -> None:
    """The same where nobody asked for it: that is no change that somebody decides."""
    Connection.objects.filter(name=name).update(
        checked_at=timezone.now(), healthy=healthy, health="" if healthy else words[:500]
    )


@dataclass
class Rotation:
    """What a rotation did, and what is encrypted under a key that nobody has named."""

    rotated: int = 0
    current: int = 0
    unreadable: list[str] = field(default_factory=list)


def rotate_secrets(*, actor: str) -> Rotation:
    """Encrypt everything that is stored secretly under the first key of TOOLHUB_ENCRYPTION_KEY.

    Row by row, so that nobody waits; done again, or at the same time as somebody else, it does no harm.
    """
    done = Rotation()
    for model, column in SEALED:
        for key in list(model._default_manager.order_by("pk").values_list("pk", flat=True)):
            _rotate(model, key, column, done)
    if done.rotated:
        with transaction.atomic():
            note("secrets.rotate", "secrets", actor=actor, changes={"rotated": [None, done.rotated]})
    return done


def _rotate(model: type[Model], key: Any, column: str, done: Rotation) -> None:
    with transaction.atomic():
        row = model._default_manager.select_for_update().filter(pk=key).first()
        # Empty is a reply that was deleted to make room.
        if row is None or not (kept := getattr(row, column)):
            return
        fresh = secrets.rotated(bytes(kept))
        if fresh is None:
            done.unreadable.append(f"{model._meta.verbose_name} {row}")
        elif fresh == bytes(kept):
            done.current += 1
        else:
            setattr(row, column, fresh)
            row.save(update_fields=[column])
            done.rotated += 1


def _connection(name: str) -> Connection:
    connection = Connection.objects.select_for_update().filter(name=name).first()
    if connection is None:
        raise NotFoundError(f"There is no connection {shortened(name)!r}")
    return connection


@sensitive_variables("secret")
def check_connection(connection: Connection, *, secret: str, **given: Any) -> None:
    """See whether a connection can be made, or changed, to be so.

    Raises:
        ValidationError
    """
    _decide(copy.copy(connection), secret, given)


@sensitive_variables("secret")
def _decide(connection: Connection, secret: str, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Make a connection what was decided about it, and tell what changed.

    Raises:
        ValidationError
    """
    new = connection._state.adding
    before = {part: getattr(connection, part) for part in CONNECTION}
    for part, value in given.items():
        if part not in CONNECTION:
            raise ValidationError(f"{part!r} is no part of a connection; known are {', '.join(CONNECTION)}")
        if part == "options":
            value = _options(connection, value)
        setattr(connection, part, value.strip() if isinstance(value, str) else value)
    _check(connection, before, new=new)
    changes = {
        part: [None if new else was, getattr(connection, part)]
        for part, was in before.items()
        if (getattr(connection, part) not in (None, {}) if new else getattr(connection, part) != was)
    }
    if secret:
        connection.sealed = _sealed(secret)
        changes["secret"] = [None, "set"] if new else ["set", "changed"]
    elif new:
        raise _wrong("secret", "A connection needs a secret")
    elif _origin(connection.url) != _origin(before["url"]):
        raise _wrong("secret", "Give the secret again: it would be sent to another place than it was set for")
    return {"pack": [None, connection.pack], **changes} if new else changes


def _options(connection: Connection, given: Mapping[str, Any]) -> dict[str, OptionValue]:
    """What was decided of the options that its pack declares. None gives one its default back; others stay.

    Raises:
        ValidationError
    """
    kind = connections.kinds(sources.loaded()).get(connection.pack)
    declared = {option.name: option for option in kind.options} if kind is not None else {}
    decided = {name: value for name, value in connection.options.items() if name in declared or kind is None}
    problems = []
    for name, value in given.items():
        path = f"/options/{shortened(name)}"
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            problems.append(Problem(path, f"{shortened(name)!r} is no option of this connection; known are: {known}"))
        elif value is None:
            decided.pop(name, None)
        else:
            try:
                decided[name] = declared[name].taken(value)
            except ValueError as error:
                problems.append(Problem(path, f"Invalid value for option {name}: {error}", str(error)))
    if problems:
        raise ValidationError(problems=problems)
    return decided


def _check(connection: Connection, before: Mapping[str, Any], *, new: bool) -> None:
    """Raises: ValidationError."""
    kinds = connections.kinds(sources.loaded())
    if new and connection.name == ENVIRONMENT:
        raise _wrong("name", f"The name {ENVIRONMENT} is that of the connections from the environment")
    if new and connection.pack not in kinds:
        known = ", ".join(sorted(kinds)) or "none"
        raise _wrong("pack", f"No pack {shortened(connection.pack)!r} needs a connection; those that do: {known}")
    try:
        connection.clean_fields(exclude={"sealed"})
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error
    kind = kinds.get(connection.pack)
    # One that is broken already can still be switched off.
    if kind is not None and (new or any(getattr(connection, part) != before[part] for part in ("url", "allow_http"))):
        try:
            connections.base(kind, connection.url, allow_http=connection.allow_http)
        except ConfigurationError as error:
            raise ValidationError(problems=[Problem("/url", error.message)], next_step=error.next_step) from error


@sensitive_variables("secret")
def _sealed(secret: str) -> bytes:
    if not is_sendable(secret):
        raise _wrong("secret", f"The secret must be 1 to {MOST_SECRET:,} printable ASCII characters")
    return secrets.encrypted(secret.encode())


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url.strip().lower())
    except ValueError:
        return "", url
    return parts.scheme, parts.netloc


def _wrong(part: str, message: str) -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)])
