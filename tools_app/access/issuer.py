"""The OAuth issuer whose bearer tokens are taken beside the hub's own keys: whether one holds, and what it allows.

Signatures are checked here, with the public keys that the issuer publishes; nobody is asked about a single token.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from tools_app.base import conf
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, ToolError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import CircuitOpenError
from tools_app.sdk.reach import Reach

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger("tools_app.access.issuer")

METADATA: Final = "/.well-known/oauth-protected-resource"
DOOR: Final = "/mcp"
# What tokens may bring. Who administers the hub is decided in the hub.
SCOPES: Final = ("tools:list", "tools:read", "tools:execute", "tools:manage")
USUAL_SCOPES: Final = SCOPES[:3]
# What a token may name beside them: kinds of tools, and toolsets.
WRITE: Final = "tools:write"
DESTROY: Final = "tools:destroy"
TOOLSET: Final = "toolset:"
ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
LEEWAY_SECONDS: Final = 30
MOST_TOKEN: Final = 8 * 1024
MOST_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048
# Whoever sends tokens with ids of keys that do not exist must not make us ask the issuer all the time.
ASK_SECONDS: Final = 30.0
# Keys that are older are asked for anew in the background; for those that are older than OLD_SECONDS, the next token
# waits: so long at most is a key taken that the issuer has withdrawn.
FRESH_SECONDS: Final = 300.0
OLD_SECONDS: Final = 600.0
FETCH_SECONDS: Final = 5.0
MOST_BYTES: Final = 512 * 1024

_TOKEN: Final = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_NEW_TOKEN: Final = "Get a new token from the authorization server of this hub."  # noqa: S105 - a sentence


def trusted() -> str:
    """The issuer whose tokens are taken; empty where there is none."""
    issuer: str = conf.value("TOOLHUB_OAUTH_ISSUER")
    return issuer


def is_token(presented: str) -> bool:
    return len(presented) <= MOST_TOKEN and _TOKEN.fullmatch(presented) is not None


async def claims(token: str, at: str) -> dict[str, Any]:
    """What a token says, after all of it has been checked. `at` is the address that it was sent to.

    Raises:
        AuthenticationError: it does not hold.
        CircuitOpenError: the issuer's keys cannot be had now.
    """
    # An agent waits for the start of this process, and most hubs have no issuer.
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = str(header.get("alg")), header.get("kid", "")
        # Before anything else: the token does not choose how it is checked.
        if algorithm not in ALGORITHMS or "crit" in header or not isinstance(key_id, str):
            raise AuthenticationError("The token is signed in a way that is not taken", next_step=_NEW_TOKEN)
        key = await _keys.of(key_id)
        if key is None or key.algorithm_name != algorithm:
            raise AuthenticationError("The token is signed with an unknown key", next_step=_NEW_TOKEN)
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=audiences(at),
            issuer=trusted(),
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
    except jwt.ExpiredSignatureError as error:
        raise AuthenticationError("The token has expired", next_step=_NEW_TOKEN, detail=error) from error
    except jwt.InvalidAudienceError as error:
        raise AuthenticationError("The token is not for this hub", next_step=_NEW_TOKEN, detail=error) from error
    except jwt.PyJWTError as error:
        raise AuthenticationError("The token is not valid", next_step=_NEW_TOKEN, detail=error) from error


def scopes(claimed: Mapping[str, Any]) -> frozenset[str]:
    """What a token allows: the hub's scopes that it names, or else those that every token has."""
    return _named(claimed).intersection(SCOPES) or frozenset(conf.value("TOOLHUB_OAUTH_SCOPES"))


