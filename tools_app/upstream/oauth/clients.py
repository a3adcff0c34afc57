"""As which client the hub is known to an authorization server: entered, described by a document, or registered."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, Final

from tools_app.http import plain
from tools_app.http.plain import PlainError
from tools_app.upstream.oauth.protocol import (
    BASIC,
    MOST_TOKEN,
    NONE,
    POST,
    OAuthError,
    Server,
    place,
    read_object,
    text_of,
    texts_of,
)

ENTERED, DOCUMENT, REGISTERED = "entered", "document", "registered"
NAME: Final = "ToolHub"
_MOST_ID: Final = 1_000


def document(address: str, redirect_uri: str) -> dict[str, Any]:
    """What describes the hub as a client, at its own address (client id metadata document)."""
    return {"client_id": address, **_about(redirect_uri), "token_endpoint_auth_method": NONE}


def entered(server: Server, client_id: str, secret: str) -> Server:
    """As the client that an operator entered."""
    methods = server.auth_methods
    method = NONE if not secret else BASIC if BASIC in methods or POST not in methods else POST
    return replace(server, client_id=client_id, client_kind=ENTERED, auth_method=method)


async def known(server: Server, redirect_uri: str, document_url: str, *, internal: bool) -> tuple[Server, str]:
    """As a client of which no id was entered, with its secret: by its document if the server takes it, or registered.

    `document_url`: where the hub serves its document; empty if no server can read it.

    Raises:
        OAuthError: neither is possible.
    """
    if server.takes_documents and document_url:
        client = replace(server, client_id=document_url, client_kind=DOCUMENT, auth_method=NONE)
        return replace(client, redirect_uri=redirect_uri), ""
    if not server.registration_endpoint:
        raise OAuthError(
            f"{place(server.issuer)} does not register clients: create one there with the redirect URI {redirect_uri}, "
            "and enter its client id here"
        )
    return await registered(server, redirect_uri, internal=internal)


async def registered(server: Server, redirect_uri: str, *, internal: bool) -> tuple[Server, str]:
    """Register the hub as a client (RFC 7591).

    Raises:
        OAuthError: it was not registered.
    """
    methods = server.auth_methods
    # Of a server that says nothing, Basic is the default.
    wanted = next((one for one in (BASIC, POST, NONE) if one in methods), BASIC)
    content = json.dumps({**_about(redirect_uri), "token_endpoint_auth_method": wanted}).encode()
    where = place(server.registration_endpoint)
    try:
        response = await plain.send(
            "POST",
            server.registration_endpoint,
            internal=internal,
            headers={"content-type": "application/json"},
            content=content,
        )
    except PlainError as error:
        raise OAuthError(f"{where}: {error}") from None
    answer = read_object(response)
    if response.status not in (200, 201) or answer is None:
        raise OAuthError(f"{where} did not register the hub as a client (HTTP {response.status})")
    client_id, secret = text_of(answer, "client_id", _MOST_ID), text_of(answer, "client_secret", MOST_TOKEN)
    if not client_id:
        raise OAuthError(f"{where} registered the hub without a client id")
    uris = texts_of(answer, "redirect_uris")
    if uris and redirect_uri not in uris:
        raise OAuthError(f"{where} registered the hub with another redirect URI")
    method = text_of(answer, "token_endpoint_auth_method", 50) or wanted
    expires_at = answer.get("client_secret_expires_at")
    client = replace(
        server,
        client_id=client_id,
        client_kind=REGISTERED,
        auth_method=method if method in (BASIC, POST) and secret else NONE,
        redirect_uri=redirect_uri,
        client_expires_at=float(expires_at) if isinstance(expires_at, int) and secret else 0.0,
    )
    return client, secret if client.auth_method != NONE else ""


def has_expired(server: Server) -> bool:
    return bool(server.client_expires_at) and server.client_expires_at <= time.time()


def _about(redirect_uri: str) -> dict[str, Any]:
    return {
        "client_name": NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
