"""get_execution_by_node: what one node was given, and what it made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n, recorded
from tests.packs.n8n.test_summaries import large
from tools_app import engine
from tools_app.packs.n8n.node_data import default_run, find_node, node_data
from tools_app.packs.n8n.runs import Execution

KEYS = {
    *("executionId", "nodeName", "nodeType", "status", "executionTime", "startTime", "endTime"),
    *("input", "output", "parameters", "error"),
}


def shown(name: str, node: str, run: int = -1, offset: int = 0, limit: int = 50, line: str = "2") -> dict[str, Any]:
    execution = Execution(recorded(f"execution_{name}", line))
    runs = execution.runs[node]
    return node_data(execution, runs[run], offset, limit)


@pytest.mark.parametrize("line", ["2", "1"])
def test_the_input_is_what_came_in_and_the_output_what_went_out(line: str) -> None:
    data = shown("chain", 'Сэт "поля" & <b>', line=line)
    assert data.keys() >= KEYS
    assert data["nodeType"] == "n8n-nodes-base.set"
    assert data["input"]["items"][0] == {"json": {"i": 0, "name": "item 0", "even": True}}
    assert data["output"]["items"][0]["json"]["city"] == "Zürich"
    assert data["input"]["sources"] == [{"nodeName": "Make items", "run": 0, "output": 0}]
    assert data["parameters"]["assignments"]["assignments"][0]["name"] == "city"
    assert data["error"] is None


@pytest.mark.parametrize("line", ["2"])
def test_an_item_that_is_too_large_can_be_read_in_parts(ask: Ask, n8n: N8n) -> None:
    told = recorded("execution_chain")
    page = "".join(f"<p>{number}</p>" for number in range(40_000))
    told["data"]["resultData"]["runData"]["Make items"][0]["data"]["main"][0][0]["json"] = {"page": page}
    n8n.executions["1"] = told
    data = ask("get_execution_by_node", id=1, nodeName="Make items")
    assert data["shownInPart"] is True
    assert "raw: true" in data["_guidance"]["message"]
    assert "shownInPart" not in ask("get_execution_by_node", id=1, nodeName="Make items", itemOffset=1)
    whole = ask_outline(ask, id="1", nodeName="Make items", itemLimit=1, raw=True)
    read = ""
    offset: int | None = 0
    while offset is not None:
        asked = {"id": whole, "pointer": "/output/items/0/json/page", "offset": offset}
        piece = engine.call_sync("read_result", asked, ask.caller, door="code").answer.value
        read += piece["text"]
        offset = piece.get("nextOffset")
    assert read == page


def ask_outline(ask: Ask, **arguments: Any) -> str:
    """The handle of an answer that is larger than its budget."""
    data = engine.call_sync("get_execution_by_node", arguments, ask.caller, door="code").answer.value["data"]
    return str(data["outline"]["id"])


def test_times_are_dates_for_every_unit_of_n8n() -> None:
    data = shown("chain", "Make items")
    assert (data["startTime"], data["endTime"]) == ("2026-11-18T10:21:52.498Z", "2026-11-18T10:21:52.520Z")
    assert data["executionTime"] == 22
    assert shown("crashed", "Before")["startTime"].startswith("2026-")  # in seconds, after a crash


def test_a_trigger_has_no_input() -> None:
    assert shown("chain", "Start")["input"] == {
        "items": [],
        "total": 0,
        "truncated": False,
        "nextItemOffset": None,
        "sources": [],
    }


def test_every_way_out_counts_and_items_say_which_it_was() -> None:
    data = shown("chain", "Keep even")
    assert data["output"]["branches"] == [{"output": 0, "items": 3}, {"output": 1, "items": 2}]
    assert [item.get("output", 0) for item in data["output"]["items"]] == [0, 0, 0, 1, 1]


def test_each_run_of_a_loop_is_its_own() -> None:
    execution = Execution(recorded("execution_loop"))
    assert default_run(execution, "Loop") == 3
    counts = [node_data(execution, run, 0, 50)["output"]["branches"][1:] for run in execution.runs["Loop"]]
    assert [sum(branch["items"] for branch in branches) for branches in counts] == [3, 3, 1, 0]
    assert shown("loop", "Work", run=1)["input"]["total"] == 3


def test_two_ways_into_a_merge() -> None:
    data = shown("branches", "Merge")
    assert {source["nodeName"] for source in data["input"]["sources"]} == {"Switch", "Odd branch"}
    assert data["input"]["total"] == data["output"]["total"]


@pytest.mark.parametrize("line", ["2", "1"])
def test_what_a_sub_node_was_asked_and_answered(line: str) -> None:
    data = shown("ai", "Model", line=line)
    assert data["input"]["items"][0]["output"] == "ai_languageModel"
    assert data["input"]["items"][0]["json"]["messages"] == ["Human: say hello"]
    assert "hello from the fake model" in json.dumps(data["output"])
    assert "defaultHeaders" not in json.dumps(data)


def test_files_are_described_and_not_sent() -> None:
    item = shown("binary", "File")["output"]["items"][0]
    assert item["binary"] == {
        "data": {"fileName": "hello.txt", "mimeType": "text/plain", "fileSize": "12 B", "bytes": 12}
    }


@pytest.mark.parametrize("name", ["error_http", "error_404", "continue", "error_code", "crashed"])
def test_an_error_in_full_but_for_stack_and_headers(name: str) -> None:
    execution = Execution(recorded(f"execution_{name}"))
    failed = next(run for run in execution.steps if run.outcome == "error")
    error = node_data(execution, failed, 0, 50)["error"]
    assert error["message"]
    assert "\n    at " not in json.dumps(error).replace("\\n", "\n")
    assert "headers" not in json.dumps(error)


# ---- page by page


def test_turning_all_pages_shows_every_item_once() -> None:
    execution = Execution(large(3, items=103))
    run = execution.runs[list(execution.runs)[1]][0]
    for limit in (1, 7, 50, 1000):
        offset: int | None = 0
        given, made = 0, 0
        while offset is not None:
            data = node_data(execution, run, offset, limit)
            given, made = given + len(data["input"]["items"]), made + len(data["output"]["items"])
            offset = data["output"]["nextItemOffset"] or data["input"]["nextItemOffset"]
        assert (given, made) == (103, 103)


SIZES = st.lists(st.sampled_from([0, 1, 40, 2_000, 30_000, 80_000]), max_size=30)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(SIZES, st.lists(SIZES, min_size=1, max_size=3), st.sampled_from([1, 3, 7, 50, 1_000]))
def test_every_item_of_any_size_is_on_one_page(given_: list[int], made: list[list[int]], limit: int) -> None:
    told = large(2)
    before, after = (runs[0] for runs in told["data"]["resultData"]["runData"].values())
    before["data"]["main"] = [[{"json": {"n": ["in", 0, at], "text": "x" * size}} for at, size in enumerate(given_)]]
    after["data"]["main"] = [
        [{"json": {"n": ["out", way, at], "text": "x" * size}} for at, size in enumerate(sizes)]
        for way, sizes in enumerate(made)
    ]
    execution = Execution(told)
    seen: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        data = node_data(execution, execution.steps[1], offset, limit)
        assert len(json.dumps(data, ensure_ascii=False).encode()) <= 75_000
        pages = (data["input"], data["output"])
        assert all(len(page["items"]) <= limit for page in pages)
        seen += [item["json"]["n"] for page in pages for item in page["items"]]
        offsets = {page["nextItemOffset"] for page in pages} - {None}
        assert len(offsets) <= 1
        assert [page["truncated"] for page in pages] == [page["nextItemOffset"] is not None for page in pages]
        offset = min(offsets, default=None)
    expected = [["in", 0, at] for at in range(len(given_))]
    expected += [["out", way, at] for way, sizes in enumerate(made) for at in range(len(sizes))]
    assert sorted(seen) == sorted(expected)


def test_pages_end_where_there_is_no_room_for_more() -> None:
    told = large(3, items=1)
    runs = list(told["data"]["resultData"]["runData"].values())
    runs[1][0]["data"]["main"][0] = [{"json": {"number": number, "text": "x" * 7_000}} for number in range(40)]
    runs[0][0]["data"]["main"][0] = [{"json": {"number": number}} for number in range(40)]
    execution = Execution(told)
    seen: list[int] = []
    offset: int | None = 0
    while offset is not None:
        data = node_data(execution, execution.steps[1], offset, 1000)
        assert len(json.dumps(data)) < 75_000
        numbers = [item["json"]["number"] for item in data["output"]["items"]]
        assert [item["json"]["number"] for item in data["input"]["items"]] == numbers
        seen += numbers
        offset = data["output"]["nextItemOffset"]
    assert seen == list(range(40))


def test_one_item_of_ten_megabytes_is_shown_in_part() -> None:
    told = large(2)
    runs = list(told["data"]["resultData"]["runData"].values())
    runs[1][0]["data"]["main"][0] = [{"json": {"page": "€" * 3_500_000}}, {"json": {"page": "small"}}]
    execution = Execution(told)
    data = node_data(execution, execution.steps[1], 0, 50)
    assert len(json.dumps(data, ensure_ascii=False).encode()) < 75_000
    assert "3,500,000 characters" in data["output"]["items"][0]["json"]["page"]
    assert data["output"]["nextItemOffset"] == 1


# ---- through the hub


@pytest.mark.parametrize("line", ["2"])
class TestThroughTheHub:
    def test_without_a_run_it_is_the_one_that_failed(self, ask: Ask, n8n: N8n) -> None:
        told = large(2)
        run = told["data"]["resultData"]["runData"]["A node that has a rather long name, 1"]
        run[:] = [run[0], {**run[0], "executionStatus": "error", "error": {"message": "boom"}}, run[0]]
        n8n.executions["7"] = told
        data = ask("get_execution_by_node", id="7", nodeName="A node that has a rather long name, 1")
        assert (data["runIndex"], data["runs"]) == (1, 3)
        assert "3 times" in data["_guidance"]["message"]
        last = ask("get_execution_by_node", id="7", nodeName="A node that has a rather long name, 1", runIndex=2)
        assert last["error"] is None

    def test_no_such_node(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("chain")
        error = ask.error("get_execution_by_node", id=one, nodeName="HTTP Request")
        assert error.message == f"Node 'HTTP Request' not found in execution '{one}'"
        assert error.code == "NOT_FOUND"
        assert "Make items" in error.next_step
        assert "did not run" in ask.error("get_execution_by_node", id=one, nodeName="Never connected").next_step

    def test_no_such_run(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("loop")
        error = ask.error("get_execution_by_node", id=one, nodeName="Loop", runIndex=9)
        assert error.message == f"Run 9 of node 'Loop' not found in execution '{one}'"
        assert "0 to 3" in error.next_step

    @pytest.mark.parametrize("name", ["", "x" * 257])
    def test_a_name_that_cannot_be_one(self, ask: Ask, n8n: N8n, name: str) -> None:
        error = ask.error("get_execution_by_node", id="1", nodeName=name)
        assert error.message.startswith("Node name is required")
        assert n8n.requests == []

    def test_names_are_taken_as_they_are(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("names")
        for name in ("a.b['c']", "toString", " leading and trailing "):
            assert ask("get_execution_by_node", id=one, nodeName=name)["nodeName"] == name
        assert ask.error("get_execution_by_node", id=one, nodeName="tostring").code == "NOT_FOUND"

    def test_pinned_data_is_marked(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("pinned")
        data = ask("get_execution_by_node", id=one, nodeName="Would call the net")
        assert "pinned" in data["_guidance"]["message"]

    def test_redacted_data_is_marked(self, ask: Ask, n8n: N8n) -> None:
        data = ask("get_execution_by_node", id=n8n.hold("redacted"), nodeName="Seven")
        assert data["output"]["items"][0] == {"json": {}, "redacted": True}
        assert "redacted" in data["_guidance"]["message"]

    def test_halves_of_characters_do_no_harm(self, ask: Ask, n8n: N8n) -> None:
        told = large(2)
        (run,) = told["data"]["resultData"]["runData"]["A node that has a rather long name, 1"]
        run["data"]["main"][0] = [{"json": {"cut \ud83d": "in the middle \ud83d"}}]
        run["error"] = {"message": "cut, too \ud83d"}
        n8n.executions["7"] = told
        data = ask("get_execution_by_node", id="7", nodeName="A node that has a rather long name, 1")
        assert data["output"]["items"] == [{"json": {"cut ?": "in the middle ?"}}]
        assert "cut, too" in ask("explain_execution", id="7")["cause"]

    def test_large_executions_take_no_more_room_than_small_ones(self, ask: Ask, n8n: N8n) -> None:
        n8n.executions["7"] = large(20, items=2_500)
        data = ask("get_execution_by_node", id="7", nodeName="A node that has a rather long name, 3", itemLimit=1000)
        assert data["output"]["total"] == 2_500
        assert len(ask.text.encode()) / 3 <= 25_000


def test_a_name_with_invisible_characters_is_found_by_its_visible_ones() -> None:
    execution = Execution(large(1))
    execution.runs["HTTP\u200b Request"] = []
    assert find_node(execution, "HTTP Request") == "HTTP\u200b Request"
    assert find_node(execution, "Other") is None