def reach(claimed: Mapping[str, Any]) -> Reach:
    """Which tools a token may use: never more than the settings say, nor others than those of toolsets that it names.

    Raises:
        AuthorizationError: it has to name a toolset, and names none that tokens may use.
    """
    named = _named(claimed)
    toolsets = frozenset(scope.removeprefix(TOOLSET) for scope in named if scope.startswith(TOOLSET))
    by_scope: bool = conf.value("TOOLHUB_OAUTH_BY_SCOPE")
    allowed = tuple(conf.value("TOOLHUB_OAUTH_TOOLSETS"))
    most = frozenset(allowed)
    if toolsets or by_scope:
        most = toolsets & most if most else toolsets
        if not most and allowed:
            raise AuthorizationError.lacking(" ".join(f"{TOOLSET}{name}" for name in allowed))
        if not most:
            # Without a scope in the challenge: clients would ask for it by that name.
            raise AuthorizationError("Permission denied: requires a scope that names a toolset, as toolset:NAME")
    access = conf.value("TOOLHUB_OAUTH_ACCESS")
    writes = access != "read" and (not by_scope or not named.isdisjoint((WRITE, DESTROY)))
    destroys = access == "destructive" and (not by_scope or DESTROY in named)
    return Reach(most or None, writes=writes, destroys=destroys)


def asks() -> str:
    """Which calls with tokens an operator has to approve."""
    asks: str = conf.value("TOOLHUB_OAUTH_ASKS")
    return "" if asks == "none" else asks


def _named(claimed: Mapping[str, Any]) -> frozenset[str]:
    name = conf.value("TOOLHUB_OAUTH_SCOPES_CLAIM")
    said: Any = claimed.get(name)
    if said is None:
        said = claimed
        for part in name.split("."):  # `realm_access.roles`
            said = said.get(part) if isinstance(said, Mapping) else None
    named = said.split() if isinstance(said, str) else said if isinstance(said, list) else ()
    return frozenset(scope for scope in named if isinstance(scope, str))


def forget() -> None:
    """Ask for the issuer's keys again. For tests."""
    global _keys
    _keys = _Keys()


# ---- where it is said that this issuer is asked for tokens


def resource(origin: str, path: str = "") -> str:
    """The name of this hub, or of a part of it, for which tokens are made."""
    return origin + quote(path.rstrip("/"))


def metadata(origin: str, path: str) -> dict[str, Any]:
    """RFC 9728: what a client has to know to get a token for a part of the hub."""
    said = {
        "resource": resource(origin, path),
        "authorization_servers": [trusted()],
        "bearer_methods_supported": ["header"],
        "resource_name": conf.value("TOOLHUB_NAME"),
    }
    if not conf.value("TOOLHUB_OAUTH_SCOPES"):
        # Clients ask for all of them, and an issuer that does not know one refuses the login.
        said["scopes_supported"] = [*USUAL_SCOPES, *_grants()]
    return said


def _grants() -> list[str]:
    """What a token can be given beside the usual scopes, where that makes a difference."""
    if not conf.value("TOOLHUB_OAUTH_BY_SCOPE"):
        return []
    kinds = {"read": [], "write": [WRITE], "destructive": [WRITE, DESTROY]}[conf.value("TOOLHUB_OAUTH_ACCESS")]
    return [*kinds, *(f"{TOOLSET}{name}" for name in conf.value("TOOLHUB_OAUTH_TOOLSETS"))]


def challenge(error: ToolError, at: str) -> str | None:
    """`WWW-Authenticate` for a refusal of what was sent to `at`; None where it says nothing that helps."""
    lacking = error.context.get("requiredScope") if isinstance(error, AuthorizationError) else None
    if error.status != 401 and not (lacking and trusted()):
        return None
    if not trusted():
        return "Bearer"
    origin, path = _parted(at)
    said = [f'resource_metadata="{resource(origin, METADATA + (path if path.startswith(DOOR) else ""))}"']
    if lacking:
        said = ['error="insufficient_scope"', f'scope="{lacking}"', *said]
    elif error.message != AuthenticationError.default_message:
        said = ['error="invalid_token"', *said]
    return f"Bearer {', '.join(said)}"


def audiences(at: str) -> list[str]:
    """For whom a token may be made out to be taken at an address: the hub, its door, and that very address."""
    given: tuple[str, ...] = tuple(conf.value("TOOLHUB_OAUTH_AUDIENCE"))
    if given:
        return list(given)
    origin, path = _parted(at)
    parts = ["", DOOR] + ([path] if path.startswith(f"{DOOR}/") else [])
    return [form for part in parts for form in (resource(origin, part), resource(origin, part) + "/")]


def _parted(at: str) -> tuple[str, str]:
    parts = urlsplit(at)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


# ---- the issuer's keys


