"""Sources outside: what they list, and what happens to their tools when they are removed or move.

A row is all that is known of such a source, so every process can describe it. `lister.py` decides which of them does,
and when.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.base import conf, hub, ports
from tools_app.base.ports import UnavailableError
from tools_app.models import Definition, Source, SourceDocument, SourceStatus, ToolRecord
from tools_app.sdk.heavy import without_collections
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sources.provider import Server, SourceContents
from tools_app.text import hygiene

log = logging.getLogger("tools_app.sources")

MOST_INSTRUCTIONS: Final = 32_768
_MOST_UNSTABLE: Final = 100
# Limits of columns.
_MOST_SERVER, _MOST_ERA, _MOST_KEY = 200, 16, 2000


class OutsideProvider:
    """A source outside, as its row is now."""

    def __init__(self, row: Source, origin: Origin) -> None:
        self.name, self.kind, self.location = row.name, Source.Kind(row.kind), row.location
        self.origin: Origin | None = origin
        self.recorded_etag = ""
        self._origin, self._pin_defaults, self._trust = origin, row.pin_defaults, row.effective_trust

    def etag(self) -> str:
        """Only a listing tells."""
        return ""

    def describe(self) -> SourceContents:
        try:
            listing = ports.upstreams().listing(self._origin)
            with without_collections():
                return self.contents(listing)
        except UnavailableError:
            raise
        except Exception as error:
            if hub.current().is_closing:
                raise
            # Whatever a stranger sends must cost this source only.
            log.exception("the listing of %s cannot be read", self.name)
            raise UnavailableError(f"its listing cannot be read: {type(error).__name__}") from error

    def contents(self, listing: Listing) -> SourceContents:
        """What this listing means for the hub. A stranger's listing may make it fail in any way."""
        # A process that only serves what is recorded does not need it.
        from tools_app.sources import foreign

        names = names_of(self.name)
        tools, problems = foreign.described(self._origin, listing, names, pin_defaults=self._pin_defaults)
        rules = foreign.NORMALISER, conf.value("TOOLHUB_VERSION"), self._pin_defaults, self._trust, self._origin.epoch
        server = Server(
            name=_text(listing.server, _MOST_SERVER),
            era=_text(listing.era, _MOST_ERA),
            instructions=_text(listing.instructions, MOST_INSTRUCTIONS),
            unstable=[_text(name, _MOST_KEY) for name in sorted(listing.unstable)[:_MOST_UNSTABLE]],
        )
        return SourceContents(tools, problems, _etag_of(listing, *rules), server)

    def is_outdated(self) -> bool:
        return False

    async def start(self) -> None:
        """Connections are made by calls."""

    async def stop(self) -> None:
        """Connections are not the provider's."""

    def runner(self, spec: ToolSpec) -> Runner:
        return ports.upstreams().runner(self._origin, spec)


def provider(name: str) -> OutsideProvider | None:
    """A source outside, also if it is switched off. None: there is none of that name, or it was removed."""
    rows = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None).select_related("connection")
    row = rows.filter(name=name).first()
    return OutsideProvider(row, row.origin) if row is not None and row.origin is not None else None


# ---- when it is listed again


class Wake:
    """Tells the lister of this process that a source is due."""

    def __init__(self) -> None:
        self.event = threading.Event()


def list_again(name: str) -> None:
    """Have a source listed as soon as possible: by this process at once, or by another one after a few seconds.

    For a change that the source reports, a child process that was started, a tool that the source does not know, and an
    operator's request. Earlier failures do not delay that.
    """
    SourceStatus.objects.filter(source__name=name).update(next_try_at=timezone.now())
    transaction.on_commit(hub.part(Wake).event.set)


def read_again(name: str) -> None:
    """Have the document of a source read again at its next listing, however recent it is."""
    SourceDocument.objects.filter(source__name=name).update(tried_at=None)


# ---- a source that has moved


def requarantine(row: Source) -> None:
    """Hold everything that a source provides, since its address or command was changed: approvals were for another one.

    It is switched off, and nothing that it said remains. In the transaction of the change, which holds `sync.lock`.
    """
    row.epoch, row.enabled, row.approved_instructions = row.epoch + 1, False, ""
    row.save(update_fields=["epoch", "enabled", "approved_instructions"])
    _forget_offers(row)
    SourceStatus.objects.update_or_create(
        source=row,
        defaults={
            "etag": "",
            "described_at": None,
            "error": "",
            "since": None,
            "problems": [],
            "failures": 0,
            "next_try_at": None,
            "server": "",
            "era": "",
            "instructions": "",
            "instructions_hash": "",
            "unstable": [],
            "availability": SourceStatus.Availability.OK,
        },
    )


def _forget_offers(row: Source) -> None:
    """Versions that wait behind an approved one: nothing of them can be approved any more."""
    waiting = Definition.objects.filter(offered_for__source=row, approved_at=None, refused_at=None)
    keys = list(waiting.values_list("pk", flat=True))
    ToolRecord.everything.filter(source=row).update(offered=None, offered_runtime=None)
    Definition.objects.filter(pk__in=keys).delete()


# ---- text of strangers


def names_of(name: str) -> Mapping[tuple[str, str], str]:
    """The names that were given to what this source lists. Those of resources need not be unique."""
    kinds = (Kind.TOOL, Kind.PROMPT)
    records = ToolRecord.everything.filter(source__name=name, kind__in=kinds)
    return {(kind, key): name for kind, key, name in records.values_list("kind", "original_name", "name")}


def _etag_of(listing: Listing, *rules: object) -> str:
    """A digest of all that is recorded, and of the rules for that. Servers may list their tools in any order."""
    server = listing.server, listing.era, listing.instructions, sorted(listing.unstable)
    digest = hashlib.sha256(_canonical([server, rules]).encode())
    # Piece by piece: other threads run in between.
    for part in (listing.tools, listing.resources, listing.templates, listing.prompts):
        pieces = sorted(hashlib.sha256(_canonical(item).encode()).digest() for item in part)
        digest.update(b"%d:%s" % (len(pieces), b"".join(pieces)))
    return digest.hexdigest()[:32]


def _text(text: str, most: int) -> str:
    """Text that every database takes, without hidden characters."""
    return hygiene.cleaned(text[:most])


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
