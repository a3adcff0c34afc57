"""Node types: found by words, and documented within a budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.node_types import TYPES, exported
from tools_app.packs.n8n.node_types import NodeTypes, documentation
from tools_app.sdk.context import Caller

pytestmark = pytest.mark.parametrize("line", ["2"])
SLACK = "n8n-nodes-base.slack"


@pytest.fixture
def file(tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.TOOLHUB_FILE_ROOT = tmp_path
    monkeypatch.setenv("N8N_NODE_TYPES", "nodes.json")
    path = tmp_path / "nodes.json"
    path.write_text(exported())
    return path


class TestSearch:
    def test_names_the_node_and_what_it_can_do(self, ask: Ask, file: Path) -> None:
        assert ask("search_node_types", query="send a Slack message")["nodeTypes"] == [
            {
                "type": SLACK,
                "title": "Slack",
                "typeVersion": 2.7,
                "description": "Consume Slack API",
                "operations": {
                    "message/send": "Send a message",
                    "channel/archive": "Archive a message",
                    "message/delete": "Delete a message",
                },
            }
        ]
        assert ask("search_node_types", query="approval")["count"] == 1
        assert ask("search_node_types", query="slack tool")["count"] == 2

    def test_finds_nothing_for_what_is_not_there(self, ask: Ask, file: Path) -> None:
        assert ask("search_node_types", query="zebra")["nodeTypes"] == []


class TestDocumentation:
    def test_of_a_service_begins_with_its_operations(self, ask: Ask, file: Path) -> None:
        data = ask("get_node_type", type=SLACK)
        assert data["operations"] == {"channel": ["archive"], "message": ["delete", "send"]}
        assert [each["name"] for each in data["parameters"]] == ["authentication", "resource"]
        assert data["credentials"][0] == {
            "type": "slackApi",
            "required": True,
            "when": {"authentication": ["accessToken"]},
        }
        assert "operation: 'archive'" in data["_guidance"]["example"]

    def test_of_an_operation_has_its_parameters_within_the_budget(self, ask: Ask, file: Path) -> None:
        chosen = {"resource": "message", "operation": "send", "select": "channel"}
        data = ask("get_node_type", type=SLACK, parameters=chosen)
        parameters = {each["name"]: each for each in data["parameters"]}
        assert parameters["channelId"]["required"] is True
        assert parameters["channelId"]["value"]["mode"] == "list | id | name | url"
        assert parameters["text"]["when"] == {"kind": ["text"]}
        assert parameters["text"]["description"] == "What to post. More."
        assert not {"user", "old", "notice"} & parameters.keys(), "they are for other choices"
        assert {
            each["name"] for each in ask("get_node_type", type=SLACK, parameters=chosen, typeVersion=1)["parameters"]
        } == {
            *parameters,
            "old",
        }

    def test_of_another_version_is_another_one(self, ask: Ask, file: Path) -> None:
        new, old = (
            ask("get_node_type", type="n8n-nodes-base.if"),
            ask("get_node_type", type="n8n-nodes-base.if", typeVersion=1),
        )
        assert new["parameters"][0]["value"]["combinator"] == "and"
        assert list(old["parameters"][0]["fields"]) == ["boolean", "dateTime", "number", "string"]
        error = ask.error("get_node_type", type="n8n-nodes-base.if", typeVersion=7)
        assert error.next_step == "Its versions: 1, 2, 2.3."

    def test_of_an_unknown_type_names_similar_ones(self, ask: Ask, file: Path) -> None:
        error = ask.error("get_node_type", type="slack")
        assert (error.code, error.message) == ("NOT_FOUND", "Node type 'slack' not found")
        assert f"Did you mean '{SLACK}'" in error.next_step
        assert ask.error("get_node_type", type="zzz").next_step.startswith("search_node_types")

    def test_what_does_not_fit_is_named(self, line: str) -> None:
        many = [{"name": f"p{number}", "type": "string", "description": "x" * 150} for number in range(400)]
        odd = [
            *({"name": "n", "type": "notice"}, {"name": "c", "type": "collection", "options": many[:2]}),
            {"name": "o", "type": "options", "options": [{"value": number} for number in range(99)]},
            {"name": "l", "type": "options", "typeOptions": {"loadOptionsMethod": "get"}},
            {"name": "w", "type": "string", "displayOptions": {"show": {"@version": [{"_cnd": {"gte": 3}}]}}},
            {
                "name": "b",
                "type": "string",
                "displayOptions": {"show": {"a": [{"_cnd": {"between": {"from": 1, "to": 5}}}]}},
            },
            {"name": "r", "type": "string", "displayOptions": {"show": {"a": [{"_cnd": {"regex": "^x"}}]}}},
            {"name": "h", "type": "string", "displayOptions": {"hide": {"a": [{"_cnd": {"not": 1}}]}}},
            {"name": "g", "type": "string", "displayOptions": {"show": {"a": [{"_cnd": {"gt": {}}}], "/z": [1]}}},
        ]
        entry = {"name": "one", "displayName": "One", "version": [1, 2], "properties": [*odd, *many]}
        types = NodeTypes(json.dumps([entry, entry | {"name": "gone", "hidden": True}]).encode())
        assert list(types.by_name) == ["n8n-nodes-base.one"], "names without a package are those of n8n's own"
        data = documentation(types.by_name["n8n-nodes-base.one"], 2, {"a": 3})
        assert len(json.dumps(data).encode()) < 16_000
        assert len(data["more"]) == 100
        parameters = {each["name"]: each for each in data["parameters"]}
        assert parameters.keys() & {"n", "w", "b", "r", "h", "g"} == {"b", "r", "g"}
        assert parameters["o"]["options"][-1] == "… 39 more"
        assert parameters["c"]["fields"] == ["p0", "p1"]
        assert parameters["g"]["when"] == {"z": [1]}
        assert parameters["l"]["options"].startswith("ids of the service")


class TestTheFile:
    def test_is_read_again_when_it_has_changed(self, ask: Ask, file: Path) -> None:
        assert ask("search_node_types", query="slack")["count"] == 1
        file.write_text(exported([each for each in TYPES if each["displayName"] == "If"]))
        assert ask("search_node_types", query="slack")["count"] == 0
        assert ask("search_node_types", query="if")["count"] == 1

    def test_serves_callers_that_may_not_read_files(self, ask: Ask, file: Path) -> None:
        ask.caller = Caller("key", "key:1", "agent", frozenset({"tools:execute"}))
        assert ask("search_node_types", query="webhook")["nodeTypes"][0]["type"] == "n8n-nodes-base.webhook"

    def test_that_is_missing_says_what_operators_do(self, ask: Ask) -> None:
        error = ask.error("search_node_types", query="slack")
        assert (error.code, error.message) == ("CONFIGURATION_ERROR", "n8n does not give its node types to API keys")
        assert "n8n export:nodes --output=n8n-nodes.json" in error.next_step

    @pytest.mark.parametrize("content", ["{", "{}", "[]", "[1]", '[{"name": "a"}]', "[\n]", None])
    def test_with_something_else_is_refused(self, ask: Ask, file: Path, content: str | None) -> None:
        file.unlink()
        if content is not None:
            file.write_text(content)
        error = ask.error("search_node_types", query="slack")
        assert error.message == "The file of node types of this connection cannot be used: nodes.json"

    def test_outside_the_directory_is_not_read(
        self, ask: Ask, file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path_factory.mktemp("other") / "nodes.json"
        file.rename(other)
        monkeypatch.setenv("N8N_NODE_TYPES", str(other))
        assert ask.error("get_node_type", type=SLACK).code == "CONFIGURATION_ERROR"

    def test_needs_the_directory(self, ask: Ask, settings: LazySettings, file: Path) -> None:
        settings.TOOLHUB_FILE_ROOT = None
        error: Any = ask.error("search_node_types", query="slack")
        assert error.message.startswith("TOOLHUB_FILE_ROOT is not set")
