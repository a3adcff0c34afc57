"""An index of tools by the terms in what is said of them, ranked by BM25 over weighted fields.

What a term is worth in a tool depends on that tool alone, so it is worked out once for each definition and kept for
the indexes to come. How rare a term is, is counted among the tools of the index and no others: an index is made of
what one kind of caller sees, and its scores tell nothing of what else there is.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tools_app.catalog.entry import Entry
from tools_app.catalog.search import synonyms, words
from tools_app.sdk.names import folded

# How often a term counts that stands there once.
_NAME: Final = 4.0
_TITLE: Final = 2.0
_TAGS: Final = 2.5
_KEYWORDS: Final = 2.0
_CATEGORY: Final = 1.0
_DESCRIPTION: Final = 1.5
_PARAMETER: Final = 0.6
_ABOUT_PARAMETER: Final = 0.3

# BM25's own: how soon more of the same counts no more, and how much a long description is held against a tool. What is
# long is fixed and not an average: that would tell of tools that others see.
_SATURATION: Final = 1.4
_LENGTH: Final = 0.5
_USUAL_LENGTH: Final = 45.0

# What reaches this part of the best score is an answer.
_FURTHEST: Final = 0.15
# What a term is worth to a tool that is about it.
_FULL: Final = 2.0

MOST_TERMS: Final = 32
# A word that nobody uses may be the beginning of one, or one that was mistyped.
_MOST_LIKE: Final = 8
_BEGUN: Final = 0.6
_MISTYPED: Final = 0.5

Key = tuple[object, ...]


class Document(NamedTuple):
    """What an index knows of a tool: what each of its terms is worth in it."""

    worth: Mapping[str, float]
    names: frozenset[str]
    tags: frozenset[str]


class Index:
    """The tools that one kind of caller sees. `known` are documents of earlier indexes, by what they were made of."""

    def __init__(self, entries: Iterable[Entry], known: Mapping[Key, Document]) -> None:
        self.entries = list(entries)
        self.documents: dict[Key, Document] = {}
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self._shelf: list[Document] = []
        self._numbers: dict[str, list[int]] = defaultdict(list)
        postings = self._postings
        for number, entry in enumerate(self.entries):
            key = _key(entry)
            document = known.get(key) or _document(entry)
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

    def found(self, query: str) -> list[tuple[Entry, float]]:
        """The tools that have to do with a question, the best first. The score is more than 0 and at most 1.

        Whoever names a tool gets it first, and after that those that have such a tag.
        """
        scores: dict[int, float] = defaultdict(float)
        for concept in self._asked(query):
            if len(concept) == 1:
                ((term, weight),) = concept.items()
                self._add(term, weight, scores)
                continue
            # Of the words for one thing that a tool uses, the best counts, and not how many it uses.
            best: dict[int, float] = {}
            for term, weight in concept.items():
                self._raise(term, weight, best)
            for number, worth in best.items():
                scores[number] += worth
        exact = self._exact(query)
        # What is so much further off has only a common word with the question.
        least = _FURTHEST * max(scores.values(), default=0.0)
        near = {number: score for number, score in scores.items() if score >= least}
        near |= {number: scores.get(number, 0.0) for number in exact}
        ranked = [(-exact.get(number, 0), -score, number) for number, score in near.items()]
        ranked.sort()  # The numbers are in the order of the names.
        return [(self.entries[number], _shown(-rank, -score)) for rank, score, number in ranked]

    def _exact(self, query: str) -> dict[int, int]:
        wanted = _slug(query)
        numbers = self._numbers.get(wanted, ())
        return {number: 2 if wanted in self._shelf[number].names else 1 for number in numbers}

    def _add(self, term: str, weight: float, scores: dict[int, float]) -> None:
        numbers, worths = self._postings[term]
        weight *= self._rarity(term)
        for number, worth in zip(numbers, worths, strict=True):
            scores[number] += weight * worth

    def _raise(self, term: str, weight: float, best: dict[int, float]) -> None:
        numbers, worths = self._postings[term]
        weight *= self._rarity(term)
        for number, worth in zip(numbers, worths, strict=True):
            value = weight * worth
            if value > best.get(number, 0.0):
                best[number] = value

    def _rarity(self, term: str) -> float:
        """How much a term tells. Tools in which it hardly matters do not make it common."""
        rarity = self._rarities.get(term)
        if rarity is None:
            common = sum((worth / _FULL) ** 2 if worth < _FULL else 1.0 for worth in self._postings[term][1])
            rarity = math.log(1 + (len(self.entries) - common + 0.5) / (common + 0.5))
            self._rarities[term] = rarity
        return rarity

    def _asked(self, query: str) -> Iterator[dict[str, float]]:
        """What a question is about, one after another: the terms of this index for it, each with its weight."""
        asked: set[str] = set()
        for piece in words.pieces(query)[:MOST_TERMS]:
            if words.is_without_spaces(piece):
                concepts = synonyms.translated(piece)
            else:
                concepts = (self._alternatives(term) for term in words.terms(piece))
            for concept in concepts:
                known = {term: weight for term, weight in concept.items() if term in self._postings}
                if known and asked.isdisjoint(term for term, weight in known.items() if weight == 1):
                    asked.update(term for term, weight in known.items() if weight == 1)
                    yield known

    def _alternatives(self, term: str) -> dict[str, float]:
        if term in self._postings:
            return {**dict.fromkeys(synonyms.alike(term), synonyms.ALIKE), term: 1.0}
        # Nobody here uses the word itself.
        if others := synonyms.alike(term):
            return dict.fromkeys(others, 0.9)
        return dict(self._like(term))

    def _like(self, term: str) -> Iterator[tuple[str, float]]:
        """Words of this index that one which it does not know may stand for."""
        if len(term) < 3:
            return
        at = bisect_left(self._vocabulary, term)
        begun = [word for word in self._vocabulary[at : at + _MOST_LIKE] if word.startswith(term)]
        yield from ((word, _BEGUN) for word in begun)
        if begun or len(term) < 4:
            return
        most = 1 if len(term) < 8 else 2
        lengths = range(len(term) - most, len(term) + most + 1)
        # Who mistypes a word rarely mistypes its beginning.
        near = [word for length in lengths for word in self._by_length.get((term[0], length), ())]
        apart = sorted((distance, word) for word in near if (distance := _distance(term, word, most)) <= most)
        yield from ((word, _MISTYPED / distance) for distance, word in apart[:_MOST_LIKE])


def _key(entry: Entry) -> Key:
    said = entry.name, entry.alias, entry.title, entry.description, entry.category, entry.tags
    return (*said, entry.definition_hash)


def _document(entry: Entry) -> Document:
    counts: dict[str, float] = defaultdict(float)
    length = 0
    aliases = tuple(entry.tool.aliases) if entry.tool else ()
    for weight, text in _fields(entry):
        found = words.terms(text)
        length += len(found)
        for term in found:
            counts[term] += weight
    # They do not make it longer: what is said of a tool for those who look for it is not held against it.
    for term in set(words.terms(" ".join(entry.tool.keywords))) if entry.tool else ():
        counts[term] += _KEYWORDS
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / _USUAL_LENGTH)
    worth = {term: count * (_SATURATION + 1) / (count + norm) for term, count in counts.items()}
    names = filter(None, (entry.name, entry.alias, *aliases))
    return Document(worth, frozenset(map(_slug, names)), frozenset(map(_slug, entry.tags)))


def _fields(entry: Entry) -> Iterator[tuple[float, str]]:
    yield _NAME, f"{entry.alias} {entry.name}"
    yield _TITLE, entry.title
    yield _CATEGORY, entry.category
    yield _DESCRIPTION, entry.description
    yield _TAGS, " ".join(entry.tags)
    if entry.tool is None:
        return
    if entry.tool.aliases:
        yield _NAME, " ".join(entry.tool.aliases)
    properties: Mapping[str, Any] = entry.tool.input_schema.get("properties", {})
    yield _PARAMETER, " ".join(properties)
    about = (part.get("description") for part in properties.values() if isinstance(part, dict))
    yield _ABOUT_PARAMETER, " ".join(text for text in about if isinstance(text, str))


def _slug(text: str) -> str:
    return folded("_".join(text.lower().split()))


def _shown(rank: int, score: float) -> float:
    """A score between 0 and 1 that keeps the order."""
    part = score / (score + 10.0)
    return 1.0 if rank == 2 else 0.9 + part / 10 if rank else part * 0.9


def _distance(one: str, other: str, most: int) -> int:
    """How many letters must be typed anew, left out, put in or swapped with the next; `most` + 1 where more."""
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, theirs in enumerate(other, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != theirs))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == theirs:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before_last, last = last, row
    return last[-1]
