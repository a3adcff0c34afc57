"""What proves that a manifest is unchanged, and holds the keys of a hub under a passphrase.

Without a passphrase, a backup can only be restored with the keys of its hub, which prove it. With one, the passphrase
does.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import TYPE_CHECKING, Final

from django.conf import settings
from pydantic import BaseModel, ConfigDict

from tools_app.setup.backup.errors import BackupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SHORTEST_PASSPHRASE: Final = 12
_PURPOSE: Final = b"toolhub backup"
# Fixed by the version of the format: a file must not choose how much memory is used. 128 MiB, half a second.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**17, 8, 1
_SCRYPT_MEMORY: Final = 192 * 1024 * 1024
_SALT_BYTES, _NONCE_BYTES = 16, 12


class Keys(BaseModel):
    """The keys of a hub: the first of each is used for what is new."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: list[str]
    encryption: list[str]


class Seal(BaseModel):
    """`signatures`: of the manifest, with each encryption key. `box`: the keys, encrypted with the passphrase."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signatures: list[str]
    box: str = ""


def own_keys() -> Keys:
    encryption = [key.strip() for key in settings.TOOLHUB_ENCRYPTION_KEY.split(",") if key.strip()]
    return Keys(secret=[settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS], encryption=encryption)


def sealed(manifest: bytes, passphrase: str) -> Seal:
    """Raises: BackupError: the passphrase is too short."""
    keys = own_keys()
    signatures = [_signature(key, manifest) for key in keys.encryption]
    if not passphrase:
        return Seal(signatures=signatures)
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BackupError(f"TOOLHUB_BACKUP_PASSPHRASE is too short: use at least {SHORTEST_PASSPHRASE} characters")
    salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)
    box = _cipher(passphrase, salt).encrypt(nonce, keys.model_dump_json().encode(), manifest)
    return Seal(signatures=signatures, box=base64.b64encode(salt + nonce + box).decode())


def opened(seal: Seal, manifest: bytes, passphrase: str) -> Keys | None:
    """Prove the manifest. Returns the keys of the hub that made it, if they are in the box.

    Raises:
        BackupError: it cannot be proved.
    """
    if passphrase and seal.box:
        return _from_box(seal.box, manifest, passphrase)
    own = [_signature(key, manifest) for key in own_keys().encryption]
    if any(hmac.compare_digest(mine, theirs) for mine in own for theirs in seal.signatures):
        return None
    if seal.box:
        raise BackupError(
            "no encryption key of this hub signed it: set TOOLHUB_BACKUP_PASSPHRASE to the passphrase with which it "
            "was made. If the keys are the same, the file was changed: use another backup"
        )
    raise BackupError(
        "no encryption key of this hub signed it, and the keys are not in it. Set TOOLHUB_ENCRYPTION_KEY to the key of "
        "that time (after the present one: new,old), and on a new machine put `secret_key` and `encryption_key` into "
        "the home. If the keys are the same, the file was changed: use another backup"
    )


def _from_box(box: str, manifest: bytes, passphrase: str) -> Keys:
    from cryptography.exceptions import InvalidTag

    try:
        content = base64.b64decode(box, validate=True)
        salt, nonce = content[:_SALT_BYTES], content[_SALT_BYTES : _SALT_BYTES + _NONCE_BYTES]
        plain = _cipher(passphrase, salt).decrypt(nonce, content[_SALT_BYTES + _NONCE_BYTES :], manifest)
        return Keys.model_validate(json.loads(plain))
    except (InvalidTag, ValueError):
        pass
    raise BackupError("the passphrase in TOOLHUB_BACKUP_PASSPHRASE is wrong, or the file was changed")


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = hashlib.scrypt(
        passphrase.encode(), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, maxmem=_SCRYPT_MEMORY, dklen=32
    )
    return AESGCM(key)


def _signature(key: str, manifest: bytes) -> str:
    return hmac.new(hmac.digest(key.encode(), _PURPOSE, hashlib.sha256), manifest, hashlib.sha256).hexdigest()
