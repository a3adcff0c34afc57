"""English words written in katakana: `リポジトリ` is `repository`, as far as the consonants tell.

Katakana keeps the order of consonants of a word and blurs the rest, so both spellings are reduced to a skeleton:
`r-p-s-t-r`. Vowels decide between words with the same one. No dictionary has the words of every tool.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

RUNS: Final = re.compile("[ァ-ヴー]{3,20}")
# Shorter words have the consonants of too many others.
_LEAST_KANA: Final = 2
_LEAST_SKELETON: Final = 2
_LEAST_LETTERS: Final = 3
# Similarity of the spellings, from 0 to 1, below which two words only share consonants; and how much less similar than
# the most similar word another may be.
_LIKE: Final = 0.6
_CLOSE: Final = 0.1

_ROWS: Final = {
    "": "アイウエオ", "k": "カキクケコ", "s": "サシスセソ", "t": "タチツテト", "n": "ナニヌネノ",
    "h": "ハヒフヘホ", "m": "マミムメモ", "r": "ラリルレロ", "g": "ガギグゲゴ", "z": "ザジズゼゾ",
    "d": "ダヂヅデド", "b": "バビブベボ", "p": "パピプペポ",
}  # fmt: skip
_VOWELS: Final = "aiueo"
_KANA: Final = {
    **{kana: row + vowel for row, all_kana in _ROWS.items() for kana, vowel in zip(all_kana, _VOWELS, strict=True)},
    "フ": "fu", "ヤ": "ya", "ユ": "yu", "ヨ": "yo", "ワ": "wa", "ヲ": "o", "ン": "n", "ヴ": "bu", "ー": "", "ッ": "",
}  # fmt: skip
# A small vowel replaces that of the kana before it.
_SMALL: Final = {"ァ": "a", "ィ": "i", "ゥ": "u", "ェ": "e", "ォ": "o", "ャ": "a", "ュ": "u", "ョ": "o"}

# English spelling → how katakana writes the consonant. The order matters.
_SOUNDS: Final = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        ("tion|sion|cian", "son"),
        ("sch", "sk"),
        ("dge", "ze"),
        ("tch|ch", "t"),
        ("sh|th", "s"),
        ("ph", "f"),
        ("gh|^k(?=n)", ""),
        ("wh|w", "u"),
        ("ck|qu|q", "k"),
        ("c(?=[eiy])", "s"),
        ("c", "k"),
        ("g(?=[ei])", "z"),
        ("j", "z"),
        ("x", "ks"),
        ("v", "b"),
        # An `r` after a vowel is not spoken, unless a vowel follows.
        ("(?<=[aeiou])r(?=[^aeiouy]|e?$)", ""),
        ("l", "r"),
        (r"([^aeiou])\1", r"\1"),
        ("y", "i"),
    )
)
_NOT_CONSONANTS: Final = re.compile("[aeiouy]")


class Loanwords:
    """The words of an index by their consonants."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._words: dict[str, dict[str, str]] = defaultdict(dict)
        for word in vocabulary:
            if len(word) >= _LEAST_LETTERS and word.isascii() and word.isalpha():
                # Words are stems: `collect` is that of `collection`, too.
                for form in (word, f"{word}ion") if word[-1] in "st" else (word,):
                    sounds = _sounds(form)
                    self._words[_skeleton(sounds)].setdefault(word, sounds)

    def concepts(self, run: str) -> Sequence[Mapping[str, float]]:
        """The words that a run of katakana consists of, in as few parts as possible; none if a part is unknown."""
        best: list[list[Mapping[str, float]] | None] = [[], *[None] * len(run)]
        for end in range(1, len(run) + 1):
            for start in range(end - _LEAST_KANA + 1):
                parts = best[start]
                shortest = best[end]
                if parts is None or (shortest is not None and len(shortest) <= len(parts) + 1):
                    continue
                if concept := self._meant(run[start:end]):
                    best[end] = [*parts, concept]
        return best[-1] or ()

    def _meant(self, kana: str) -> Mapping[str, float]:
        sounds = _sounds_of_kana(kana)
        skeleton = _skeleton(sounds)
        if len(skeleton) < _LEAST_SKELETON or skeleton not in self._words:
            return {}
        likeness = {
            word: SequenceMatcher(None, sounds, other, autojunk=False).ratio()
            for word, other in self._words[skeleton].items()
        }
        least = max(_LIKE, max(likeness.values()) - _CLOSE)
        return {word: 1.0 for word, ratio in likeness.items() if ratio >= least}


def _sounds(word: str) -> str:
    for pattern, sound in _SOUNDS:
        word = pattern.sub(sound, word)
    return word


def _sounds_of_kana(kana: str) -> str:
    sounds = ""
    for one in kana:
        if one in _SMALL:
            sounds = sounds[:-1] + _SMALL[one] if sounds and sounds[-1] in _VOWELS else sounds + _SMALL[one]
        else:
            sounds += _KANA.get(one, "")
    return re.sub("n(?=n)", "", re.sub("n(?=[bp])", "m", sounds))


def _skeleton(sounds: str) -> str:
    return _NOT_CONSONANTS.sub("", sounds).replace("z", "s")
