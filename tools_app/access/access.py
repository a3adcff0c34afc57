"""Authentication: turns a key, an issuer's token, a user of the admin or the local process into a `Caller`."""

from __future__ import annotations

import getpass
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import DatabaseError
from django.utils import timezone

from tools_app.access import actions, addresses, issuer
from tools_app.base import database, hub, ports, secrets
from tools_app.catalog import catalog
from tools_app.journal.refusals import Presented
from tools_app.models import ApiKey, Stop
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, shortened
from tools_app.sdk.hub_errors import StoppedError, StorageBusyError
from tools_app.sdk.reach import EVERYWHERE, Reach
from tools_app.text import hygiene

MOST_REMEMBERED: Final = 10_000
LOCAL_SCOPES: Final = frozenset({actions.LIST, actions.READ, actions.EXECUTE})

# A user who may do this has its scope. The right to create keys includes creating one with all scopes.
_GRANTING: Final = (
    actions.TOOLS_LIST,
    actions.TOOLS_READ,
    actions.TOOLS_CALL,
    actions.TOOL_CHANGE,
    actions.METRICS_READ,
    actions.KEY_CREATE,
)
# Token claims with a name for display: of people, or of programs.
_NAMES: Final = ("preferred_username", "client_id", "azp")
_PLAIN: Final = re.compile(r"[\w.@|:+-]+", re.ASCII)
MOST_SUBJECT: Final = 56
_KEY_REFUSED: Final = "The key is unknown, revoked, expired or not allowed from this address"


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """The result of a key lookup, valid while the revision stays the same."""

    caller: Caller
    key_id: int
    ends: datetime | None
    allowed: tuple[addresses.Network, ...]


class KeyCache:
    """The keys that a hub has looked up."""

    def __init__(self) -> None:
        self.revision = -1  # the counter of access
        self.by_hash: dict[str, _CachedKey] = {}


def read_credential(own: str | None, authorization: str | None) -> str | None:
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


def presented(credential: str | None, words: str) -> Presented | None:
    """A key in a request that no one answers; None if it has not the form of one. The journal finds out whose it is."""
    if credential is None or not secrets.well_formed(credential):
        return None
    return Presented(secrets.prefix_of(credential), words=words, hashes=tuple(secrets.key_hashes(credential)))


async def caller_of_key(credential: str | None, at: str = "", address: str = "") -> Caller:
    """The caller behind a key, or behind a token issued for `at`, the URL of the request. `address` is the client's.

    A revoked key is refused from the next request on, in every process.

    Raises:
        AuthenticationError: the key is missing, unknown, revoked, expired or not allowed from this address; the caller
            is not told which.
        AuthorizationError: the token grants nothing here.
        CircuitOpenError: tokens cannot be verified now.
        StoppedError: an operator has stopped the key.
        StorageBusyError: the database cannot be read.
    """
    if not credential:
        raise AuthenticationError
    if issuer.trusted_issuer() and issuer.is_token(credential):
        return _caller_of_token(await issuer.claims(credential, at))
    prefix = secrets.prefix_of(credential)
    if not secrets.well_formed(credential):
        raise AuthenticationError(_KEY_REFUSED, detail=Presented(prefix))
    snapshot = await catalog.fresh()
    revision = catalog.numbers().access
    cache = hub.part(KeyCache)
    if revision != cache.revision:
        # A key has changed: cached lookups are invalid now.
        cache.by_hash.clear()
        cache.revision = revision
    key_hash = secrets.key_hash(credential)
    cached_key = cache.by_hash.get(key_hash)
    if cached_key is None:
        cached_key = await database.run(_look_up, secrets.key_hashes(credential), prefix)
        if len(cache.by_hash) < MOST_REMEMBERED and revision == cache.revision:
            cache.by_hash[key_hash] = cached_key
    if cached_key.ends is not None and cached_key.ends <= timezone.now():
        raise AuthenticationError(_KEY_REFUSED, detail=Presented(prefix, cached_key.caller.id, cached_key.caller.name))
    if not addresses.admit(cached_key.allowed, address):
        words = f"The key is not allowed from {address}" if address else "The key is not allowed without an IP address"
        presented = Presented(prefix, cached_key.caller.id, cached_key.caller.name, words)
        raise AuthenticationError(_KEY_REFUSED, detail=presented)
    if (stop := snapshot.stops.get((Stop.Kind.KEY, cached_key.caller.name))) is not None:
        error = StoppedError.because(stop.words)
        error.detail = Presented(prefix, cached_key.caller.id, cached_key.caller.name)
        raise error
    ports.note_use()(cached_key.key_id)
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
    identifier, by = f"token:{subject}", str(claims["iss"])
    return Caller("token", identifier, shown_name, scopes, issuer.reach(claims), asks=issuer.asks(), issuer=by)


def caller_of_user(user: Any) -> Caller:
    """A user of the admin, limited by their permissions."""
    scopes = frozenset(action.scope for action in _GRANTING if action.permits(user))
    # Users who manage connections may use all of them; others use those of the environment.
    reach = Reach(connections=None) if actions.CONNECTION_CHANGE.permits(user) else EVERYWHERE
    return Caller("user", f"user:{user.pk}", user.get_username(), scopes, reach)


def caller_of_process(reach: Reach = EVERYWHERE) -> Caller:
    """The user who started this process: an agent over stdio, or a person at a shell."""
    name = account_of_process()
    return Caller("local", f"local:{name}"[:64], name or "local", LOCAL_SCOPES, reach)


def account_of_process() -> str:
    """The name of the user of this process; empty if it has none, as in containers that run under any number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _look_up(hashes: list[str], prefix: str) -> _CachedKey:
    try:
        # One query, so that revoked and unknown keys take equally long (timing attack).
        key = ApiKey.objects.known_by(hashes, timezone.now()).first()
        if key is None:
            raise AuthenticationError(_KEY_REFUSED, detail=Presented(prefix, hashes=tuple(hashes)))
        reach = key.reach
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error
    allowed = tuple(key.addresses)
    rights = (frozenset(key.scopes), reach, key.rate, key.asks, allowed)
    caller = Caller("key", f"key:{key.pk}", key.name, *rights, budget=key.budget)
    return _CachedKey(caller, key.pk, key.ends(hashes), addresses.networks(allowed))
