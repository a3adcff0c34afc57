"""Changes of connections. Secrets are write-only: the audit trail notes that one was set, never its value."""

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

# The parts of a connection that can be changed, beside its name, pack and secret.
CONNECTION: Final = ("url", "read_only", "allow_http", "timeout_ms", "enabled", "options")
# A change of these invalidates the result of the last check.
_WHERE: Final = {"url", "allow_http", "secret"}
# All encrypted columns.
SEALED: Final[tuple[tuple[type[Model], str], ...]] = (
    (Connection, "sealed"),
    (Approval, "arguments"),
    (IdempotencyKey, "reply"),
    (StoredAnswer, "content"),
)


@sensitive_variables("secret")
def create_connection(name: str, pack: str, *, secret: str, actor: str, reason: str = "", **parts: Any) -> Connection:
    """Create an account at an upstream. No key may use it until it is assigned to one.

    `parts` holds the `url`, and any other of the names in `CONNECTION`.

    Raises:
        ConflictError: the name exists already.
        ValidationError: anything else is invalid; the secret is never quoted.
    """
    connection = Connection(name=name, pack=pack)
    with transaction.atomic():
        if Connection.objects.filter(name=name).exists():
            raise ConflictError(f"A connection named {shortened(name)!r} exists already")
        changes = _decide(connection, secret, parts)
        connection.save(force_insert=True)
        note("connection.create", f"connection:{name}", actor=actor, reason=reason, changes=changes)
    return connection


@sensitive_variables("secret")
def change_connection(name: str, *, actor: str, secret: str = "", reason: str = "", **parts: Any) -> list[str]:
    """Change a connection, effective from the next call on. An empty secret keeps the stored one. Returns the changes.

    A stored secret is sent only to the origin that it was set for: another origin needs it again.

    Raises:
        NotFoundError, ValidationError
    """
    with transaction.atomic():
        connection = _connection(name)
        changes = _decide(connection, secret, parts)
        if _WHERE & changes.keys():
            connection.checked_at, connection.healthy, connection.health = None, None, ""
        if changes:
            connection.save()
            note("connection.change", f"connection:{name}", actor=actor, reason=reason, changes=changes)
    return sorted(changes)


def delete_connection(name: str, *, actor: str, reason: str = "") -> list[str]:
    """Delete a connection and its secret. Returns the keys that had it; they do not fall back to another connection.

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
    """Record the result of a check. For the connection of the environment, only the audit trail does."""
    subject = f"connection:{name}" if name != ENVIRONMENT else f"connection:{ENVIRONMENT}:{pack}"
    with transaction.atomic():
        note_health(name, healthy=healthy, words=words)
        note("connection.test", subject, actor=actor, changes={"healthy": [None, healthy], "found": [None, words]})


def note_health(name: str, *, healthy: bool, words: str) -> None:
    """Record the result of an automatic check: no audit entry, since no operator caused it."""
    Connection.objects.filter(name=name).update(
        checked_at=timezone.now(), healthy=healthy, health="" if healthy else words[:500]
    )


@dataclass
class Rotation:
    """What a rotation did, and what is encrypted under an unknown key."""

    rotated: int = 0
    current: int = 0
    unreadable: list[str] = field(default_factory=list)


def rotate_secrets(*, actor: str) -> Rotation:
    """Re-encrypt everything stored under the first key of TOOLHUB_ENCRYPTION_KEY.

    Row by row, so that no lock is held for long. Idempotent, also when run concurrently.
    """
    rotation = Rotation()
    for model, column in SEALED:
        for key in list(model._default_manager.order_by("pk").values_list("pk", flat=True)):
            _rotate(model, key, column, rotation)
    if rotation.rotated:
        with transaction.atomic():
            note("secrets.rotate", "secrets", actor=actor, changes={"rotated": [None, rotation.rotated]})
    return rotation


def _rotate(model: type[Model], key: Any, column: str, rotation: Rotation) -> None:
    with transaction.atomic():
        row = model._default_manager.select_for_update().filter(pk=key).first()
        # An empty reply was deleted to make room.
        if row is None or not (encrypted := getattr(row, column)):
            return
        fresh = secrets.rotated(bytes(encrypted))
        if fresh is None:
            rotation.unreadable.append(f"{model._meta.verbose_name} {row}")
        elif fresh == bytes(encrypted):
            rotation.current += 1
        else:
            setattr(row, column, fresh)
            row.save(update_fields=[column])
            rotation.rotated += 1


def _connection(name: str) -> Connection:
    connection = Connection.objects.select_for_update().filter(name=name).first()
    if connection is None:
        raise NotFoundError(f"There is no connection {shortened(name)!r}")
    return connection


@sensitive_variables("secret")
def check_connection(connection: Connection, *, secret: str, **parts: Any) -> None:
    """Validate a connection, or a change of it, without saving.

    Raises:
        ValidationError
    """
    _decide(copy.copy(connection), secret, parts)


@sensitive_variables("secret")
def _decide(connection: Connection, secret: str, parts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Apply changes to a connection, and return them.

    Raises:
        ValidationError
    """
    new = connection._state.adding
    before = {part: getattr(connection, part) for part in CONNECTION}
    for part, value in parts.items():
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
        connection.sealed = _encrypt(secret)
        changes["secret"] = [None, "set"] if new else ["set", "changed"]
    elif new:
        raise _wrong("secret", "A connection needs a secret")
    elif _origin(connection.url) != _origin(before["url"]):
        raise _wrong("secret", "Give the secret again: it was set for another address")
    return {"pack": [None, connection.pack], **changes} if new else changes


def _options(connection: Connection, changes: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The options as changed, among those that the pack declares. None resets an option to its default.

    Raises:
        ValidationError
    """
    kind = connections.kinds(sources.loaded()).get(connection.pack)
    declared = {option.name: option for option in kind.options} if kind is not None else {}
    decided = {name: value for name, value in connection.options.items() if name in declared or kind is None}
    problems = []
    for name, value in changes.items():
        path = f"/options/{shortened(name)}"
        if name not in declared:
            names = ", ".join(sorted(declared)) or "none"
            problems.append(Problem(path, f"{shortened(name)!r} is no option of this connection; known are: {names}"))
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
        raise _wrong("name", f"The name {ENVIRONMENT} is reserved for connections from the environment")
    if new and connection.pack not in kinds:
        known_packs = ", ".join(sorted(kinds)) or "none"
        raise _wrong("pack", f"No pack {shortened(connection.pack)!r} needs a connection; known are: {known_packs}")
    try:
        connection.clean_fields(exclude={"sealed"})
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error
    kind = kinds.get(connection.pack)
    # A connection that is broken already can still be switched off.
    if kind is not None and (new or any(getattr(connection, part) != before[part] for part in ("url", "allow_http"))):
        try:
            connections.base(kind, connection.url, allow_http=connection.allow_http)
        except ConfigurationError as error:
            raise ValidationError(problems=[Problem("/url", error.message)], next_step=error.next_step) from error


@sensitive_variables("secret")
def _encrypt(secret: str) -> bytes:
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
