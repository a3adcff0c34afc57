"""The present state of the hub in the form of a configuration file, and how it differs from what a file says."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.utils import timezone

from tools_app import governance
from tools_app.access.actions import ROLES
from tools_app.catalog import accounts, connections
from tools_app.governance.hints import HINTS
from tools_app.models import AlertRule, ApiKey, Connection, ManagedRecord, Source, ToolRecord, Toolset, ToolTag
from tools_app.models.tools import POLICY
from tools_app.sdk import budgets
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.errors import ConfigurationError
from tools_app.setup.configuration import document
from tools_app.setup.configuration.document import VERSION, Document, Kind, Part, is_reference

Declared = Mapping[str, Any]
# Names of variables that say which record and value they belong to, without a digest.
_PLAIN: Final = re.compile(r"[a-z0-9]+")


def exported() -> Document:
    """Everything that operators decide, as a file would say it."""
    return Document.model_validate(
        {"version": VERSION, **{title: present(kind) for kind, title in Document.SECTIONS.items()}}, strict=False
    )


def present(kind: Kind, names: Collection[str] | None = None) -> dict[str, Part]:
    """The records of a kind, or those of these names. Sources of Python code and tools are there if something about
    them was decided."""
    return _PRESENT[kind](names)


def drift_of(kind: Kind, name: str) -> tuple[ManagedRecord, list[str]] | None:
    """The file that manages a record, and the fields that differ from it; None if no file does."""
    row = ManagedRecord.objects.filter(kind=kind, name=name, declared__isnull=False).first()
    if row is None:
        return None
    now = present(kind, [name]).get(name) or absent(kind)
    return row, differences(now, row.declared or {})


def absent(kind: Kind) -> Part | None:
    """A record about which nothing was decided; None where such a record does not exist."""
    return {Kind.TOOL: document.Tool(), Kind.SOURCE: document.Source()}.get(kind)


def differences(now: Part | None, declared: Declared) -> list[str]:
    """The fields in which a record differs from what a file says; without a record all of them."""
    data = now.data if now is not None else {}
    return sorted(field for field, value in declared.items() if data.get(field) != value or field not in data)


# ---- one function for each kind


def _users(names: Collection[str] | None) -> dict[str, Part]:
    model = get_user_model()
    rows = model._default_manager.filter(is_active=True)
    if names is not None:
        rows = rows.filter(Q((f"{model.USERNAME_FIELD}__in", list(names))))
    everyone = list(rows)
    # The role of the others is their provider's to give.
    others = governance.at_provider(everyone)
    users = [user for user in everyone if user.pk not in others]
    roles = governance.roles_of(users)
    # Others have no role of the hub, or permissions that were given one by one.
    known = {*ROLES, governance.ALL_ROLES[-1]}
    return {
        user.get_username(): document.User.model_validate({"role": roles[user.pk]})
        for user in users
        if roles[user.pk] in known
    }


def _sources(names: Collection[str] | None) -> dict[str, Part]:
    rows = _named(Source.objects.filter(removed_at=None).select_related("connection"), names)
    sources = {row.name: _source(row) for row in rows}
    nothing = document.Source()
    return {name: part for name, part in sources.items() if part != nothing}


def _source(row: Source) -> document.Source:
    outside: dict[str, Any] = {}
    if row.is_outside:
        outside = {
            "kind": row.kind,
            "location": row.location,
            "command": list(row.command),
            "start": str(row.start),
            "internal": row.internal,
            "per_session": row.per_session,
            "declares": list(row.declares),
            "failure_pattern": row.failure_rule.get("pattern", ""),
            "pin_defaults": row.pin_defaults,
            "connection": row.connection.name if row.connection is not None else "",
        }
        if (text := governance.document_of(row)) is not None:
            outside["document"] = document.ApiDocument(address=text.address, select=text.selected)
    switches: dict[str, Any] = {"enabled": row.enabled, "trust": str(row.trust)}
    return document.Source(**switches, **_limits(row), **outside)


def _connections(names: Collection[str] | None) -> dict[str, Part]:
    rows = _named(Connection.objects.all(), names)
    kept = _declared(Kind.CONNECTION)
    return {row.name: _connection(row, kept.get(row.name, {})) for row in rows}


def _connection(row: Connection, declared: Declared) -> document.Connection:
    return document.Connection(
        source=row.pack,
        form=row.form,
        # That of a source outside is the address of the source.
        url="" if row.form else row.url,
        read_only=row.read_only,
        allow_http=row.allow_http,
        timeout_ms=row.timeout_ms,
        enabled=row.enabled,
        options=dict(sorted(row.options.items())),
        secret=_values(row) if row.form else declared.get("secret") or reference_for(row.name),
    )


def _values(row: Connection) -> dict[str, str]:
    """The values of a connection with a form. One that is not a reference is in the hub only: a name stands for it."""
    try:
        stored = connections.values_of(accounts.of_row(row, ConnectionKind.outside(row.pack))) if row.sealed else {}
    except ConfigurationError:
        stored = dict.fromkeys(row.names, "")
    return {
        name: value if is_reference(value) else reference_for(row.name, name) for name, value in sorted(stored.items())
    }


def _toolsets(names: Collection[str] | None) -> dict[str, Part]:
    return {row.name: _toolset(row) for row in _named(Toolset.objects.all(), names)}


def _toolset(row: Toolset) -> document.Toolset:
    parts = {part: getattr(row, part) for part in governance.TOOLSET if part != "overrides"}
    overrides = {name: document.Override(**row.overrides[name]) for name in sorted(row.overrides)}
    return document.Toolset(**parts, overrides=overrides)


def _tools(names: Collection[str] | None) -> dict[str, Part]:
    own_tags: dict[str, list[str]] = {}
    for name, tag in ToolTag.objects.filter(declared=False).values_list("tool__name", "tag__name"):
        own_tags.setdefault(name, []).append(tag)
    columns = ("name", "enabled", "runtime", "ask", *(f"hint_{part}" for part in HINTS), *POLICY)
    declared = {name: one for name, one in _declared(Kind.TOOL).items() if names is None or name in names}
    rows = _named(ToolRecord.objects.only(*columns), names)
    parts = {row.name: _tool(row, own_tags, declared.get(row.name, {})) for row in rows}
    nothing = document.Tool()
    tools: dict[str, Part] = {name: part for name, part in parts.items() if part != nothing}
    # What was decided about tools that their source has not listed yet.
    return tools | {name: document.Tool.model_validate(one) for name, one in declared.items() if name not in parts}


def _tool(row: ToolRecord, own_tags: Mapping[str, list[str]], declared: Declared) -> document.Tool:
    # A file may say what is so anyway.
    is_said = row.enabled is not starts_on(row) or row.enabled is declared.get("enabled")
    return document.Tool(
        enabled=row.enabled if is_said else None,
        ask=row.ask,
        tags=own_tags.get(row.name, []),
        **{part: getattr(row, f"hint_{part}") for part in HINTS},
        **_limits(row),
    )


def starts_on(record: ToolRecord) -> bool:
    """Whether a tool is on until an operator decides about it."""
    return not record.runtime.get("starts_off", False)


def _keys(names: Collection[str] | None) -> dict[str, Part]:
    rows = ApiKey.objects.usable(timezone.now()).select_related("owner").prefetch_related("toolsets", "connections")
    return {row.name: _key(row) for row in _named(rows, names)}


def _key(row: ApiKey) -> document.Key:
    values = {
        "scopes": list(row.scopes),
        "toolsets": [toolset.name for toolset in row.toolsets.all()] or None,
        "connections": row.connection_names,
        "may_write": row.may_write,
        "may_destroy": row.may_destroy,
        "asks": str(row.asks),
        "rate": {"calls": row.rate_calls, "seconds": row.rate_seconds} if row.rate else None,
        "addresses": list(row.addresses),
        "expires_at": row.expires_at.astimezone(UTC).isoformat() if row.expires_at is not None else None,
        "owner": row.owner.get_username() if row.owner is not None else "",
        **{part: getattr(row, part) for part in budgets.PARTS},
    }
    return document.Key.model_validate(values)


def _alert_rules(names: Collection[str] | None) -> dict[str, Part]:
    kept = _declared(Kind.ALERT_RULE)
    rows = _named(AlertRule.objects.select_related("owner"), names)
    return {row.name: _alert_rule(row, kept.get(row.name, {})) for row in rows}


def _alert_rule(row: AlertRule, declared: Declared) -> document.AlertRule:
    parts = {part: getattr(row, part) for part in governance.ALERT_RULE if part != "owner"}
    if row.channel == AlertRule.Channel.WEBHOOK:
        for value in ("url", "secret"):
            parts[value] = declared.get(value) or reference_for("alert", row.name, value)
    return document.AlertRule(**parts, owner=row.owner.get_username() if row.owner is not None else "")


_PRESENT: Final = {
    Kind.USER: _users,
    Kind.SOURCE: _sources,
    Kind.CONNECTION: _connections,
    Kind.TOOLSET: _toolsets,
    Kind.TOOL: _tools,
    Kind.KEY: _keys,
    Kind.ALERT_RULE: _alert_rules,
}


def reference_for(*parts: str) -> str:
    """The reference in the file for a secret that only the hub has. No two secrets share a name."""
    words = "_".join(re.sub(r"[^A-Za-z0-9]+", "_", part).strip("_").upper()[:30] for part in parts)
    is_plain = all(_PLAIN.fullmatch(part) and len(part) <= 30 for part in parts)
    digest = "" if is_plain else f"_{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"
    return f"${{TOOLHUB_SECRET_{words}{digest}}}"


def _limits(row: Source | ToolRecord) -> dict[str, Any]:
    return {part: getattr(row, part) for part in POLICY}


def _declared(kind: Kind) -> dict[str, Declared]:
    rows = ManagedRecord.objects.filter(kind=kind, declared__isnull=False)
    return {row.name: row.declared or {} for row in rows}


def _named(rows: QuerySet[Any], names: Iterable[str] | None) -> QuerySet[Any]:
    return (rows if names is None else rows.filter(name__in=list(names))).order_by("name")
