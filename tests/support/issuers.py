"""An OAuth issuer on loopback: publishes its keys, and makes tokens, also such as no honest one would make."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.warnings import InsecureKeyLengthWarning

from tests.support.faultd import Faultd, Wire

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
MAKERS: dict[str, Callable[[], Key]] = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class Issuer:
    """Behind a server of faults: what it publishes can be changed, and how often it was asked is known."""

    def __init__(self, server: Faultd) -> None:
        self.server = server
        self.url = server.url
        self.keys: dict[str, tuple[str, Key]] = {}
        self.published: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys?set=1"}
        self.status = "200 OK"
        server.answer(".well-known", self._metadata)
        server.answer("keys", self._keys)

    def add(self, key_id: str, algorithm: str = "ES256", *, publish: bool = True, key: Key | None = None) -> None:
        made: Key = key or MAKERS[algorithm]()
        self.keys[key_id] = (algorithm, made)
        if publish:
            described = jwt.get_algorithm_by_name(algorithm).to_jwk(made.public_key(), as_dict=True)
            self.published.append({**described, "kid": key_id, "use": "sig"})

    def token(self, key_id: str = "one", *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good in every way in which nothing else is said; None leaves a claim out."""
        now = int(time.time())
        said = {"iss": self.url, "sub": "user-1", "aud": "hub", "exp": now + 60, "iat": now, "scope": "tools:list"}
        algorithm, key = self.keys[key_id]
        kept = {name: value for name, value in {**said, **claims}.items() if value is not None}
        shown = {name: value for name, value in {"kid": key_id, **(header or {})}.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureKeyLengthWarning)  # of keys that are meant to be weak
            return jwt.encode(kept, key, algorithm, headers=shown)

    def asked(self) -> int:
        """How often the keys were."""
        return sum(seen.target.startswith("/keys") for seen in self.server.requests)

    async def _metadata(self, wire: Wire) -> None:
        await wire.answer(json.dumps(self.metadata).encode(), status=self.status)

    async def _keys(self, wire: Wire) -> None:
        await wire.answer(json.dumps({"keys": self.published}).encode(), status=self.status)


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None = None) -> str:
    """A token that no library would make: not signed, or with a secret."""
    parts = b".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    signature = hmac.new(secret, parts, hashlib.sha256).digest() if secret is not None else b"x"
    return (parts + b"." + _encoded(signature)).decode()


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
