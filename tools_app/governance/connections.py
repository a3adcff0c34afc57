"""Changes of connections. Secrets are write-only: the audit trail notes that one was set, never its value."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import Model
from django.dispatch import Signal
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from tools_app.access import actions
from tools_app.base import secrets
from tools_app.catalog import accounts, catalog, forms
from tools_app.governance import connection_secrets
from tools_app.governance.actors import Actor, changing
from tools_app.governance.connection_secrets import Secret, wrong
from tools_app.governance.managed import Kind, forget, refuse_managed
from tools_app.governance.tokens import withdraw
from tools_app.journal import trail
from tools_app.models import (
    AlertRule,
    Approval,
    AuditKey,
    Connection,
    IdempotencyKey,
    SignIn,
    Source,
    StandingApproval,
    StoredAnswer,
    UpstreamToken,
)
from tools_app.models.alerts import Event, close_alerts, note_alert
from tools_app.sdk.accounts import OptionValue
from tools_app.sdk.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)
from tools_app.sdk.reach import ENVIRONMENT

Form = Connection.Form
# The parts of a connection that can be changed, beside its name, pack and secret.
CONNECTION: Final = ("form", "url", "read_only", "allow_http", "timeout_ms", "enabled", "options")
# Those that are about requests of packs: a source outside has its own address and limits.
_OF_PACKS: Final = ("url", "allow_http", "timeout_ms", "options")
# A change of these deletes tokens.
_ENDS_SIGN_IN: Final = {"form", "options", "secret"}
# The note of a new secret of the same client.
_ROTATED: Final = ["set", f"set: {forms.CLIENT_SECRET}"]
# A change of these invalidates the result of the last check.
_WHERE: Final = {"form", "url", "allow_http", "secret"}
# All encrypted columns.
SEALED: Final[tuple[tuple[type[Model], str], ...]] = (
    (Connection, "sealed"),
    (AuditKey, "sealed"),
    (UpstreamToken, "sealed"),
    (SignIn, "sealed"),
    (Approval, "arguments"),
    (StandingApproval, "constraint"),
    (IdempotencyKey, "reply"),
    (StoredAnswer, "content"),
    (AlertRule, "sealed"),
)


@sensitive_variables("secret")
def create_connection(
    name: str, pack: str, *, secret: Secret, actor: Actor, reason: str = "", **parts: Any
) -> Connection:
    """Create an account at an upstream. No key may use it until it is assigned to one.

    `parts` holds the `url`, for a source outside the `form` instead, and any other of the names in `CONNECTION`.

    Raises:
        ConflictError: the name exists already.
        ValidationError: anything else is invalid; the secret is never quoted.
    """
    connection = Connection(name=name, pack=pack)
    with changing(actions.CONNECTION_CREATE, actor, reason) as change:
        if Connection.objects.filter(name=name).exists():
            raise ConflictError(f"A connection named {shortened(name)!r} exists already")
        changes = _decide(connection, secret, parts)
        connection.save(force_insert=True)
        change.note(f"connection:{name}", changes)
    return connection


@sensitive_variables("secret")
def change_connection(name: str, *, actor: Actor, secret: Secret = "", reason: str = "", **parts: Any) -> list[str]:
    """Change a connection, effective from the next call on. An empty secret keeps the stored one. Returns the changes.

    Of several values, those that are not named are kept. A stored secret is sent only to the origin that it was set
    for: another origin needs it again.

    Raises:
        NotFoundError, ValidationError
    """
    with changing(actions.CONNECTION_CHANGE, actor, reason) as change:
        connection = _connection(name)
        changes = _decide(connection, secret, parts)
        if changes:
            refuse_managed(Kind.CONNECTION, [name], changes)
        if _WHERE & changes.keys():
            connection.checked_at, connection.healthy, connection.health = None, None, ""
        if changes.get("secret") == _ROTATED and len(changes) == 1:
            connection.tokens.update(retry_at=None, failures=0)
        elif _ENDS_SIGN_IN & changes.keys():
            # Tokens belong to a client, and to what it asked for.
            withdraw(connection)
        if changes:
            connection.save()
            change.note(f"connection:{name}", changes)
    return sorted(changes)


def delete_connection(name: str, *, actor: Actor, reason: str = "") -> list[str]:
    """Delete a connection and its secret. Returns the keys that had it; they do not fall back to another connection.

    Raises:
        NotFoundError
        ConflictError: a source is described through it.
    """
    with changing(actions.CONNECTION_DELETE, actor, reason) as change:
        connection = _connection(name)
        refuse_managed(Kind.CONNECTION, [name])
        keys = list(connection.keys.order_by("name").values_list("name", flat=True))
        if described := connection.sources.filter(removed_at=None).order_by("name").first():
            raise ConflictError(
                f"The source {described.name} is described through the connection {name}",
                next_step="Choose another connection for the source, or none, before you delete this one.",
            )
        # A removed source keeps its row.
        connection.sources.update(connection=None)
        changes = {part: [getattr(connection, part), None] for part in ("pack", "url")} | {"keys": [keys, []]}
        withdraw(connection)
        connection.delete()
        forget(Kind.CONNECTION, name)
        change.note(f"connection:{name}", changes)
    return keys


def unbind(source_name: str) -> list[str]:
    """Delete the secrets of all connections of a source outside, since it is another one now: another address, or
    another command. Returns the names of the connections, for the audit entry of the change that causes it.

    They stay, and cannot be used until their secrets are set again. Call it in the transaction of that change.
    """
    with transaction.atomic():
        rows = Connection.objects.select_for_update().filter(pack=source_name).exclude(form=Form.PACK)
        for connection in rows:
            withdraw(connection)
        bound = [connection for connection in rows if connection.sealed]
        for connection in bound:
            connection.sealed, connection.references = b"", []
            connection.checked_at, connection.healthy, connection.health = None, None, ""
            connection.save()
    return [connection.name for connection in bound]


def note_check(name: str, pack: str, *, healthy: bool, words: str, actor: Actor) -> None:
    """Record the result of a check. For the connection of the environment, only the audit trail does."""
    subject = f"connection:{name}" if name != ENVIRONMENT else f"connection:{ENVIRONMENT}:{pack}"
    with changing(actions.CONNECTION_TEST, actor) as change:
        note_health(name, healthy=healthy, words=words)
        change.note(subject, {"healthy": [None, healthy], "found": [None, words]})


def note_health(name: str, *, healthy: bool, words: str) -> None:
    """Record the result of an automatic check: no audit entry, since no operator caused it."""
    now = timezone.now()
    with transaction.atomic():
        connection = Connection.objects.select_for_update().filter(name=name).first()
        if connection is None:
            return
        was, connection.healthy, connection.checked_at = connection.healthy, healthy, now
        connection.health = "" if healthy else words[:500]
        connection.save(update_fields=["checked_at", "healthy", "health"])
        if was is not healthy and (was is False or not healthy):
            if healthy:
                close_alerts(f"connection:{connection.pk}", "recovered", now)
            event = Event.CONNECTION_RECOVERED if healthy else Event.CONNECTION_FAILING
            cause, subject = f"{connection.pk}:{now.isoformat()}", f"connection:{connection.pk}"
            values = {"name": name, "why": connection.health}
            note_alert(event, cause, now, subject=subject, source=connection.pack, details=values)


@dataclass
class SecretRotation:
    """What a rotation did, and what is encrypted under an unknown key."""

    rotated: int = 0
    current: int = 0
    unreadable: list[str] = field(default_factory=list)


# For what a project stores encrypted in tables of its own: receivers count in `rotation` what they did.
rotating: Final = Signal()


def rotate_secrets(*, actor: Actor) -> SecretRotation:
    """Re-encrypt everything stored under the first key of TOOLHUB_ENCRYPTION_KEY.

    Row by row, so that no lock is held for long. Idempotent, also when run concurrently.
    """
    actor.require(actions.SECRETS_ROTATE)
    rotation = SecretRotation()
    for model, column in SEALED:
        for key in list(model._default_manager.order_by("pk").values_list("pk", flat=True)):
            _rotate(model, key, column, rotation)
    rotating.send(sender=SecretRotation, rotation=rotation)
    if rotation.rotated:
        with changing(actions.SECRETS_ROTATE, actor) as change:
            change.note("secrets", {"rotated": [None, rotation.rotated]})
            trail.renew()
    return rotation


def _rotate(model: type[Model], key: Any, column: str, rotation: SecretRotation) -> None:
    with transaction.atomic():
        row = model._default_manager.select_for_update().filter(pk=key).first()
        # An empty reply was deleted to make room.
        if row is None or not (sealed_value := getattr(row, column)):
            return
        fresh = secrets.rotated(bytes(sealed_value))
        if fresh is None:
            rotation.unreadable.append(f"{model._meta.verbose_name} {row}")
        elif fresh == bytes(sealed_value):
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
def check_connection(connection: Connection, *, secret: Secret, **parts: Any) -> None:
    """Validate a connection, or a change of it, without saving.

    Raises:
        ValidationError
    """
    _decide(copy.copy(connection), secret, parts)


@sensitive_variables("secret")
def _decide(connection: Connection, secret: Secret, parts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Apply changes to a connection, and return them.

    Raises:
        ValidationError
    """
    new = connection._state.adding
    before = {part: copy.copy(getattr(connection, part)) for part in (*CONNECTION, "names", "references")}
    source = Source.objects.filter(name=connection.pack, kind__in=Source.OUTSIDE, removed_at=None).first()
    is_outside = source is not None or bool(connection.form)
    _set_parts(connection, parts, is_outside=is_outside)
    if is_outside:
        _check_columns(connection)
        # Of a removed source, nothing but the switches can be changed.
        note = connection_secrets.seal_values(connection, source, secret, before)
    else:
        _check(connection, before, new=new)
        note = connection_secrets.seal_text(connection, secret, before["url"])
    changes = {
        part: [None if new else was, getattr(connection, part)]
        for part, was in before.items()
        if (getattr(connection, part) not in (None, {}, [], "") if new else getattr(connection, part) != was)
    }
    if note:
        changes["secret"] = [None if new else "set", note]
    return {"pack": [None, connection.pack], **changes} if new else changes


