"""What the hub sends to an authorization server, and how it reads the answers. All of them are by outsiders."""

from __future__ import annotations

import base64
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, TypeGuard
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from tools_app.http import plain
from tools_app.http.plain import PlainError, PlainResponse
from tools_app.sdk.errors import shortened
from tools_app.text import json_text, redaction
from tools_app.text.json_text import JsonError

log = logging.getLogger("tools_app.upstream.oauth")

MOST_TOKEN: Final = 16 * 1024
MOST_SCOPES: Final = 2_000
MOST_TEXT: Final = 1_000
MOST_LIFETIME: Final = 10 * 365 * 24 * 3600
INVALID_GRANT: Final = "invalid_grant"
# The server does not know the client, or not any more.
CLIENT_UNKNOWN: Final = frozenset({"invalid_client", "unauthorized_client"})
BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"
_TOKEN: Final = re.compile(r"[!-~]+")
_CODE: Final = re.compile(r"[a-z0-9_.-]{1,60}", re.IGNORECASE)
_BOUNDS: Final = json_text.Bounds(depth=20, values=5_000)


class OAuthError(Exception):
    """There is no usable answer. The message is for operators, and contains no secret."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RefusedError(OAuthError):
    """The authorization server refuses the request. `code`: as in RFC 6749, for example `invalid_grant`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Server:
    """An authorization server, and the client as which the hub is known there. Without secrets."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    auth_methods: tuple[str, ...] = ()
    # Whether a client id can be the address of a document that describes the client.
    takes_documents: bool = False
    # Whether it protects sign-ins with PKCE and SHA-256.
    supports_pkce: bool = False
    # Whether its redirects name the issuer.
    names_issuer: bool = False
    # What tokens are requested for.
    resource: str = ""
    scopes: str = ""
    client_id: str = ""
    # `entered`, `document` or `registered`.
    client_kind: str = ""
    auth_method: str = ""
    redirect_uri: str = ""
    # In seconds since 1970; 0: never.
    client_expires_at: float = 0

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Server:
        values = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
        return cls(**{**values, "auth_methods": tuple(values.get("auth_methods", ()))})


@dataclass(frozen=True, slots=True)
class Grant:
    """Tokens, as an authorization server issued them."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    # In seconds; None: it did not say.
    lifetime: float | None
    scopes: str


async def fetched(url: str, about: str, *, internal: bool) -> dict[str, Any] | None:
    """A JSON document; None if there is none.

    Raises:
        OAuthError: the server cannot be asked, or answers with something else.
    """
    try:
        response = await plain.send("GET", url, internal=internal)
    except PlainError as error:
        raise OAuthError(f"{about} cannot be read at {place(url)}: {error}") from None
    if response.status in (400, 401, 403, 404, 405, 406, 410):
        return None
    if response.status != 200:
        raise OAuthError(f"{about} cannot be read: {place(url)} answers with HTTP {response.status}")
    document = read_object(response)
    if document is None:
        raise OAuthError(f"{about} at {place(url)} is not a JSON object")
    return document


async def granted(server: Server, form: Mapping[str, str], secret: str, *, internal: bool) -> Grant:
    """Request tokens.

    Raises:
        RefusedError: the server refuses.
        OAuthError: there is no answer, or none that can be read.
    """
    response = await posted(server, server.token_endpoint, form, secret, internal=internal)
    where = place(server.token_endpoint)
    answer = read_object(response)
    if response.status != 200 or (answer is not None and "error" in answer and "access_token" not in answer):
        raise refusal(response, answer, where)
    access = (answer or {}).get("access_token")
    if answer is None or not _is_token(access):
        raise OAuthError(f"{where} answered without a token that can be sent")
    kind = answer.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise OAuthError(f"{where} issued a token that is not a bearer token")
    refresh = answer.get("refresh_token")
    if refresh is not None and not _is_token(refresh):
        raise OAuthError(f"{where} issued a refresh token that cannot be sent")
    return Grant(access, refresh or "", _lifetime(answer.get("expires_in")), text_of(answer, "scope", MOST_SCOPES))


