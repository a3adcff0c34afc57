"""Changes of API keys. Only hashes are stored: the key itself is returned once, when it is created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, Unpack

from django.utils import timezone

from tools_app.access import actions
from tools_app.access import addresses as networks
from tools_app.access.actions import SCOPES
from tools_app.base import secrets
from tools_app.governance.actors import Actor, changing
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.models import ApiKey, Connection, KeyConnection, KeyToolset, Toolset
from tools_app.models.keys import Asks, default_scopes
from tools_app.models.tools import MAX_RATE_CALLS, MAX_RATE_SECONDS
from tools_app.sdk.budgets import MOST as MOST_BUDGET
from tools_app.sdk.budgets import Budget
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError, ConflictError, ValidationError, shortened
from tools_app.sdk.policies import Rate
from tools_app.sdk.reach import ENVIRONMENT, Reach

# The longest time for which a rotated key's previous secret stays valid.
LONGEST_GRACE: Final = timedelta(days=7)


def create_key(
    name: str,
    *,
    actor: Actor,
    scopes: Sequence[str] | None = None,
    toolsets: Iterable[str] | None = None,
    connections: Iterable[str] = (ENVIRONMENT,),
    may_write: bool = True,
    may_destroy: bool = True,
    asks: str = Asks.NOTHING,
    rate: tuple[int, int] | None = None,
    budget: Budget | None = None,
    addresses: Iterable[str] = (),
    expires_at: datetime | None = None,
    owner: Any = None,
) -> tuple[ApiKey, str]:
    """Create an API key. The second value is the key itself, which cannot be retrieved again.

    Without toolsets it reaches every tool. It uses only the connections named here, by default those of the
    environment. A key that may not write may not destroy either. `asks` is one of `Asks`: the calls that need approval.
    `rate` is the number of requests, and the window in seconds. Calls are refused when `budget` is spent. `addresses`
    are those from which it can be used; none: any. If a program creates the key, it gets no more rights than the
    program has.

    Raises:
        AuthorizationError: the key would have more rights than its creator.
        ValidationError: the name is blank, too long or exists, the rate is out of bounds, a scope, toolset or
            connection is unknown, or an address is none.
    """
    name, granted = name.strip(), sorted(set(default_scopes() if scopes is None else scopes))
    if not name or len(name) > 100:
        raise ValidationError("A key needs a name of 1 to 100 characters")
    _check(granted, asks, rate, budget)
    toolset_names, through, allowed = frozenset(toolsets or ()), set(connections), networks.normalized(addresses)
    if actor.caller is not None:
        reach = Reach(toolset_names or None, may_write, may_write and may_destroy, frozenset(through))
        refuse_wider(actor.caller, reach, asks, Rate(*rate) if rate else None, allowed, budget)
    secret, prefix = secrets.new_key()
    with changing(actions.KEY_CREATE, actor) as change:
        toolset_rows, accounts = _toolsets(set(toolset_names)), _accounts(through)
        if ApiKey.objects.filter(name=name).exists():
            raise ConflictError(f"A key named {name!r} exists already; revoke it, or choose another name")
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            hash=secrets.key_hash(secret),
            scopes=granted,
            uses_environment=ENVIRONMENT in through,
            may_write=may_write,
            may_destroy=may_write and may_destroy,
            asks=asks,
            rate_calls=rate[0] if rate else None,
            rate_seconds=rate[1] if rate else None,
            addresses=allowed,
            expires_at=expires_at,
            owner=owner,
            **asdict(budget or Budget()),
        )
        KeyToolset.objects.bulk_create(KeyToolset(key=key, toolset=toolset) for toolset in toolset_rows)
        KeyConnection.objects.bulk_create(KeyConnection(key=key, connection=account) for account in accounts)
        change.note(f"key:{name}", _rights_in_audit(key, [toolset.name for toolset in toolset_rows], through, rate))
    return key, secret


class KeyChanges(TypedDict, total=False):
    """The parts of a key that can be changed. Toolsets: None is all tools, none at all is refused."""

    scopes: Sequence[str]
    toolsets: Iterable[str] | None
    connections: Iterable[str]
    may_write: bool
    may_destroy: bool
    asks: str
    rate: tuple[int, int] | None
    budget: Budget | None
    addresses: Iterable[str]
    expires_at: datetime | None


def change_key(key: ApiKey, *, actor: Actor, reason: str = "", **changes: Unpack[KeyChanges]) -> list[str]:
    """Change parts of a key, effective from its next request on. Returns which have changed.

    A key that may not write may not destroy either. A program may do this only for keys that it could create, before
    and after the change, and not for its own.

    Raises:
        AuthorizationError: the key has or would have more rights than the program, or is its own.
        ValidationError: as `create_key`; or no toolset is named, or the expiry has passed.
        ConflictError: the key is revoked or expired.
    """
    with changing(actions.KEY_CHANGE, actor, reason) as change:
        row = ApiKey.objects.select_for_update(of=("self",)).get(pk=key.pk)
        before = _rights(row)
        after = {**before, **_changed(changes, before)}
        if actor.caller is not None:
            _refuse_change(actor.caller, row, before, after)
        now = timezone.now()
        if not row.usable(now):
            message = f"The key {row.name!r} is {row.state(now)}: it cannot be changed"
            raise ConflictError(message, next_step="Make another key.")
        _check(after["scopes"], after["asks"], after["rate"], after["budget"])
        different = [part for part in after if after[part] != before[part]]
        if "expires_at" in different and after["expires_at"] is not None and after["expires_at"] <= now:
            raise ValidationError("The expiry is in the past", next_step="Revoke the key to end it now.")
        if different:
            refuse_managed(Kind.KEY, [row.name])
            _store(row, {part: after[part] for part in different})
            in_audit = {part: [_in_audit(before[part]), _in_audit(after[part])] for part in different}
            change.note(f"key:{row.name}", in_audit)
    return different


def _refuse_change(caller: Caller, key: ApiKey, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raises: AuthorizationError: the key is the caller's own, or exceeds it before or after the change."""
    if caller.id == f"key:{key.pk}":
        raise AuthorizationError(
            "Permission denied: a key cannot change itself",
            next_step="Use another key, or have a person change it in the admin.",
        )
    for rights in (before, after):
        toolsets, through = frozenset(rights["toolsets"] or ()) or None, frozenset(rights["connections"])
        reach = Reach(toolsets, rights["may_write"], rights["may_destroy"], through)
        rate = Rate(*rights["rate"]) if rights["rate"] else None
        refuse_wider(caller, reach, rights["asks"], rate, rights["addresses"], rights["budget"])


