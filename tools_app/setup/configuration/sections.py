"""How a record becomes what a file says, for each kind: through `governance`, whose rules hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.base import references, secrets
from tools_app.governance import Actor, ReadDocument
from tools_app.governance.hints import HINTS
from tools_app.models import AlertRule, ApiKey, Connection, Source, SourceDocument, ToolRecord, Toolset
from tools_app.models.audit import collected, note
from tools_app.models.tools import POLICY
from tools_app.sdk import budgets
from tools_app.sdk.budgets import Budget
from tools_app.sdk.errors import ConflictError, NotFoundError, ValidationError
from tools_app.sdk.names import folded
from tools_app.setup.configuration import document
from tools_app.setup.configuration.document import Kind, Part
from tools_app.setup.configuration.present import present, starts_on

_ORIGIN: Final = (
    *("location", "command", "start", "internal", "per_session", "declares"),
    *("failure_pattern", "pin_defaults"),
)


@dataclass
class Run:
    """One application of a file, in its transaction."""

    actor: Actor
    reason: str
    # OpenAPI documents that were read before, by source.
    documents: Mapping[str, ReadDocument]
    # Names and secrets of new keys.
    issued: list[tuple[str, str]] = field(default_factory=list)
    # Sources, as they are to be when their connections exist.
    sources: dict[str, document.Source] = field(default_factory=dict)

    @property
    def by(self) -> dict[str, Any]:
        return {"actor": self.actor, "reason": self.reason}


def make(run: Run, kind: Kind, name: str, wanted: Part) -> None:
    """Create a record, or change it, to be as wanted.

    Raises:
        ToolError
    """
    _MAKERS[kind](run, name, wanted)


def remove(run: Run, kind: Kind, name: str) -> None:
    """Delete a record; a key is revoked, and a user loses the role. Tools and Python code cannot be deleted.

    Raises:
        ToolError
    """
    _REMOVERS[kind](run, name)


def ended(kind: Kind, name: str) -> str:
    """How a record was ended by a person, which no file takes back; empty if it was not."""
    if kind is Kind.KEY:
        key = ApiKey.objects.filter(name=name).first()
        state = key.state(timezone.now()) if key is not None else ""
        return state if state in ("revoked", "expired") else ""
    if kind is Kind.USER:
        user = _user(name)
        return "deactivated" if user is not None and not user.is_active else ""
    if kind is Kind.SOURCE:
        is_removed = Source.objects.filter(name=name, removed_at__isnull=False).exists()
        return "removed" if is_removed else ""
    return ""


def held_by(kind: Kind, name: str) -> list[str]:
    """The keys because of which a toolset is not deleted although they have ended: without it, they would reach every
    tool if they were restored."""
    if kind is not Kind.TOOLSET:
        return []
    keys = list(ApiKey.objects.filter(toolsets__name=name).order_by("name"))
    now = timezone.now()
    return [key.name for key in keys] if not any(key.usable(now) for key in keys) else []


def is_on(kind: Kind, name: str, enabled: bool | None) -> bool:
    """What a switch says, which may be left out for a tool."""
    if enabled is None and kind is Kind.TOOL:
        record = ToolRecord.objects.filter(name=name).only("runtime").first()
        return record is not None and starts_on(record)
    return enabled is not False


def secrets_changed(kind: Kind, name: str, wanted: Part) -> list[str]:
    """The fields whose reference has another value by now than the hub has stored. Those of sources outside are
    resolved at every call, and are not stored."""
    match wanted:
        case document.Connection(form="", secret=str(text)):
            row = Connection.objects.filter(name=name).first()
            stored = secrets.decrypted(bytes(row.sealed)) if row is not None else None
            return ["secret"] if stored is not None and _is_other(text, stored.decode()) else []
        case document.AlertRule(channel="webhook"):
            rule = AlertRule.objects.filter(name=name).first()
            target = (rule.target() if rule is not None else None) or {}
            values = {"url": wanted.url, "secret": wanted.secret}
            return [part for part, text in values.items() if text and part in target and _is_other(text, target[part])]
    return []


def missing_values(wanted: Part) -> list[str]:
    """Why references of a connection to a source outside have no value for this process."""
    if not isinstance(wanted, document.Connection) or not isinstance(wanted.secret, dict):
        return []
    fault = references.References(tuple(references.found_in(wanted.secret.values()))).fault
    return fault.split("; ") if fault else []


def documents_to_read(wanted: Mapping[str, document.Source], actor: Actor) -> dict[str, ReadDocument]:
    """Fetch the OpenAPI documents that are new. Blocks, outside of any transaction.

    Raises:
        ToolError
    """
    known = dict(SourceDocument.objects.filter(source__removed_at=None).values_list("source__name", "address"))
    return {
        name: governance.read_document(address=part.document.address, internal=part.internal, name=name, actor=actor)
        for name, part in wanted.items()
        if part.document is not None and part.document.address and known.get(name) != part.document.address
    }


# ---- users


def _make_user(run: Run, name: str, wanted: document.User) -> None:
    user = _user(name)
    if user is None:
        governance.add_user(name, role=wanted.role, **run.by)
    elif governance.at_provider([user]):
        raise ConflictError("Their sign-in service gives the role", next_step="Remove the user from the file.")
    else:
        governance.set_role(user, wanted.role, **run.by)


class _OtherRole(Part):
    """The role of a user that no file gives: none, or a custom one."""

    role: str


def other_role(name: str) -> Part | None:
    """That of an existing user; None: there is no such user, or a sign-in service gives the role."""
    user = _user(name)
    is_ours = user is not None and not governance.at_provider([user])
    return _OtherRole(role=governance.role_of(user)) if is_ours else None


def has_less(now: Part, wanted: Part) -> bool:
    """Whether a user has a lower role than wanted, or none."""
    roles = governance.ALL_ROLES
    was, role = now.data.get("role"), wanted.data.get("role")
    return was in roles and role in roles and roles.index(was) < roles.index(role)


def _remove_user(run: Run, name: str) -> None:
    if (user := _user(name)) is not None:
        governance.set_role(user, governance.ALL_ROLES[0], **run.by)


def _user(name: str) -> Any:
    model = get_user_model()
    return model._default_manager.filter(Q((model.USERNAME_FIELD, name))).first()


# ---- sources


def _make_source(run: Run, name: str, wanted: document.Source) -> None:
    row = Source.objects.filter(name=name, removed_at=None).first()
    if row is None:
        _add_source(run, name, wanted)
    elif wanted.kind != (row.kind if row.is_outside else None):
        what = f"a source of the type {row.kind}" if row.is_outside else "Python code of this hub, and has no `kind`"
        raise ConflictError(f"It is {what}", next_step="Give the other source another name.")
    elif wanted.kind is not None:
        _change_origin(run, name, wanted)
    run.sources[name] = wanted


def _add_source(run: Run, name: str, wanted: document.Source) -> None:
    if wanted.kind is None:
        raise NotFoundError(
            f"There is no source {name}", next_step="Install it, or name its `kind` if it is outside the hub."
        )
    if wanted.kind == "openapi":
        if (read := run.documents.get(name)) is None:
            raise ConflictError(
                "Its OpenAPI document was uploaded, and is not in the file",
                next_step=f"Name its address, or upload it first: toolhub source add {name} --openapi FILE",
            )
        select = wanted.document.select if wanted.document is not None else None
        governance.import_document(
            name,
            read=read,
            location=wanted.location,
            select=select,
            internal=wanted.internal,
            failure_pattern=wanted.failure_pattern,
            **run.by,
        )
    else:
        governance.add_source(
            name,
            kind=wanted.kind,
            location=wanted.location,
            command=wanted.command,
            internal=wanted.internal,
            **run.by,
        )
    _change_origin(run, name, wanted)


def _change_origin(run: Run, name: str, wanted: document.Source) -> None:
    now = _source(name)
    parts = {part: value for part in _ORIGIN if (value := getattr(wanted, part)) != getattr(now, part)}
    if parts:
        governance.change_origin(name, **parts, **run.by)
    if wanted.document is None or now.document is None or wanted.document == now.document:
        return
    if (read := run.documents.get(name)) is not None:
        governance.replace_document(name, read=read, **run.by)
    elif wanted.document.address != now.document.address:
        raise ConflictError("Its document is read from an address", next_step="Upload one in the admin instead.")
    if wanted.document.select != now.document.select:
        governance.select_operations(name, wanted.document.select, **run.by)


def switch_source(run: Run, name: str) -> None:
    """Finish a source: its connection, and whether it is on.

    Raises:
        ToolError
    """
    wanted = run.sources[name]
    now = _source(name)
    if wanted.connection != now.connection:
        governance.change_origin(name, connection=wanted.connection, **run.by)
    policy = {part: getattr(wanted, part) for part in POLICY}
    governance.change_source(name, enabled=wanted.enabled, trust=wanted.trust, policy=policy, **run.by)


def _source(name: str) -> document.Source:
    part = present(Kind.SOURCE, [name]).get(name)
    return part if isinstance(part, document.Source) else document.Source()


def _remove_source(run: Run, name: str) -> None:
    row = Source.objects.filter(name=name, removed_at=None).first()
    if row is not None:
        governance.remove_source(name, **run.by)


# ---- connections


@sensitive_variables("secret")
def _make_connection(run: Run, name: str, wanted: document.Connection) -> None:
    now = present(Kind.CONNECTION, [name]).get(name)
    before = now.data if now is not None else document.Connection(source=wanted.source).data
    if before["source"] != wanted.source:
        raise ConflictError("The source of a connection does not change", next_step="Give the other one another name.")
    fields = [part for part in wanted.data if part not in ("source", "secret", "options")]
    parts = {part: getattr(wanted, part) for part in fields if getattr(wanted, part) != before[part]}
    gone = before["options"].keys() - wanted.options.keys()
    if options := {**wanted.options, **dict.fromkeys(gone)} if wanted.options != before["options"] else {}:
        parts["options"] = options
    if now is None:
        governance.create_connection(name, wanted.source, secret=_secret(wanted, {}), **parts, **run.by)
        return
    stored = before["secret"] if isinstance(before["secret"], dict) and wanted.form == before["form"] else {}
    is_same = wanted.secret == before["secret"] and not secrets_changed(Kind.CONNECTION, name, wanted)
    if isinstance(wanted.secret, str) and "url" in parts:
        # A secret is sent only to the address that it was given for.
        is_same = False
    governance.change_connection(name, secret="" if is_same else _secret(wanted, stored), **parts, **run.by)


@sensitive_variables()
def _secret(wanted: document.Connection, stored: Mapping[str, str]) -> str | dict[str, str | None]:
    """What `governance` takes: the value for a pack, references otherwise. What is stored in the hub only stays."""
    if isinstance(wanted.secret, str):
        return _resolved(wanted.secret)
    gone: dict[str, str | None] = dict.fromkeys(stored.keys() - wanted.secret.keys())
    return {**gone, **{name: text for name, text in wanted.secret.items() if stored.get(name) != text}}


def _remove_connection(run: Run, name: str) -> None:
    if Connection.objects.filter(name=name).exists():
        governance.delete_connection(name, **run.by)


# ---- toolsets, tools


def _make_toolset(run: Run, name: str, wanted: document.Toolset) -> None:
    if Toolset.objects.filter(name=name).exists():
        governance.change_toolset(name, **wanted.data, **run.by)
    else:
        governance.create_toolset(name, **wanted.data, **run.by)


def _remove_toolset(run: Run, name: str) -> None:
    if Toolset.objects.filter(name=name).exists():
        governance.delete_toolset(name, **run.by)


def _make_tool(run: Run, name: str, wanted: document.Tool) -> None:
    record = ToolRecord.objects.filter(folded_name=folded(name)).select_related("source").first()
    if record is None:
        return  # Kept until a source lists it.
    if record.name != name:
        raise ValidationError(f"The name of this tool is {record.name}")
    hints = {part: getattr(wanted, part) for part in HINTS}
    if (record.source is not None and record.source.is_outside) or any(hint is not None for hint in hints.values()):
        governance.set_hints(name, **hints, **run.by)
    governance.set_ask(name, wanted.ask, **run.by)
    enabled = starts_on(record) if wanted.enabled is None else wanted.enabled
    governance.set_enabled([name], enabled, **run.by)
    governance.set_policy(name, {part: getattr(wanted, part) for part in POLICY}, **run.by)
    now = present(Kind.TOOL, [name]).get(name)
    tags = now.tags if isinstance(now, document.Tool) else []
    if set(wanted.tags) == set(tags):
        return
    with collected():
        for tag in sorted(set(wanted.tags) - set(tags)):
            governance.add_tag(tag, [name], **run.by)
        for tag in sorted(set(tags) - set(wanted.tags)):
            governance.remove_tag(tag, [name], **run.by)
    # One entry for all of them.
    note(actions.TOOL_TAG.event, name, actor=run.actor.name, changes={"tags": [tags, wanted.tags]})


# ---- keys


def _make_key(run: Run, name: str, wanted: document.Key) -> None:
    key = ApiKey.objects.filter(name=name).select_related("owner").first()
    rights = _rights(wanted)
    if key is not None:
        if (key.owner.get_username() if key.owner is not None else "") != wanted.owner:
            raise ConflictError("The owner of a key does not change", next_step="Revoke it, and name another key.")
        governance.change_key(key, **rights, **run.by)
        return
    if rights["expires_at"] is not None and rights["expires_at"] <= timezone.now():
        raise ValidationError("The expiry is in the past")
    owner = _user(wanted.owner) if wanted.owner else None
    if wanted.owner and owner is None:
        raise ValidationError(f"There is no user {wanted.owner!r}, who is to own it")
    _, secret = governance.create_key(name, owner=owner, actor=run.actor, **rights)
    run.issued.append((name, secret))


def _rights(wanted: document.Key) -> Any:
    return {
        "scopes": wanted.scopes,
        "toolsets": wanted.toolsets,
        "connections": wanted.connections,
        "may_write": wanted.may_write,
        "may_destroy": wanted.may_destroy,
        "asks": wanted.asks,
        "rate": (wanted.rate.calls, wanted.rate.seconds) if wanted.rate is not None else None,
        "budget": Budget(**{part: getattr(wanted, part) for part in budgets.PARTS}) or None,
        "addresses": wanted.addresses,
        "expires_at": datetime.fromisoformat(wanted.expires_at) if wanted.expires_at is not None else None,
    }


def _remove_key(run: Run, name: str) -> None:
    if (key := ApiKey.objects.filter(name=name, revoked_at=None).first()) is not None:
        governance.revoke_key(key, **run.by)


# ---- alert rules


@sensitive_variables("target")
def _make_alert_rule(run: Run, name: str, wanted: document.AlertRule) -> None:
    now = present(Kind.ALERT_RULE, [name]).get(name)
    parts = {part: getattr(wanted, part) for part in governance.ALERT_RULE}
    target = {"url": wanted.url, "secret": wanted.secret} if wanted.channel == "webhook" else {}
    if now is not None:
        before, changed = now.data, secrets_changed(Kind.ALERT_RULE, name, wanted)
        target = {part: text for part, text in target.items() if text != before[part] or part in changed}
    values: dict[str, Any] = {part: _resolved(text) for part, text in target.items() if text}
    if now is None:
        governance.create_alert_rule(name, **values, **parts, **run.by)
    else:
        governance.change_alert_rule(name, **values, **parts, **run.by)


def _remove_alert_rule(run: Run, name: str) -> None:
    if AlertRule.objects.filter(name=name).exists():
        governance.delete_alert_rule(name, **run.by)


_MAKERS: Final[Mapping[Kind, Callable[[Run, str, Any], None]]] = {
    Kind.USER: _make_user,
    Kind.SOURCE: _make_source,
    Kind.CONNECTION: _make_connection,
    Kind.TOOLSET: _make_toolset,
    Kind.TOOL: _make_tool,
    Kind.KEY: _make_key,
    Kind.ALERT_RULE: _make_alert_rule,
}
_REMOVERS: Final[Mapping[Kind, Callable[[Run, str], None]]] = {
    Kind.USER: _remove_user,
    Kind.SOURCE: _remove_source,
    Kind.CONNECTION: _remove_connection,
    Kind.TOOLSET: _remove_toolset,
    Kind.KEY: _remove_key,
    Kind.ALERT_RULE: _remove_alert_rule,
}


def _is_other(text: str, stored: str) -> bool:
    try:
        return references.resolved(text) != stored
    except references.MissingError:
        # The hub keeps what it has.
        return False


def _resolved(text: str) -> str:
    """Raises: ValidationError."""
    try:
        return references.resolved(text)
    except references.MissingError as error:
        raise ValidationError(
            f"A secret is missing: {error}",
            next_step="Set the variable where you run this command, or add the file to TOOLHUB_SECRETS_DIR.",
        ) from None
