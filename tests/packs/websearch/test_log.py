"""The events of the pack's document, level by level: exactly its messages, with its fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.packs.websearch.conftest import Ask
from tests.packs.websearch.fakes import FakeWeb
from tools_app.base.logs import JsonFormatter
from tools_app.sdk.errors import ToolError
from tools_app.sdk.levels import TRACE

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    def read() -> list[dict[str, Any]]:
        ours = [record for record in caplog.records if record.name.startswith("tools_app.")]
        return [json.loads(JsonFormatter().format(record)) for record in ours]

    return read


def test_info_has_the_query_and_the_number_of_results(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, lines: Lines
) -> None:
    caplog.set_level(logging.INFO)
    web.say("html", "ddg_html_get.html")
    ask("web_search", query="rust async", max_results=3)
    invoked, completed = lines()
    assert (invoked["level"], invoked["message"]) == ("info", "Tool invoked")
    assert (invoked["tool"], invoked["query"]) == ("web_search", "rust async")
    assert (completed["level"], completed["message"]) == ("info", "Tool completed")
    assert (completed["tool"], completed["query"], completed["results"]) == ("web_search", "rust async", 3)


@pytest.mark.parametrize(("tool", "place"), [("web_search", "html"), ("instant_answer", "api")])
def test_debug_has_the_address_and_the_size(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, lines: Lines, tool: str, place: str
) -> None:
    caplog.set_level(logging.DEBUG)
    web.say(place, {"html": "ddg_html_get.html", "api": "ddg_ia_article.json"}[place])
    ask(tool, query="rust async")
    told = {line["message"]: line for line in lines()}
    assert told["Sending HTTP request"]["level"] == "debug"
    assert told["Sending HTTP request"]["url"].startswith(f"http://{place}.ddg.test:")
    assert ("q=rust%20async" in told["Sending HTTP request"]["url"]) is (place == "api")
    assert (told["HTTP response"]["host"], told["HTTP response"]["status"]) == (f"{place}.ddg.test", 200)
    assert told["HTTP response"]["bytes"] > 1_000
    assert not [message for message in told if "body" in message or "Parsed" in message]


def test_trace_has_the_whole_page_and_what_was_read_from_it(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, lines: Lines
) -> None:
    caplog.set_level(TRACE)
    web.say("html", "ddg_html_get.html")
    ask("web_search", query="rust")
    traced = [line for line in lines() if line["level"] == "trace"]
    page = "".join(line["message"].partition(": ")[2] for line in traced if "body" in line["message"])
    assert page.lower().lstrip().startswith("<!doctype html")
    assert page.rstrip().endswith("</html>")
    (parsed,) = [line for line in traced if line["message"].startswith("Parsed ")]
    assert parsed["message"] == "Parsed 9 results"
    assert "https://" in str(parsed["results"])


@pytest.mark.parametrize("query", ["", " \n", "\u200b\u2060"])
def test_warn_has_the_empty_query(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, lines: Lines, query: str
) -> None:
    with pytest.raises(ToolError, match=r"Query must not be empty\."):
        ask("web_search", query=query)
    (line,) = [line for line in lines() if line["message"] == "Empty query received"]
    assert line["level"] == "warn"


@pytest.mark.parametrize("does", ["reset", "status:500"])
def test_error_has_the_failed_request_and_its_error(
    ask: Ask, web: FakeWeb, caplog: pytest.LogCaptureFixture, lines: Lines, does: str
) -> None:
    for place in ("html", "lite"):
        web.say(place, does)
    with pytest.raises(ToolError):
        ask("web_search", query="rust")
    failed = [line for line in lines() if line["message"] == "HTTP request failed"]
    assert {line["level"] for line in failed} == {"error"}
    assert failed[0]["error"]
    assert failed[0]["host"] == "html.ddg.test"
    (call,) = [line for line in lines() if "Error: " in line["message"]]
    assert ("Network error: html.ddg.test" if does == "reset" else '"statusCode":500') in call["cause"]


@pytest.mark.parametrize(
    ("tool", "place", "does", "message"),
    [
        ("web_search", "html", "ddg_html_changed_markup.html", "Failed to parse HTML response: HTTP 200, and neither"),
        ("instant_answer", "api", ("[1]", "application/json"), "Failed to parse JSON response: list instead of an"),
    ],
)
def test_error_has_what_could_not_be_parsed(
    ask: Ask, web: FakeWeb, lines: Lines, tool: str, place: str, does: Any, message: str
) -> None:
    for each in (place, "lite"):
        web.say(each, does)
    with pytest.raises(ToolError):
        ask(tool, query="rust")
    failed = [line for line in lines() if line["message"].startswith(message)]
    assert {line["level"] for line in failed} == {"error"}
