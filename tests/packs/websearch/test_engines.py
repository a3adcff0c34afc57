"""Which engine is asked, for how much, and what happens when it fails."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.packs.websearch.conftest import Ask
from tests.packs.websearch.fakes import FakeWeb
from tools_app.packs.websearch.settings import SearchOptions
from tools_app.sdk.errors import ToolError

BOTH = ("searxng", "duckduckgo")


def titles(answer: str) -> list[str]:
    return re.findall(r"^### \d+\. (.*)$", answer, re.MULTILINE)


@pytest.mark.parametrize("trouble", ["ddg_html_changed_markup.html", "status:403", "status:500", "html"])
def test_the_other_form_is_requested_if_one_is_not_understood(ask: Ask, web: FakeWeb, trouble: str) -> None:
    web.say("html", trouble)
    web.say("lite", "ddg_lite.html")
    assert ask("web_search", query="django", max_results=9).endswith("_Source: DuckDuckGo (9 results)_")


def test_the_error_of_the_first_form_is_reported_if_both_fail(ask: Ask, web: FakeWeb) -> None:
    web.say("html", "ddg_html_changed_markup.html")
    web.say("lite", ("ddg_lite_anomaly.html", 202))
    with pytest.raises(ToolError, match="page structure may have changed"):
        ask("web_search", query="django")


@pytest.mark.parametrize("trouble", ["reset", ("ddg_html_anomaly.html", 202)])
def test_a_lost_connection_or_a_challenge_is_the_same_at_both_doors(ask: Ask, web: FakeWeb, trouble: object) -> None:
    web.say("html", trouble)
    with pytest.raises(ToolError):
        ask("web_search", query="django")
    assert (len(web.asked("html")), len(web.asked("lite"))) == (1, 0)


def test_a_query_is_sent_as_a_form_and_is_in_no_url(ask: Ask, web: FakeWeb) -> None:
    web.changes["search_options"] = SearchOptions(region="de-de", safe_search="strict", time_range="week")
    web.say("html", "ddg_html_last_page.html")
    query = "a&b=c 日本 " + "頁" * 400
    ask("web_search", query=query)
    (seen,) = web.server.requests
    assert (seen.method, seen.target) == ("POST", "/html/")
    assert seen.headers["user-agent"] == "websearch-mcp/0.1"
    assert seen.headers["referer"] == web.places.html
    assert web.asked("html") == [{"q": query, "b": "", "kl": "de-de", "kp": "1", "df": "w"}]


def test_more_results_come_from_the_next_pages(ask: Ask, web: FakeWeb) -> None:
    web.say("html", "ddg_html_get.html", "ddg_html_page2.html", "ddg_html_last_page.html")
    answer = ask("web_search", query="django", max_results=30)
    # 9, then 15, of which three come again on the last one.
    assert answer.endswith("_Source: DuckDuckGo (24 results)_")
    first, second, third = web.asked("html")
    assert (first["q"], second["s"], second["vqd"][:2]) == ("django", "10", "4-")
    assert third["vqd"] == second["vqd"]


@pytest.mark.parametrize("trouble", ["reset", ("ddg_html_anomaly.html", 202), "ddg_html_changed_markup.html"])
def test_what_was_found_stays_found_when_the_next_page_fails(ask: Ask, web: FakeWeb, trouble: object) -> None:
    web.say("html", "ddg_html_get.html", trouble)
    assert ask("web_search", query="django", max_results=30).endswith("_Source: DuckDuckGo (9 results)_")


def test_searxng_is_asked_the_way_it_wants(ask: Ask, web: FakeWeb) -> None:
    web.changes |= {
        "engines": BOTH,
        "search_options": SearchOptions(region="at-de", safe_search="off", time_range="month"),
    }
    answer = ask("web_search", query="toolhub & more", max_results=12)
    assert titles(answer) == [f"toolhub & more {number}" for number in range(1, 13)]
    assert answer.endswith("_Source: SearXNG (12 results)_")
    shared = {"q": "toolhub & more", "format": "json", "language": "de-AT", "safesearch": "0", "time_range": "month"}
    assert web.asked("search") == [{**shared, "pageno": "1"}, {**shared, "pageno": "2"}]
    assert web.asked("html") == []


def test_searxng_that_has_no_more_is_not_asked_again_and_again(ask: Ask, web: FakeWeb) -> None:
    web.changes["engines"] = BOTH
    assert len(titles(ask("web_search", query="few", max_results=30))) == 25
    web.say("search", "searxng_ok.json")
    web.server.requests.clear()
    assert len(titles(ask("web_search", query="the same page each time", max_results=30))) == 3
    assert len(web.asked("search")) == 2


def test_nothing_from_searxng_is_an_answer(ask: Ask, web: FakeWeb) -> None:
    web.changes["engines"] = BOTH
    assert ask("web_search", query="nothing") == "No results found."
    assert web.asked("html") == []


@pytest.mark.parametrize(
    "trouble",
    [
        *("reset", "status:500", "searxng_all_engines_failed.json", "truncated-json", "html", "redirect:302"),
        ("searxng_403_format_off.html", 403),
    ],
)
def test_another_engine_replaces_a_failed_one_and_is_named(ask: Ask, web: FakeWeb, trouble: object) -> None:
    web.changes["engines"] = BOTH
    web.say("search", trouble)
    web.say("html", "ddg_html_last_page.html")
    assert ask("web_search", query="django").endswith("_Source: DuckDuckGo (3 results)_")


def test_the_error_of_the_preferred_engine_is_reported_if_all_fail(ask: Ask, web: FakeWeb) -> None:
    web.changes["engines"] = ("searxng",)
    web.say("search", ("searxng_403_format_off.html", 403))
    with pytest.raises(ToolError, match="^Failed to fetch search results") as caught:
        ask("web_search", query="django")
    assert "search.formats" in caught.value.next_step
    web.changes["engines"] = BOTH
    web.say("html", "reset")
    with pytest.raises(ToolError) as again:
        ask("web_search", query="django")
    assert again.value.next_step == caught.value.next_step


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("searxng_old_answers.json", "### Answer\n2\n\n_Source: SearXNG_"),
        (
            {"answers": [{"answer": "4 <b>"}], "unresponsive_engines": [["x", "timeout"]]},
            "### Answer\n4 \\<b\\>\n\n_Source: SearXNG_",
        ),
        (
            {"infoboxes": [{"content": "A film.", "id": "https://a.test/film", "engine": "wikidata"}]},
            "### Abstract\nA film.\n\n**Source:** wikidata\n**URL:** https://a.test/film\n\n_Source: SearXNG_",
        ),
        (
            "searxng_ok.json",
            "### Answer\nDjango is a framework.\n\n**URL:** https://en.wikipedia.org/wiki/Django\n\n_Source: SearXNG_",
        ),
        ("searxng_ok_2026.json", "No instant answer available for this query.\n\n_Source: SearXNG_"),
        (
            {"answers": [None, {}, {"answer": 5}], "infoboxes": ["x", {"content": ""}, {"content": 7}]},
            "No instant answer available for this query.\n\n_Source: SearXNG_",
        ),
    ],
)
def test_an_instant_answer_comes_from_searxng_where_duckduckgo_is_left_out(
    ask: Ask, web: FakeWeb, said: str | dict[str, object], shown: str
) -> None:
    web.changes["engines"] = ("searxng",)
    web.say("search", said if isinstance(said, str) else (json.dumps({"results": [], **said}), "application/json"))
    answer = ask("instant_answer", query="private words")
    assert answer == f'## Instant Answer for "private words"\n\n{shown}'
    assert (len(web.asked("search")), web.asked("api"), web.asked("html")) == (1, [], [])


def test_an_instant_answer_of_searxng_fails_in_the_document_s_words(ask: Ask, web: FakeWeb) -> None:
    web.changes["engines"] = ("searxng",)
    for said, told in (
        ("searxng_all_engines_failed.json", "Failed to fetch search results. Please try again later."),
        ("status:500", "Failed to fetch search results. Please try again later."),
        ("truncated-json", "Failed to parse API response."),
        (("[]", "application/json"), "Failed to parse API response."),
    ):
        web.say("search", said)
        with pytest.raises(ToolError) as caught:
            ask("instant_answer", query="django")
        assert caught.value.message == told
    assert web.asked("api") == []


@pytest.mark.parametrize("engines", [("searxng",), ("duckduckgo",), BOTH])
def test_no_error_advises_a_setting_that_is_set(
    ask: Ask, web: FakeWeb, settings: Any, engines: tuple[str, ...]
) -> None:
    settings.WEBSEARCH_SEARXNG_URL = "https://searx.test"
    web.changes["engines"] = engines
    for trouble in ("status:500", "status:403", "status:422", ("ddg_html_anomaly.html", 202)):
        for place in ("search", "html", "lite", "api"):
            web.say(place, trouble)
        for tool in ("web_search", "instant_answer"):
            with pytest.raises(ToolError) as caught:
                ask(tool, query=f"{trouble}")
            assert "WEBSEARCH_SEARXNG_URL" not in caught.value.next_step


# ---- the region and the time of one search


def test_a_search_has_a_region_and_a_time_of_its_own(ask: Ask, web: FakeWeb) -> None:
    web.changes |= {"search_options": SearchOptions(region="de-de", safe_search="strict", time_range="year")}
    web.say("html", "ddg_html_last_page.html")
    answer = ask("web_search", query="django", region="jp-ja", time_range="week")
    assert web.asked("html")[0] | {"kl": "jp-jp", "kp": "1", "df": "w"} == web.asked("html")[0]
    assert re.search(r"_Source: DuckDuckGo \(\d+ results, region jp-ja, last week\)_$", answer)
    # What a search does not say is as the operator has set it.
    answer = ask("web_search", query="django", time_range="day")
    assert web.asked("html")[1] | {"kl": "de-de", "kp": "1", "df": "d"} == web.asked("html")[1]
    assert answer.endswith("results, last day)_")
    assert re.search(r"\(\d+ results\)_$", ask("web_search", query="django"))


@pytest.mark.parametrize(
    ("region", "language"),
    [
        ("at-de", "de-AT"),
        ("jp-ja", "ja-JP"),
        ("jp-jp", "ja-JP"),
        ("uk-en", "en-GB"),
        ("gb-en", "en-GB"),
        ("wt-wt", None),
    ],
)
def test_searxng_gets_the_region_as_a_language(ask: Ask, web: FakeWeb, region: str, language: str | None) -> None:
    web.changes |= {"engines": ("searxng",)}
    answer = ask("web_search", query="django", region=region, time_range="month")
    (asked,) = web.asked("search")
    assert (asked.get("language"), asked["time_range"]) == (language, "month")
    assert answer.endswith(f"results, region {region}, last month)_")


def test_a_region_that_duckduckgo_would_ignore_is_refused_before_anything_is_sent(ask: Ask, web: FakeWeb) -> None:
    for region, others in (("de-fr", "de-de"), ("ch-rm", "ch-de, ch-fr, ch-it"), ("gb-cy", "gb-en"), ("zz-zz", "")):
        with pytest.raises(ToolError, match=f"DuckDuckGo has no region {region}") as caught:
            ask("web_search", query="django", region=region)
        assert others in caught.value.message or others in str(caught.value.details)
        assert "search without region" in caught.value.next_step
    assert web.server.requests == []


def test_an_engine_without_the_region_is_replaced_by_one_that_has_it(ask: Ask, web: FakeWeb) -> None:
    web.changes |= {"engines": ("duckduckgo", "searxng")}
    answer = ask("web_search", query="django", region="ch-rm")
    assert answer.endswith("_Source: SearXNG (10 results, region ch-rm)_")
    assert web.asked("html") == []


def test_a_region_that_an_operator_has_set_is_sent_as_it_is(ask: Ask, web: FakeWeb) -> None:
    web.changes |= {"search_options": SearchOptions(region="de-fr")}
    web.say("html", "ddg_html_last_page.html")
    ask("web_search", query="django")
    assert web.asked("html")[0]["kl"] == "de-fr"


def test_nothing_found_within_limits_names_them(ask: Ask, web: FakeWeb) -> None:
    web.changes |= {"engines": ("searxng",)}
    assert ask("web_search", query="nothing") == "No results found."
    limited = ask("web_search", query="nothing", region="at-de", time_range="day")
    assert limited == "No results found. The search was limited to: region at-de, last day."


@pytest.mark.parametrize("limits", [{"region": "Japan"}, {"region": "JP-ja"}, {"time_range": "hour"}])
def test_other_regions_and_times_are_refused(ask: Ask, web: FakeWeb, limits: dict[str, str]) -> None:
    with pytest.raises(ToolError, match="Invalid|expected|must"):
        ask("web_search", query="django", **limits)
    assert web.server.requests == []
