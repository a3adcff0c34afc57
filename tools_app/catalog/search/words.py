"""Tokenization: English words are stemmed, identifiers split, Japanese cut into pairs (bigrams).

Names are split at their parts (`get_execution`, `getExecution`), English words lose common suffixes, and text without
spaces is cut into pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

# Longer texts are truncated; no description is longer.
MOST_CHARACTERS: Final = 20_000

_WITHOUT_SPACES: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u3005\U00020000-\U0002ffff"
_PIECES: Final = re.compile(rf"[{_WITHOUT_SPACES}]+|[^\W_{_WITHOUT_SPACES}]+")
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|(?<=。)|\n")
_STOP: Final = frozenset(
    """
    a an and any are as at be been but by can could did do does for from had has have how i if in into is it
    its me my no not of on one or our s should so some t than that the their them then there these they this
    those to us was we were what when where who why will with would you your
    """.split()  # noqa: SIM905 – as a list it would be twenty lines of quotes
)
_VOWEL: Final = re.compile("[aeiouy]")


def terms(text: str) -> list[str]:
    """The search terms of a text, in order."""
    return [term for piece in pieces(text) for term in _of(piece)]


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence or line of a text, and the rest."""
    first, _, rest = _SENTENCE_END.sub("\n", text.strip(), count=1).partition("\n")
    return first, rest


def pieces(text: str) -> list[str]:
    """The words of a text, in lower case; text without spaces as one piece."""
    text = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS])
    if not text.isascii() or not text.islower():
        text = _HUMPS.sub(" ", text)
    return _PIECES.findall(text.lower())


def is_without_spaces(piece: str) -> bool:
    return not piece.isascii() and re.match(f"[{_WITHOUT_SPACES}]", piece) is not None


def pairs(piece: str) -> Iterator[str]:
    """The overlapping pairs of characters (bigrams) of text without spaces."""
    if len(piece) == 1:
        yield piece
    for at in range(len(piece) - 1):
        yield piece[at : at + 2]


def is_ending(pair: str) -> bool:
    """True for hiragana only: mostly particles and endings of Japanese words (`して`, `から`, `たい`)."""
    return all("\u3040" <= character <= "\u309f" for character in pair)


def _of(piece: str) -> Iterator[str]:
    if is_without_spaces(piece):
        yield from pairs(piece)
    elif piece not in _STOP:
        yield stem(piece)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without inflectional suffixes: `executions`, `executing` and `execute` are equal."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ations", "ation", "ion", "ing", "ed", "er", "or"):
        rest = word.removesuffix(ending)
        if rest is not word and len(rest) >= 3 and _VOWEL.search(rest):
            if ending == "ation":
                rest += "at"
            elif len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz":
                rest = rest[:-1]
            word = rest
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word
