"""Bearer tokens of the trusted OAuth issuer: verification, and what a token permits.

Signatures are verified locally with the issuer's published keys; the issuer is not asked about single tokens.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from tools_app.base import conf, hub
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, ToolError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import CircuitOpenError
from tools_app.sdk.reach import Reach

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger("tools_app.access.issuer")

METADATA: Final = "/.well-known/oauth-protected-resource"
DOOR: Final = "/mcp"
# Scopes that tokens can grant. Administration is granted by keys and users of the hub only.
SCOPES: Final = ("tools:list", "tools:read", "tools:execute", "tools:manage")
USUAL_SCOPES: Final = SCOPES[:3]
# Further scopes: access levels, and toolsets.
WRITE: Final = "tools:write"
DESTROY: Final = "tools:destroy"
TOOLSET: Final = "toolset:"
ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
LEEWAY_SECONDS: Final = 30
MOST_TOKEN: Final = 8 * 1024
MOST_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048
# Minimum interval between fetches: tokens with unknown key ids must not cause a request to the issuer each.
ASK_SECONDS: Final = 30.0
# Older keys are refreshed in the background; if they are older than OLD_SECONDS, the next token waits for that. So a
# key that the issuer has withdrawn is accepted for at most that long.
FRESH_SECONDS: Final = 300.0
OLD_SECONDS: Final = 600.0
FETCH_SECONDS: Final = 5.0
MOST_BYTES: Final = 512 * 1024

_TOKEN: Final = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_NEW_TOKEN: Final = "Get a new token from the authorization server of this hub."  # noqa: S105 - a sentence


def trusted_issuer() -> str:
    """The issuer whose tokens are accepted; empty if there is none."""
    issuer: str = conf.value("TOOLHUB_OAUTH_ISSUER")
    return issuer


def is_token(credential: str) -> bool:
    return len(credential) <= MOST_TOKEN and _TOKEN.fullmatch(credential) is not None


async def claims(token: str, at: str) -> dict[str, Any]:
    """The verified claims of a token. `at` is the address that it was sent to.

    Raises:
        AuthenticationError: the token is not valid.
        CircuitOpenError: the issuer's keys are not available.
    """
    # Imported here: agents wait for the start of this process, and most hubs have no issuer.
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = str(header.get("alg")), header.get("kid", "")
        # First of all: the token must not choose how it is verified.
        if algorithm not in ALGORITHMS or "crit" in header or not isinstance(key_id, str):
            raise AuthenticationError("The token is signed in an unsupported way", next_step=_NEW_TOKEN)
        key = await hub.part(IssuerKeys).of(key_id)
        if key is None or key.algorithm_name != algorithm:
            raise AuthenticationError("The token is signed with an unknown key", next_step=_NEW_TOKEN)
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=audiences(at),
            issuer=trusted_issuer(),
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
    except jwt.ExpiredSignatureError as error:
        raise AuthenticationError("The token has expired", next_step=_NEW_TOKEN, detail=error) from error
    except jwt.InvalidAudienceError as error:
        raise AuthenticationError("The token is not for this hub", next_step=_NEW_TOKEN, detail=error) from error
    except jwt.PyJWTError as error:
        raise AuthenticationError("The token is not valid", next_step=_NEW_TOKEN, detail=error) from error


def scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The hub's scopes that the token names, or else the default scopes of tokens."""
    return _scope_names(claims).intersection(SCOPES) or frozenset(conf.value("TOOLHUB_OAUTH_SCOPES"))


def reach(claims: Mapping[str, Any]) -> Reach:
    """The tools that a token may use: limited by the settings, and by the toolsets that it names.

    Raises:
        AuthorizationError: it must name a toolset, and names none that tokens may use.
    """
    names = _scope_names(claims)
    toolsets = frozenset(scope.removeprefix(TOOLSET) for scope in names if scope.startswith(TOOLSET))
    by_scope: bool = conf.value("TOOLHUB_OAUTH_BY_SCOPE")
    allowed_toolsets = tuple(conf.value("TOOLHUB_OAUTH_TOOLSETS"))
    toolset_names = frozenset(allowed_toolsets)
    if toolsets or by_scope:
        toolset_names = toolsets & toolset_names if toolset_names else toolsets
        if not toolset_names and allowed_toolsets:
            raise AuthorizationError.lacking(" ".join(f"{TOOLSET}{name}" for name in allowed_toolsets))
        if not toolset_names:
            # No scope in the challenge: clients would request it by that name.
            raise AuthorizationError("Permission denied: requires a scope that names a toolset, as toolset:NAME")
    access = conf.value("TOOLHUB_OAUTH_ACCESS")
    writes = access != "read" and (not by_scope or not names.isdisjoint((WRITE, DESTROY)))
    destroys = access == "destructive" and (not by_scope or DESTROY in names)
    is_limited = bool(toolset_names)
    return Reach(toolset_names or None, writes=writes, destroys=destroys, outside=is_limited, signs_in=True)


