"""The table of the pack's document, row by row: what callers are told, whether it is an error, how loud the log is."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from tests.packs.websearch.conftest import Ask
from tests.packs.websearch.fakes import FakeWeb
from tools_app.catalog import catalog
from tools_app.governance import contracts
from tools_app.mcp_server import results
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError

NOT_FETCHED = "Failed to fetch search results. Please try again later."
NOT_JSON = "Failed to parse API response."
NOT_PARSED = "Failed to parse search results. The page structure may have changed."
CHALLENGED = "Search provider refused the request (bot challenge). Try again later."
JSON = "application/json"
HTML = "text/html"
# What an engine says in its refusals, and agents must not be told.
SECRET = "Inner secret title"
REFUSAL = f"<title>{SECRET}</title><h1>{SECRET}</h1>"

ROWS: list[Any] = [
    # the document's name, tool, query, what the engine does, message, level, code, whether it is worth another try
    ("HttpError", "web_search", "q", "reset", NOT_FETCHED, "ERROR", "UPSTREAM_UNAVAILABLE", True),
    ("HttpError", "web_search", "q", "status:500", NOT_FETCHED, "ERROR", "API_ERROR", False),
    ("HttpError", "web_search", "q", "status:403", NOT_FETCHED, "ERROR", "API_ERROR", False),
    *(
        ("HttpError", tool, "q", (REFUSAL, HTML, status), NOT_FETCHED, "ERROR", "API_ERROR", False)
        for tool in ("web_search", "instant_answer")
        for status in (400, 404, 418, 429, 500)
    ),
    *(
        ("HttpError", tool, "q", (f'{{"message": "{SECRET}"}}', JSON, 422), NOT_FETCHED, "ERROR", "API_ERROR", False)
        for tool in ("web_search", "instant_answer")
    ),
    ("HttpError", "instant_answer", "q", "redirect:302", NOT_FETCHED, "ERROR", "API_ERROR", False),
    ("HtmlParseError", "web_search", "q", (REFUSAL, HTML), NOT_PARSED, "ERROR", None, False),
    ("JsonParseError", "instant_answer", "q", (REFUSAL, HTML), NOT_JSON, "ERROR", None, False),
    ("HttpError", "web_search", "q", "busy:503:5", NOT_FETCHED, "ERROR", "API_ERROR", False),
    ("HttpError", "instant_answer", "q", "close", NOT_FETCHED, "ERROR", "UPSTREAM_UNAVAILABLE", True),
    ("HtmlParseError", "web_search", "q", "ddg_html_changed_markup.html", NOT_PARSED, "ERROR", None, False),
    ("HtmlParseError", "web_search", "q", "html", NOT_PARSED, "ERROR", "UPSTREAM_INVALID_RESPONSE", False),
    ("HtmlParseError", "web_search", "q", "empty", NOT_PARSED, "ERROR", "UPSTREAM_INVALID_RESPONSE", False),
    ("HtmlParseError", "web_search", "q", "bomb:gzip", NOT_PARSED, "ERROR", "UPSTREAM_INVALID_RESPONSE", False),
    *(
        ("JsonParseError", "instant_answer", "q", fault, NOT_JSON, "ERROR", None, False)
        for fault in ("html", "empty", "truncated-json", "nan", "deep-json", "duplicate-keys", ("[1]", JSON))
    ),
    *(
        ("EmptyQuery", tool, query, "reset", "Query must not be empty.", "WARNING", "VALIDATION_ERROR", False)
        for tool in ("web_search", "instant_answer")
        for query in ("", "  \n\t", "\u3000", "\u200b\u2060")
    ),
    ("Timeout", "web_search", "q", "hang", "Request timed out. Please try again.", "WARNING", "TIMEOUT", True),
    ("Timeout", "instant_answer", "q", "drip-body", "Request timed out. Please try again.", "WARNING", "TIMEOUT", True),
    ("challenge", "web_search", "q", ("ddg_html_anomaly.html", 202), CHALLENGED, "ERROR", "API_ERROR", False),
    ("challenge", "web_search", "q", "ddg_html_anomaly.html", CHALLENGED, "ERROR", "API_ERROR", False),
]


@pytest.mark.parametrize(("name", "tool", "query", "does", "message", "level", "code", "again"), ROWS)
def test_an_error_has_the_wording_of_the_document(
    ask: Ask,
    web: FakeWeb,
    caplog: pytest.LogCaptureFixture,
    name: str,
    tool: str,
    query: str,
    does: Any,
    message: str,
    level: str,
    code: str | None,
    again: bool,
) -> None:
    if name == "Timeout":
        web.changes["timeout"] = 0.2
    for place in ("html", "lite", "api"):
        web.say(place, does)
    with pytest.raises(ToolError) as caught:
        ask(tool, query=query)
    error = caught.value
    wire = results.error_result(error)
    assert (wire["isError"], wire["content"][0]["text"]) == (True, message)
    assert error.code == (code or "UPSTREAM_INVALID_RESPONSE")
    assert error.retryable is again
    (logged,) = [record for record in caplog.records if message in record.getMessage()]
    assert logged.levelname == level
    # A cause is for the error log; nothing of it is sent.
    for sent in (str(wire), str(error.as_dict())):
        assert not any(inner in sent for inner in ("127.0.0.1", "ddg.test", "Traceback", "httpx", SECRET, "faultd"))
        assert not re.search(r"statusCode|errorDetails|Reason|\b(?:202|4\d\d|5\d\d)\b", sent)
    if name == "EmptyQuery":
        assert web.server.requests == []
    if name == "challenge":
        assert "WEBSEARCH_SEARXNG_URL" in error.next_step
        assert web.asked("lite") == [], "whoever is challenged should not knock again"


@pytest.mark.parametrize(
    ("tool", "place", "said", "text"),
    [
        *(
            ("web_search", place, file, "No results found.")
            for place, file in (
                ("html", "ddg_html_no_results.html"),
                ("html", "ddg_html_no_results_old.html"),
                ("lite", "ddg_lite_no_results.html"),
            )
        ),
        (
            *("instant_answer", "api", "ddg_ia_nothing.json"),
            '## Instant Answer for "q"\n\nNo instant answer available for this query.\n\n'
            "_Source: DuckDuckGo Instant Answer API_",
        ),
    ],
)
def test_nothing_found_is_an_answer(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, tool: str, place: str, said: str, text: str
) -> None:
    caplog.set_level(logging.INFO)
    web.say("html", "status:500")
    web.say(place, said)
    assert ask(tool, query="q") == text
    assert {record.levelname for record in caplog.records if "No results" in record.getMessage()} <= {"INFO"}
    assert tool == "instant_answer" or any("No results found" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("tool", "place", "said"),
    [("web_search", "html", "ddg_html_get.html"), ("instant_answer", "api", "ddg_ia_article.json")],
)
def test_its_examples_hold(ask: Ask, web: FakeWeb, alice: Caller, tool: str, place: str, said: str) -> None:
    web.say(place, said)
    entry = catalog.current().find(tool)
    assert entry is not None
    report = contracts.check(entry, alice)
    assert (report.skipped, report.faults, len(report.outcomes)) == ("", [], 1)


def test_results_have_the_document_s_form(ask: Ask, web: FakeWeb) -> None:
    web.say("html", "ddg_html_get.html")
    assert ask("web_search", query=" django \n", max_results=2) == (
        '## Web Search Results for "django"\n\n'
        "### 1. Django — The web framework\n"
        "**URL:** https://www.djangoproject.com/\n"
        "Django makes it easier to build better web apps, with less code.\n\n"
        "---\n\n"
        '### 2. Q&A: \\<tags\\> & "quotes" in titles\n'
        "**URL:** https://example.test/a?x=1&y=2#frag\n"
        "Entities: \\<b\\> & \"quoted\" 'single' and bold.\n\n"
        "---\n\n"
        "_Source: DuckDuckGo (2 results)_"
    )


def test_an_instant_answer_has_the_document_s_form(ask: Ask, web: FakeWeb) -> None:
    web.say("api", "ddg_ia_article.json")
    assert ask("instant_answer", query="django") == (
        '## Instant Answer for "django"\n\n'
        "### Abstract\n"
        "Django is a free and open-source web framework.\n\n"
        "**Source:** Wikipedia\n"
        "**URL:** https://en.wikipedia.org/wiki/Django_(web_framework)\n\n"
        "### Related Topics\n"
        "- **Flask** - A micro web framework.\n"
        "- **Ünïcode &** - \\<tags\\> Entities.\n\n"
        "_Source: DuckDuckGo Instant Answer API_"
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("ddg_ia_text_answer.json", "### Answer\nA random number: 7"),
        ("ddg_ia_calc.json", "No instant answer available for this query."),
        ("ddg_ia_bang.json", "No instant answer available for this query."),
        ("ddg_ia_disambiguation.json", "- **Django (1966 film)** - A film."),
        (
            '{"Definition": "A word.", "DefinitionSource": "Wiktionary"}',
            "### Definition\nA word.\n\n**Source:** Wiktionary",
        ),
        ('{"RelatedTopics": [7, {"Topics": 3}, {"Text": "a - b"}, {"Text": 5}]}', "### Related Topics\n- **a** - b\n"),
    ],
)
def test_an_instant_answer_is_what_there_is(ask: Ask, web: FakeWeb, said: str, shown: str) -> None:
    web.say("api", (said, JSON) if said.startswith("{") else said)
    assert shown in ask("instant_answer", query="q")


def test_no_more_results_are_given_than_asked_for(ask: Ask, web: FakeWeb) -> None:
    for wanted in (0, 31, -1, 1.5, "3"):
        with pytest.raises(ToolError, match="max_results"):
            ask("web_search", query="q", max_results=wanted)
    assert web.server.requests == []


@pytest.mark.parametrize("query", ["q" * 501, "頁" * 501])
def test_a_query_has_an_end(ask: Ask, web: FakeWeb, query: str) -> None:
    for tool in ("web_search", "instant_answer"):
        with pytest.raises(ToolError, match=r"^Query is too long"):
            ask(tool, query=query)
    assert web.server.requests == []