class _Keys:
    """The issuer's public keys by id. Asked for when one is missing, but not all the time; kept while it is away."""

    def __init__(self) -> None:
        self._known: dict[str, PyJWK] = {}
        self._asked_at = float("-inf")
        self._read_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._trouble: ToolError | None = None

    async def of(self, key_id: str) -> PyJWK | None:
        """A key; the only one there is, where the token names none.

        Raises:
            CircuitOpenError: there are no keys, as the issuer could not be asked, and is not asked again yet.
        """
        found = self._found(key_id)
        age = time.monotonic() - self._read_at
        if found is None or age > FRESH_SECONDS:
            asking = self._asked()
            # An issuer that is away stops no known key.
            old = age > OLD_SECONDS and self._trouble is None
            if (found is None or old) and asking is not None:
                # The request may go; the others that wait for the same must not notice.
                await asyncio.shield(asking)
                found = self._found(key_id)
        if found is None and not self._known and self._trouble is not None:
            raise CircuitOpenError(
                "Tokens cannot be checked now: the keys of their issuer cannot be read",
                detail=self._trouble,
                context={"upstream": "the OAuth issuer"},
                next_step="Try again in a moment, or use a key of this hub.",
                retry_after=ASK_SECONDS,
            )
        return found

    def _found(self, key_id: str) -> PyJWK | None:
        if not key_id and len(self._known) == 1:
            return next(iter(self._known.values()))
        return self._known.get(key_id)

    def _asked(self) -> asyncio.Task[None] | None:
        """The question to the issuer that is under way, or a new one if it is time for that."""
        loop = asyncio.get_running_loop()
        if self._asking is not None and not self._asking.done() and self._asking.get_loop() is loop:
            return self._asking
        if time.monotonic() - self._asked_at < ASK_SECONDS:
            return None
        self._asked_at = time.monotonic()
        self._asking = loop.create_task(self._ask())
        return self._asking

    async def _ask(self) -> None:
        try:
            self._known = _usable(await _published())
        except ToolError as error:
            log.warning("the keys of the OAuth issuer cannot be read: %s", error.message)
            self._trouble = error
        else:
            self._read_at = time.monotonic()
            self._trouble = None


async def _published() -> Any:
    url = conf.value("TOOLHUB_OAUTH_JWKS_URL") or await _place_of_keys(trusted())
    return await _read(url, "read the keys of the OAuth issuer")


async def _place_of_keys(issuer: str) -> str:
    """Where the issuer says that its keys are, in RFC 8414's place or in that of OpenID Connect."""
    origin, path = _parted(issuer)
    places = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    trouble: ToolError | None = None
    for place in places:
        try:
            said = await _read(place, "read the metadata of the OAuth issuer")
        except ToolError as error:
            trouble = error
            continue
        # Otherwise one issuer could name the keys of another.
        if isinstance(said, dict) and said.get("issuer") == issuer and isinstance(said.get("jwks_uri"), str):
            return str(said["jwks_uri"])
    raise trouble or UpstreamUnavailableError("The OAuth issuer does not say where its keys are")


async def _read(url: str, operation: str) -> Any:
    # As late as jwt, and for the same reason.
    from tools_app.http import ApiClient

    address, _, query = url.partition("?")
    client = ApiClient(address, name="the OAuth issuer", timeout=FETCH_SECONDS, most_bytes=MOST_BYTES)
    try:
        return await client.get(operation=operation, params=dict(parse_qsl(query)))
    finally:
        await client.close()


def _usable(published: Any) -> dict[str, PyJWK]:
    """The keys that signatures of tokens are checked with. All others are passed over, as a set may hold any."""
    import jwt

    listed = published.get("keys") if isinstance(published, dict) else None
    known: dict[str, PyJWK] = {}
    for described in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(described, dict) or described.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(described)
        except jwt.PyJWTError:
            continue
        bits = getattr(key.key, "key_size", LEAST_RSA_BITS) if described.get("kty") == "RSA" else LEAST_RSA_BITS
        if key.algorithm_name in ALGORITHMS and bits >= LEAST_RSA_BITS:
            known[str(described.get("kid", ""))] = key
    return known


_keys = _Keys()
