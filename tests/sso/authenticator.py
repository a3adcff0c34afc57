"""An authenticator in software: what a security key and a browser would send, and what forgers would."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestedCredentialData, AuthenticatorData

PRESENT, MADE = AuthenticatorData.FLAG.UP, AuthenticatorData.FLAG.AT


class SoftwareKey:
    """Of one credential. `host` and `origin` are where the browser says that it is."""

    def __init__(self, origin: str = "https://testserver", host: str = "testserver", counter: int = 1) -> None:
        self.origin, self.host, self.counter = origin, host, counter
        self.id = os.urandom(32)
        self._key = ec.generate_private_key(ec.SECP256R1())

    def makes(self, options: dict[str, Any], **changes: Any) -> str:
        """The answer to `navigator.credentials.create`."""
        key = {**ES256.from_cryptography_key(self._key.public_key()), **changes.pop("key", {})}
        credential = AttestedCredentialData.create(b"\0" * 16, self.id, key)  # type: ignore[arg-type]  # also what is no key
        said = self._client("webauthn.create", options, changes)
        shown = self._shown(changes, PRESENT | MADE, bytes(credential))
        attested = changes.pop("attested", None) or cbor.encode({"fmt": "none", "attStmt": {}, "authData": shown})
        return self._answer(changes, clientDataJSON=said, attestationObject=attested)

    def signs(self, options: dict[str, Any], **changes: Any) -> str:
        """The answer to `navigator.credentials.get`."""
        self.counter = changes.pop("counter", self.counter + 1 if self.counter else 0)
        said = self._client("webauthn.get", options, changes)
        shown = changes.pop("shown", None) or self._shown(changes, PRESENT, b"")
        signature = self._key.sign(shown + sha256(said).digest(), ec.ECDSA(hashes.SHA256()))
        signature = changes.pop("signature", signature)
        return self._answer(changes, clientDataJSON=said, authenticatorData=shown, signature=signature)

    def _client(self, kind: str, options: dict[str, Any], changes: dict[str, Any]) -> bytes:
        said = {
            "type": changes.pop("type", kind),
            "challenge": changes.pop("challenge", options["challenge"]),
            "origin": changes.pop("origin", self.origin),
            "crossOrigin": changes.pop("is_framed", False),
        }
        return json.dumps(said).encode()

    def _shown(self, changes: dict[str, Any], flags: int, credential: bytes) -> bytes:
        host = sha256(changes.pop("host", self.host).encode()).digest()
        flags = changes.pop("flags", flags)
        return host + bytes([flags]) + self.counter.to_bytes(4, "big") + credential

    def _answer(self, changes: dict[str, Any], **parts: bytes) -> str:
        identifier = websafe_encode(changes.pop("id", self.id))
        assert not changes, changes
        return json.dumps(
            {"id": identifier, "response": {name: websafe_encode(part) for name, part in parts.items()}},
        )
