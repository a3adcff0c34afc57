"""Which prompts and resources there are for a caller: those of its packs and toolsets whose tools it may all use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

from django.utils import timezone

from tools_app import sources
from tools_app.base import conf
from tools_app.catalog.entry import Entry, effective_policy
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import ToolRecord
from tools_app.sdk.decorator import FunctionTool
from tools_app.sdk.names import folded
from tools_app.sdk.offer import Offer
from tools_app.sdk.prompt import Prompt
from tools_app.sdk.reach import Reach
from tools_app.sdk.resource import Resource
from tools_app.sdk.tool import Hints
from tools_app.sources.registry import Origin

OfferT = TypeVar("OfferT", bound=Offer)


@dataclass(frozen=True, slots=True)
class _Described:
    """An offer, as toolsets choose tools."""

    folded_name: str
    pack: str
    category: str
    tags: tuple[str, ...]
    hints: Hints


class Offers:
    """What there is for a caller, in a fixed order."""

    def __init__(self, found: Iterable[Offer]) -> None:
        offers = list(found)
        self.prompts = _sorted(offer for offer in offers if isinstance(offer, Prompt))
        resources = _sorted(offer for offer in offers if isinstance(offer, Resource))
        self.resources = tuple(resource for resource in resources if resource.fixed)
        self.templates = tuple(resource for resource in resources if not resource.fixed)
        self._fixed = {resource.uri: resource for resource in self.resources}

    def prompt(self, name: str) -> Prompt | None:
        return next((prompt for prompt in self.prompts if prompt.name == name), None)

    def template(self, uri_template: str) -> Resource | None:
        return next((resource for resource in self.templates if resource.uri == uri_template), None)

    def resource(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """The resource at a URI, with what fills its blanks. One at exactly this URI goes before templates."""
        if (fixed := self._fixed.get(uri)) is not None:
            return fixed, {}
        for template in self.templates:
            if (values := template.template.values(uri)) is not None:
                return template, values
        return None

    @cached_property
    def prompts_digest(self) -> str:
        """Differs exactly when a list of the prompts does."""
        return _digest(prompt.wire() for prompt in self.prompts)

    @cached_property
    def resources_digest(self) -> str:
        return _digest(resource.wire() for resource in (*self.resources, *self.templates))


_known: WeakKeyDictionary[Snapshot, Offers] = WeakKeyDictionary()


def of(seen: Snapshot, reach: Reach) -> Offers:
    """What there is for whoever sees this of a snapshot, which is one object for all with that reach."""
    offers = _known.get(seen)
    if offers is None:
        offers = _known[seen] = Offers(
            offer for offer, pack in sources.loaded().offers if _is_there(offer, pack, seen, reach)
        )
    return offers


def entry(offer: Offer, seen: Snapshot, runner: FunctionTool | None = None) -> Entry:
    """An offer, or what completes an argument of it, as the engine runs tools.

    Nobody can say which account it is to use: it has the caller's only one, or none.
    """
    tool = runner or offer.runner
    pack = offer.pack.name if offer.pack else ""
    now = timezone.now()
    accounts = seen.accounts_of(pack)
    return Entry(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        version=tool.effective_version,
        category=tool.category,
        tags=tuple(tool.tags),
        author=tool.author,
        source=Origin.CODE,
        pack=pack,
        enabled=True,
        registered_at=now,
        updated_at=now,
        policy=effective_policy(ToolRecord(), tool),
        tool=tool,
        refusal=seen.stopped(pack),
        accounts=accounts if len(accounts) == 1 else (),
    )


def _is_there(offer: Offer, pack: str, seen: Snapshot, reach: Reach) -> bool:
    if seen.stopped(pack) is not None:
        return False
    if offer.pack is not None and conf.unset(list(offer.pack.requires)):
        return False
    if offer.pack is not None and offer.pack.connection is not None and not seen.accounts_of(pack):
        return False
    for name in offer.tools:
        tool = seen.find(name)
        if tool is None or not tool.callable:
            return False
    # Whoever may use all its tools may have it. Without tools it is chosen as they are, by what it says of itself.
    if offer.tools or reach.toolsets is None:
        return True
    described = _Described(folded(offer.name), pack, offer.category, offer.tags, offer.hints)
    choices = [seen.toolsets[name] for name in reach.toolsets if name in seen.toolsets]
    return any(choice.holds(described) for choice in choices)


def _sorted(offers: Iterable[OfferT]) -> tuple[OfferT, ...]:
    return tuple(sorted(offers, key=lambda offer: offer.key))


def _digest(wires: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps(list(wires), sort_keys=True).encode(errors="replace")).hexdigest()
