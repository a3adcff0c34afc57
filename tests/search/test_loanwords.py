"""English words in katakana, and the words of tools that they are."""

from __future__ import annotations

import pytest

from tools_app.catalog.search.loanwords import Loanwords
from tools_app.catalog.search.words import stem

VOCABULARY = [
    *("repository", "branch", "commit", "collection", "container", "cluster", "request", "pull", "query", "schema"),
    *("version", "sprint", "template", "channel", "thread", "sandbox", "report", "reporter", "lock", "log", "s3", "ok"),
]


@pytest.fixture(scope="module")
def loanwords() -> Loanwords:
    return Loanwords({stem(word) for word in VOCABULARY})


@pytest.mark.parametrize(
    ("kana", "meant"),
    [
        ("リポジトリ", ["repository"]),
        ("ブランチ", ["branch"]),
        ("コミット", ["commit"]),
        ("コレクション", ["collection"]),
        ("コンテナ", ["container"]),
        ("クラスター", ["cluster"]),
        ("クラスタ", ["cluster"]),
        ("クエリ", ["query"]),
        ("スキーマ", ["schema"]),
        ("バージョン", ["version"]),
        ("スプリント", ["sprint"]),
        ("テンプレート", ["template"]),
        ("チャンネル", ["channel"]),
        ("プルリクエスト", ["pull", "request"]),
        ("サンドボックス", ["sandbox"]),
    ],
)
def test_a_word_is_known_by_its_consonants(loanwords: Loanwords, kana: str, meant: list[str]) -> None:
    concepts = loanwords.concepts(kana)
    assert [stem(word) for word in meant] == [max(concept, key=concept.__getitem__) for concept in concepts]


@pytest.mark.parametrize(
    "kana", ["アイ", "ラーメン", "ーーー", "ァィゥ", "ッッッ", "プルーン", "ヴヴヴ", "リクエストラーメン"]
)
def test_what_no_tool_says_means_nothing(loanwords: Loanwords, kana: str) -> None:
    assert list(loanwords.concepts(kana)) == []


def test_an_index_without_words_knows_none() -> None:
    assert list(Loanwords([]).concepts("リポジトリ")) == []
