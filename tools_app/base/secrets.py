"""API keys (generation, recognition, constant-time comparison), and encryption of stored secrets.

Only an HMAC of a key is stored.

A key has the form `thub_<prefix>_<secret><checksum>`: the prefix identifies keys in lists and logs, the checksum
distinguishes a mistyped key from an unknown one without a query.
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
_OUTSIDE: Final = b"toolhub name outside"


def new_key() -> tuple[str, str]:
    """A new key and its prefix. 43 base-62 characters hold 256 bits."""
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(43))
    return f"{BRAND}_{prefix}_{secret}{_checksum(prefix + secret)}", prefix


def well_formed(key: str) -> bool:
    """Whether the text has the form of a key, with a correct checksum."""
    match = _KEY.fullmatch(key)
    return match is not None and hmac.compare_digest(_checksum(match[1] + match[2]), match[3])


def prefix_of(key: str) -> str:
    """The public prefix of a key; empty if the text does not have the form of one."""
    match = _START.match(key)
    return match[1] if match else ""


def prefix_in(text: str) -> str:
    """The prefix in a key or in `thub_<prefix>_…`; any other text unchanged."""
    return prefix_of(text) or text


def key_hash(key: str) -> str:
    """The HMAC of a key, as it is stored."""
    return _hmac(settings.SECRET_KEY, key)


def key_hashes(key: str) -> list[str]:
    """All HMACs under which a key can be stored: also those with earlier values of SECRET_KEY."""
    return [_hmac(secret, key) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def is_strong(key: str) -> bool:
    """Whether a secret key looks long and random enough: 128 bits in hex are."""
    return len(key) >= _SHORTEST_KEY and len(set(key)) >= _FEWEST_CHARACTERS and not key.startswith("django-insecure-")


def fingerprint(secret: str) -> str:
    """A short HMAC that distinguishes masked secrets; without this hub's key it does not help to guess them."""
    derived_key = hmac.digest(settings.SECRET_KEY.encode(), _SHOWN, hashlib.sha256)
    return hmac.new(derived_key, secret.encode(errors="replace"), hashlib.sha256).hexdigest()[:8]


def name_outside(text: str) -> str:
    """A keyed hash under which something is known where others may look: 128 bits in hex."""
    derived_key = hmac.digest(settings.SECRET_KEY.encode(), _OUTSIDE, hashlib.sha256)
    return hmac.digest(derived_key, text.encode(errors="surrogatepass"), hashlib.sha256).hex()[:32]


def encrypted(plain: bytes) -> bytes:
    """Encrypted bytes. TOOLHUB_ENCRYPTION_KEY can list several keys: the first one encrypts."""
    return _fernet().encrypt(plain)


def decrypted(ciphertext: bytes) -> bytes | None:
    """The decrypted bytes; None if this hub does not have the key, or the bytes were modified."""
    from cryptography.fernet import InvalidToken

    try:
        return _fernet().decrypt(ciphertext)
    except InvalidToken:
        return None


def sealed(plain: bytes) -> str:
    """Encrypted text for clients to store, which they can neither read nor change."""
    return encrypted(plain).decode()


def unsealed(token: str, seconds: int) -> bytes | None:
    """The sealed bytes; None if the text is older than `seconds` or was modified."""
    from cryptography.fernet import InvalidToken

    try:
        # Fernet ignores trailing data after a token.
        if base64.urlsafe_b64encode(base64.urlsafe_b64decode(token)).decode() != token:
            return None
        return _fernet().decrypt(token, seconds)
    except (InvalidToken, ValueError):
        return None


def rotated(ciphertext: bytes) -> bytes | None:
    """The bytes encrypted with the first key, unchanged if they already are; None if they cannot be decrypted."""
    from cryptography.fernet import InvalidToken

    try:
        _keys()[0].decrypt(ciphertext)
    except InvalidToken:
        plain = decrypted(ciphertext)
        return None if plain is None else encrypted(plain)
    return ciphertext


def _fernet() -> MultiFernet:
    # Imported at first use: few processes need it, and it would slow down every start.
    from cryptography.fernet import MultiFernet

    return MultiFernet(_keys())


def _keys() -> list[Fernet]:
    from cryptography.fernet import Fernet

    setting = getattr(settings, "TOOLHUB_ENCRYPTION_KEY", "") or settings.SECRET_KEY
    keys = [hmac.digest(key.strip().encode(), _STORED, hashlib.sha256) for key in setting.split(",") if key.strip()]
    return [Fernet(base64.urlsafe_b64encode(key)) for key in keys]


def _hmac(secret: str, key: str) -> str:
    derived_key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)
    return hmac.new(derived_key, key.encode(), hashlib.sha256).hexdigest()


def _checksum(text: str) -> str:
    number = binascii.crc32(text.encode())
    digits = ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        digits = _ALPHABET[rest] + digits
    return digits
