"""Edits by operations: all or nothing, one request that saves, and an answer that says what changed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import KEY, N8n
from tests.packs.n8n.script import MANUAL, code, to, webhook
from tests.packs.n8n.test_changes import CREDENTIALS, KEPT, UNSEEN, made, sent
from tools_app import governance
from tools_app.packs.n8n.operations import ARGUMENTS


def edited(n8n: N8n, one: str) -> dict[str, dict[str, Any]]:
    """The nodes that n8n has now, by name."""
    return {node["name"]: node for node in n8n.workflows[one]["nodes"]}


def writes(n8n: N8n) -> list[str]:
    return [asked for asked in n8n.asked() if not asked.startswith("GET")]


def referring(n8n: N8n) -> str:
    """A workflow whose nodes name each other in every way that n8n has."""
    call = {
        "id": "h",
        "name": "Call",
        "type": "n8n-nodes-base.httpRequest",
        "typeVersion": 4.2,
        "position": [480, 0],
        "parameters": {
            "url": "=https://x.test/{{ $('Make items').item.json.id }}?a={{ $node[\"Make items\"].json.a }}",
            "note": "plain text that mentions $('Make items')",
            "options": {"list": ["={{ $items(`Make items`)[0].json.b }}", "={{ $node.Webhook.json.c }}"]},
        },
    }
    script = code("Make items", "// of $('Webhook')\nreturn $('Webhook').all();")
    return n8n.add(
        {
            "name": "referring",
            "nodes": [webhook("refer"), script, call],
            "connections": {"Webhook": to("Make items"), "Make items": to("Call")},
            "settings": {"executionOrder": "v1"},
        }
    )


class TestNodes:
    def test_one_parameter_changes_and_the_rest_stays(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        operation = {"op": "update_node", "node": "Webhook", "fields": {"parameters.options.rawBody": True}}
        data = ask("edit_workflow", id=one, operations=[operation])
        assert data["changes"] == {
            "nodes": [
                {"node": "Webhook", "change": "changed", "fields": ["parameters.options.rawBody: nothing → true"]}
            ]
        }
        hook = edited(n8n, one)["Webhook"]
        assert hook["parameters"] == before["nodes"][0]["parameters"] | {"options": {"rawBody": True}}
        assert hook["credentials"] == CREDENTIALS
        assert n8n.workflows[one]["nodes"][1] == before["nodes"][1]
        assert sent(n8n)["connections"] == before["connections"]
        assert n8n.asked() == [f"GET /workflows/{one}", f"PUT /workflows/{one}"]
        assert data["version"] == n8n.workflows[one]["versionId"]

    def test_fields_are_merged_and_null_removes(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        fields = {"parameters": {"httpMethod": None, "path": "new", "options": {"a": {"b": 1}}}, "notes": None}
        ask("edit_workflow", id=one, operations=[{"op": "update_node", "node": "w", "fields": fields}])
        hook = edited(n8n, one)["Webhook"]
        assert hook["parameters"] == {"path": "new", "responseMode": "lastNode", "options": {"a": {"b": 1}}}
        assert "notes" not in hook

    def test_paths_lead_into_lists(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][1]["parameters"]["rules"] = [{"a": 1}, {"a": 2}, {"a": 3}]
        operations = [
            {"op": "update_node", "node": "Add", "fields": {"parameters.rules.1.a": 7, "parameters.rules.3": {"a": 4}}},
            {"op": "update_node", "node": "Add", "fields": {"parameters.rules.0": None}},
        ]
        data = ask("edit_workflow", id=one, operations=operations)
        assert edited(n8n, one)["Add"]["parameters"]["rules"] == [{"a": 7}, {"a": 3}, {"a": 4}]
        assert data["changes"]["nodes"][0]["fields"] == [
            "parameters.rules.0.a: 1 → 7",
            "parameters.rules.1.a: 2 → 3",
            "parameters.rules.2.a: 3 → 4",
        ]

    def test_all_parameters_are_emptied_only_on_request(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        operation = {"op": "update_node", "node": "Add", "fields": {"parameters": None}}
        data = ask("edit_workflow", id=one, operations=[operation])
        assert edited(n8n, one)["Add"]["parameters"] == {}
        assert data["changes"]["nodes"][0]["fields"] == ["parameters.jsCode: return []; → nothing"]

    def test_a_line_of_a_script_is_replaced(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        script = "// begin\n" + "let x = 1;\n" * 50 + "return item.prize;\n"
        n8n.workflows[one]["nodes"][1]["parameters"]["jsCode"] = script
        operation = {"op": "replace_text", "node": "Add", "old": "item.prize", "new": "item.price"}
        data = ask("edit_workflow", id=one, operations=[operation])
        assert edited(n8n, one)["Add"]["parameters"]["jsCode"] == script.replace("prize", "price")
        (field,) = data["changes"]["nodes"][0]["fields"]
        assert field == "parameters.jsCode: …return item.prize;\n → …return item.price;\n"
        assert len(ask.text) < 700

    @pytest.mark.parametrize(
        ("old", "problem"),
        [
            ("nowhere", "the text 'nowhere' is not in the parameters of 'Add'"),
            ("e", "the text 'e' occurs 2 times in the parameters of 'Add'"),
            ("", "old must not be empty"),
        ],
    )
    def test_a_text_that_is_not_there_once_is_not_replaced(self, ask: Ask, n8n: N8n, old: str, problem: str) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][1]["parameters"]["jsCode"] = "tree"
        operation = {"op": "replace_text", "node": "Add", "old": old, "new": "x"}
        error = ask.error("edit_workflow", id=one, operations=[operation])
        assert error.message == f"operations.0: {problem}"
        assert writes(n8n) == []

    def test_a_node_comes_and_is_connected(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        fields = {"type": "n8n-nodes-base.wait", "typeVersion": 1.1, "parameters.amount": 5}
        operations = [
            {"op": "add_node", "node": "Wait", "fields": fields},
            {"op": "disconnect", "node": "Webhook", "to": "Add"},
            {"op": "connect", "node": "Webhook", "to": "Wait"},
            {"op": "connect", "node": "Wait", "to": "Add"},
        ]
        data = ask("edit_workflow", id=one, operations=operations)
        wait = edited(n8n, one)["Wait"]
        assert (wait["type"], wait["parameters"], wait["position"]) == ("n8n-nodes-base.wait", {"amount": 5}, [460, 0])
        assert wait["id"]
        assert n8n.workflows[one]["connections"] == {"Webhook": to("Wait"), "Wait": to("Add")}
        assert data["changes"] == {
            "nodes": [{"node": "Wait", "change": "added"}],
            "connected": ["Webhook → Wait", "Wait → Add"],
            "disconnected": ["Webhook → Add"],
        }

    def test_a_node_goes_with_its_connections(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        data = ask("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "Add"}])
        assert edited(n8n, one).keys() == {"Webhook"}
        assert n8n.workflows[one]["connections"] == {"Webhook": {"main": [[]]}}
        assert data["changes"] == {
            "nodes": [{"node": "Add", "change": "removed"}],
            "disconnected": ["Webhook → Add"],
        }

    def test_expressions_and_connections_follow_a_new_name(self, ask: Ask, n8n: N8n) -> None:
        one = referring(n8n)
        operations = [
            {"op": "rename_node", "node": "Make items", "name": "The 'best' \"items\""},
            {"op": "rename_node", "node": "Webhook", "name": "Hook"},
        ]
        data = ask("edit_workflow", id=one, operations=operations)
        now = edited(n8n, one)
        assert now["The 'best' \"items\""]["parameters"]["jsCode"] == "// of $('Hook')\nreturn $('Hook').all();"
        assert now["Call"]["parameters"] == {
            "url": "=https://x.test/{{ $('The \\'best\\' \"items\"').item.json.id }}"
            '?a={{ $node["The \'best\' \\"items\\""].json.a }}',
            "note": "plain text that mentions $('Make items')",
            "options": {
                "list": ["={{ $items(`The 'best' \"items\"`)[0].json.b }}", '={{ $node["Hook"].json.c }}'],
            },
        }
        assert n8n.workflows[one]["connections"] == {
            "Hook": to("The 'best' \"items\""),
            "The 'best' \"items\"": to("Call"),
        }
        assert data["changes"].keys() == {"nodes"}, "a connection that follows is no new one"
        assert "name: Webhook → Hook" in data["changes"]["nodes"][0]["fields"]
        assert ask("validate_workflow", id=one)["findings"] == []

    def test_nodes_are_switched_off_and_on(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        operations = [{"op": "disable_node", "node": "Add"}, {"op": "enable_node", "node": "Webhook"}]
        ask("edit_workflow", id=one, operations=operations)
        now = edited(n8n, one)
        assert now["Add"]["disabled"] is True
        assert "disabled" not in now["Webhook"]

    def test_what_is_not_seen_survives(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(UNSEEN)
        before = json.loads(json.dumps(n8n.workflows[one]["nodes"][1]["parameters"]))
        fields = {"parameters": {"key": "w", "list": ["éy", "z"]}}
        data = ask("edit_workflow", id=one, operations=[{"op": "update_node", "node": "zerowidth", "fields": fields}])
        now = n8n.workflows[one]["nodes"][1]
        assert now["name"] == "zero\u200bwidth"
        assert now["parameters"] == before | {"k\u2060ey": "w", "list": ["é\u200by", "z"]}
        assert "warnings" not in data
        operation = {"op": "replace_text", "node": "zerowidth", "old": "line\n", "new": "row\n"}
        data = ask("edit_workflow", id=one, operations=[operation])
        assert "lost invisible characters, in parameters.jsCode" in data["warnings"][0]
        assert n8n.workflows[one]["nodes"][1]["parameters"]["jsCode"].startswith("row\n")


class TestConnections:
    def test_have_outputs_inputs_and_types(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        model = {"type": "@n8n/n8n-nodes-langchain.lmChatOpenAi", "typeVersion": 1}
        operations = [
            {"op": "connect", "node": "Webhook", "to": "Add", "output": 2, "input": 1},
            {"op": "connect", "node": "Webhook", "to": "Add"},
            {"op": "add_node", "node": "Model", "fields": model},
            {"op": "connect", "node": "Model", "to": "Add", "type": "ai_languageModel"},
        ]
        data = ask("edit_workflow", id=one, operations=operations)
        assert n8n.workflows[one]["connections"] == {
            "Webhook": {
                "main": [
                    [{"node": "Add", "type": "main", "index": 0}],
                    [],
                    [{"node": "Add", "type": "main", "index": 1}],
                ]
            },
            "Model": {"ai_languageModel": [[{"node": "Add", "type": "ai_languageModel", "index": 0}]]},
        }
        assert data["changes"]["connected"] == ["Webhook[2] → Add[1]", "Model → Add (ai_languageModel)"]
        ask("edit_workflow", id=one, operations=[{"op": "disconnect", "node": "Webhook", "to": "Add", "output": 2}])
        assert n8n.workflows[one]["connections"]["Webhook"]["main"][0]
        error = ask.error(
            "edit_workflow", id=one, operations=[{"op": "disconnect", "node": "Webhook", "to": "Add", "output": 2}]
        )
        assert error.message == "operations.0: 'Webhook' is not connected like that to 'Add'"
        assert error.next_step.startswith("It leads to 'Add'.")


class TestSettingsTagsAndName:
    def test_settings_and_name_change(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        operations = [
            {"op": "set_settings", "settings": {"timezone": "UTC", "nope": 1}},
            {"op": "rename_workflow", "name": "renamed"},
        ]
        data = ask("edit_workflow", id=one, operations=operations)
        assert (n8n.workflows[one]["name"], n8n.workflows[one]["settings"]["timezone"]) == ("renamed", "UTC")
        assert data["changes"] == {"name": "there → renamed", "settings": ["timezone: nothing → UTC"]}
        assert data["warnings"] == ["settings: n8n does not accept nope; ignored."]

    def test_tags_are_set_by_name(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.tags = [{"id": "t1", "name": "sales"}, {"id": "t2", "name": "old"}]
        data = ask("edit_workflow", id=one, operations=[{"op": "set_tags", "tags": ["sales"]}])
        assert data["changes"] == {"tags": "nothing → sales"}
        assert n8n.workflows[one]["tags"] == [{"id": "t1", "name": "sales"}]
        assert writes(n8n) == [f"PUT /workflows/{one}/tags"]
        error = ask.error("edit_workflow", id=one, operations=[{"op": "set_tags", "tags": ["sale"]}])
        assert error.message == "n8n has no tag 'sale'"
        assert "Did you mean 'sales'?" in error.next_step

    def test_a_workflow_whose_tags_fail_is_as_it_was(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        n8n.tags = [{"id": "t1", "name": "sales"}]
        n8n.between = n8n.tags.clear
        operations = [{"op": "rename_workflow", "name": "renamed"}, {"op": "set_tags", "tags": ["sales"]}]
        error = ask.error("edit_workflow", id=one, operations=operations)
        assert "The hub has restored the previous state of the workflow." in error.next_step
        now = n8n.workflows[one]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}


class TestAllOrNothing:
    @pytest.mark.parametrize(
        ("operation", "problem"),
        [
            ({"op": "update_node", "node": "Ad", "fields": {}}, "there is no node 'Ad'"),
            ({"op": "update_node", "node": "Add"}, "update_node needs fields"),
            ({"op": "remove_node", "node": "Add", "to": "x"}, "remove_node takes node, not to"),
            ({"op": "update_node", "node": "Add", "fields": {"jsCode": "x"}}, "'jsCode' is not a field of a node"),
            (
                {"op": "update_node", "node": "Add", "fields": {"name": "x"}},
                "update_node does not change the name; rename_node renames a node",
            ),
            (
                {"op": "update_node", "node": "Add", "fields": {"parameters.jsCode.x": 1}},
                "'x' is below a value that is neither an object nor a list",
            ),
            (
                {"op": "update_node", "node": "Add", "fields": {"parameters": {"key": "(hidden)"}}},
                "(hidden) stands for a value that the hub hides, and is not the value",
            ),
            ({"op": "add_node", "node": "Add", "fields": {}}, "there is a node 'Add' already"),
            (
                {"op": "add_node", "node": "x", "fields": {"type": "n8n-nodes-base.set"}},
                "a new node needs fields.typeVersion",
            ),
            ({"op": "rename_node", "node": "Add", "name": "Webhook"}, "there is a node 'Webhook' already"),
            ({"op": "connect", "node": "Add", "to": "Webhook", "output": 100}, "output must be at most 99"),
            (
                {"op": "set_settings", "settings": {"timezone": None}},
                "n8n's API cannot remove a setting (timezone); give a value",
            ),
            ({"op": "rename_workflow", "name": ""}, "the name must have 1 to 128 characters"),
        ],
    )
    @pytest.mark.parametrize("line", ["2"])
    def test_a_wrong_operation_stops_all(self, ask: Ask, n8n: N8n, operation: dict[str, Any], problem: str) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        error = ask.error("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "w"}, operation][::-1])
        assert error.message == f"operations.0: {problem}"
        assert error.code == "VALIDATION_ERROR"
        assert error.next_step.endswith("Nothing was saved: send all operations again.")
        assert n8n.workflows[one] == before
        assert writes(n8n) == []

    @pytest.mark.parametrize("line", ["2"])
    def test_arguments_are_those_that_the_schema_lists(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        assert "op" in ask.error("edit_workflow", id=one, operations=[{"op": "explode"}]).message
        error = ask.error("edit_workflow", id=one, operations=[{"op": "remove_node", "nodes": "x"}])
        assert error.message == "Unknown parameter: operations.0.nodes"
        assert ask.error("edit_workflow", id=one, operations=[]).code == "VALIDATION_ERROR"
        assert n8n.requests == []
        assert len(ARGUMENTS) == 12

    def test_a_change_that_breaks_an_expression_is_not_saved(self, ask: Ask, n8n: N8n) -> None:
        one = referring(n8n)
        error = ask.error("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "Make items"}])
        assert error.message == (
            "Nothing was saved: 'Call' uses the node 'Make items' in parameters.url, and there is no node of that name"
        )
        assert writes(n8n) == []

    def test_what_was_broken_before_does_not_stop_a_change(self, ask: Ask, n8n: N8n) -> None:
        one = referring(n8n)
        n8n.workflows[one]["nodes"][2]["parameters"]["url"] = "={{ $('Gone').item.json.id }}"
        operation = {"op": "rename_node", "node": "Call", "name": "Request"}
        assert "warnings" not in ask("edit_workflow", id=one, operations=[operation])

    def test_a_preview_saves_nothing(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        data = ask("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "Add"}], preview=True)
        assert data["preview"] is True
        assert data["changes"]["nodes"] == [{"node": "Add", "change": "removed"}]
        assert n8n.workflows[one] == before
        assert writes(n8n) == []
        assert data["_guidance"]["example"].startswith(f"edit_workflow(id: '{one}', version: '{before['versionId']}'")

    def test_with_nothing_to_change_nothing_is_sent(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        data = ask("edit_workflow", id=one, operations=[{"op": "enable_node", "node": "Add"}])
        assert (data["changes"], data["warnings"]) == ({}, ["There was nothing to change."])
        assert writes(n8n) == []

    def test_the_key_of_the_connection_stops_an_edit(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][1]["parameters"]["key"] = KEY
        error = ask.error("edit_workflow", id=one, operations=[{"op": "disable_node", "node": "Webhook"}])
        assert error.code == "CONFLICT"
        assert writes(n8n) == []

    def test_the_state_before_can_be_restored(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        data = ask("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "Add"}])
        ask("update_workflow", id=one, restore=data["previousState"]["handle"])
        now = n8n.workflows[one]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}

    @pytest.mark.parametrize("line", ["2"])
    def test_an_approval_comes_before_it(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask.record("edit_workflow")
        governance.set_ask("edit_workflow", True, actor=governance.trusted("test"))
        operations = [{"op": "remove_node", "node": "Add"}]
        error = ask.error("edit_workflow", id=one, operations=operations)
        assert n8n.requests == []
        governance.approve_call(error.context["approvalId"], actor=governance.trusted("user:olivia"))
        assert ask("edit_workflow", id=one, operations=operations)["changes"]


class TestVersions:
    DISABLED = ({"op": "disable_node", "node": "Add"},)

    @pytest.mark.parametrize("key", ["versionId", "updatedAt"])
    def test_an_edit_of_the_version_that_was_read_is_saved(self, ask: Ask, n8n: N8n, key: str) -> None:
        one = made(n8n)
        version = ask("get_workflow", id=one, raw=True)[key]
        assert ask("edit_workflow", id=one, operations=list(self.DISABLED), version=version)["changes"]

    @pytest.mark.parametrize("key", ["versionId", "updatedAt"])
    def test_an_edit_of_an_older_version_is_refused(self, ask: Ask, n8n: N8n, key: str) -> None:
        one = made(n8n)
        version = ask("get_workflow", id=one, raw=True)[key]
        ask("edit_workflow", id=one, operations=[{"op": "remove_node", "node": "Webhook"}])
        written = len(writes(n8n))
        error = ask.error("edit_workflow", id=one, operations=list(self.DISABLED), version=version)
        assert error.message == f"Workflow '{one}' has changed: it has no longer the version '{version}'"
        assert (error.code, error.status, error.retryable) == ("CONFLICT", 409, False)
        assert error.next_step.startswith("Nothing was saved. Read again what you want to change")
        assert error.next_step.endswith(f"send the edit with version: '{n8n.workflows[one]['versionId']}'.")
        assert len(writes(n8n)) == written

    def test_the_answer_has_the_version_for_the_next_edit(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        version = ask("edit_workflow", id=one, operations=list(self.DISABLED))["version"]
        again = [{"op": "enable_node", "node": "Add"}]
        assert ask("edit_workflow", id=one, operations=again, version=version)["changes"]

    def test_a_node_comes_with_the_version_of_its_workflow(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        example = ask("get_workflow_node", workflowId=one, nodeId="Add")["_guidance"]["example"]
        assert example.startswith(f"edit_workflow(id: '{one}', version: '{n8n.workflows[one]['versionId']}', ")

    def test_a_change_of_others_during_the_edit_is_reported(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.between = lambda: n8n.workflows[one].update(versionCounter=7)
        data = ask("edit_workflow", id=one, operations=list(self.DISABLED))
        assert data["warnings"][0].startswith("Another change was made at the same time")


class TestValidating:
    def test_a_workflow_without_problems(self, ask: Ask, n8n: N8n) -> None:
        data = ask("validate_workflow", id=referring(n8n))
        assert (data["valid"], data["findings"]) == (True, [])
        assert data["unchecked"] == ["types of nodes: n8n's API does not list them"]

    def test_every_problem_is_named_with_what_to_do(self, ask: Ask, n8n: N8n) -> None:
        off = code("Off", "") | {"disabled": True, "parameters": {"a": "={{ $('Nobody').item }}"}}
        nodes: list[dict[str, Any]] = [
            code("Add", "return $('Ad').all();"),
            code("Twin", "") | {"id": "t1"},
            code("Twin", "") | {"id": "t2"},
            off | {"id": "t2", "type": "noOp"},
            {"name": "Bare", "type": "n8n-nodes-base.set", "parameters": {"a": "={{ $node['Adds'].json }}"}},
        ]
        connections = {"Add": to("Gone"), "Ghost": to("Add")}
        data = ask("validate_workflow", nodes=nodes, connections=connections)
        assert data["valid"] is False
        found = [(each["level"], each.get("node"), each["problem"]) for each in data["findings"]]
        assert found == [
            ("error", "Off", "The node 'Off' has the type 'noOp', which names no package"),
            ("error", "Bare", "The node 'Bare' has no position"),
            ("error", "Twin", "2 nodes have the name 'Twin'"),
            ("error", "t2", "2 nodes have the id 't2'"),
            ("error", "Ghost", "There are connections from 'Ghost', and no node of that name"),
            ("error", "Add", "'Add' is connected to 'Gone', and there is no node of that name"),
            ("error", "Bare", "'Bare' uses the node 'Adds' in parameters.a, and there is no node of that name"),
            ("warning", "Add", "'Add' uses the node 'Ad' in parameters.jsCode, and there is no node of that name"),
            ("warning", "Off", "'Off' uses the node 'Nobody' in parameters.a, and there is no node of that name"),
            ("warning", None, "No enabled node starts this workflow"),
            ("note", "Twin", "'Twin' is not connected"),
            ("note", "Off", "'Off' is not connected"),
            ("note", "Bare", "'Bare' is not connected"),
        ]
        assert data["findings"][6]["nextStep"] == "Did you mean 'Add'?"
        assert n8n.requests == []

    def test_credentials_are_compared_where_n8n_lists_them(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][0].pop("disabled")
        n8n.credentials = [{"id": "c1", "name": "basic", "type": "httpBasicAuth"}]
        assert ask("validate_workflow", id=one)["findings"] == []
        n8n.credentials = []
        data = ask("validate_workflow", id=one)
        if n8n.line == "1":
            assert data["findings"] == []
            assert data["unchecked"][1] == "credentials: n8n does not list them for this connection"
        else:
            (finding,) = data["findings"]
            assert finding["problem"].startswith("'Webhook' uses the httpBasicAuth credential 'c1', which n8n does not")
        draft = [webhook("x") | {"credentials": {"slackApi": {"name": "Slack"}}}]
        (finding,) = ask("validate_workflow", nodes=draft, connections={})["findings"]
        assert finding["problem"] == "'Webhook' names no slackApi credential by its id"

    @pytest.mark.parametrize("line", ["2"])
    def test_computed_names_and_other_calls_are_left_alone(self, ask: Ask) -> None:
        script = "const q = `a${1}`; return $(`Node ${q}`).all().concat(jQuery$('x'), $json.a, $('Start').all());"
        data = ask("validate_workflow", nodes=[MANUAL, code("Add", script)], connections={"Start": to("Add")})
        assert data["findings"] == []

    @pytest.mark.parametrize("line", ["2"])
    def test_it_wants_a_workflow_or_a_draft(self, ask: Ask, n8n: N8n) -> None:
        assert ask.error("validate_workflow").message == "Workflow ID is required"
        error = ask.error("validate_workflow", id="x", nodes=[])
        assert error.message == "id: send either the id, or the parts of a draft"
        assert n8n.requests == []

    @pytest.mark.parametrize("line", ["2"])
    def test_many_problems_fit(self, ask: Ask) -> None:
        nodes = [code(f"{number}" + "長" * 200, "") | {"type": "x"} for number in range(1_000)]
        data = ask("validate_workflow", nodes=nodes, connections={})
        assert len(data["findings"]) == 50
        assert data["findingsTotal"] == 2_001

    @pytest.mark.parametrize("line", ["2"])
    def test_many_wrong_names_take_no_time(self, ask: Ask) -> None:
        nodes = [code(f"Node {number}", "") for number in range(2_000)]
        links = {node["name"]: to(f"Node {number}x") for number, node in enumerate(nodes)}
        began = time.perf_counter()
        data = ask("validate_workflow", nodes=nodes, connections=links)
        assert time.perf_counter() - began < 10
        assert data["findings"][0]["nextStep"].startswith("Did you mean 'Node ")
        assert data["findings"][49]["nextStep"] == "Correct the name."
