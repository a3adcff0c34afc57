"""Pages of engines, as recorded shapes: what is read from each, and what is not understood."""

from __future__ import annotations

import json

import pytest

from tests.packs.websearch.fakes import PAGES, page
from tools_app.packs.websearch._work import duckduckgo, searxng
from tools_app.sdk.errors import ApiError, ToolError, UpstreamInvalidResponseError

EXPECTED = {
    path.name.removesuffix(".expected.json"): json.loads(path.read_text()) for path in PAGES.glob("*.expected.json")
}
READ = [name for name, expected in EXPECTED.items() if "results" in expected]


@pytest.mark.parametrize("name", READ)
def test_every_kind_of_page_is_read(name: str) -> None:
    expected = EXPECTED[name]
    found = duckduckgo.read(page(f"{name}.html"), expected["status"])
    assert [(hit.title, hit.url, hit.snippet) for hit in found.hits] == [
        (result["title"], result["url"], result["snippet"]) for result in expected["results"]
    ]
    assert found.next == expected.get("next")


@pytest.mark.parametrize("status", [200, 202])
@pytest.mark.parametrize("name", ["ddg_html_anomaly", "ddg_lite_anomaly"])
def test_the_question_whether_we_are_a_bot_is_no_empty_page(name: str, status: int) -> None:
    with pytest.raises(ApiError, match="bot challenge"):
        duckduckgo.read(page(f"{name}.html"), status)


def test_an_empty_page_with_the_status_of_a_challenge_is_one() -> None:
    with pytest.raises(ApiError, match="bot challenge"):
        duckduckgo.read("<html><body></body></html>", 202)


@pytest.mark.parametrize("words", ["anomaly.js", "challenge-form", '<form id="challenge-form">', "No results."])
def test_words_of_a_challenge_in_a_query_or_a_result_are_words(words: str) -> None:
    shown = words.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    source = page("ddg_html_get.html").replace('value="django"', f'value="{shown}"').replace("No snippet at all", shown)
    assert len(duckduckgo.read(source, 200).hits) == 9


@pytest.mark.parametrize(
    "source",
    [
        *("", "<html></html>", "plain words", "<p>No results found.</p>", '<div class="no-results">elsewhere</div>'),
        # All there is are advertisements, or links that lead nowhere.
        '<div id="links"><div class="result result--ad"><a class="result__a" href="https://a.test/">x</a></div></div>',
        '<div id="links"><div class="result"><a class="result__a">x</a></div></div>',
        '<div id="links"><div class="result"><a class="result__a" href="javascript:alert(1)">x</a></div></div>',
        "<div>" * 50_000,
    ],
)
def test_a_page_that_is_not_understood_is_not_an_empty_one(source: str) -> None:
    with pytest.raises(UpstreamInvalidResponseError, match="page structure may have changed"):
        duckduckgo.read(source, 200)


def test_changed_markup_is_not_an_empty_page() -> None:
    with pytest.raises(UpstreamInvalidResponseError, match="page structure may have changed"):
        duckduckgo.read(page("ddg_html_changed_markup.html"), 200)


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("https://a.test/?q=1#x", "https://a.test/?q=1#x"),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.test%2Fx%252Fy%3Fuddg%3D1&rut=abc", "https://a.test/x%2Fy?uddg=1"),
        ("https://duckduckgo.com/l/?rut=abc&uddg=https%3A%2F%2Fa.test%2F%3Fa%3D1%2B2", "https://a.test/?a=1+2"),
        ("//html.duckduckgo.com/l?uddg=http%3A%2F%2Fa.test%2F", "http://a.test/"),
        ("//duckduckgo.com/l/?rut=abc", ""),
        ("https://duckduckgo.com/y.js?ad_domain=a.test", ""),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad%3D1", ""),
        # Somebody else's, however much it looks like theirs.
        (
            "https://duckduckgo.com.evil.test/l/?uddg=https%3A%2F%2Fa.test",
            "https://duckduckgo.com.evil.test/l/?uddg=https%3A%2F%2Fa.test",
        ),
        ("https://duckduckgo.com/about", "https://duckduckgo.com/about"),
        ("http://[::1", ""),
    ],
)
def test_a_link_is_unwrapped_once(href: str, url: str) -> None:
    assert duckduckgo.target(href) == url


@pytest.mark.parametrize(("name", "found"), [("searxng_ok", 3), ("searxng_ok_2026", 1), ("searx_0.17_real", 10)])
def test_results_of_searxng_are_read(name: str, found: int) -> None:
    hits = searxng.read(json.loads(page(f"{name}.json")))
    assert len(hits) == found
    assert all(hit.title and hit.url.startswith("http") for hit in hits)


def test_an_empty_list_is_believed_where_no_engine_failed() -> None:
    assert searxng.read(json.loads(page("searxng_old_answers.json"))) == []
    with pytest.raises(ApiError, match="^Failed to fetch search results") as caught:
        searxng.read(json.loads(page("searxng_all_engines_failed.json")))
    assert caught.value.context == {"operation": "search the web"}
    assert "duckduckgo: CAPTCHA; google: Suspended: too many requests" in str(caught.value.detail)


@pytest.mark.parametrize(
    "said",
    [[], None, {}, {"results": {}}, {"results": [1, "a", {}]}, {"results": [{"url": "ftp://a.test", "title": "a"}]}],
)
def test_what_searxng_does_not_say_is_not_understood(said: object) -> None:
    with pytest.raises(ToolError, match=r"^Failed to parse API response\.$"):
        searxng.read(said)
