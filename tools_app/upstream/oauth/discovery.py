"""From a source to its authorization server: RFC 9728, then RFC 8414 or OpenID Connect Discovery."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tools_app.http import plain
from tools_app.http.plain import PlainError
from tools_app.sdk.outside import Origin
from tools_app.upstream.oauth.protocol import MOST_SCOPES, OAuthError, Server, fetched, place, text_of, texts_of

MOST_URL: Final = 1_000
S256: Final = "S256"
_METADATA: Final = re.compile(r'\bresource_metadata\s*=\s*"([^"\s]{1,1000})"', re.IGNORECASE)
_SCOPE: Final = re.compile(r'\bscope\s*=\s*"([^"\\]{1,2000})"', re.IGNORECASE)
# Certainly without consequences, if a server answers it without credentials.
_PING: Final = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
_PING_HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


async def server_of(origin: Origin, *, issuer: str = "", scopes: str = "") -> Server:
    """The authorization server of a source. `issuer`, `scopes`: as an operator chose them; empty: as the source says.

    Raises:
        OAuthError: there is none that the hub can use; the message says why.
    """
    resource, issuers, offered_scopes = await _resource(origin)
    if issuer and issuers and _bare(issuer) not in map(_bare, issuers):
        raise OAuthError(f"{origin.name} does not name {place(issuer)} as its authorization server")
    # Before the specification of 2025-06-18, the source itself was the authorization server.
    chosen = issuer or (issuers[0] if issuers else _root(origin.location))
    document = await _document(chosen, internal=origin.internal)
    return _server(chosen, document, resource, scopes or offered_scopes, internal=origin.internal)


async def _resource(origin: Origin) -> tuple[str, tuple[str, ...], str]:
    """What tokens are for, the issuers that the source accepts, and the scopes that it asks for."""
    location, internal = origin.location, origin.internal
    challenge = await _challenge(location, internal=internal)
    named = _METADATA.search(challenge)
    scope = _SCOPE.search(challenge)
    path = urlsplit(location).path.rstrip("/")
    well_known = f"{_root(location)}/.well-known/oauth-protected-resource"
    urls = [named[1]] if named is not None else list(dict.fromkeys([f"{well_known}{path}", well_known]))
    for url in urls:
        if _root(url) != _root(location):
            raise OAuthError(f"{origin.name} names metadata at another origin, {place(url)}")
        document = await fetched(url, f"the metadata of {origin.name}", internal=internal)
        if document is None:
            continue
        resource = text_of(document, "resource", MOST_URL)
        if not _covers(resource, location):
            raise OAuthError(f"the metadata of {origin.name} is about another resource")
        issuers = texts_of(document, "authorization_servers")
        supported = " ".join(texts_of(document, "scopes_supported"))
        return resource, issuers, (scope[1] if scope is not None else supported)[:MOST_SCOPES]
    if named is not None:
        raise OAuthError(f"{origin.name} names metadata that does not exist")
    return location.partition("?")[0], (), scope[1] if scope is not None else ""


async def _challenge(location: str, *, internal: bool) -> str:
    """The WWW-Authenticate header for a request without credentials; empty if there is none."""
    try:
        response = await plain.send("POST", location, internal=internal, headers=_PING_HEADERS, content=_PING)
    except PlainError:
        return ""
    return response.headers.get("www-authenticate", "") if response.status == 401 else ""


async def _document(issuer: str, *, internal: bool) -> dict[str, Any]:
    """The metadata of an authorization server. Only its own: `issuer` must be the same."""
    root, path = _root(issuer), urlsplit(issuer).path.rstrip("/")
    urls = [
        f"{root}/.well-known/oauth-authorization-server{path}",
        f"{root}/.well-known/openid-configuration{path}",
        f"{root}{path}/.well-known/openid-configuration",
    ]
    for url in dict.fromkeys(urls):
        document = await fetched(url, "the metadata of the authorization server", internal=internal)
        if document is None:
            continue
        if _bare(text_of(document, "issuer", MOST_URL)) != _bare(issuer):
            raise OAuthError(f"the metadata at {place(url)} is that of another issuer")
        return document
    raise OAuthError(f"{place(issuer)} has no metadata of an authorization server")


def _server(issuer: str, document: Mapping[str, Any], resource: str, scopes: str, *, internal: bool) -> Server:
    endpoints: dict[str, Any] = {}
    for name in ("authorization", "token", "registration", "revocation"):
        url = text_of(document, f"{name}_endpoint", MOST_URL)
        if url and (fault := plain.fault_of(url, internal=internal)):
            raise OAuthError(f"the {name} endpoint of {place(issuer)} cannot be used: {fault}")
        endpoints[f"{name}_endpoint"] = url
    if not endpoints["token_endpoint"]:
        raise OAuthError(f"the metadata of {place(issuer)} has no token endpoint")
    return Server(
        # As it names itself: this is what it sends as `iss`.
        issuer=text_of(document, "issuer", MOST_URL),
        auth_methods=texts_of(document, "token_endpoint_auth_methods_supported"),
        takes_documents=document.get("client_id_metadata_document_supported") is True,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        resource=resource,
        scopes=scopes,
        supports_pkce=S256 in texts_of(document, "code_challenge_methods_supported"),
        **endpoints,
    )


def _root(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()


def _bare(issuer: str) -> str:
    """Issuers are the same with and without a slash at their end."""
    return issuer.rstrip("/")


def _covers(resource: str, location: str) -> bool:
    """Whether a source is a resource, or lies below it."""
    try:
        own, wanted = urlsplit(location), urlsplit(resource)
    except ValueError:
        return False
    path = wanted.path.rstrip("/")
    is_below = own.path == path or own.path.startswith(f"{path}/")
    return bool(resource) and _root(resource) == _root(location) and is_below and not wanted.fragment
