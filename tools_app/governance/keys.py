"""Changes of API keys. Only their hashes are stored: a key is read once, by whoever makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.base import secrets
from tools_app.models import ApiKey, Connection, KeyConnection, KeyToolset, Toolset
from tools_app.models.audit import note
from tools_app.models.keys import Asks, default_scopes
from tools_app.models.tools import MAX_RATE_CALLS, MAX_RATE_SECONDS
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError, ConflictError, ValidationError, shortened
from tools_app.sdk.policies import Rate
from tools_app.sdk.reach import ENVIRONMENT, Reach

SCOPES: Final = ("tools:list", "tools:read", "tools:execute", "tools:manage", "admin:*")
# So long at most a key goes on working after another has taken its place.
LONGEST_GRACE: Final = timedelta(days=7)


def create_key(
    name: str,
    *,
    actor: str,
    scopes: Sequence[str] | None = None,
    toolsets: Iterable[str] = (),
    connections: Iterable[str] = (ENVIRONMENT,),
    may_write: bool = True,
    may_destroy: bool = True,
    asks: str = Asks.NOTHING,
    rate: tuple[int, int] | None = None,
    expires_at: datetime | None = None,
    owner: Any = None,
    within: Caller | None = None,
) -> tuple[ApiKey, str]:
    """Make an API key. The second value is the key itself, which nobody can ever read again.

    Without toolsets it reaches every tool. It uses the connections that are named here and no others, those of the
    environment if nothing else is said. A key that may not write may not destroy. `asks` is any of `Asks`: the
    calls that an operator has to approve. `rate` is so many requests in so many seconds. `within` is who makes it,
    where that is a program: what limits it limits the key as well.

    Raises:
        AuthorizationError: the key could do more than who makes it.
        ValidationError: the name is blank, too long or taken, the rate out of bounds, or a scope, toolset or
            connection unknown.
    """
    name, granted = name.strip(), sorted(set(default_scopes() if scopes is None else scopes))
    _check(name, granted, asks, rate)
    through = set(connections)
    if within is not None:
        reach = Reach(frozenset(toolsets) or None, may_write, may_write and may_destroy, frozenset(through))
        refuse_wider(within, reach, asks, Rate(*rate) if rate else None)
    secret, prefix = secrets.new_key()
    with transaction.atomic():
        chosen, accounts = _toolsets(set(toolsets)), _accounts(through)
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
            expires_at=expires_at,
            owner=owner,
        )
        KeyToolset.objects.bulk_create(KeyToolset(key=key, toolset=toolset) for toolset in chosen)
        KeyConnection.objects.bulk_create(KeyConnection(key=key, connection=account) for account in accounts)
        given = {
            "scopes": key.scopes,
            "toolsets": [toolset.name for toolset in chosen] or None,
            "connections": None if through == {ENVIRONMENT} else sorted(through),
            "may_write": key.may_write,
            "may_destroy": key.may_destroy,
            "asks": asks or None,
            "rate": rate and list(rate),
            "expires_at": expires_at and expires_at.isoformat(),
        }
        changes = {part: [None, value] for part, value in given.items() if value is not None}
        note("key.create", f"key:{name}", actor=actor, changes=changes)
    return key, secret


def refuse_wider(caller: Caller, reach: Reach, asks: str, rate: Rate | None) -> None:
    """A key hands on no more than it has. One that nothing limits administers the hub, and hands on anything.

    Raises:
        AuthorizationError: naming what goes beyond.
    """
    own, beyond = caller.reach, []
    if own.toolsets is not None and not (reach.toolsets and reach.toolsets <= own.toolsets):
        beyond.append("its toolsets")
    if (reach.writes, reach.destroys) > (own.writes, own.destroys):
        beyond.append("the kinds of tools it may use")
    if _STRICTNESS[asks] < _STRICTNESS[caller.asks]:
        beyond.append("the calls that an operator has to approve")
    if caller.rate is not None and not (rate and rate.within(caller.rate)):
        beyond.append("its rate limit")
    limited = not own.everything or bool(caller.asks) or caller.rate is not None
    # Whoever sets up connections may hand them on, as users may; what is limited in anything, only its own.
    if limited and own.connections is not None and not (reach.connections or frozenset()) <= own.connections:
        beyond.append("its connections")
    if beyond:
        raise AuthorizationError(
            f"Permission denied: the key would go beyond what limits yours: {', '.join(beyond)}",
            next_step="Ask for a key within these limits, or have a person make it in the admin.",
        )


_STRICTNESS: Final = {Asks.NOTHING.value: 0, Asks.DESTROYS.value: 1, Asks.WRITES.value: 2}


def _check(name: str, scopes: Sequence[str], asks: str, rate: tuple[int, int] | None) -> None:
    """What needs no look at the database.

    Raises:
        ValidationError
    """
    if not name or len(name) > 100:
        raise ValidationError("A key needs a name of 1 to 100 characters")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise ValidationError(f"Unknown scope {unknown[0]!r}; known are {', '.join(SCOPES)}")
    if rate is not None and not (1 <= rate[0] <= MAX_RATE_CALLS and 1 <= rate[1] <= MAX_RATE_SECONDS):
        raise ValidationError(f"A rate limit is 1 to {MAX_RATE_CALLS} requests in 1 to {MAX_RATE_SECONDS} seconds")
    if asks not in Asks.values:
        raise ValidationError("Calls to approve are writes, destroys, or none")


def _toolsets(wanted: set[str]) -> list[Toolset]:
    """Locked, so that none is deleted before the key that has it is there.

    Raises:
        ValidationError: one is unknown.
    """
    chosen = list(Toolset.objects.select_for_update().filter(name__in=wanted).order_by("name"))
    if unknown := sorted(wanted - {toolset.name for toolset in chosen}):
        known = ", ".join(Toolset.objects.values_list("name", flat=True)) or "none"
        raise ValidationError(f"There is no toolset {shortened(unknown[0])!r}; there are: {known}")
    return chosen


def _accounts(through: set[str]) -> list[Connection]:
    """Those that are stored, locked as well.

    Raises:
        ValidationError: one is unknown.
    """
    accounts = list(Connection.objects.select_for_update().filter(name__in=through).order_by("name"))
    if unknown := sorted(through - {ENVIRONMENT, *(account.name for account in accounts)}):
        known = ", ".join([ENVIRONMENT, *Connection.objects.values_list("name", flat=True)])
        raise ValidationError(f"There is no connection {shortened(unknown[0])!r}; there are: {known}")
    return accounts


def revoke_key(key: ApiKey, *, actor: str, reason: str = "") -> bool:
    """End a key: refused from the next request on, in every process. False: it was revoked already."""
    with transaction.atomic():
        now = timezone.now()
        if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            return False
        changes = {"revoked_at": [None, now.isoformat()]}
        note("key.revoke", f"key:{key.name}", actor=actor, reason=reason, changes=changes)
    key.revoked_at = now
    return True


def rotate_key(key: ApiKey, *, grace: timedelta, actor: str, reason: str = "", within: Caller | None = None) -> str:
    """Give a key another secret, which nobody can ever read again. The one before works for the time of grace.

    What the key may, its name and its calls stay. A secret that was still in its time of grace ends now. `within` is
    who rotates it, where that is a program: it gets the secret, and with it all that the key may.

    Raises:
        AuthorizationError: the key can do more than who rotates it.
        ValidationError: the time of grace is out of bounds.
        ConflictError: the key is revoked or expired, so that no other secret would make it work.
    """
    if not timedelta() <= grace <= LONGEST_GRACE:
        raise ValidationError(f"The time of grace is 0 to {LONGEST_GRACE.days} days")
    secret, prefix = secrets.new_key()
    with transaction.atomic():
        now = timezone.now()
        kept = ApiKey.objects.select_for_update().get(pk=key.pk)
        if within is not None:
            refuse_wider(within, kept.reach, kept.asks, kept.rate)
        if not kept.usable(now):
            message = f"The key {kept.name!r} is {kept.state(now)}: it cannot be rotated"
            raise ConflictError(message, next_step="Make another key.")
        changed = {
            "prefix": prefix,
            "hash": secrets.key_hash(secret),
            # Without a time of grace it is known as well, so that operators see who still comes with it.
            "previous_prefix": kept.prefix,
            "previous_hash": kept.hash,
            "previous_until": now + grace if grace else None,
            "rotated_at": now,
        }
        ApiKey.objects.filter(pk=kept.pk).update(**changed)
        changes = {"prefix": [kept.prefix, prefix], "previous_until": [None, (now + grace).isoformat()]}
        note("key.rotate", f"key:{kept.name}", actor=actor, reason=reason, changes=changes)
    for part, value in changed.items():
        setattr(key, part, value)
    return secret
