"""Synonyms for queries, in English and Japanese.

The lists hold general words for what tools do and what they work on; none of them names a tool. Vocabulary of a pack
belongs into its tags, which are searched too, in any language.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tools_app.catalog.search.loanwords import RUNS
from tools_app.catalog.search.words import is_ending, is_without_spaces, pairs, pieces, stem

# Weight of a synonym, relative to the word itself.
ALIKE: Final = 0.5
# Weight of a bigram that is a common ending.
_ENDING: Final = 0.2

_ENGLISH: Final = Path(__file__).with_name("synonyms_english.txt")
_JAPANESE: Final = Path(__file__).with_name("synonyms_japanese.txt")


def alike(word: str) -> frozenset[str]:
    """Synonyms of an English word stem."""
    return read_english(_ENGLISH).get(word, frozenset())


def translated(
    piece: str, loanwords: Callable[[str], Sequence[Mapping[str, float]]] = lambda run: ()
) -> Iterator[Mapping[str, float]]:
    """The concepts of text without spaces: English translations first, then its bigrams.

    The longest known words match first. The bigrams are always included: descriptions may be in this language.
    `loanwords` are the concepts of unknown words in katakana.
    """
    table, longest = read_japanese(_JAPANESE)
    at = 0
    while at < len(piece):
        for length in range(min(longest, len(piece) - at), 1, -1):
            if (english := table.get(piece[at : at + length])) is not None:
                # The first is the meaning; the others are possible meanings.
                yield {word: 1.0 if not nth else ALIKE for nth, word in enumerate(english)}
                at += length
                break
        else:
            run = RUNS.match(piece, at)
            concepts = loanwords(run.group()) if run else ()
            yield from concepts
            at = run.end() if run and concepts else at + 1
    yield from ({pair: _ENDING if is_ending(pair) else 1.0} for pair in pairs(piece))


@cache
def read_english(path: Path) -> Mapping[str, frozenset[str]]:
    """The synonyms of each stem. Raises ValueError with the place of a broken line."""
    groups: dict[str, set[str]] = defaultdict(set)
    for place, line in _lines(path):
        words = {stem(word) for word in _english_words(place, line)}
        if len(words) < 2:
            raise ValueError(f"{place}: expected two words or more")
        for word in words:
            groups[word] |= words - {word}
    return {word: frozenset(members) for word, members in groups.items()}


@cache
def read_japanese(path: Path) -> tuple[Mapping[str, Sequence[str]], int]:
    """The stems of the English translations of each word, and the length of the longest word. Raises ValueError."""
    table: dict[str, Sequence[str]] = {}
    for place, line in _lines(path):
        word, _, translations = line.partition(":")
        if len(word) < 2 or pieces(word) != [word] or not is_without_spaces(word):
            raise ValueError(f"{place}: expected two or more Japanese characters, a colon and translations")
        if word in table:
            raise ValueError(f"{place}: {word} is already in the list")
        table[word] = tuple(dict.fromkeys(map(stem, _english_words(place, translations))))
    return table, max(map(len, table), default=0)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a word list, each with its place, without comments and empty lines."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            yield f"{path.name}, line {number}", line


def _english_words(place: str, text: str) -> list[str]:
    if not (words := text.split()) or not all(word.isascii() and pieces(word) == [word] for word in words):
        raise ValueError(f"{place}: expected English words in lower case")
    return words