def _store(key: ApiKey, different: dict[str, Any]) -> None:
    """Raises: ValidationError: a toolset or connection is unknown."""
    columns = {part: value for part, value in different.items() if part not in _RELATED}
    if "rate" in different:
        columns["rate_calls"], columns["rate_seconds"] = different["rate"] or (None, None)
    if "budget" in different:
        columns |= asdict(different["budget"] or Budget())
    if "toolsets" in different:
        toolsets = _toolsets(set(different["toolsets"] or ()))
        KeyToolset.objects.filter(key=key).delete()
        KeyToolset.objects.bulk_create(KeyToolset(key=key, toolset=toolset) for toolset in toolsets)
    if "connections" in different:
        accounts = _accounts(set(different["connections"]))
        columns["uses_environment"] = ENVIRONMENT in different["connections"]
        KeyConnection.objects.filter(key=key).delete()
        KeyConnection.objects.bulk_create(KeyConnection(key=key, connection=account) for account in accounts)
    if columns:
        ApiKey.objects.filter(pk=key.pk).update(**columns)


# Parts that are not a column of the same name.
_RELATED: Final = frozenset({"toolsets", "connections", "rate", "budget"})


def _rights(key: ApiKey) -> dict[str, Any]:
    """The parts of a key, as `KeyChanges` names them."""
    return {
        "scopes": sorted(key.scopes),
        "toolsets": sorted(toolset.name for toolset in key.toolsets.all()) or None,
        "connections": key.connection_names,
        "may_write": key.may_write,
        "may_destroy": key.may_destroy,
        "asks": key.asks,
        "rate": (key.rate_calls, key.rate_seconds) if key.rate else None,
        "budget": key.budget,
        "addresses": key.addresses,
        "expires_at": key.expires_at,
    }


