"""The word lists of the search, and what is said about a broken line in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools_app.catalog.search import synonyms


def test_words_of_a_group_are_synonyms_and_a_word_can_be_in_several() -> None:
    assert {"remov", "eras", "drop"} <= synonyms.alike("delet")
    assert {"job", "invok"} <= synonyms.alike("execut")
    assert "delet" not in synonyms.alike("delet")
    assert synonyms.alike("zzzz") == frozenset()


def test_the_longest_japanese_word_counts_and_its_first_translation_most() -> None:
    translations = list(synonyms.translated("再実行する"))
    assert translations[0] == {"retry": 1.0, "execut": 0.5}
    assert {"実行": 1.0} in translations
    assert {"する": 0.2} in translations
    assert all("run" not in translation for translation in translations)


@pytest.mark.parametrize(
    ("read", "text", "fault"),
    [
        (synonyms.read_english, "# verbs\nget show\nadd Create\n", "line 3: expected English words in lower case"),
        (synonyms.read_english, "get show\nadd, create\n", "line 2: expected English words in lower case"),
        (synonyms.read_english, "get show\n\nadd adding\n", "line 3: expected two words or more"),
        (synonyms.read_japanese, "検索: search\n取得 get\n", "line 2: expected two or more Japanese characters, "),
        (synonyms.read_japanese, "検索: search\n得: get\n", "line 2: expected two or more Japanese characters, "),
        (synonyms.read_japanese, "検索: search\nget: 取得\n", "line 2: expected two or more Japanese characters, "),
        (synonyms.read_japanese, "検索: search\n取得:\n", "line 2: expected English words in lower case"),
        (synonyms.read_japanese, "検索: search\n検索: find\n", "line 2: 検索 is already in the list"),
    ],
)
def test_a_broken_line_is_named(read: Callable[[Path], Any], text: str, fault: str, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^words.txt, {fault}"):
        read(words)
