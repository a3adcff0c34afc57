"""Changes of sources outside: add, change the origin, reconnect, remove, and send on what a server says to agents."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from tools_app import engine
from tools_app.access import actions
from tools_app.base import conf
from tools_app.governance import source_checks
from tools_app.governance.actors import Actor, Change, changing, id_of, is_same_person
from tools_app.governance.connections import unbind
from tools_app.governance.hints import HINTS
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.models import AnswerFinding, Approval, Connection, Source, SourceDocument, SourceStatus, ToolRecord
from tools_app.sdk.errors import AuthorizationError, ConflictError, NotFoundError, Problem, ValidationError, shortened
from tools_app.sources import outside, sync

# Kinds of sources that can be added.
KINDS: Final = Source.OUTSIDE


def add_source(
    name: str,
    *,
    kind: str,
    location: str = "",
    command: Iterable[str] = (),
    start: str = Source.Start.ON_DEMAND,
    internal: bool = False,
    per_session: bool = False,
    declares: Iterable[str] = (),
    failure_pattern: str = "",
    connection: str = "",
    document: SourceDocument | None = None,
    actor: Actor,
    reason: str = "",
) -> Source:
    """Add a source outside as a draft: it is off, and none of its tools is recorded until it was switched on.

    `location` is the URL of a server, `command` the words of a command that starts one. `command_warnings` has what
    an operator should know about a command. `import_document` reads an OpenAPI `document`.

    Raises:
        ValidationError
        ConflictError: the name is taken, or was used before.
        AuthorizationError: the actor may not add sources, or not one with a command or an internal address.
    """
    with changing(actions.SOURCE_CREATE, actor, reason) as change:
        sync.lock()
        if kind not in KINDS or (kind == Source.Kind.OPENAPI) != (document is not None):
            raise _wrong(
                "kind", f"kind must be one of {', '.join(KINDS)}, and only {Source.Kind.OPENAPI} has a document"
            )
        source_checks.check_name(name, connection=connection)
        source = Source(name=name, prefix=name, kind=kind, enabled=False, created_by=id_of(actor))
        _set_origin(source, location=location, command=command, internal=internal, actor=actor)
        _set_options(source, start=start, per_session=per_session, declares=declares, failure_pattern=failure_pattern)
        source.connection = _connection(name, connection)
        source.save(force_insert=True)
        SourceStatus.objects.create(source=source)
        changes = {part: [None, value] for part, value in _parts(source).items() if value not in ("", [], {}, None)}
        if document is not None:
            document.source, document.uploaded_by = source, id_of(actor)
            document.save(force_insert=True)
            changes["document"] = [None, document.noted]
            if document.selected is not None:
                changes["selected"] = [None, document.selected]
        change.note(f"source:{name}", {"kind": [None, kind], **changes})
    return source


def change_origin(
    name: str,
    *,
    location: str | None = None,
    command: Iterable[str] | None = None,
    connection: str | None = None,
    internal: bool | None = None,
    per_session: bool | None = None,
    declares: Iterable[str] | None = None,
    failure_pattern: str | None = None,
    pin_defaults: bool | None = None,
    start: str | None = None,
    actor: Actor,
    reason: str = "",
) -> list[str]:
    """Change where a source outside is, and how the hub talks to it. None leaves a part unchanged. Returns the changes.

    With another URL or command it is another source: it is switched off, what was approved of it holds no longer, its
    trust is the default again, its secrets must be given again (for another path at the same server they need not),
    and open approvals are refused.

    Raises:
        NotFoundError, ValidationError, ConflictError
        AuthorizationError: the actor may not, or may not set a command or an internal address.
    """
    with changing(actions.SOURCE_ORIGIN, actor, reason) as change:
        sync.lock()
        source = outside_source(name)
        before = _parts(source)
        _set_origin(source, location=location, command=command, internal=internal, actor=actor)
        _set_options(source, start=start, per_session=per_session, declares=declares, failure_pattern=failure_pattern)
        if connection is not None:
            source.connection = _connection(name, connection)
        if pin_defaults is not None:
            if source.pin_defaults and not pin_defaults:
                actor.require(actions.SOURCE_UNPIN, name)
            source.pin_defaults = pin_defaults
        changes = {part: [was, now] for part, was in before.items() if (now := _parts(source)[part]) != was}
        if not changes:
            return []
        refuse_managed(Kind.SOURCE, [name])
        if is_moved := not {"location", "command"}.isdisjoint(changes):
            # A program that sets the origin does not approve it.
            source.created_by = id_of(actor)
        source.reconnects += 1
        source.save()
        if is_moved:
            changes |= _quarantine(source, before, change, actor)
        outside.list_again(name)
        change.note(f"source:{name}", changes)
        _reconnect(name)
    return sorted(changes)


def reconnect_source(name: str, *, actor: Actor, reason: str = "") -> None:
    """End the connections and child processes of a source, and list it again at once. Clears what was found about its
    answers.

    Other processes of the hub end theirs at their next call, or after a few seconds.

    Raises:
        NotFoundError
        ConflictError: the source is Python code.
    """
    with changing(actions.SOURCE_RECONNECT, actor, reason) as change:
        source = outside_source(name)
        Source.objects.filter(pk=source.pk).update(reconnects=F("reconnects") + 1)
        SourceStatus.objects.filter(source=source).update(failures=0)
        outside.read_again(name)
        outside.list_again(name)
        AnswerFinding.objects.filter(document__source=source).delete()
        change.note(f"source:{name}", {})
        _reconnect(name)


def remove_source(name: str, *, actor: Actor, reason: str = "") -> list[str]:
    """Remove a source outside: its tools are retired, its secrets deleted, open approvals refused, its processes ended.

    The name is never used again. Calls and definitions stay as long as the journal keeps them. Returns its tools.

    Raises:
        NotFoundError
        ConflictError: the source is Python code.
    """
    with changing(actions.SOURCE_REMOVE, actor, reason) as change:
        sync.lock()
        source = outside_source(name)
        refuse_managed(Kind.SOURCE, [name])
        tools = list(ToolRecord.objects.present().filter(source=source).order_by("name").values_list("name", flat=True))
        _refuse_open_approvals(source, f"Source {name} was removed", change, actor)
        sync.retire_source(source, actor=actor.name)
        changes = {"enabled": [source.enabled, False], "epoch": [source.epoch, source.epoch + 1], "tools": [tools, []]}
        changes |= _unbound(source)
        # The epoch ends connections in other processes, whose keys contain it.
        Source.objects.filter(pk=source.pk).update(
            enabled=False, removed_at=timezone.now(), connection=None, epoch=source.epoch + 1, approved_instructions=""
        )
        SourceStatus.objects.filter(source=source).update(next_try_at=None, lease_holder="", lease_until=None)
        SourceDocument.objects.filter(source=source).delete()
        change.note(f"source:{name}", changes)
        _reconnect(name)
    return tools


def approve_instructions(name: str, hash: str, *, actor: Actor, reason: str = "") -> None:
    """Send what a server says about all of its tools to agents, as long as it says the same. An empty hash: no more.

    Raises:
        NotFoundError
        ConflictError: the server says something else by now.
        AuthorizationError: a program has set the address of the source itself.
    """
    with changing(actions.SOURCE_INSTRUCTIONS, actor, reason) as change:
        source = outside_source(name)
        status = SourceStatus.objects.filter(source=source).first()
        if hash:
            require_not_own(source, actor)
            if status is None or status.instructions_hash != hash:
                raise ConflictError(
                    f"The instructions of {name} have changed", next_step="Read them again, and approve the new text."
                )
        if source.approved_instructions != hash:
            change.note(f"source:{name}", {"instructions": [source.approved_instructions, hash]})
            Source.objects.filter(pk=source.pk).update(approved_instructions=hash)


def _reconnect(name: str) -> None:
    """After the commit: a connection that is made again must find what was decided."""
    transaction.on_commit(partial(engine.reconnect, name), robust=True)


def outside_source(name: str) -> Source:
    """Raises: NotFoundError, ConflictError."""
    rows = Source.objects.select_for_update(of=("self",)).select_related("connection")
    source = rows.filter(name=name, removed_at=None).first()
    if source is None:
        raise NotFoundError(f"There is no source {shortened(name)!r}", next_step="The sources are at /v1/sources.")
    if not source.is_outside:
        raise ConflictError(
            f"Source {name} is Python code of this hub",
            next_step="Switch it off, or remove its package or its file.",
        )
    return source


def require_not_own(source: Source | None, actor: Actor) -> None:
    """A program that says where a source is does not approve what it lists; with the two-person rule, no person either,
    nor with a key of theirs.

    Raises:
        AuthorizationError
    """
    if source is None or not source.is_outside:
        return
    if is_own := source.created_by == id_of(actor):
        actor.require(actions.DEFINITION_APPROVE_OWN, source.name)
    if actor.principal is None or not conf.value("TOOLHUB_TWO_PERSON_RULE"):
        return
    if is_own or is_same_person(actor, source.created_by):
        raise AuthorizationError(
            f"Permission denied: this hub has the two-person rule, and you set the origin of {source.name}",
            next_step="Ask another operator to approve it.",
        )


def _set_origin(
    source: Source, *, location: str | None, command: Iterable[str] | None, internal: bool | None, actor: Actor
) -> None:
    """Raises: ValidationError, AuthorizationError."""
    is_command = source.kind == Source.Kind.MCP_STDIO
    if is_command:
        if location or internal:
            raise _wrong("location" if location else "internal", "A source with a command has no URL")
        if command is not None:
            words = source_checks.clean_command(command)
            if words != source.command:
                _require_command(actor, source.name)
                source.command = words
        return
    if command is not None and list(command):
        raise _wrong("command", "A source with a URL has no command")
    was_internal, is_internal = source.internal, source.internal if internal is None else internal
    url = source_checks.clean_location(
        source.location if location is None else location,
        internal=is_internal,
        is_base=source.kind == Source.Kind.OPENAPI,
    )
    if is_internal and (url != source.location or not was_internal):
        actor.require(actions.SOURCE_INTERNAL, source.name)
    source.location, source.internal = url, is_internal


def _require_command(actor: Actor, name: str) -> None:
    """Commands are set at the shell, in files, and by superusers who have entered the password again.

    Raises:
        AuthorizationError
    """
    if actor.principal is None:
        return
    if actor.caller is not None:
        raise AuthorizationError(
            f"Permission denied: the command of {name} cannot be set over REST or MCP",
            next_step="Set it in the admin, or with `toolhub source` at the shell of the hub.",
        )
    actor.require(actions.SOURCE_COMMAND, name)
    if not actor.is_confirmed:
        raise AuthorizationError("Enter your password again: a command runs as the user of the hub")


def _set_options(
    source: Source,
    *,
    start: str | None,
    per_session: bool | None,
    declares: Iterable[str] | None,
    failure_pattern: str | None,
) -> None:
    """Raises: ValidationError."""
    if start is not None:
        if start not in Source.Start.values:
            raise _wrong("start", f"start must be one of {', '.join(Source.Start.values)}")
        source.start = start
    if per_session is not None:
        source.per_session = per_session
    if declares is not None:
        source.declares = source_checks.clean_declares(declares)
    if failure_pattern is not None:
        source.failure_rule = source_checks.clean_pattern(failure_pattern)


def _connection(source: str, name: str) -> Connection | None:
    """Raises: ValidationError."""
    if not name:
        return None
    # PostgreSQL refuses NUL in a string.
    connection = None if "\0" in name else Connection.objects.filter(name=name, pack=source).first()
    if connection is None:
        raise _wrong("connection", f"Source {source} has no connection {shortened(name)!r}")
    return connection


def _parts(source: Source) -> dict[str, Any]:
    """What can be changed, as the audit trail shows it."""
    return {
        "location": source.location,
        "command": list(source.command),
        "internal": source.internal,
        "start": str(source.start),
        "per_session": source.per_session,
        "declares": sorted(source.declares),
        "failure_pattern": source.failure_rule.get("pattern", ""),
        "pin_defaults": source.pin_defaults,
        "connection": source.connection.name if source.connection is not None else "",
    }


def _quarantine(source: Source, before: dict[str, Any], change: Change, actor: Actor) -> dict[str, Any]:
    """Make it a source of which nothing is approved. Returns what else has changed."""
    changes: dict[str, Any] = {"epoch": [source.epoch, source.epoch + 1]}
    if source.enabled:
        changes["enabled"] = [True, False]
    _refuse_open_approvals(source, f"The origin of source {source.name} has changed", change, actor)
    if source.command or source_checks.server_of(before["location"]) != source_checks.server_of(source.location):
        changes |= _unbound(source)
    if source.trust:
        # It was about the server before: another server is not approved without an operator.
        changes["trust"], source.trust = [source.trust, ""], ""
        source.save(update_fields=["trust"])
    outside.requarantine(source)
    # They were decided about the tools of another server.
    ToolRecord.everything.filter(source=source).update(**{f"hint_{part}": None for part in HINTS})
    return changes


def _unbound(source: Source) -> dict[str, Any]:
    """A secret is sent only to the origin that it was set for."""
    connections = unbind(source.name)
    return {"secrets": [connections, []]} if connections else {}


def _refuse_open_approvals(source: Source, words: str, change: Change, actor: Actor) -> None:
    names = ToolRecord.everything.filter(source=source).values_list("name", flat=True)
    now = timezone.now()
    open_states = (Approval.State.PENDING, Approval.State.APPROVED)
    rows = Approval.objects.select_for_update().filter(state__in=open_states, expires_at__gt=now)
    approvals = list(rows.filter(tool_name__in=list(names)))
    for approval in approvals:
        parts = {"tool": [None, approval.tool_name], "state": [approval.state, Approval.State.REFUSED]}
        change.note(f"approval:{approval.pk}", parts, actions.CALL_REFUSE)
    Approval.objects.filter(pk__in=[approval.pk for approval in approvals]).update(
        state=Approval.State.REFUSED, reason=words, decided_at=now, decided_by=actor.name[:150]
    )


def _wrong(part: str, message: str) -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)])
