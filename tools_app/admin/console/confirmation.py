"""Confirmation tokens for tools that write: valid for one call by one operator, once.

The token is bound to caller, tool and arguments, and becomes the idempotency key of the call, so that it runs once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from django.core import signing

from tools_app.catalog.entry import Entry
from tools_app.sdk.context import Caller
from tools_app.text import json_text

VALID_SECONDS: Final = 600
_SALT: Final = "tools_app.admin.console"


def token(entry: Entry, arguments: Mapping[str, Any], caller: Caller) -> str:
    nonce = secrets.token_urlsafe(16)
    return signing.dumps([nonce, _call(entry, arguments, caller)], salt=_SALT)


def idempotency_key(confirmation: str, entry: Entry, arguments: Mapping[str, Any], caller: Caller) -> str | None:
    """The idempotency key of the confirmed call; None if this is another call, or the token expired."""
    try:
        nonce, call = signing.loads(confirmation, salt=_SALT, max_age=VALID_SECONDS)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return f"console-{nonce}" if call == _call(entry, arguments, caller) else None


def _call(entry: Entry, arguments: Mapping[str, Any], caller: Caller) -> str:
    """Includes the definition hash: a confirmation is void for a changed tool."""
    return json_text.digest([caller.id, entry.name, entry.definition_hash, *entry.identity, arguments])
