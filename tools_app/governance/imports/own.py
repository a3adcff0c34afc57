"""Entries of this hub in the configuration of a client, as `toolhub connect` writes them."""

from __future__ import annotations

from typing import Any

from tools_app.base import conf, secrets
from tools_app.models import ApiKey


def is_own_entry(entry: Any) -> bool:
    """True if the entry starts this hub or has one of its keys."""
    if not isinstance(entry, dict):
        return False
    arguments, variables = entry.get("args"), entry.get("env")
    if isinstance(arguments, list) and "runmcp" in arguments:
        home = variables.get("TOOLHUB_HOME") if isinstance(variables, dict) else None
        return home is None or home == str(conf.home())
    return key_of(entry) is not None


def key_of(entry: Any) -> ApiKey | None:
    """The key of this hub that the entry sends, valid or revoked."""
    headers = entry.get("headers") or entry.get("http_headers") if isinstance(entry, dict) else None
    for value in headers.values() if isinstance(headers, dict) else ():
        key = str(value).removeprefix("Bearer ")
        if secrets.well_formed(key):
            return ApiKey.objects.once_known_by(secrets.key_hashes(key)).first()
    return None
