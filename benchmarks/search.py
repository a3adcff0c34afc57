"""How well and how fast tools are found: questions of people, over the shipped tools and a thousand others.

    python benchmarks/search.py [--tools N] [--missed]

The questions (`search_questions.json`) say what somebody wants done, not what a tool is called. Nearly half of them are
Japanese. Those that are held out were written last, when keywords and synonyms stood, in the words of people who have
never seen a tool's; no word was added for them. Keep it so: who mends what they miss has to write others. The other
tools are made up, of trades that the shipped ones have nothing to do with, in words that theirs share.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

CHECKOUT = Path(__file__).resolve().parent.parent
QUESTIONS = CHECKOUT / "benchmarks" / "search_questions.json"
sys.path.insert(0, str(CHECKOUT))
if __name__ == "__main__":
    # The directory of the benchmarks: there is another mcp in it.
    del sys.path[1]

_TRADES: Mapping[str, Sequence[str]] = {
    "mailbox": ("message", "folder", "attachment", "signature", "filter rule", "draft"),
    "calendar": ("meeting", "reminder", "room", "invitation", "holiday", "availability"),
    "crm": ("lead", "contact", "deal", "campaign", "account owner", "sales stage"),
    "billing": ("invoice", "refund", "subscription", "tax rate", "payment method", "credit memo"),
    "warehouse": ("shipment", "stock level", "supplier", "purchase order", "pallet", "barcode"),
    "code": ("repository", "branch", "pull request", "commit", "deployment", "release tag"),
    "cloud": ("virtual machine", "bucket", "firewall rule", "dns zone", "load balancer", "snapshot"),
    "chat": ("channel", "thread", "emoji", "pinned post", "presence", "direct message"),
    "hr": ("candidate", "vacation request", "payslip", "contract", "training", "review cycle"),
    "maps": ("route", "address", "geofence", "travel distance", "place", "traffic report"),
    "media": ("photo", "album", "playlist", "video caption", "podcast episode", "thumbnail"),
    "iot": ("sensor", "thermostat", "alarm", "firmware", "light", "energy meter"),
    "finance": ("exchange rate", "stock quote", "budget", "ledger account", "expense claim", "forecast"),
    "docs": ("spreadsheet", "slide", "form response", "template", "pdf", "signature request"),
    "monitoring": ("metric", "dashboard", "alert rule", "uptime check", "log stream", "incident"),
    "shop": ("product", "cart", "coupon", "customer review", "gift card", "size chart"),
    "health": ("appointment", "prescription", "lab sample", "patient chart", "vaccine", "referral"),
    "travel": ("flight", "hotel booking", "boarding pass", "visa", "itinerary", "car rental"),
}
_VERBS: Mapping[str, str] = {
    "list": "List every {thing} of {trade}, the newest first, with its status and owner.",
    "get": "Get one {thing} of {trade} with all its details and history.",
    "create": "Create a {thing} in {trade} and tell its id.",
    "update": "Update a {thing} in {trade}: what is left out stays as it is.",
    "delete": "Delete a {thing} of {trade} for good.",
    "search": "Search {trade} for a {thing} by words, date or user.",
    "archive": "Archive a {thing} of {trade}, so that nobody sees it any more.",
    "share": "Share a {thing} of {trade} with a user or a group.",
    "export": "Export a {thing} of {trade} as a file.",
    "count": "Count how often a {thing} of {trade} was used, by day and project.",
}


def questions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(QUESTIONS.read_text())
    return found


def shipped() -> list[Any]:
    from django.test import override_settings

    import toolhub.settings
    from tools_app.sources import python

    with override_settings(TOOLHUB_PACKS=toolhub.settings.TOOLHUB_PACKS):
        tools = [loaded.declared for provider in python.providers() for loaded in provider.loaded()]
    return sorted(tools, key=lambda one: one.name)


def others(number: int) -> Iterator[Any]:
    """So many tools that do something else."""
    from tools_app.sdk.decorator import tool
    from tools_app.sdk.hints import Hints

    async def run(id: str, limit: int = 20, status: str = "", user: str = "") -> None: ...

    made = 0
    turn = 0
    while made < number:
        for verb, says in _VERBS.items():
            for trade, things in _TRADES.items():
                for thing in things:
                    if made == number:
                        return
                    suffix = f"_{turn}" if turn else ""
                    yield tool(
                        name=f"{verb}_{trade}_{thing.replace(' ', '_')}{suffix}",
                        title=f"{verb.capitalize()} {thing}",
                        category=trade,
                        tags=(trade, verb),
                        description=says.format(thing=thing, trade=trade),
                        hints=Hints(read_only=verb in ("list", "get", "search", "count")),
                    )(run)
                    made += 1
        turn += 1


def snapshot(tools: Sequence[Any], *, keywords: bool = True) -> Any:
    """These tools as a hub would have them, without one."""
    from tools_app.catalog.snapshot import Snapshot
    from tools_app.sdk.spec import ToolSpec

    def spec(one: Any) -> ToolSpec:
        if keywords or not one.keywords:
            return cast("ToolSpec", one.spec)
        return ToolSpec.of({**one.spec.body, "keywords": []}, one.spec.runtime)

    entries = {
        one.spec.folded_name: entry_of(
            spec(one), source="code", pack=one.pack.name if one.pack else "", tags=tuple(one.tags), hints=one.hints
        )
        for one in tools
    }
    return Snapshot(entries, {key: key for key in entries})


def entry_of(spec: Any, **decided: Any) -> Any:
    """An entry with the usual decisions, or with these."""
    from tools_app.catalog.entry import Entry, Policy

    now = datetime(2026, 1, 1, tzinfo=UTC)
    usual: dict[str, Any] = {
        "name": spec.name,
        "source_name": "benchmark",
        "identity": (),
        "tags": (),
        "enabled": True,
        "registered_at": now,
        "updated_at": now,
        "policy": Policy(1000, 0, 1000, None, 0, 25_000, {}),
        "refusal": None,
    }
    return Entry(spec=spec, **{**usual, **decided})


def judged(index: Any, asked: Sequence[Mapping[str, Any]]) -> list[int]:
    """At which place each question found a tool that answers it; 0 where none of the first hundred does."""
    places = []
    for question in asked:
        names = [entry.name for entry, _ in index.search(question["question"])[:100]]
        fitting = [names.index(name) + 1 for name in question["tools"] if name in names]
        places.append(min(fitting, default=0))
    return places


def share(places: Sequence[int], within: int) -> float:
    return sum(0 < place <= within for place in places) / len(places)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    value = function()
    return (time.process_time() - begun) * 1000, value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=10_000, help="for the times")
    parser.add_argument("--missed", action="store_true", help="show what was not among the first five")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLHUB_HOME"] = home
        import django

        django.setup()
        _measure(options.tools, missed=options.missed)


def _without_keywords(own: Sequence[Any], number: int) -> Any:
    """What would be found if their authors had not said what people call things."""
    from tools_app.catalog.search.index import Index

    return Index(snapshot([*own, *others(number - len(own))], keywords=False).all, {})


def _measure(most: int, *, missed: bool) -> None:
    from tools_app.catalog.search.index import Index

    own, asked = shipped(), questions()
    print(f"{'tools':>7}{'questions':>24}{'':>6}{'hit@1':>8}{'hit@5':>8}")
    for number in (len(own), 100, 1_000):
        index = Index(snapshot([*own, *others(number - len(own))]).all, {})
        for language in ("en", "ja"):
            for held in (False, True):
                part = [one for one in asked if (one["language"], one["heldOut"]) == (language, held)]
                places = judged(index, part)
                kind = f"{language}, held out" if held else language
                print(f"{number:>7}{kind:>24}{len(part):>6}{share(places, 1):>8.0%}{share(places, 5):>8.0%}")
                if missed and number == 1_000:
                    for question, place in zip(part, places, strict=True):
                        if not 0 < place <= 5:
                            names = [entry.name for entry, _ in index.search(question["question"])[:5]]
                            print(f"        {place:>3} {question['question']} → {', '.join(names)}")
    places = judged(index, asked)
    print(
        f"together, {len(asked)} questions over 1,000 tools: hit@1 {share(places, 1):.0%}, hit@5 {share(places, 5):.0%}"
    )
    tools = [*own, *others(most - len(own))]
    seen = snapshot(tools)
    for entry in seen.all:  # which a hub has done when it registered them
        entry.definition_hash  # noqa: B018
    first, index = timed(lambda: Index(seen.all, {}))
    again, _ = timed(lambda: Index(snapshot(tools).all, index.documents))
    for one in asked:  # the first question about a term finds out how rare it is
        index.search(one["question"])
    gc.collect()
    gc.freeze()  # as a hub does that serves
    times = sorted(timed(lambda text=one["question"]: index.search(text))[0] for one in asked for _ in range(5))
    p95 = times[int(len(times) * 0.95)]
    print(f"{most:,} tools: index {first:.0f} ms, again {again:.0f} ms ", end="")
    print(f"of CPU; a search {statistics.median(times):.1f} ms (median), {p95:.1f} ms (p95), {times[-1]:.1f} ms (most)")
    places = judged(_without_keywords(own, 1_000), asked)
    print(f"without keywords, over 1,000 tools: hit@1 {share(places, 1):.0%}, hit@5 {share(places, 5):.0%}")


if __name__ == "__main__":
    main()
