"""An OpenID Connect provider that does what a test says, also what no honest one would.

Whoever is sent to it has signed in already. `authorize` stands for the browser's visit. It checks what it can check:
the secret of the client, PKCE, the redirect URI, and that a code is used once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.support.faultd import Faultd, Wire
from tests.support.issuers import Issuer

CLIENT_ID = "toolhub"
CLIENT_SECRET = "a-secret-of-a-client"


class IdentityProvider(Issuer):
    def __init__(self, server: Faultd) -> None:
        super().__init__(server)
        self.add("one", "RS256")
        self.metadata |= {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
        }
        # Of the person who signs in next.
        self.claims: dict[str, Any] = {"sub": "u-1", "preferred_username": "anna", "groups": ["admins"]}
        self.userinfo: dict[str, Any] = {}
        # What differs from an honest token: claims, and the whole token.
        self.wrong: dict[str, Any] = {}
        self.id_token: str | None = None
        self.requests: dict[str, dict[str, str]] = {}
        self.refusals: list[str] = []
        server.answer("token", self._token)
        server.answer("userinfo", self._userinfo)

    def authorize(self, location: str, **changes: str) -> str:
        """The address to which the browser comes back. `changes`: parameters of that address."""
        assert location.startswith(self.metadata["authorization_endpoint"]), location
        asked = dict(parse_qsl(urlsplit(location).query))
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.requests[code] = asked
        back = {"code": code, "state": asked["state"], **changes}
        return f"{asked['redirect_uri']}?{urlencode({name: value for name, value in back.items() if value})}"

    async def _token(self, wire: Wire) -> None:
        form = {name: values[0] for name, values in parse_qs(wire.seen.body.decode()).items()}
        asked = self.requests.pop(form.get("code", ""), None)
        if (error := self._error(form, asked)) or asked is None:
            self.refusals.append(error)
            await wire.answer(json.dumps({"error": error}).encode(), status="400 Bad Request")
            return
        claims = {"aud": CLIENT_ID, "nonce": asked["nonce"], "scope": None, **self.claims, **self.wrong}
        token = self.id_token if self.id_token is not None else self.token("one", **claims)
        answer = {"access_token": "an-access-token", "token_type": "Bearer", "id_token": token}
        await wire.answer(json.dumps(answer).encode())

    def _error(self, form: dict[str, str], asked: dict[str, str] | None) -> str:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return "invalid_client"
        if asked is None or form.get("redirect_uri") != asked["redirect_uri"]:
            return "invalid_grant"
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        fits = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        return "" if fits else "invalid_grant"

    async def _userinfo(self, wire: Wire) -> None:
        is_known = wire.seen.headers.get("authorization") == "Bearer an-access-token"
        body = {"sub": self.claims["sub"], **self.userinfo}
        await wire.answer(json.dumps(body).encode(), status="200 OK" if is_known else "401 Unauthorized")
