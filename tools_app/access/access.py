"""Authentication: turns a key, an issuer's token, a user of the admin or the local process into a `Caller`."""

from __future__ import annotations

import getpass
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import DatabaseError
from django.utils import timezone

from tools_app.access import issuer
from tools_app.base import database, secrets
from tools_app.catalog import catalog
from tools_app.journal.refusals import Presented
from tools_app.models import ApiKey, Stop
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, shortened
from tools_app.sdk.hub_errors import StoppedError, StorageBusyError
from tools_app.sdk.reach import EVERYWHERE, Reach
from tools_app.text import hygiene

MOST_REMEMBERED: Final = 10_000
LOCAL_SCOPES: Final = frozenset({"tools:list", "tools:read", "tools:execute"})

_SCOPES_OF: Final = {
    "tools_app.view_toolrecord": ("tools:list", "tools:read"),
    "tools_app.change_toolrecord": ("tools:execute", "tools:manage"),
    # The right to create keys includes creating one with all scopes.
    "tools_app.add_apikey": ("admin:*",),
}
# Token claims with a name for display: of people, or of programs.
_NAMES: Final = ("preferred_username", "client_id", "azp")
_PLAIN: Final = re.compile(r"[\w.@|:+-]+", re.ASCII)
MOST_SUBJECT: Final = 56
_REFUSED: Final = "The key is unknown, revoked or expired"


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """The result of a key lookup, valid while the revision stays the same."""

    caller: Caller
    key_id: int
    ends: datetime | None


_revision = -1
_cached_keys: dict[str, _CachedKey] = {}
_notes_of_use: list[Callable[[int], None]] = []


def on_key_use(note: Callable[[int], None]) -> None:
    """Register a callback for every use of a key, with its number: the journal, a room above this one, records it."""
    _notes_of_use.append(note)


def presented(own: str | None, authorization: str | None) -> str | None:
    """The key in the headers `X-API-Key` and `Authorization`.

    Raises:
        AuthenticationError: the headers hold different keys.
    """
    scheme, _, bearer = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        return own
    bearer = bearer.strip()
    if own is not None and own != bearer:
        raise AuthenticationError("Two different keys were sent", next_step="Send one key, in one header.")
    return bearer


async def caller_of_key(presented: str | None, at: str = "") -> Caller:
    """The caller behind a key, or behind a token issued for `at`, the address of the request.

    A revoked key is refused from the next request on, in every process.

    Raises:
        AuthenticationError: the key is missing, unknown, revoked or expired; the caller is not told which.
        AuthorizationError: the token grants nothing here.
        CircuitOpenError: tokens cannot be verified now.
        StoppedError: an operator has stopped the key.
        StorageBusyError: the database cannot be read.
    """
    global _revision
    if not presented:
        raise AuthenticationError
    if issuer.trusted() and issuer.is_token(presented):
        return _caller_of_token(await issuer.claims(presented, at))
    prefix = secrets.prefix_of(presented)
    if not secrets.well_formed(presented):
        raise AuthenticationError(_REFUSED, detail=Presented(prefix))
    snapshot = await catalog.fresh()
    revision = snapshot.revision
    if revision != _revision:
        # Changes of keys change the revision, so cached lookups are invalid now.
        _cached_keys.clear()
        _revision = revision
    hashed = secrets.key_hash(presented)
    cached_key = _cached_keys.get(hashed)
    if cached_key is None:
        cached_key = await database.run(_look_up, secrets.key_hashes(presented), prefix)
        if len(_cached_keys) < MOST_REMEMBERED and revision == _revision:
            _cached_keys[hashed] = cached_key
    if cached_key.ends is not None and cached_key.ends <= timezone.now():
        raise AuthenticationError(_REFUSED, detail=Presented(prefix, cached_key.caller.id, cached_key.caller.name))
    if (stop := snapshot.stops.get((Stop.Kind.KEY, cached_key.caller.name))) is not None:
        stopped = StoppedError.because(stop.words)
        stopped.detail = Presented(prefix, cached_key.caller.id, cached_key.caller.name)
        raise stopped
    for note in _notes_of_use:
        note(cached_key.key_id)
    return cached_key.caller


def _caller_of_token(claims: Mapping[str, Any]) -> Caller:
    scopes = issuer.scopes(claims)
    if not scopes:
        raise AuthorizationError.lacking(issuer.SCOPES[0])
    subject = str(claims["sub"])
    name = next((text for claim in _NAMES if isinstance(text := claims.get(claim), str) and text.strip()), subject)
    if len(subject) > MOST_SUBJECT or not _PLAIN.fullmatch(subject):
        # The prefix occurs in no plain subject: otherwise a subject could be chosen that equals another's hash.
        subject = f"#{hashlib.sha256(subject.encode(errors='replace')).hexdigest()[:MOST_SUBJECT]}"
    shown_name = shortened(hygiene.cleaned(name))
    return Caller("token", f"token:{subject}", shown_name, scopes, issuer.reach(claims), asks=issuer.asks())


def caller_of_user(user: Any) -> Caller:
    """A user of the admin, limited by their permissions."""
    scopes = {scope for permission, granted in _SCOPES_OF.items() if user.has_perm(permission) for scope in granted}
    # Users who manage connections may use all of them; others use those of the environment.
    reach = Reach(connections=None) if user.has_perm("tools_app.change_connection") else EVERYWHERE
    return Caller("user", f"user:{user.pk}", user.get_username(), frozenset(scopes), reach)


def caller_of_process(reach: Reach = EVERYWHERE) -> Caller:
    """The user who started this process: an agent over stdio, or a person at a shell."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        name = "local"
    return Caller("local", f"local:{name}"[:64], name, LOCAL_SCOPES, reach)


def require(caller: Caller, scope: str) -> None:
    """Raises: AuthorizationError."""
    if not caller.may(scope):
        raise AuthorizationError.lacking(scope)


def require_all_tools(caller: Caller, scope: str) -> None:
    """Raises: AuthorizationError, also if the caller has the scope for some tools only: this concerns all tools."""
    require(caller, scope)
    if caller.reach.toolsets is not None:
        raise AuthorizationError(
            "Permission denied: your key manages the tools of its toolsets only",
            next_step="Ask an administrator of this hub.",
        )


def may_lift(caller: Caller) -> bool:
    """True if a caller may remove restrictions on calls: people may, and programs with `admin:*`.

    Otherwise a program that manages tools could remove its own restriction and then call.
    """
    return caller.kind not in ("key", "token") or caller.may("admin:*")


def _look_up(hashes: list[str], prefix: str) -> _CachedKey:
    try:
        # One query, so that revoked and unknown keys take equally long (timing attack).
        key = ApiKey.objects.known_by(hashes, timezone.now()).first()
        if key is None:
            raise AuthenticationError(_REFUSED, detail=Presented(prefix, hashes=tuple(hashes)))
        reach = key.reach
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error
    caller = Caller("key", f"key:{key.pk}", key.name, frozenset(key.scopes), reach, key.rate, key.asks)
    return _CachedKey(caller, key.pk, key.ends(hashes))


def forget() -> None:
    """Clear the cache of lookups. For tests."""
    global _revision
    _cached_keys.clear()
    _revision = -1
