"""The sources of tools: which is likeliest to have the tool that is meant, and what each is about, in a line.

A search in one source finds far more: among its tools, few are alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tools_app.catalog import listed
from tools_app.catalog.entry import Entry
from tools_app.catalog.search import words
from tools_app.catalog.snapshot import Snapshot

MOST_LIKELY: Final = 5
# Each further tool of a source counts for this share of the one before: five that fit a little are no better than one
# that fits.
_NEXT: Final = 0.5
_MOST_WORDS: Final = 6
# What tools do says nothing of what they are about.
_VERBS: Final = frozenset(
    """
    add apply batch browser call cancel check close copy count create delete describe download edit execute export
    fetch find generate get import insert list load make manage modify move new open post query read remove rename
    reply run search send set show start stop update upload use validate view write
    """.split()  # noqa: SIM905 – as a list it would be thirty lines of quotes
)

_abouts: WeakKeyDictionary[Snapshot, Mapping[str, str]] = WeakKeyDictionary()


class LikelySource(NamedTuple):
    """A source of tools that match, and what it is about."""

    name: str
    about: str


def is_findable(entry: Entry) -> bool:
    """True if agents find it by searching: it can be called, and is none of the tools that search and call."""
    return entry.callable and listed.is_switched_on(entry) and not entry.is_finder


def findable(view: Snapshot) -> Iterator[Entry]:
    return (entry for entry in view.all if is_findable(entry))


def source_named(view: Snapshot, name: str) -> str:
    """The name of the source that is meant: models write `GitHub` for `github`. Unknown names lead nowhere."""
    wanted = name.strip().lower()
    return next((entry.source_name for entry in view.all if entry.source_name.lower() == wanted), wanted)


def likeliest(view: Snapshot, matches: Iterable[tuple[Entry, float]]) -> list[LikelySource]:
    """The sources of the tools that match, the likeliest first."""
    likelihoods: dict[str, float] = defaultdict(float)
    shares: dict[str, float] = defaultdict(lambda: 1.0)
    for entry, score in matches:
        likelihoods[entry.source_name] += score * shares[entry.source_name]
        shares[entry.source_name] *= _NEXT
    names = sorted(likelihoods, key=lambda name: (-likelihoods[name], name))[:MOST_LIKELY]
    return [LikelySource(name, abouts_of(view).get(name, "")) for name in names]


def abouts_of(view: Snapshot) -> Mapping[str, str]:
    """What each source is about: the number of its tools, and the commonest words of their names.

    Slow for thousands of tools: the index of a view prepares it.
    """
    abouts = _abouts.get(view)
    if abouts is None:
        by_source: dict[str, list[Entry]] = defaultdict(list)
        for entry in findable(view):
            by_source[entry.source_name].append(entry)
        abouts = _abouts[view] = {name: _about(name, tools) for name, tools in by_source.items()}
    return abouts


def _about(source: str, tools: list[Entry]) -> str:
    counts = Counter(
        word
        for entry in tools
        for word in dict.fromkeys(words.pieces(entry.shown_name))
        if word not in _VERBS and word != source and len(word) > 1
    )
    commonest = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_WORDS]]
    number = f"{len(tools):,} {'tool' if len(tools) == 1 else 'tools'}"
    return f"{number}: {', '.join(commonest)}" if commonest else number