def _set_parts(connection: Connection, parts: Mapping[str, Any], *, is_outside: bool) -> None:
    """Raises: ValidationError."""
    # The form first, which decides about the options.
    for part, value in sorted(parts.items(), key=lambda pair: pair[0] != "form"):
        if part not in CONNECTION:
            raise ValidationError(f"{part!r} is no part of a connection; known are {', '.join(CONNECTION)}")
        if is_outside and part in _OF_PACKS:
            if part == "options" and connection.form in Connection.OAUTH:
                connection.options = _oauth_options(connection, value)
            elif value:
                raise wrong(part, f"A connection of a source outside the hub has no {part}: set it at the source")
            continue
        if part == "form" and value != connection.form and is_outside:
            connection.options = {}
        if part == "options":
            value = _options(connection, value)
        setattr(connection, part, value.strip() if isinstance(value, str) else value)


def _oauth_options(connection: Connection, changes: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The options as changed. None and an empty text reset one.

    Raises:
        ValidationError
    """
    form = Form(connection.form)
    problems = [
        Problem(f"/options/{shortened(name)}", f"{shortened(name)}: {fault}", fault)
        for name, value in changes.items()
        if value not in (None, "") and (fault := forms.fault_of_option(form, name, value))
    ]
    if problems:
        raise ValidationError(problems=problems)
    new_options = {**connection.options, **changes}
    return {name: value for name, value in new_options.items() if value not in (None, "", False)}


def _options(connection: Connection, changes: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The options as changed, among those that the pack declares. None resets an option to its default.

    Raises:
        ValidationError
    """
    kind = catalog.current().connection_kinds.get(connection.pack)
    options_by_name = {option.name: option for option in kind.options} if kind is not None else {}
    new_options = {name: value for name, value in connection.options.items() if name in options_by_name or kind is None}
    problems = []
    for name, value in changes.items():
        path = f"/options/{shortened(name)}"
        if name not in options_by_name:
            names = ", ".join(sorted(options_by_name)) or "none"
            problems.append(Problem(path, f"{shortened(name)!r} is no option of this connection; known are: {names}"))
        elif value is None:
            new_options.pop(name, None)
        else:
            try:
                new_options[name] = options_by_name[name].taken(value)
            except ValueError as error:
                problems.append(Problem(path, f"Invalid value for option {name}: {error}", str(error)))
    if problems:
        raise ValidationError(problems=problems)
    return new_options


def _check(connection: Connection, before: Mapping[str, Any], *, new: bool) -> None:
    """The connection of a pack.

    Raises:
        ValidationError
    """
    kinds = catalog.current().connection_kinds
    packs = sorted(pack for pack, kind in kinds.items() if not kind.optional)
    if new and connection.pack not in packs:
        known_packs = ", ".join(packs) or "none"
        raise wrong("pack", f"No pack {shortened(connection.pack)!r} needs a connection; known are: {known_packs}")
    if connection.form != before["form"]:
        raise wrong("form", "The pack decides how the secret is sent")
    _check_columns(connection)
    if not connection.url and not connection.form:
        raise wrong("url", "url: This field cannot be blank.")
    kind = kinds.get(connection.pack)
    # A connection that is broken already can still be switched off.
    if kind is not None and (new or any(getattr(connection, part) != before[part] for part in ("url", "allow_http"))):
        try:
            accounts.base(kind, connection.url, allow_http=connection.allow_http)
        except ConfigurationError as error:
            raise ValidationError(problems=[Problem("/url", error.message)], next_step=error.next_step) from error


def _check_columns(connection: Connection) -> None:
    """Raises: ValidationError."""
    if connection._state.adding and connection.name == ENVIRONMENT:
        raise wrong("name", f"The name {ENVIRONMENT} is reserved for connections from the environment")
    try:
        connection.clean_fields(exclude={"sealed"})
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error
