"""Who is calling: a key, a token of a trusted issuer, a user of the admin, or the local process.

Doors get a `Caller` from here.
"""

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
    # Whoever may make a key may make one that may do everything.
    "tools_app.add_apikey": ("admin:*",),
}
# Of those who have a token, their names: people's, or programs'.
_NAMES: Final = ("preferred_username", "client_id", "azp")
_PLAIN: Final = re.compile(r"[\w.@|:+-]+", re.ASCII)
MOST_SUBJECT: Final = 56
_REFUSED: Final = "The key is unknown, revoked or expired"


@dataclass(frozen=True, slots=True)
class _Known:
    """A key that was looked up, for as long as the revision stays what it was."""

    caller: Caller
    key_id: int
    ends: datetime | None


_revision = -1
_known: dict[str, _Known] = {}
_notes_of_use: list[Callable[[int], None]] = []


def on_key_use(note: Callable[[int], None]) -> None:
    """Call `note` with the number of every key that is used: the journal, above this room, records it."""
    _notes_of_use.append(note)


def presented(own: str | None, authorization: str | None) -> str | None:
    """The key in the headers `X-API-Key` and `Authorization`.

    Raises:
        AuthenticationError: they hold different ones.
    """
    scheme, _, bearer = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        return own
    bearer = bearer.strip()
    if own is not None and own != bearer:
        raise AuthenticationError("Two different keys were sent", next_step="Send one key, in one header.")
    return bearer


async def caller_of_key(presented: str | None, at: str = "") -> Caller:
    """The caller behind a key, or behind a token that was made for `at`, the address that was asked.

    A revoked key is refused from the very next request, in every process.

    Raises:
        AuthenticationError: there is none, or it is not a usable one; which of these is not told.
        AuthorizationError: a token allows nothing here.
        CircuitOpenError: tokens cannot be checked now.
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
        # Keys count into the revision: whatever was remembered may be wrong now.
        _known.clear()
        _revision = revision
    hashed = secrets.key_hash(presented)
    known = _known.get(hashed)
    if known is None:
        known = await database.run(_look_up, secrets.key_hashes(presented), prefix)
        if len(_known) < MOST_REMEMBERED and revision == _revision:
            _known[hashed] = known
    if known.ends is not None and known.ends <= timezone.now():
        raise AuthenticationError(_REFUSED, detail=Presented(prefix, known.caller.id, known.caller.name))
    if (stop := snapshot.stops.get((Stop.Kind.KEY, known.caller.name))) is not None:
        stopped = StoppedError.because(stop.words)
        stopped.detail = Presented(prefix, known.caller.id, known.caller.name)
        raise stopped
    for note in _notes_of_use:
        note(known.key_id)
    return known.caller


def _caller_of_token(claims: Mapping[str, Any]) -> Caller:
    scopes = issuer.scopes(claims)
    if not scopes:
        raise AuthorizationError.lacking(issuer.SCOPES[0])
    subject = str(claims["sub"])
    name = next((said for claim in _NAMES if isinstance(said := claims.get(claim), str) and said.strip()), subject)
    if len(subject) > MOST_SUBJECT or not _PLAIN.fullmatch(subject):
        # With a mark that no plain subject has: otherwise one could be chosen that is another's hash.
        subject = f"#{hashlib.sha256(subject.encode(errors='replace')).hexdigest()[:MOST_SUBJECT]}"
    shown = shortened(hygiene.cleaned(name))
    return Caller("token", f"token:{subject}", shown, scopes, issuer.reach(claims), asks=issuer.asks())


def caller_of_user(user: Any) -> Caller:
    """A person in the admin, limited by the permissions of the user."""
    scopes = {scope for permission, granted in _SCOPES_OF.items() if user.has_perm(permission) for scope in granted}
    # Whoever sets connections up may use them; everybody else has those of the environment.
    reach = Reach(connections=None) if user.has_perm("tools_app.change_connection") else EVERYWHERE
    return Caller("user", f"user:{user.pk}", user.get_username(), frozenset(scopes), reach)


def caller_of_process(reach: Reach = EVERYWHERE) -> Caller:
    """Whoever started this process: an agent over stdio, or somebody at a shell."""
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
    """Raises: AuthorizationError, also for whoever has that scope for some tools only: it concerns those of others."""
    require(caller, scope)
    if caller.reach.toolsets is not None:
        raise AuthorizationError(
            "Permission denied: your key manages the tools of its toolsets only",
            next_step="Ask an administrator of this hub.",
        )


def may_lift(caller: Caller) -> bool:
    """Whether a caller may lift what keeps calls from being made: people may, and programs that administer the hub.

    A program that manages tools could otherwise first lift what holds it back, and then call.
    """
    return caller.kind not in ("key", "token") or caller.may("admin:*")


def _look_up(hashes: list[str], prefix: str) -> _Known:
    try:
        # In one question, so that it takes no longer to refuse a key that was one once than one that never was.
        key = ApiKey.objects.known_by(hashes, timezone.now()).first()
        if key is None:
            raise AuthenticationError(_REFUSED, detail=Presented(prefix, hashes=tuple(hashes)))
        reach = key.reach
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error
    caller = Caller("key", f"key:{key.pk}", key.name, frozenset(key.scopes), reach, key.rate, key.asks)
    return _Known(caller, key.pk, key.ends(hashes))


def forget() -> None:
    """Look every key up again. For tests."""
    global _revision
    _known.clear()
    _revision = -1
