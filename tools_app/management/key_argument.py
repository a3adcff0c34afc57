"""An API key as a command argument: its name, its prefix or the key itself."""

from __future__ import annotations

from django.db.models import Q

from tools_app.base import secrets
from tools_app.management.hub_command import Abort
from tools_app.models import ApiKey

HELP = "its name, or its prefix as listkeys shows it"


def find(text: str) -> ApiKey:
    """Raises: Abort: no key matches, or more than one."""
    prefix = secrets.prefix_in(text)
    keys = ApiKey.objects.filter(Q(name=text) | Q(prefix=prefix) | (Q(previous_prefix=prefix) & ~Q(previous_prefix="")))
    matches = keys[:2]
    if not matches:
        raise Abort(f"there is no key {text[:100]!r}; `toolhub listkeys` lists the keys")
    if len(matches) > 1:
        raise Abort(f"{text!r} is the name of one key and the prefix of another; use the other's name or prefix")
    return matches[0]