def asks() -> str:
    """Which calls with tokens need an operator's approval."""
    asks: str = conf.value("TOOLHUB_OAUTH_ASKS")
    return "" if asks == "none" else asks


def _scope_names(claims: Mapping[str, Any]) -> frozenset[str]:
    name = conf.value("TOOLHUB_OAUTH_SCOPES_CLAIM")
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):  # `realm_access.roles`
            value = value.get(part) if isinstance(value, Mapping) else None
    names = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
    return frozenset(scope for scope in names if isinstance(scope, str))


# ---- metadata that leads clients to the issuer


def resource(origin: str, path: str = "") -> str:
    """The resource identifier of this hub, or of a part of it, for which tokens are issued."""
    return origin + quote(path.rstrip("/"))


def metadata(origin: str, path: str) -> dict[str, Any]:
    """RFC 9728: protected resource metadata for a part of the hub."""
    document = {
        "resource": resource(origin, path),
        "authorization_servers": [trusted_issuer()],
        "bearer_methods_supported": ["header"],
        "resource_name": conf.value("TOOLHUB_NAME"),
    }
    if not conf.value("TOOLHUB_OAUTH_SCOPES"):
        # Clients request all of them, and an issuer that does not know one refuses the login.
        document["scopes_supported"] = [*USUAL_SCOPES, *_grants()]
    return document


def _grants() -> list[str]:
    """Further scopes that a token can have, if they make a difference."""
    if not conf.value("TOOLHUB_OAUTH_BY_SCOPE"):
        return []
    kinds = {"read": [], "write": [WRITE], "destructive": [WRITE, DESTROY]}[conf.value("TOOLHUB_OAUTH_ACCESS")]
    return [*kinds, *(f"{TOOLSET}{name}" for name in conf.value("TOOLHUB_OAUTH_TOOLSETS"))]


def challenge(error: ToolError, at: str) -> str | None:
    """`WWW-Authenticate` for a refusal of a request to `at`; None if it would not help the client."""
    missing_scope = error.context.get("requiredScope") if isinstance(error, AuthorizationError) else None
    if error.status != 401 and not (missing_scope and trusted_issuer()):
        return None
    if not trusted_issuer():
        return "Bearer"
    origin, path = _origin_and_path(at)
    parameters = [f'resource_metadata="{resource(origin, METADATA + (path if path.startswith(DOOR) else ""))}"']
    if missing_scope:
        parameters = ['error="insufficient_scope"', f'scope="{missing_scope}"', *parameters]
    elif error.message != AuthenticationError.default_message:
        parameters = ['error="invalid_token"', *parameters]
    return f"Bearer {', '.join(parameters)}"


def audiences(at: str) -> list[str]:
    """The accepted audiences for an address: the hub, its MCP endpoint, and the address itself."""
    audiences: tuple[str, ...] = tuple(conf.value("TOOLHUB_OAUTH_AUDIENCE"))
    if audiences:
        return list(audiences)
    origin, path = _origin_and_path(at)
    parts = ["", DOOR] + ([path] if path.startswith(f"{DOOR}/") else [])
    return [form for part in parts for form in (resource(origin, part), resource(origin, part) + "/")]


def _origin_and_path(at: str) -> tuple[str, str]:
    parts = urlsplit(at)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


# ---- the issuer's keys