async def revoked(server: Server, token: str, kind: str, secret: str, *, internal: bool, seconds: float) -> None:
    """Tell the server that a token is not needed any more (RFC 7009).

    Raises:
        OAuthError: it did not take notice.
    """
    form = {"token": token, "token_type_hint": kind}
    response = await posted(server, server.revocation_endpoint, form, secret, internal=internal, seconds=seconds)
    if response.status != 200:
        raise OAuthError(f"{place(server.revocation_endpoint)} answers with HTTP {response.status}")


async def posted(
    server: Server,
    url: str,
    form: Mapping[str, str],
    secret: str,
    *,
    internal: bool,
    seconds: float = plain.SECONDS,
) -> PlainResponse:
    """Post a form as the client of the server.

    Raises:
        OAuthError: there is no answer.
    """
    headers = {"content-type": "application/x-www-form-urlencoded"}
    sent = {name: value for name, value in form.items() if value}
    if server.auth_method == BASIC and secret:
        pair = f"{quote(server.client_id, safe='')}:{quote(secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        sent |= {"client_id": server.client_id, **({"client_secret": secret} if secret else {})}
    try:
        content = urlencode(sent).encode()
        return await plain.send("POST", url, internal=internal, headers=headers, content=content, seconds=seconds)
    except PlainError as error:
        raise OAuthError(f"{place(url)}: {error}") from None


def authorization_url(server: Server, **parameters: str) -> str:
    """Where a browser is sent to sign in."""
    parts = urlsplit(server.authorization_endpoint)
    query = urlencode({name: value for name, value in parameters.items() if value}, quote_via=quote)
    return urlunsplit(parts._replace(query=f"{parts.query}&{query}" if parts.query else query))


def refusal(response: PlainResponse, answer: Mapping[str, Any] | None, where: str) -> OAuthError:
    """The error for a request that was not granted."""
    code = answer.get("error") if answer is not None else None
    if isinstance(code, str) and _CODE.fullmatch(code) and response.status < 500 and response.status != 429:
        # Not in the message, which agents read: it is by outsiders.
        description = redaction.redacted_text(text_of(answer or {}, "error_description", 200))
        log.info("%s refuses: %s %s", where, code, shortened(description))
        return RefusedError(code, f"{where} refuses: {code}")
    if response.status in (401, 403):
        return RefusedError("invalid_client", f"{where} refuses the client (HTTP {response.status})")
    retry_after = response.headers.get("retry-after", "")
    seconds = float(retry_after[:6]) if retry_after.isascii() and retry_after.isdigit() else None
    return OAuthError(f"{where} answers with HTTP {response.status}", seconds)


def read_object(response: PlainResponse) -> dict[str, Any] | None:
    try:
        value = json_text.parsed(response.body, _BOUNDS)
    except JsonError:
        return None
    return value if isinstance(value, dict) else None


def text_of(document: Mapping[str, Any], name: str, most: int) -> str:
    """A text of a document; empty if it has another type, is too long or has characters that no such text has."""
    value = document.get(name)
    return value if isinstance(value, str) and len(value) <= most and value.isprintable() else ""


def texts_of(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list, under the same conditions."""
    values = document.get(name)
    if not isinstance(values, list):
        return ()
    return tuple(one for one in values[:100] if isinstance(one, str) and len(one) <= MOST_TEXT and one.isprintable())


def place(url: str) -> str:
    """The host of an address, for messages: the rest may contain secrets."""
    try:
        return shortened(urlsplit(url).netloc.rpartition("@")[2]) or "the authorization server"
    except ValueError:
        return "the authorization server"


def _is_token(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= MOST_TOKEN and _TOKEN.fullmatch(value) is not None


def _lifetime(value: object) -> float | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:12])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return min(max(float(value), 0.0), MOST_LIFETIME)
