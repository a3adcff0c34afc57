"""How well tools are found that nobody wrote for this hub: those of other MCP servers, as these describe them.

    python benchmarks/outsiders.py DIRECTORY [--half report] [--missed] [--tools N]

DIRECTORY has one JSON file for each server, with its `tools` as it answered `tools/list`; the name of the file is the
name of the source. The questions (`outsiders_questions.json`) were written before anything was changed for them. Those
of the half `tuning` are for choosing between rules of the search. Those of `report` are about other servers: look at
their sums only. Who reads what they miss, and changes something because of it, has to write others. `last` and `later`
are about tools that were drawn by lot: `last` was written when the first lists of words were finished, `later` before
the changes that followed, together with half as many for `tuning`, which are about other tools. `final` came when they
were made, and nothing was changed after.

`en` and `ja` say what a person wants, in words of their own. `plain` are what an agent asks, in the usual words. A
question has several tools if tools of several servers do what it asks. With `source`, the question names the server
of the first of them. Intervals are Wilson's, for 95 %.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
QUESTIONS = CHECKOUT / "benchmarks" / "outsiders_questions.json"
# The other benchmarks come last: one of them is called mcp, like the package.
sys.path[0] = str(CHECKOUT)
sys.path.append(str(CHECKOUT / "benchmarks"))

KINDS = ("en", "ja", "plain")
HALVES = ("tuning", "report", "last", "later", "final")
REPORTS = HALVES[1:]


def questions() -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = json.loads(QUESTIONS.read_text())
    return asked


def listings(directory: Path) -> dict[str, list[Mapping[str, Any]]]:
    """The tools of each server, as it lists them."""
    return {path.stem: json.loads(path.read_text())["tools"] for path in sorted(directory.glob("*.json"))}


def entries(listed: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Any]:
    """These tools as a hub would have them, if an operator had approved them with the hints that they claim."""
    from search import entry_of

    from tools_app.models import Source
    from tools_app.sdk.hints import Hints
    from tools_app.sdk.outside import Listing, Origin
    from tools_app.sources import foreign

    for server, tools in listed.items():
        origin = Origin(server, Source.Kind.MCP_HTTP, 1, location="https://example.com/mcp")
        for one in foreign.described(origin, Listing(tools), {}, pin_defaults=True)[0]:
            claims = one.spec.body["claims"]
            hints = Hints(read_only=claims.get("readOnlyHint", False), destructive=claims.get("destructiveHint", True))
            yield entry_of(one.spec, source_name=server, source="mcp", pack=server, hints=hints, origin=origin)


def interval(hits: int, number: int) -> tuple[float, float]:
    """Wilson's interval, for 95 %."""
    z = 1.96
    middle = (hits + z * z / 2) / (number + z * z)
    half = z * math.sqrt(hits * (number - hits) / number + z * z / 4) / (number + z * z)
    return middle - half, middle + half


def shown(hits: int, number: int) -> str:
    low, high = interval(hits, number)
    return f"{hits / number:>5.0%} ({low:.0%}–{high:.0%})"


def places(ranked: Sequence[Any], tools: Sequence[str]) -> int:
    """The place of the first tool that answers a question; 0 if none does."""
    keys = [f"{entry.source_name}/{entry.spec.key}" for entry, _ in ranked]
    return next((place for place, key in enumerate(keys, 1) if key in tools), 0)


def _measure(index: Any, seen: Any, halves: Sequence[str], *, missed: bool) -> None:
    print(f"{'half':<8}{'kind':<7}{'asked':>6}{'@1':>18}{'@5':>18}{'@10':>18}{'with source @5':>18}{'source of 5':>18}")
    rows = [(half, (half,), kind) for half in halves for kind in KINDS]
    rows += [("reports", REPORTS, kind) for kind in KINDS if len(halves) == len(HALVES)]
    for title, parts, kind in rows:
        asked = [one for one in questions() if one["half"] in parts and one["kind"] == kind]
        if not asked:
            continue
        counts: Counter[str] = Counter()
        for one in asked:
            counts.update(_judged(index, seen, one, missed=missed))
        columns = (shown(counts[key], len(asked)) for key in ("1", "5", "10", "source", "likely"))
        print(f"{title:<8}{kind:<7}{len(asked):>6}", *(f"{column:>17}" for column in columns))


def _judged(index: Any, seen: Any, one: Mapping[str, Any], *, missed: bool) -> Iterator[str]:
    from tools_app.catalog.search import likeliest

    ranked = index.search(one["question"])
    place = places(ranked, one["tools"])
    yield from (str(most) for most in (1, 5, 10) if 0 < place <= most)
    source = one["tools"][0].partition("/")[0]
    within = places(index.search(one["question"], source), one["tools"])
    if 0 < within <= 5:
        yield "source"
    likely = {name for name, _ in likeliest(seen, ranked)}
    if any(tool.partition("/")[0] in likely for tool in one["tools"]):
        yield "likely"
    if missed and not 0 < place <= 5:
        first = ", ".join(entry.name for entry, _ in ranked[:5])
        print(f"  {place:>3} {within:>3} {one['question']} → {one['tools'][0]}, but: {first}")


def _times(listed: Mapping[str, Sequence[Mapping[str, Any]]], number: int) -> None:
    """How long a search takes over so many tools: the same ones, of as many servers as it takes."""
    from search import timed

    from tools_app.catalog.search.index import Index

    whole = sum(map(len, listed.values()))
    copies = {f"{name}{turn or ''}": tools for turn in range(-(-number // whole)) for name, tools in listed.items()}
    many = list(entries(copies))[:number]
    for entry in many:  # which a hub has done when it registered them
        entry.definition_hash  # noqa: B018
    taken, index = timed(lambda: Index(many, {}))
    asked = [one["question"] for one in questions()]
    for question in asked:
        index.search(question)
    gc.collect()
    gc.freeze()
    times = sorted(timed(lambda text=text: index.search(text))[0] for text in asked for _ in range(3))
    p95 = times[int(len(times) * 0.95)]
    print(f"{len(many):,} tools: index {taken:.0f} ms of CPU; ", end="")
    print(f"a search {statistics.median(times):.1f} ms (median), {p95:.1f} ms (p95), {times[-1]:.1f} ms (most)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--half", choices=HALVES, action="append")
    parser.add_argument("--missed", action="store_true", help="show what was not among the first five (tuning only)")
    parser.add_argument("--tools", type=int, default=10_000, help="for the times; 0: none")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLHUB_HOME"] = home
        import django

        django.setup()
        from tools_app.catalog.search.index import Index
        from tools_app.catalog.snapshot import Snapshot

        listed = listings(options.directory)
        begun = time.perf_counter()
        seen = Snapshot({entry.folded_name: entry for entry in entries(listed)})
        index = Index(seen.all, {})
        print(f"{len(index):,} tools of {len(listed)} servers ({time.perf_counter() - begun:.1f} s)")
        halves = options.half or HALVES
        _measure(index, seen, halves, missed=options.missed and halves == ["tuning"])
        if options.tools:
            _times(listed, options.tools)


if __name__ == "__main__":
    main()
