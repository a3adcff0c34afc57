"""A key as it is named at a shell: by its name, its start or itself."""

from __future__ import annotations

from django.db.models import Q

from tools_app.base import secrets
from tools_app.management.hub_command import Stop
from tools_app.models import ApiKey

HELP = "its name, or the start of the key as listkeys shows it"


def found(text: str) -> ApiKey:
    """Raises: Stop, where there is no such key, or more than one."""
    start = secrets.prefix_in(text)
    keys = ApiKey.objects.filter(Q(name=text) | Q(prefix=start) | (Q(previous_prefix=start) & ~Q(previous_prefix="")))
    several = keys[:2]
    if not several:
        raise Stop(f"there is no key {text[:100]!r}; `toolhub listkeys` shows which there are")
    if len(several) > 1:
        raise Stop(f"{text!r} is the name of one key and the start of another; give the other's name or prefix")
    return several[0]
