"""How allauth stores secrets: encrypted with the key of this hub."""

from __future__ import annotations

from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings

from tools_app.base import secrets
from tools_app.sdk.errors import ConfigurationError


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    def encrypt(self, text: str) -> str:
        return secrets.sealed(text.encode())

    def decrypt(self, encrypted_text: str) -> str:
        """Raises: ConfigurationError: codes of an empty secret could be calculated by anyone."""
        plain = secrets.decrypted(encrypted_text.encode())
        if not plain:
            raise ConfigurationError(
                "This second factor was encrypted with a key that the hub does not have",
                next_step="Add the former key to TOOLHUB_ENCRYPTION_KEY, or remove the second factor of this user.",
            )
        return plain.decode()

    def get_totp_issuer(self) -> str:
        return str(settings.UNFOLD["SITE_TITLE"])
