"""Who can use a tool: its toolsets, and keys with their obstacles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from tools_app.access import actions
from tools_app.admin import links
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import ApiKey, Toolset
from tools_app.sdk.context import Caller

# Each combination of toolsets needs a view of the whole catalog.
MOST_KEYS: Final = 100


@dataclass(frozen=True, slots=True)
class Way:
    """A key that can see the tool, and the obstacle to calling it with that key, if any."""

    name: str
    address: str
    obstacle: str


@dataclass(frozen=True, slots=True)
class Ways:
    """None: the user has no permission to see it."""

    toolsets: list[tuple[str, str]] | None
    keys: list[Way] | None
    others: int = 0
    """The number of usable keys that do not reach the tool."""
    truncated: bool = False


def ways_to(entry: Entry, snapshot: Snapshot, request: HttpRequest) -> Ways:
    toolsets = None
    if actions.TOOLSETS_READ.permits(request.user):
        toolsets = [
            (toolset.name, links.address("toolset", "change", toolset.pk))
            for toolset in Toolset.objects.order_by("name")
            if toolset.choice().holds(entry)
        ]
    if not actions.KEYS_READ.permits(request.user):
        return Ways(toolsets, None)
    usable = ApiKey.objects.usable(timezone.now()).prefetch_related("toolsets", "connections").order_by("name")
    keys = list(usable[: MOST_KEYS + 1])
    ways = list(_ways(entry, snapshot, keys[:MOST_KEYS]))
    return Ways(toolsets, ways, len(keys[:MOST_KEYS]) - len(ways), len(keys) > MOST_KEYS)


def _ways(entry: Entry, snapshot: Snapshot, keys: list[ApiKey]) -> Iterator[Way]:
    for key in keys:
        caller = Caller("key", f"key:{key.pk}", key.name, frozenset(key.scopes), key.reach)
        visible_entry = snapshot.seen_by(caller).find(entry.name)
        if visible_entry is not None:
            yield Way(key.name, links.address("apikey", "change", key.pk), _obstacle(visible_entry, entry, caller))


def _obstacle(visible_entry: Entry, entry: Entry, caller: Caller) -> str:
    if not actions.TOOLS_CALL.permits(caller):
        return _("cannot call tools")
    lacks = entry.beyond(caller.reach)
    if lacks:
        return _("cannot use tools that write") if lacks == "write" else _("cannot use destructive tools")
    if visible_entry.refusal is None or visible_entry.refusal == entry.refusal:
        # Obstacles for all callers are shown at the top of the page.
        return ""
    if entry.connection_kind is not None and entry.accounts and not visible_entry.accounts:
        return _("has no connection to %(upstream)s") % {"upstream": entry.connection_kind.title}
    return visible_entry.refusal.reason