def _changed(changes: KeyChanges, before: dict[str, Any]) -> dict[str, Any]:
    """The new values, in the same form as those before.

    Raises:
        ValidationError
    """
    after: dict[str, Any] = dict(changes)
    if "scopes" in changes:
        after["scopes"] = sorted(set(changes["scopes"]))
    if "toolsets" in changes and changes["toolsets"] is not None:
        after["toolsets"] = sorted(set(changes["toolsets"]))
        if not after["toolsets"]:
            raise ValidationError("Name at least one toolset, or none explicitly: null is all tools of the hub")
    if "connections" in changes:
        through = set(changes["connections"])
        after["connections"] = [ENVIRONMENT] * (ENVIRONMENT in through) + sorted(through - {ENVIRONMENT})
    if "budget" in changes:
        after["budget"] = changes["budget"] or None
    if "addresses" in changes:
        after["addresses"] = networks.normalized(changes["addresses"])
    may_write = changes.get("may_write", before["may_write"])
    if not may_write and changes.get("may_destroy"):
        raise ValidationError("A key that can use destructive tools must be able to use tools that write")
    after["may_destroy"] = may_write and changes.get("may_destroy", before["may_destroy"])
    return after


def _in_audit(value: Any) -> Any:
    """A value of a key, as JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Budget):
        return value.as_dict()
    return list(value) if isinstance(value, tuple) else value


def _rights_in_audit(
    key: ApiKey, toolsets: list[str], connections: set[str], rate: tuple[int, int] | None
) -> dict[str, list[Any]]:
    rights = {
        "scopes": key.scopes,
        "toolsets": toolsets or None,
        "connections": None if connections == {ENVIRONMENT} else sorted(connections),
        "may_write": key.may_write,
        "may_destroy": key.may_destroy,
        "asks": key.asks or None,
        "rate": rate and list(rate),
        "budget": _in_audit(key.budget),
        "addresses": key.addresses or None,
        "expires_at": key.expires_at and key.expires_at.isoformat(),
    }
    return {part: [None, value] for part, value in rights.items() if value is not None}


def refuse_wider(
    caller: Caller, reach: Reach, asks: str, rate: Rate | None, allowed: Iterable[str], budget: Budget | None
) -> None:
    """A key cannot grant more than it has. An unrestricted one administers the hub, and may grant anything.

    Raises:
        AuthorizationError: names what exceeds the caller's rights.
    """
    mine, beyond = caller.reach, []
    if mine.toolsets is not None and not (reach.toolsets and reach.toolsets <= mine.toolsets):
        beyond.append("its toolsets")
    if (reach.writes, reach.destroys) > (mine.writes, mine.destroys):
        beyond.append("the kinds of tools it may use")
    if _STRICTNESS[asks] < _STRICTNESS[caller.asks]:
        beyond.append("the calls that an operator has to approve")
    if caller.rate is not None and not (rate and rate.within(caller.rate)):
        beyond.append("its rate limit")
    if caller.budget is not None and not (budget and budget.within(caller.budget)):
        beyond.append("its budget")
    if not networks.within(allowed, caller.addresses):
        beyond.append("its allowed addresses")
    restricted = not mine.everything or bool(caller.asks) or caller.rate is not None or caller.budget is not None
    # Callers that set up connections may grant them, like users; a restricted caller only its own.
    if restricted and mine.connections is not None and not (reach.connections or frozenset()) <= mine.connections:
        beyond.append("its connections")
    if beyond:
        raise AuthorizationError(
            f"Permission denied: the key would exceed the limits of yours: {', '.join(beyond)}",
            next_step="Ask for a key within these limits, or have a person make it in the admin.",
        )


_STRICTNESS: Final = {Asks.NOTHING.value: 0, Asks.DESTROYS.value: 1, Asks.WRITES.value: 2}


def _check(scopes: Sequence[str], asks: str, rate: tuple[int, int] | None, budget: Budget | None) -> None:
    """Validation without database access.

    Raises:
        ValidationError
    """
    if unknown_names := sorted(set(scopes) - set(SCOPES)):
        raise ValidationError(f"Unknown scope {unknown_names[0]!r}; known are {', '.join(SCOPES)}")
    if rate is not None and not (1 <= rate[0] <= MAX_RATE_CALLS and 1 <= rate[1] <= MAX_RATE_SECONDS):
        raise ValidationError(f"A rate limit is 1 to {MAX_RATE_CALLS} requests in 1 to {MAX_RATE_SECONDS} seconds")
    if budget is not None and not all(1 <= most <= MOST_BUDGET for most in budget.as_dict().values()):
        raise ValidationError(f"A limit of a budget is 1 to {MOST_BUDGET:,}, or none")
    if asks not in Asks.values:
        raise ValidationError("Calls to approve are writes, destroys, or none")


def _toolsets(names: set[str]) -> list[Toolset]:
    """The toolsets, locked so that none is deleted before the key is saved.

    Raises:
        ValidationError: one is unknown.
    """
    toolsets = list(Toolset.objects.select_for_update().filter(name__in=names).order_by("name"))
    if unknown_names := sorted(names - {toolset.name for toolset in toolsets}):
        existing_names = ", ".join(Toolset.objects.values_list("name", flat=True)) or "none"
        raise ValidationError(f"There is no toolset {shortened(unknown_names[0])!r}; there are: {existing_names}")
    return toolsets


def _accounts(through: set[str]) -> list[Connection]:
    """The stored connections, locked as well.

    Raises:
        ValidationError: one is unknown.
    """
    accounts = list(Connection.objects.select_for_update().filter(name__in=through).order_by("name"))
    if unknown_names := sorted(through - {ENVIRONMENT, *(account.name for account in accounts)}):
        existing_names = ", ".join([ENVIRONMENT, *Connection.objects.values_list("name", flat=True)])
        raise ValidationError(f"There is no connection {shortened(unknown_names[0])!r}; there are: {existing_names}")
    return accounts


def revoke_key(key: ApiKey, *, actor: Actor, reason: str = "") -> bool:
    """Revoke a key: refused from the next request on, in every process. False: it was revoked already."""
    with changing(actions.KEY_REVOKE, actor, reason) as change:
        now = timezone.now()
        if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            return False
        change.note(f"key:{key.name}", {"revoked_at": [None, now.isoformat()]})
    key.revoked_at = now
    return True


def rotate_key(key: ApiKey, *, grace: timedelta, actor: Actor, reason: str = "") -> str:
    """Give a key a new secret, which cannot be retrieved again. The previous one stays valid for the grace period.

    The key keeps its name, its call history and its permissions. A secret in an earlier grace period ends now. A
    program that rotates it gets the secret, and with it all rights of the key.

    Raises:
        AuthorizationError: the key has more rights than the program that rotates it.
        ValidationError: the grace period is out of bounds.
        ConflictError: the key is revoked or expired; a new secret would not make it valid.
    """
    if not timedelta() <= grace <= LONGEST_GRACE:
        raise ValidationError(f"The grace period is 0 to {LONGEST_GRACE.days} days")
    secret, prefix = secrets.new_key()
    with changing(actions.KEY_ROTATE, actor, reason) as change:
        now = timezone.now()
        row = ApiKey.objects.select_for_update().get(pk=key.pk)
        if actor.caller is not None:
            refuse_wider(actor.caller, row.reach, row.asks, row.rate, row.addresses, row.budget)
        if not row.usable(now):
            message = f"The key {row.name!r} is {row.state(now)}: it cannot be rotated"
            raise ConflictError(message, next_step="Make another key.")
        fields = {
            "prefix": prefix,
            "hash": secrets.key_hash(secret),
            # Stored even without a grace period, so that operators see who still uses the previous secret.
            "previous_prefix": row.prefix,
            "previous_hash": row.hash,
            "previous_until": now + grace if grace else None,
            "rotated_at": now,
        }
        ApiKey.objects.filter(pk=row.pk).update(**fields)
        changes = {"prefix": [row.prefix, prefix], "previous_until": [None, (now + grace).isoformat()]}
        change.note(f"key:{row.name}", changes)
    for part, value in fields.items():
        setattr(key, part, value)
    return secret
