"""Keys: made, recognised, and compared in constant time. And what may be stored only encrypted.

Only an HMAC of a key is ever stored.

A key reads `thub_<prefix>_<secret><checksum>`: the prefix tells keys apart in lists and logs, the checksum tells a
mistyped key from an unknown one without asking the database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

from django.conf import settings

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

BRAND: Final = "thub"
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(r"thub_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})")
_START: Final = re.compile(r"thub_([0-9A-Za-z]{8})_")
_SHORTEST_KEY: Final = 32
_FEWEST_CHARACTERS: Final = 10
_PURPOSE: Final = b"toolhub api key"
_STORED: Final = b"toolhub stored secret"
_SHOWN: Final = b"toolhub masked secret"


def new_key() -> tuple[str, str]:
    """A fresh key and its prefix. 43 base-62 characters hold 256 bits."""
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(43))
    return f"{BRAND}_{prefix}_{secret}{_checksum(prefix + secret)}", prefix


def well_formed(key: str) -> bool:
    """Whether this can be a key at all."""
    found = _KEY.fullmatch(key)
    return found is not None and hmac.compare_digest(_checksum(found[1] + found[2]), found[3])


def prefix_of(key: str) -> str:
    """The part of a key that is no secret; nothing when the text has not the form of one."""
    found = _START.match(key)
    return found[1] if found else ""


def prefix_in(text: str) -> str:
    """The prefix in a key, in `thub_<prefix>_…`, or the text itself when it looks like neither."""
    return prefix_of(text) or text


def key_hash(key: str) -> str:
    """What is stored of a key."""
    return _hmac(settings.SECRET_KEY, key)


def key_hashes(key: str) -> list[str]:
    """What may have been stored of it: also under earlier values of SECRET_KEY."""
    return [_hmac(secret, key) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def is_strong(key: str) -> bool:
    """Whether a key is one that nobody can guess, as far as that can be seen: 128 bits in hex are long enough."""
    return len(key) >= _SHORTEST_KEY and len(set(key)) >= _FEWEST_CHARACTERS and not key.startswith("django-insecure-")


def fingerprint(secret: str) -> str:
    """What tells a masked secret from others; of no use to guess it without the key of this hub."""
    own = hmac.digest(settings.SECRET_KEY.encode(), _SHOWN, hashlib.sha256)
    return hmac.new(own, secret.encode(errors="replace"), hashlib.sha256).hexdigest()[:8]


def encrypted(plain: bytes) -> bytes:
    """Bytes that only this hub can read. TOOLHUB_ENCRYPTION_KEY may name several keys: the first one encrypts."""
    return _fernet().encrypt(plain)


def decrypted(kept: bytes) -> bytes | None:
    """What was encrypted; None when it was under a key that this hub does not have, or was tampered with."""
    from cryptography.fernet import InvalidToken

    try:
        return _fernet().decrypt(kept)
    except InvalidToken:
        return None


def sealed(plain: bytes) -> str:
    """For something that somebody else keeps for us, and can neither read nor change."""
    return encrypted(plain).decode()


def unsealed(kept: str, seconds: int) -> bytes | None:
    """What was sealed; None when that is longer ago than so many seconds, or when it is not exactly what was given."""
    from cryptography.fernet import InvalidToken

    try:
        # Fernet passes over what follows the end of a token.
        if base64.urlsafe_b64encode(base64.urlsafe_b64decode(kept)).decode() != kept:
            return None
        return _fernet().decrypt(kept, seconds)
    except (InvalidToken, ValueError):
        return None


def rotated(kept: bytes) -> bytes | None:
    """The same under the first key, as it is where it was so already; None when it cannot be decrypted."""
    from cryptography.fernet import InvalidToken

    try:
        _keys()[0].decrypt(kept)
    except InvalidToken:
        plain = decrypted(kept)
        return None if plain is None else encrypted(plain)
    return kept


def _fernet() -> MultiFernet:
    # An agent waits for the start of this process, and most never need it.
    from cryptography.fernet import MultiFernet

    return MultiFernet(_keys())


def _keys() -> list[Fernet]:
    from cryptography.fernet import Fernet

    given = getattr(settings, "TOOLHUB_ENCRYPTION_KEY", "") or settings.SECRET_KEY
    keys = [hmac.digest(key.strip().encode(), _STORED, hashlib.sha256) for key in given.split(",") if key.strip()]
    return [Fernet(base64.urlsafe_b64encode(key)) for key in keys]


def _hmac(secret: str, key: str) -> str:
    own = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)
    return hmac.new(own, key.encode(), hashlib.sha256).hexdigest()


def _checksum(text: str) -> str:
    number = binascii.crc32(text.encode())
    digits = ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        digits = _ALPHABET[rest] + digits
    return digits