class IssuerKeys:
    """The issuer's public keys by id. Fetched when one is missing, but not too often; cached if it is unreachable."""

    def __init__(self) -> None:
        self._by_id: dict[str, PyJWK] = {}
        self._fetched_at = float("-inf")
        self._read_at = float("-inf")
        self._fetch: asyncio.Task[None] | None = None
        self._trouble: ToolError | None = None

    async def of(self, key_id: str) -> PyJWK | None:
        """The key with this id; without an id, the only key there is.

        Raises:
            CircuitOpenError: there are no keys, because the last fetch failed and the next is not due.
        """
        key = self._find(key_id)
        age = time.monotonic() - self._read_at
        if key is None or age > FRESH_SECONDS:
            fetch = self._fetch_once()
            # While the issuer is unreachable, known keys stay valid.
            must_refresh = age > OLD_SECONDS and self._trouble is None
            if (key is None or must_refresh) and fetch is not None:
                # This request may be cancelled; the others that wait for the same fetch must not notice.
                await asyncio.shield(fetch)
                key = self._find(key_id)
        if key is None and not self._by_id and self._trouble is not None:
            raise CircuitOpenError(
                "Tokens cannot be checked now: the keys of their issuer cannot be read",
                detail=self._trouble,
                context={"upstream": "the OAuth issuer"},
                next_step="Try again in a moment, or use a key of this hub.",
                retry_after=ASK_SECONDS,
            )
        return key

    def _find(self, key_id: str) -> PyJWK | None:
        if not key_id and len(self._by_id) == 1:
            return next(iter(self._by_id.values()))
        return self._by_id.get(key_id)

    def _fetch_once(self) -> asyncio.Task[None] | None:
        """Single flight: the fetch in progress, or a new one if it is due."""
        loop = asyncio.get_running_loop()
        if self._fetch is not None and not self._fetch.done() and self._fetch.get_loop() is loop:
            return self._fetch
        if time.monotonic() - self._fetched_at < ASK_SECONDS:
            return None
        self._fetched_at = time.monotonic()
        self._fetch = loop.create_task(self._refresh())
        return self._fetch

    async def _refresh(self) -> None:
        try:
            self._by_id = usable_keys(await _fetch_key_set())
        except ToolError as error:
            log.warning("the keys of the OAuth issuer cannot be read: %s", error.message)
            self._trouble = error
        else:
            self._read_at = time.monotonic()
            self._trouble = None


async def _fetch_key_set() -> Any:
    url = conf.value("TOOLHUB_OAUTH_JWKS_URL") or await _place_of_keys(trusted_issuer())
    return await _get_json(url, "read the keys of the OAuth issuer")


async def _place_of_keys(issuer: str) -> str:
    """The JWKS address from the issuer's metadata, as RFC 8414 or OpenID Connect place it."""
    origin, path = _origin_and_path(issuer)
    places = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    trouble: ToolError | None = None
    for place in places:
        try:
            data = await _get_json(place, "read the metadata of the OAuth issuer")
        except ToolError as error:
            trouble = error
            continue
        # Otherwise one issuer could refer to the keys of another.
        if isinstance(data, dict) and data.get("issuer") == issuer and isinstance(data.get("jwks_uri"), str):
            return str(data["jwks_uri"])
    raise trouble or UpstreamUnavailableError("The metadata of the OAuth issuer names no jwks_uri")


async def _get_json(url: str, operation: str) -> Any:
    # Imported late for the same reason as jwt.
    from tools_app.http import ApiClient

    address, _, query = url.partition("?")
    client = ApiClient(address, name="the OAuth issuer", timeout=FETCH_SECONDS, most_bytes=MOST_BYTES)
    try:
        return await client.get(operation=operation, params=dict(parse_qsl(query)))
    finally:
        await client.close()


def usable_keys(key_set: Any) -> dict[str, PyJWK]:
    """The keys that can verify tokens. Others are skipped, as a set may contain any."""
    import jwt

    entries = key_set.get("keys") if isinstance(key_set, dict) else None
    by_id: dict[str, PyJWK] = {}
    for entry in entries[:MOST_KEYS] if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(entry)
        except jwt.PyJWTError:
            continue
        bits = getattr(key.key, "key_size", LEAST_RSA_BITS) if entry.get("kty") == "RSA" else LEAST_RSA_BITS
        if key.algorithm_name in ALGORITHMS and bits >= LEAST_RSA_BITS:
            by_id[str(entry.get("kid", ""))] = key
    return by_id
