"""The ranked search: what is found, how well, and how fast an index is made again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools_app.catalog import listed, search
from tools_app.catalog.search import words
from tools_app.catalog.search.index import Index
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.decorator import tool
from tools_app.sdk.names import DefinitionError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Any]:
    """The questions of the benchmark, and how they are judged."""
    sys.path.insert(0, str(BENCHMARKS))
    sys.modules.pop("search", None)
    try:
        import search as benchmark  # type: ignore[import-not-found, unused-ignore]

        yield benchmark
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("search", None)


def made(name: str, description: str = "Do it.", **declared: Any) -> Any:
    def run(project_id: str = "") -> None: ...

    return tool(name=name, description=description, **declared)(run)


@pytest.fixture
def index(benchmark: Any) -> Index:
    tools = [
        made("get_execution", "Show a run.", tags=("n8n",)),
        made("create_issue", "Open a ticket in a project.", aliases=("file_bug",)),
        made("issue", "Something else."),
        made("tagged", tags=("create issue",)),
        made("weather", "天気予報を調べる", tags=("天気",)),
    ]
    return Index(benchmark.snapshot(tools).all, {})


def names(index: Index, query: str) -> list[str]:
    return [entry.name for entry, _ in index.search(query)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("get_execution", ["get", "execut"]),
        ("getExecutionByNode2", ["get", "execut", "node2"]),
        ("HTTPServer executions executing executed", ["http", "serv", "execut", "execut", "execut"]),
        ("entries entry", ["entry", "entry"]),
        ("status issues the running", ["status", "issu", "run"]),
        ("検索する", ["検索", "索す", "する"]),
        ("\uff25xecute ﾜｰｸ", ["execut", "ワー", "ーク"]),
        ("", []),
    ],
)
def test_cuts_text_into_what_is_compared(text: str, terms: list[str]) -> None:
    assert words.terms(text) == terms


def test_who_names_a_tool_gets_it_first_and_then_those_with_such_a_tag(index: Index) -> None:
    assert names(index, "Create-Issue")[:2] == ["create_issue", "tagged"]
    assert names(index, "file bug")[0] == "create_issue"
    assert names(index, "issue")[0] == "issue"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("exection", "get_execution"),
        ("executi", "get_execution"),
        ("実行", "get_execution"),
        ("予報", "weather"),
        ("天気", "weather"),
        ("add a bug", "create_issue"),
    ],
)
def test_finds_what_is_meant(index: Index, query: str, first: str) -> None:
    assert names(index, query)[0] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Which parcels are late?", "parcel_list"),
        ("show late parcels", "parcel_list"),
        ("Tell me which parcels are late", "parcel_list"),
        ("send a late parcel", "parcel_send"),
        ("a parcel should go to Ann today", "parcel_send"),
    ],
)
def test_a_question_finds_what_reads_and_a_wish_what_changes(benchmark: Any, query: str, first: str) -> None:
    tools = [made("parcel_list", "Late parcels."), made("parcel_send", "Late parcels.")]
    assert names(Index(benchmark.snapshot(tools).all, {}), query)[0] == first


def test_one_rare_word_counts_less_than_most_of_a_query(benchmark: Any) -> None:
    tools = [made("arithmetic", "Two."), *(made(f"other{n}") for n in range(20))]
    tools += [made(f"page{n}", "A team plans a sprint here.") for n in range(4)]
    assert (
        names(Index(benchmark.snapshot(tools).all, {}), "What does the team plan for two sprints?")[0] != "arithmetic"
    )


@pytest.mark.parametrize("query", ["", "the", "?!%_\\", "\x00", "zzzz", "\ud800", "あ"])
def test_finds_nothing_where_nothing_is_asked(index: Index, query: str) -> None:
    assert index.search(query) == []


def test_scores_keep_the_order_and_stay_between_0_and_1(index: Index) -> None:
    for query in ("create issue", "project", "execution run"):
        scores = [score for _, score in index.search(query)]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 1 for score in scores)


def test_a_score_reveals_nothing_of_other_callers_tools(benchmark: Any) -> None:
    mine = [made("find_page", "Find a page."), made("drop_page", "Drop a page.")]
    alone = Index(benchmark.snapshot(mine).all, {})
    whole = Index(benchmark.snapshot([*mine, *benchmark.others(50)]).all, {})
    again = Index(benchmark.snapshot(mine).all, whole.documents)
    assert [score for _, score in again.search("find page")] == [score for _, score in alone.search("find page")]


def test_an_index_is_made_once_for_all_who_see_the_same(benchmark: Any) -> None:
    seen: Snapshot = benchmark.snapshot([made("find_page")])
    first = search.index_of(seen)
    assert search.index_of(seen) is first
    later = search.index_of(benchmark.snapshot([made("find_page")]))
    (one,), (other,) = first.documents.values(), later.documents.values()
    assert one is other, "what is known of a tool is used again"


def test_keywords_are_searched_and_take_nothing_of_a_list(benchmark: Any) -> None:
    plain = made("find_page", "Find a page.")
    sought = made("find_page", "Find a page.", keywords=("handbook", "手引き"))
    other = made("drop_page", "Drop a page.")
    index = Index(benchmark.snapshot([sought, other]).all, {})
    for query in ("handbooks", "手引き"):
        assert names(index, query) == ["find_page"], query
    before = Index(benchmark.snapshot([plain, other]).all, {})
    assert before.search("handbooks") == []
    again = Index(benchmark.snapshot([sought, other]).all, before.documents)
    assert names(again, "handbook") == ["find_page"], "what was known of it without keywords is not used"
    wires = [listed.as_listed(benchmark.snapshot([one]).all[0]) for one in (plain, sought)]
    assert wires[0] == wires[1]
    assert sought.spec.hash != plain.spec.hash, "who changes what a tool is found by changes the tool"
    with pytest.raises(DefinitionError, match="keywords may have at most 500 characters"):
        made("find_page", keywords=("everything " * 50,))
    with pytest.raises(DefinitionError, match="invisible characters"):
        made("find_page", keywords=("hand\u200bbook",))
    with pytest.raises(DefinitionError, match="keywords must be a list"):
        made("find_page", keywords="handbook")


def test_what_japanese_words_end_with_tells_little(benchmark: Any) -> None:
    tools = [made("weather", "天気を調べる", tags=("天気",)), made("other", "片付けてしまう")]
    found = Index(benchmark.snapshot(tools).all, {}).search("天気を見てしまう")
    assert found[0][0].name == "weather"


def test_the_first_sentence_says_more_than_what_follows(benchmark: Any) -> None:
    tools = [
        made("alpha", "Open a ledger. Before that, weigh the parcel that the ledger is about."),
        made("beta", "Weigh a parcel. After that, the ledger can be opened."),
    ]
    index = Index(benchmark.snapshot(tools).all, {})
    assert names(index, "weigh parcel") == ["beta", "alpha"]
    assert names(index, "open ledger") == ["alpha", "beta"]


def test_a_word_in_katakana_finds_the_english_one(benchmark: Any) -> None:
    index = Index(benchmark.snapshot([made("start_sandbox", "Start it."), made("other", "Do another thing.")]).all, {})
    assert names(index, "サンドボックスを使う") == ["start_sandbox"]


def test_a_synonym_that_very_many_tools_have_finds_none_of_them(benchmark: Any) -> None:
    tools = [made(f"{verb}_{number}", "Do it.") for verb in ("create", "zap") for number in range(150)]
    index = Index(benchmark.snapshot([*tools, made("establish_peace")]).all, {})
    assert names(index, "establish") == ["establish_peace"], "and not each that creates something"
    few = Index(benchmark.snapshot([made("create_thing"), made("establish_peace")]).all, {})
    assert names(few, "establish") == ["establish_peace", "create_thing"]


def test_the_best_match_of_the_source_that_is_named_counts_and_not_that_of_others(benchmark: Any) -> None:
    """Tools that match far less than the best are dropped."""
    made_tools = [made("quorum_ballot_tally", "Tally a quorum's ballot and vote."), made("other_vote")]
    other, best = benchmark.snapshot(made_tools).all
    index = Index([replace(other, source_name="elsewhere"), replace(best, source_name="here")], {})
    query = "tally the quorum ballot vote"
    assert names(index, query) == ["quorum_ballot_tally"]
    assert [entry.name for entry, _ in index.search(query, "elsewhere")] == ["other_vote"]
    assert index.search(query, "nowhere") == index.search("quorum_ballot_tally", "nowhere") == []


def test_people_find_what_they_need(benchmark: Any) -> None:
    """At least nine of ten questions, among a thousand tools; benchmarks/search.py says more."""
    asked = json.loads(benchmark.QUESTIONS.read_text())
    own = benchmark.shipped()
    index = Index(benchmark.snapshot([*own, *benchmark.others(1_000 - len(own))]).all, {})
    for language in ("en", "ja"):
        part = [one for one in asked if one["language"] == language and not one["heldOut"]]
        assert len(part) >= 100
        assert benchmark.share(benchmark.judged(index, part), 5) >= 0.9, language
    judged = benchmark.judged(index, asked)
    assert benchmark.share(judged, 5) >= 0.85, "with those that nothing was changed for"
    names = {one.name for one in own if not (one.pack and one.pack.name == "finding")}
    assert {name for one in asked for name in one["tools"]} == names, "every tool is asked for"
