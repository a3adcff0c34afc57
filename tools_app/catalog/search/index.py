"""An index of tools by the terms in their texts, ranked by BM25 over weighted fields.

The weight of a term in a tool depends on that tool alone, so it is computed once per definition and reused by later
indexes. The rarity of a term is counted among the tools of the index only: an index covers one view, so its scores
reveal nothing about other tools.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from typing import Any, Final, NamedTuple

from tools_app.catalog.entry import Entry
from tools_app.catalog.search import intent, synonyms, words
from tools_app.catalog.search.loanwords import Loanwords
from tools_app.sdk.names import folded

# Term weight per field.
_NAME: Final = 4.0
_TITLE: Final = 2.0
_TAGS: Final = 2.5
_KEYWORDS: Final = 2.0
_CATEGORY: Final = 1.0
# The first sentence of a description says what a tool does, the others often what other tools do.
_FIRST_SENTENCE: Final = 2.25
_DESCRIPTION: Final = 0.75
_PARAMETER: Final = 0.6
_ABOUT_PARAMETER: Final = 0.3

# Parameters of BM25: saturation of repeated terms, and the penalty for long descriptions. The usual length is fixed
# instead of an average, which would reveal other callers' tools.
_SATURATION: Final = 1.4
_LENGTH: Final = 0.5
_USUAL_LENGTH: Final = 45.0

# Matches below this share of the best score are dropped.
_FURTHEST: Final = 0.15
# The share of a score that depends on how much of the query a tool matches: one rare word is no match.
_WHOLE: Final = 0.7
# The number of tools, the likeliest, for which it is computed.
_MOST_WEIGHED: Final = 100
# The factor for a tool that changes something, if the query asks for something, and the other way around.
_OTHERWISE: Final = 0.7
# The weight of a term in a tool that is about it.
_FULL: Final = 2.0

# The share of all tools above which a synonym tells too little for the time it takes; not among a few tools.
_COMMON: Final = 0.15
_FEW: Final = 100

MOST_TERMS: Final = 32
# An unknown word may be a prefix, or a typo.
_MOST_LIKE: Final = 8
_PREFIX: Final = 0.6
_TYPO: Final = 0.5

Key = tuple[object, ...]


class Document(NamedTuple):
    """The indexed data of a tool: the weight of each of its terms, its names and tags; `reads`: as its name says."""

    worth: Mapping[str, float]
    names: frozenset[str]
    tags: frozenset[str]
    reads: bool | None


class Index:
    """The tools of one view. `known` are documents of earlier indexes, by their key."""

    def __init__(self, entries: Iterable[Entry], earlier_documents: Mapping[Key, Document]) -> None:
        self.entries = list(entries)
        self.documents: dict[Key, Document] = {}
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self._shelf: list[Document] = []
        self._numbers: dict[str, list[int]] = defaultdict(list)
        postings = self._postings
        for number, entry in enumerate(self.entries):
            key = _key(entry)
            document = earlier_documents.get(key) or _document(entry)
            self.documents[key] = document
            self._shelf.append(document)
            for name in document.names | document.tags:
                self._numbers[name].append(number)
            for term, worth in document.worth.items():
                posting = postings.get(term)
                if posting is None:
                    posting = postings[term] = (array("I"), array("f"))
                posting[0].append(number)
                posting[1].append(worth)
        self._rarities: dict[str, float] = {}
        self._vocabulary = sorted(postings)
        self._by_length: dict[tuple[str, int], list[str]] = defaultdict(list)
        for term in self._vocabulary:
            self._by_length[term[0], len(term)].append(term)

    def __len__(self) -> int:
        return len(self.entries)

    def search(self, query: str, source: str = "") -> list[tuple[Entry, float]]:
        """The tools that match a query, best first; of one source, if it is named. Scores are above 0 and at most 1.

        A tool named exactly comes first, followed by tools with such a tag.
        """
        concepts = [self._best(concept) for concept in self._concepts(query)]
        scores = self._sums(concepts)
        exact = self._exact(query)
        if source:
            numbers = {number for number, entry in enumerate(self.entries) if entry.source_name == source}
            scores = {number: score for number, score in scores.items() if number in numbers}
            exact = {number: rank for number, rank in exact.items() if number in numbers}
        # Weaker matches share only a common word with the query.
        least = _FURTHEST * max(scores.values(), default=0.0)
        scores = {number: score for number, score in scores.items() if score >= least}
        self._weigh(scores, concepts, query)
        ranked = [(0, -score, number) for number, score in scores.items() if number not in exact]
        ranked += [(-rank, -scores.get(number, 0.0), number) for number, rank in exact.items()]
        ranked.sort()  # The numbers are ordered by name.
        entries = self.entries
        return [(entries[number], _normalized(-rank, -score)) for rank, score, number in ranked]

    def _sums(self, concepts: Iterable[Mapping[int, float]]) -> dict[int, float]:
        sums = [0.0] * len(self.entries)
        for best in concepts:
            for number, worth in best.items():
                sums[number] += worth
        return {number: score for number, score in enumerate(sums) if score}

    def _weigh(self, scores: dict[int, float], concepts: Sequence[Mapping[int, float]], query: str) -> None:
        """By how much of the query a tool matches, and whether it reads or changes as the query wants."""
        # What is far below the best stays below.
        likely = nlargest(_MOST_WEIGHED, scores, key=scores.__getitem__)
        shares = [(best, _WHOLE / len(concepts) / max(best.values())) for best in concepts]
        reading = intent.wants_reading(query, words.pieces(query))
        sums = {number: scores[number] for number in likely}
        for number in scores:
            scores[number] *= 1 - _WHOLE
        for number, score in sums.items():
            whole = 1 - _WHOLE + sum(best[number] * share for best, share in shares if number in best)
            scores[number] = score * whole * self._fitness(number, reading)

    def _fitness(self, number: int, reading: bool | None) -> float:
        if reading is None:
            return 1.0
        reads = self.entries[number].hints.read_only or self._shelf[number].reads
        return 1.0 if reads is None or reads is reading else _OTHERWISE

    def _exact(self, query: str) -> dict[int, int]:
        slug = _slug(query)
        numbers = self._numbers.get(slug, ())
        return {number: 2 if slug in self._shelf[number].names else 1 for number in numbers}

    def _best(self, concept: Mapping[str, float]) -> dict[int, float]:
        """What the terms of a concept are worth in each tool. Of synonyms only the best counts, not their number."""
        best: dict[int, float] = {}
        for term, weight in concept.items():
            numbers, worths = self._postings[term]
            found = dict(zip(numbers, map((weight * self._rarity(term)).__mul__, worths), strict=True))
            for number in best.keys() & found.keys():
                found[number] = max(found[number], best[number])
            best |= found
        return best

    def _rarity(self, term: str) -> float:
        """The inverse document frequency of a term. Tools in which it has little weight count partially."""
        rarity = self._rarities.get(term)
        if rarity is None:
            common = sum((worth / _FULL) ** 2 if worth < _FULL else 1.0 for worth in self._postings[term][1])
            rarity = math.log(1 + (len(self.entries) - common + 0.5) / (common + 0.5))
            self._rarities[term] = rarity
        return rarity

    @cached_property
    def _loanwords(self) -> Loanwords:
        return Loanwords(self._vocabulary)

    def _concepts(self, query: str) -> Iterator[dict[str, float]]:
        """The concepts of a query, in order: for each the matching terms of this index, with weights."""
        used: set[str] = set()
        for piece in words.pieces(query)[:MOST_TERMS]:
            if words.is_without_spaces(piece):
                concepts: Iterable[Mapping[str, float]] = synonyms.translated(piece, self._loanwords.concepts)
            else:
                concepts = (self._alternatives(term) for term in words.terms(piece))
            for concept in concepts:
                in_index = {term: weight for term, weight in concept.items() if self._tells(term, weight)}
                if in_index and used.isdisjoint(term for term, weight in in_index.items() if weight == 1):
                    used.update(term for term, weight in in_index.items() if weight == 1)
                    yield in_index

    def _tells(self, term: str, weight: float) -> bool:
        """False if no tool has the term, or if it is a synonym that too many have."""
        posting = self._postings.get(term)
        return posting is not None and (weight == 1 or len(posting[0]) <= max(_FEW, len(self.entries) * _COMMON))

    def _alternatives(self, term: str) -> dict[str, float]:
        if term in self._postings:
            return {**dict.fromkeys(synonyms.alike(term), synonyms.ALIKE), term: 1.0}
        # The word itself is not in the index.
        if synonyms_of_term := synonyms.alike(term):
            return dict.fromkeys(synonyms_of_term, 0.9)
        return dict(self._like(term))

    def _like(self, term: str) -> Iterator[tuple[str, float]]:
        """Terms of this index that an unknown word may be a prefix or a typo of."""
        if len(term) < 3:
            return
        at = bisect_left(self._vocabulary, term)
        completions = [word for word in self._vocabulary[at : at + _MOST_LIKE] if word.startswith(term)]
        yield from ((word, _PREFIX) for word in completions)
        if completions or len(term) < 4:
            return
        most = 1 if len(term) < 8 else 2
        lengths = range(len(term) - most, len(term) + most + 1)
        # Typos in the first letter are rare.
        near = [word for length in lengths for word in self._by_length.get((term[0], length), ())]
        candidates = sorted((distance, word) for word in near if (distance := _distance(term, word, most)) <= most)
        yield from ((word, _TYPO / distance) for distance, word in candidates[:_MOST_LIKE])


def _key(entry: Entry) -> Key:
    texts = entry.name, entry.alias, entry.title, entry.description, entry.category, entry.tags
    return (*texts, entry.definition_hash)


def _document(entry: Entry) -> Document:
    counts: dict[str, float] = defaultdict(float)
    length = 0
    aliases = entry.spec.aliases
    for weight, text in _fields(entry):
        terms = words.terms(text)
        length += len(terms)
        for term in terms:
            counts[term] += weight
    # Keywords do not count for the length: they must not lower the rank.
    for term in set(words.terms(" ".join(entry.spec.keywords))):
        counts[term] += _KEYWORDS
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / _USUAL_LENGTH)
    worth = {term: count * (_SATURATION + 1) / (count + norm) for term, count in counts.items()}
    names = filter(None, (entry.name, entry.alias, *aliases))
    reads = intent.is_reading(words.pieces(entry.name))
    return Document(worth, frozenset(map(_slug, names)), frozenset(map(_slug, entry.tags)), reads)


def _fields(entry: Entry) -> Iterator[tuple[float, str]]:
    yield _NAME, f"{entry.alias} {entry.name}"
    yield _TITLE, entry.title
    yield _CATEGORY, entry.category
    first, rest = words.first_sentence(entry.description)
    yield _FIRST_SENTENCE, first
    yield _DESCRIPTION, rest
    yield _TAGS, " ".join(entry.tags)
    if entry.spec.aliases:
        yield _NAME, " ".join(entry.spec.aliases)
    properties: Mapping[str, Any] = entry.spec.input_schema.get("properties", {})
    yield _PARAMETER, " ".join(properties)
    about = (part.get("description") for part in properties.values() if isinstance(part, dict))
    yield _ABOUT_PARAMETER, " ".join(text for text in about if isinstance(text, str))


def _slug(text: str) -> str:
    return folded("_".join(text.lower().split()))


def _normalized(rank: int, score: float) -> float:
    """A score between 0 and 1 that preserves the order."""
    part = score / (score + 10.0)
    return 1.0 if rank == 2 else 0.9 + part / 10 if rank else part * 0.9


def _distance(left: str, right: str, most: int) -> int:
    """The edit distance with transpositions (Damerau-Levenshtein); `most` + 1 if it is larger."""
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        row = [i]
        for j, right_letter in enumerate(right, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != right_letter))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == right_letter:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before_last, last = last, row
    return last[-1]
