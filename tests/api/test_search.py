"""Finding tools: by a text, by tag, by category."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support.tools import Hub
from tools_app import governance
from tools_app.sdk.decorator import tool

WRONG = [
    ({"query": "x", "limit": 0}, "/limit"),
    ({"query": "x", "limit": 101}, "/limit"),
    ({"query": "x", "limit": "20"}, "/limit"),
    ({"query": "x", "limit": 2**62}, "/limit"),
    ({"query": "x", "limit": None}, "/limit"),
    ({"query": "x" * 501}, "/query"),
    ({"query": 5}, "/query"),
    ({"query": ["x"]}, "/query"),
    ({"query": "x", "matchType": "fuzzy"}, "/matchType"),
    ({"query": "x", "sort": "score"}, "/sort"),
    ({"query": "x", "filters": {"matchTags": "some"}}, "/filters/matchTags"),
    ({"query": "x", "match_type": "exact"}, "/match_type"),
    ({"query": "x", "fields": []}, "/fields"),
    ({"query": "x", "fields": ["name", "password"]}, "/fields/1"),
    ({"query": "x", "fields": "name"}, "/fields"),
    ({"query": "x", "caseSensitive": 1}, "/caseSensitive"),
    ({"query": "x", "filters": None}, "/filters"),
    ({"query": "x", "filters": {"tags": "a"}}, "/filters/tags"),
    ({"query": "x", "filters": {"tags": [""]}}, "/filters/tags/0"),
    ({"query": "x", "filters": {"category": ""}}, "/filters/category"),
    ({"query": "x", "filters": {"category__startswith": "a"}}, "/filters/category__startswith"),
    ({"query": "x", "offset": -1}, "/offset"),
]


def make(name: str, description: str, **declared: Any) -> Any:
    async def run() -> None: ...

    return tool(name=name, description=description, **declared)(run)


@pytest.fixture
def shelf(hub: Hub) -> None:
    hub.add(
        make("issue", "Show one.", category="work", tags=["tracker", "read"]),
        make("issue_list", "List every issue.", category="work", tags=["tracker", "read"]),
        make("create_issue", "Create an ISSUE in a project.", category="work", tags=["tracker", "write"]),
        make("weather", "Tell the weather.", category="issues", tags=["read"]),
        make("quiet", "Does it."),
    )


def search(rest: Rest, query: str, **options: Any) -> list[tuple[str, float]]:
    response = rest.post("/v1/tools/search", {"query": query, **options})
    assert response.status_code == 200, response.content
    told = response.json()
    check_form("SearchAnswer", told)
    assert told["total"] == len(told["results"])
    return [(one["name"], one["score"]) for one in told["results"]]


def test_the_best_come_first_and_a_score_says_how_good(rest: Rest, shelf: None) -> None:
    # name: 0.7 · where it begins + 0.3 · how much of it; description: the same by 0.7; 1 at most.
    in_name, in_description = 0.7 * 5 / 12 + 0.3 * 5 / 12, 0.7 * 19 / 29 + 0.3 * 5 / 29
    assert search(rest, "issue") == [
        ("issue", 1.0),
        ("issue_list", 1.0),
        ("create_issue", round(in_name + 0.7 * in_description, 4)),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"matchType": "exact"}, [("issue", 1.0)]),
        ({"matchType": "prefix"}, [("issue", 0.9), ("issue_list", 0.9)]),
        ({"fields": ["name"]}, [("issue", 1.0), ("issue_list", 0.85), ("create_issue", 0.4167)]),
        ({"fields": ["category"]}, [("weather", round(0.5 * (0.7 + 0.3 * 5 / 6), 4))]),
        ({"fields": ["category"], "matchType": "prefix"}, [("weather", 0.45)]),
        (
            {"fields": ["description"], "caseSensitive": True},
            [("issue_list", round(0.7 * (0.7 * 6 / 17 + 0.3 * 5 / 17), 4))],
        ),
        ({"filters": {"tags": ["write", "none"]}, "fields": ["name"]}, [("create_issue", 0.4167)]),
        ({"filters": {"category": "work", "tags": ["read"]}, "matchType": "exact"}, [("issue", 1.0)]),
        ({"filters": {"category": "issues", "tags": ["write"]}}, []),
        ({"filters": {"tags": []}, "matchType": "exact"}, [("issue", 1.0)]),
    ],
)
def test_a_search_respects_its_parameters(
    rest: Rest, shelf: None, options: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert search(rest, "issue", **options) == expected


def test_the_best_of_several_tags_counts(rest: Rest, shelf: None) -> None:
    found = search(rest, "read", fields=["tags"], matchType="exact")

    assert found == [("issue", 0.6), ("issue_list", 0.6), ("weather", 0.6)]


def test_says_where_the_text_begins(rest: Rest, shelf: None) -> None:
    told = rest.post("/v1/tools/search", {"query": " Issue ", "limit": 1, "matchType": "partial"}).json()

    assert (told["query"], told["matchType"], told["total"], len(told["results"])) == (" Issue ", "partial", 3, 1)
    created = rest.post("/v1/tools/search", {"query": "issue"}).json()["results"][2]
    assert created["matches"] == [{"field": "name", "positions": [7]}, {"field": "description", "positions": [10]}]


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": " \t\n "}, {"query": None}, {"query": "\u3000"}])
def test_a_search_for_nothing_is_refused_in_the_documents_words(rest: Rest, body: Any) -> None:
    told = failure(rest.post("/v1/tools/search", body), 400, "VALIDATION_ERROR")

    assert told["error"] == "Query is required"
    assert told["details"][0]["path"] == "/query"


def test_refuses_everything_else(rest: Rest, subtests: pytest.Subtests) -> None:
    for body, path in WRONG:
        with subtests.test(body=str(body)[:60]):
            told = failure(rest.post("/v1/tools/search", body), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]


@pytest.mark.parametrize("query", ["%", "_", "'", '"', "\\", ";--", "%_'\\\";--", ".*", "(", "[", "\x07"])
def test_no_sign_means_more_than_itself(rest: Rest, shelf: None, query: str) -> None:
    assert all(query in name for name, _ in search(rest, query, fields=["name"]))


def test_what_is_switched_off_is_found_by_operators_only(rest: Rest, shelf: None, make_key: MakeKey) -> None:
    governance.set_enabled(["issue"], False, actor=governance.trusted("test"))
    ops = make_key("ops", scopes=["tools:list", "tools:manage"])

    assert "issue" not in dict(search(rest, "issue"))
    told = rest.post("/v1/tools/search", {"query": "issue", "matchType": "exact"}, key=ops).json()["results"]
    assert [(one["name"], one["enabled"]) for one in told] == [("issue", False)]
    assert {"tag": "tracker", "count": 2} in rest.get("/v1/tags").json()["tags"]
    assert {"tag": "tracker", "count": 3} in rest.get("/v1/tags", key=ops).json()["tags"]


def test_what_is_outside_the_toolset_is_not_found(rest: Rest, shelf: None, make_key: MakeKey) -> None:
    governance.create_toolset("writers", tags=["write"], actor=governance.trusted("test"))
    rest.key = make_key("writer", toolsets=["writers"])

    assert [name for name, _ in search(rest, "issue")] == ["create_issue"]
    assert rest.get("/v1/tags").json()["tags"] == [
        {"tag": tag, "count": 1} for tag in ("answers", "builtin", "tracker", "write")
    ]
    assert rest.get("/v1/categories").json()["categories"] == [
        {"category": category, "count": 1} for category in ("utility", "work")
    ]
    assert [one["name"] for one in rest.get("/v1/tools?q=issue").json()["tools"]] == ["create_issue"]


def test_lists_tags_the_most_common_first(rest: Rest, shelf: None) -> None:
    told = rest.get("/v1/tags").json()

    assert [(one["tag"], one["count"]) for one in told["tags"]] == [
        ("builtin", 3), ("read", 3), ("tracker", 3), ("answers", 1), ("math", 1), ("test", 1), ("write", 1),
    ]  # fmt: skip
    assert told["total"] == 7


def test_lists_the_tags_that_come_with_one(rest: Rest, shelf: None) -> None:
    told = rest.get("/v1/tags?relatedTo=tracker").json()

    assert told == {"tags": [{"tag": "read", "count": 2}, {"tag": "write", "count": 1}], "total": 2}
    assert rest.get("/v1/tags?relatedTo=nothing").json() == {"tags": [], "total": 0}


def test_finds_by_what_a_question_is_about(rest: Rest, shelf: None) -> None:
    for query in ("register a new ticket", "新しい課題を作成"):
        told = rest.post("/v1/tools/search", {"query": query, "matchType": "relevance"}).json()
        check_form("SearchAnswer", told)
        assert told["results"][0]["name"] == "create_issue"


def test_gives_what_it_found_page_by_page_in_the_order_that_is_asked_for(rest: Rest, shelf: None) -> None:
    body = {"query": "issue", "sort": "category", "limit": 2}
    told = rest.post("/v1/tools/search", body).json()
    assert ([one["name"] for one in told["results"]], told["total"], told["hasMore"]) == (
        ["create_issue", "issue"], 3, True,
    )  # fmt: skip
    told = rest.post("/v1/tools/search", {**body, "offset": 2}).json()
    assert ([one["name"] for one in told["results"]], told["hasMore"]) == (["issue_list"], False)


def test_filters_by_every_tag_and_by_the_path_of_a_category(rest: Rest, shelf: None, hub: Hub) -> None:
    hub.add(make("issue_board", "Show a board.", category="work/boards", tags=["tracker", "board"]))
    every = {"filters": {"tags": ["tracker", "write"], "matchTags": "all"}}
    assert [name for name, _ in search(rest, "issue", **every)] == ["create_issue"]
    below = search(rest, "issue", filters={"category": "work/boards"})
    assert [name for name, _ in below] == ["issue_board"]
    assert len(search(rest, "issue", filters={"category": "work"})) == 4


def test_says_which_sources_are_likeliest_and_searches_one_of_them(rest: Rest, shelf: None, hub: Hub) -> None:
    source = hub.entry("echo").source_name
    body = {"query": "issue echo", "matchType": "relevance"}
    told = rest.post("/v1/tools/search", body).json()
    check_form("SearchAnswer", told)
    names = [one["name"] for one in told["sources"]]
    assert sorted(names) == sorted(["code", source])
    assert all("tool" in one["about"] for one in told["sources"])
    for match_type in ("relevance", "partial"):
        within = {**body, "query": "echo", "matchType": match_type, "filters": {"source": source}}
        told = rest.post("/v1/tools/search", within).json()
        assert [one["name"] for one in told["results"]] == ["echo"], match_type
        assert rest.post("/v1/tools/search", {**within, "filters": {"source": "code"}}).json()["results"] == []
    assert "sources" not in told, "only a ranked search knows"


def test_lists_categories_by_name(rest: Rest, shelf: None) -> None:
    assert rest.get("/v1/categories").json() == {
        "categories": [
            {"category": "issues", "count": 1}, {"category": "utility", "count": 3}, {"category": "work", "count": 3},
        ],
        "total": 3,
    }  # fmt: skip


def test_needs_the_scope_of_lists(rest: Rest, make_key: MakeKey) -> None:
    calls = make_key("calls", scopes=["tools:execute"])

    for response in (
        rest.post("/v1/tools/search", {"query": "x"}, key=calls),
        rest.get("/v1/tags", key=calls),
        rest.get("/v1/categories", key=calls),
    ):
        assert failure(response, 403, "AUTHORIZATION_ERROR")["context"] == {"requiredScope": "tools:list"}
