"""The prompts and resources of a caller: those of its packs and toolsets, if it may use all tools that they need."""

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
class _Candidate:
    """An offer in the form in which toolsets select tools."""

    folded_name: str
    pack: str
    category: str
    tags: tuple[str, ...]
    hints: Hints


class Offers:
    """The prompts and resources of a caller, in a fixed order."""

    def __init__(self, items: Iterable[Offer]) -> None:
        offers = list(items)
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
        """The resource at a URI, with the values of its placeholders. An exact match precedes templates."""
        if (fixed := self._fixed.get(uri)) is not None:
            return fixed, {}
        for template in self.templates:
            if (values := template.template.values(uri)) is not None:
                return template, values
        return None

    @cached_property
    def prompts_digest(self) -> str:
        """Changes exactly when the list of prompts changes."""
        return _digest(prompt.wire() for prompt in self.prompts)

    @cached_property
    def resources_digest(self) -> str:
        return _digest(resource.wire() for resource in (*self.resources, *self.templates))


_cached_offers: WeakKeyDictionary[Snapshot, Offers] = WeakKeyDictionary()


def of(view: Snapshot, reach: Reach) -> Offers:
    """The offers for this view of a snapshot; all callers with the same reach share one view."""
    offers = _cached_offers.get(view)
    if offers is None:
        offers = _cached_offers[view] = Offers(
            offer for offer, pack in sources.loaded().offers if _is_available(offer, pack, view, reach)
        )
    return offers


def entry(offer: Offer, view: Snapshot, runner: FunctionTool | None = None) -> Entry:
    """An offer, or the completion of one of its arguments, as an entry that the engine can run.

    An offer has no parameter for the account: it uses the caller's only one, or none.
    """
    tool = runner or offer.runner
    pack = offer.pack.name if offer.pack else ""
    now = timezone.now()
    accounts = view.accounts_of(pack)
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
        refusal=view.stopped(pack),
        accounts=accounts if len(accounts) == 1 else (),
    )


def _is_available(offer: Offer, pack: str, view: Snapshot, reach: Reach) -> bool:
    if view.stopped(pack) is not None:
        return False
    if offer.pack is not None and conf.unset(list(offer.pack.requires)):
        return False
    if offer.pack is not None and offer.pack.connection is not None and not view.accounts_of(pack):
        return False
    for name in offer.tools:
        tool = view.find(name)
        if tool is None or not tool.callable:
            return False
    # A caller that may use all its tools may use it. Without tools, toolsets select it by its own labels.
    if offer.tools or reach.toolsets is None:
        return True
    candidate = _Candidate(folded(offer.name), pack, offer.category, offer.tags, offer.hints)
    choices = [view.toolsets[name] for name in reach.toolsets if name in view.toolsets]
    return any(choice.holds(candidate) for choice in choices)


def _sorted(offers: Iterable[OfferT]) -> tuple[OfferT, ...]:
    return tuple(sorted(offers, key=lambda offer: offer.key))


def _digest(wires: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps(list(wires), sort_keys=True).encode(errors="replace")).hexdigest()
