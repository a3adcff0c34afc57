"""Changes of workflows and executions: what n8n is sent, what stays, and what callers are told."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import KEY, N8n, recorded
from tests.packs.n8n.script import MANUAL, code, to, webhook
from tools_app import engine, governance
from tools_app.engine import Options
from tools_app.governance import disclosure
from tools_app.models import Approval

BOTH = [{"name": "Webhook"}, {"name": "Add"}]
KEPT = ("name", "nodes", "connections", "active")
CREDENTIALS = {"httpBasicAuth": {"id": "c1", "name": "basic"}}


# Texts with characters that nobody sees, in every place where n8n keeps texts.
UNSEEN = {
    "name": "un\u00adseen",
    "nodes": [
        MANUAL,
        code("zero\u200bwidth", "line\r\n\u00ad\ufeff\u3164 &#x200b;")
        | {"parameters": {"jsCode": "line\r\n\u00ad\ufeff &#x200b;", "list": ["\u00e9\u200by", "x"], "k\u2060ey": "v"}},
    ],
    "connections": {"Start": to("zero\u200bwidth"), "zero\u200bwidth": to("Start")},
    "settings": {},
}


def sent(n8n: N8n) -> Any:
    """The body of the latest change."""
    return json.loads(next(seen for seen in reversed(n8n.requests) if seen.method in ("POST", "PUT")).body)


def made(n8n: N8n) -> str:
    hook = webhook("there") | {"credentials": CREDENTIALS, "notes": "mind this", "disabled": True}
    return n8n.add(
        {
            "name": "there",
            "nodes": [hook, code("Add", "return [];")],
            "connections": {"Webhook": to("Add")},
            "settings": {"executionOrder": "v1"},
            "pinData": {"Webhook": [{"json": {}}]},
        }
    )


class TestCreating:
    def test_sends_what_n8n_takes_and_says_what_it_does_not(self, ask: Ask, n8n: N8n) -> None:
        data = ask(
            "create_workflow",
            name="New",
            nodes=[MANUAL, {key: value for key, value in code("Add", "").items() if key != "id"}],
            connections={"Start": to("Add")},
            settings={"executionOrder": "v1", "noSuch": 1},
            active=True,
            tags=["a"],
        )
        assert sent(n8n).keys() == {"name", "nodes", "connections", "settings"}
        assert sent(n8n)["settings"] == {"executionOrder": "v1"}
        assert all(node["id"] for node in sent(n8n)["nodes"])
        assert data["warnings"] == [
            "settings: n8n does not accept noSuch; ignored.",
            "active: n8n does not accept it here; use activate_workflow.",
            "tags: n8n does not accept them here; ignored.",
        ]
        assert {key: data[key] for key in ("name", "active")} == {"name": "New", "active": False}
        assert data["_guidance"]["example"] == f"activate_workflow(id: '{data['id']}')"

    def test_without_warnings_there_are_none(self, ask: Ask) -> None:
        data = ask("create_workflow", name="New", nodes=[], connections={}, settings={}, active=False, raw=True)
        assert "warnings" not in data
        assert data["nodes"] == []

    @pytest.mark.parametrize("line", ["2"])
    def test_nulls_in_parameters_are_sent_as_they_are(self, ask: Ask, n8n: N8n) -> None:
        node = MANUAL | {"parameters": {"a": None, "b": [None]}}
        ask("create_workflow", name="New", nodes=[node], connections={}, settings={})
        assert sent(n8n)["nodes"][0]["parameters"] == {"a": None, "b": [None]}

    @pytest.mark.parametrize("line", ["2"])
    def test_what_n8n_dislikes_it_says_itself(self, ask: Ask, n8n: N8n) -> None:
        error = ask.error("create_workflow", name="New", nodes=[MANUAL | {"x": 1}], connections={}, settings={})
        assert error.message == "Failed to create workflow"
        assert "Unrecognized key" in error.context["errorDetails"]

    def test_problems_are_found_before_n8n_has_it(self, ask: Ask, n8n: N8n) -> None:
        error = ask.error(
            "create_workflow", name="New", nodes=[MANUAL, MANUAL], connections={"Start": to("Nope")}, settings={}
        )
        assert error.message == "Nothing was saved: 2 nodes have the name 'Start'"
        assert [problem.message for problem in error.details] == [
            "2 nodes have the name 'Start'",
            "2 nodes have the id 'a'",
            "'Start' is connected to 'Nope', and there is no node of that name",
        ]
        assert n8n.requests == []

    def test_a_workflow_that_nothing_starts_is_reported(self, ask: Ask) -> None:
        data = ask("create_workflow", name="New", nodes=[code("Add", "")], connections={}, settings={})
        assert data["warnings"] == ["No enabled node starts this workflow: Add a trigger."]

    @pytest.mark.parametrize("line", ["2"])
    def test_an_answer_that_cannot_be_read_is_no_failure(self, ask: Ask, n8n: N8n) -> None:
        n8n.fail(200, '{"id": "cut o')
        data = ask("create_workflow", name="New", nodes=[], connections={}, settings={})
        assert data["id"] is None
        assert "could not be read" in data["warnings"][0]


class TestUpdating:
    def test_omitted_members_stay(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        data = ask("update_workflow", id=one, name="renamed")
        assert {key: data[key] for key in ("id", "name")} == {"id": one, "name": "renamed"}
        body = sent(n8n)
        assert body.keys() == {"name", "nodes", "connections", "settings"}
        assert body["nodes"][0]["credentials"] == CREDENTIALS
        assert body["connections"] == {"Webhook": to("Add")}
        # What is pinned n8n keeps by itself; before version 2 it would refuse to be told.
        assert n8n.workflows[one]["pinData"] == {"Webhook": [{"json": {}}]}

    @pytest.mark.parametrize("known_by", ["id", "name"])
    def test_a_node_keeps_its_credentials(self, ask: Ask, n8n: N8n, known_by: str) -> None:
        one = made(n8n)
        node = {key: value for key, value in webhook("elsewhere").items() if key not in {"id", "name"} - {known_by}}
        node = {"name": "Other name", **node} if known_by == "id" else node
        ask("update_workflow", id=one, nodes=[node | {"disabled": False}, {"name": "Add"}])
        hook, _ = sent(n8n)["nodes"]
        assert hook["credentials"] == CREDENTIALS
        assert hook["notes"] == "mind this"
        assert (hook["id"], hook["disabled"], hook["parameters"]["path"]) == ("w", False, "elsewhere")

    def test_a_node_with_an_unknown_id_is_matched_by_its_name(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask("update_workflow", id=one, nodes=[webhook("elsewhere") | {"id": "1"}, code("Add", "") | {"id": "2"}])
        hook, _ = sent(n8n)["nodes"]
        assert (hook["id"], hook["credentials"], hook["notes"]) == ("1", CREDENTIALS, "mind this")

    def test_a_new_node_by_the_old_name_of_a_renamed_one_gets_nothing_of_it(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        renamed = webhook("there") | {"name": "Old hook"}
        ask("update_workflow", id=one, nodes=[webhook("new") | {"id": "1"}, renamed], confirmRemoved=["Add"])
        new, old = sent(n8n)["nodes"]
        assert "credentials" not in new
        assert old["credentials"] == CREDENTIALS

    def test_another_kind_of_node_gets_nothing_of_the_old(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask("update_workflow", id=one, nodes=[code("Webhook", "") | {"id": "w"}, {"name": "Add"}])
        assert "credentials" not in sent(n8n)["nodes"][0]

    def test_settings_are_merged(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        data = ask("update_workflow", id=one, settings={"timezone": "UTC", "nope": 1}, raw=True)
        assert sent(n8n)["settings"].items() >= {"executionOrder": "v1", "timezone": "UTC"}.items()
        assert data["warnings"] == ["settings: n8n does not accept nope; ignored."]

    def test_settings_of_the_editor_that_n8n_refuses_survive(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        there = {"callerPolicy": "any", "timeSavedMode": "fixed", "binaryMode": "separate", "graphVersion": 2}
        n8n.workflows[one]["settings"] |= there
        ask("update_workflow", id=one, name="renamed", settings={"timezone": "UTC"})
        assert n8n.workflows[one]["name"] == "renamed"
        assert n8n.workflows[one]["settings"].items() >= {**there, "timezone": "UTC"}.items()

    def test_what_the_editor_keeps_in_nodes_and_n8n_refuses_can_be_taken_away(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][0]["extendsCredential"] = "wizApi"
        error = ask.error("update_workflow", id=one, name="renamed")
        assert error.message == "Failed to update workflow"
        assert "request/body/nodes/0" in error.context["errorDetails"]
        assert "'Webhook' (extendsCredential)" in error.next_step
        assert n8n.workflows[one]["nodes"][0]["extendsCredential"] == "wizApi"
        ask("update_workflow", id=one, nodes=[{"id": "w", "extendsCredential": None, "notes": None}, {"id": "c-Add"}])
        hook, _ = n8n.workflows[one]["nodes"]
        assert hook.keys().isdisjoint({"extendsCredential", "notes"})
        assert hook["credentials"] == CREDENTIALS
        ask("activate_workflow", id=one)
        n8n.workflows[one]["nodes"][0]["color"] = 2
        assert "'Webhook' (color)" in ask.error("update_workflow", id=one, name="again").next_step

    def test_a_change_whose_answer_is_lost_was_made(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.between = lambda: n8n.fail(200, '{"id": "cut o')
        data = ask("update_workflow", id=one, name="renamed")
        assert (data["id"], data["name"], n8n.workflows[one]["name"]) == (one, "renamed", "renamed")
        assert "could not be read" in data["warnings"][0]

    def test_calls_that_change_the_same_workflow_take_turns(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.delay = 0.2
        changes: list[dict[str, Any]] = [
            {"name": "renamed"},
            {"settings": {"timezone": "UTC"}},
            {"nodes": [webhook("there")], "confirmRemoved": ["Add"]},
            {"connections": {}},
        ]
        ask.record("update_workflow")  # Here: threads of the pool would leave their connections open.
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda change: ask("update_workflow", id=one, **change), changes))
        now = n8n.workflows[one]
        assert (now["name"], now["settings"]["timezone"], now["connections"]) == ("renamed", "UTC", {})
        assert [node["name"] for node in now["nodes"]] == ["Webhook"]

    def test_concurrent_changes_are_reported(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        assert "warnings" not in ask("update_workflow", id=one, nodes=BOTH, settings={"timezone": "UTC"})
        n8n.between = lambda: n8n.workflows[one].update(nodes=[], versionCounter=7)
        (warning,) = ask("update_workflow", id=one, name="renamed")["warnings"]
        assert warning.startswith("Another change was made at the same time")

    def test_what_n8n_saves_of_an_update_that_fails_is_put_back(self, ask: Ask, n8n: N8n) -> None:
        first, second = made(n8n), made(n8n)
        ask("update_workflow", id=second, nodes=[{"id": "w", "parameters": {"path": "elsewhere"}}, {"name": "Add"}])
        for one in (first, second):
            ask("activate_workflow", id=one)
        before = json.loads(json.dumps(n8n.workflows[second]))
        error = ask.error(
            "update_workflow", id=second, nodes=[{"id": "w", "parameters": {"path": "there"}}], confirmRemoved=["Add"]
        )
        assert error.message == "Failed to update workflow"
        assert "n8n had saved the change anyway, and the hub has restored the previous state" in error.next_step
        now = n8n.workflows[second]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}
        assert [asked for asked in n8n.asked() if asked == f"PUT /workflows/{second}"] == [
            f"PUT /workflows/{second}"
        ] * 3

    @pytest.mark.parametrize("line", ["1"])
    def test_a_failed_restore_is_reported_with_its_handle(self, ask: Ask, n8n: N8n) -> None:
        first, second = made(n8n), made(n8n)
        ask("update_workflow", id=second, nodes=[{"id": "w", "parameters": {"path": "elsewhere"}}, {"name": "Add"}])
        for one in (first, second):
            ask("activate_workflow", id=one)
        puts = iter(range(9))
        n8n.between = lambda: n8n.failing_puts.append(500) if next(puts) == 0 else None
        error = ask.error("update_workflow", id=second, nodes=[webhook("there"), {"name": "Add"}])
        n8n.between = None
        assert "could not restore the previous state" in error.next_step
        handle = re.search(r"restore: '(\w+)'", error.next_step)
        assert handle is not None
        ask("update_workflow", id=second, restore=handle[1])
        assert n8n.workflows[second]["nodes"][0]["parameters"]["path"] == "elsewhere"

    @pytest.mark.parametrize("line", ["2"])
    def test_a_key_without_the_right_to_activate_changes_nothing(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask("activate_workflow", id=one)
        n8n.failing_publish = {
            "message": "Your change was saved as a draft. It wasn't published because this API key does not have the "
            "workflow:activate scope.",
            "reason": "insufficient_api_key_scope",
        }
        error = ask.error("update_workflow", id=one, name="renamed")
        assert error.message == "Failed to update workflow"
        assert "workflow:activate" in error.context["errorDetails"]
        assert "the hub has restored the previous state" in error.next_step
        assert (n8n.workflows[one]["name"], n8n.workflows[one]["active"]) == ("there", True)

    def test_what_others_have_made_of_it_is_not_put_back(self, ask: Ask, n8n: N8n) -> None:
        first, second = made(n8n), made(n8n)
        ask("update_workflow", id=second, nodes=[{"id": "w", "parameters": {"path": "elsewhere"}}, {"name": "Add"}])
        for one in (first, second):
            ask("activate_workflow", id=one)
        n8n.afterwards = lambda: n8n.workflows[second].update(name="by others")
        error = ask.error("update_workflow", id=second, nodes=[webhook("there"), {"name": "Add"}])
        assert error.next_step.startswith("The workflow has been changed since then")
        assert n8n.workflows[second]["name"] == "by others"

    def test_unsaved_changes_are_not_reported_as_saved(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask("activate_workflow", id=one)
        n8n.failing_puts = [403]
        error = ask.error("update_workflow", id=one, name="renamed")
        assert error.message == "Permission denied: n8n does not let this connection update workflow"
        assert "saved" not in error.next_step

    def test_with_nothing_to_change_nothing_is_sent(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        data = ask("update_workflow", id=one, active=True, tags=["x"])
        assert data["warnings"][0].startswith("active: ")
        assert data["warnings"][-1] == "There was nothing to change."
        assert [asked.partition(" ")[0] for asked in n8n.asked()] == ["GET"]


class TestChangingOneNode:
    def test_needs_nothing_of_the_others_but_their_names(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = n8n.workflows[one]["nodes"]
        ask("update_workflow", id=one, nodes=[{"name": "Webhook"}, {"name": "Add", "parameters": {"jsCode": "1"}}])
        hook, add = sent(n8n)["nodes"]
        assert hook == before[0]
        assert add == code("Add", "1")
        assert sent(n8n)["connections"] == {"Webhook": to("Add")}

    def test_what_get_workflow_gives_can_be_sent_back_as_it_is(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add({key: recorded("workflow_show")[key] for key in ("name", "nodes", "connections", "settings")})
        before = json.loads(json.dumps(n8n.workflows[one]))
        whole = ask("get_workflow", id=one, raw=True)
        told = {key: whole[key] for key in ("name", "nodes", "connections", "settings")}
        assert "warnings" not in ask("update_workflow", id=one, **told)
        now = n8n.workflows[one]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}
        # n8n 1 adds settings of its own.
        assert now["settings"].items() >= before["settings"].items()

    def test_characters_that_are_not_shown_survive_that(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(UNSEEN)
        before = json.loads(json.dumps(n8n.workflows[one]))
        whole = ask("get_workflow", id=one, raw=True)
        assert "\u00ad" not in ask.text
        assert whole["nodes"][1]["name"] == "zerowidth"
        told = {key: whole[key] for key in ("name", "nodes", "connections", "settings")}
        assert "warnings" not in ask("update_workflow", id=one, **told)
        now = n8n.workflows[one]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}
        node = ask("get_workflow_node", workflowId=one, nodeId="zerowidth", raw=True)
        assert node["name"] == "zerowidth"

    def test_characters_that_a_changed_text_loses_are_reported(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.add(UNSEEN)
        nodes = [{"name": "Start"}, {"name": "zerowidth", "parameters": {"jsCode": "new", "list": ["x", "\u00e9y"]}}]
        assert ask("update_workflow", id=one, nodes=nodes)["warnings"] == [
            "Node 'zerowidth': changed texts lost invisible characters, in parameters.jsCode.",
            "Node 'zerowidth': removed parameters: key.",
        ]
        # What has another place in a list than before is found all the same.
        assert sent(n8n)["nodes"][1]["parameters"]["list"] == ["x", "\u00e9\u200by"]

    def test_a_deleted_node_has_to_be_named(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        error = ask.error("update_workflow", id=one, nodes=[webhook("elsewhere")])
        assert error.message == "Nothing was changed: this update would delete the nodes 'Add'"
        assert "confirmRemoved" in error.next_step
        assert ask.error("update_workflow", id=one, nodes=[webhook("x")], confirmRemoved=["Other"]).code == "CONFLICT"
        assert all(seen.method == "GET" for seen in n8n.requests)
        ask("update_workflow", id=one, nodes=[webhook("elsewhere")], confirmRemoved=["Add"])
        assert [node["name"] for node in sent(n8n)["nodes"]] == ["Webhook"]
        # n8n 2 refuses connections that lead nowhere.
        assert sent(n8n)["connections"] == {"Webhook": {"main": [[]]}}

    def test_no_nodes_at_all_delete_none_that_is_not_named(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        assert "'Webhook', 'Add'" in ask.error("update_workflow", id=one, nodes=[], connections={}).message
        ask("update_workflow", id=one, nodes=[], connections={}, confirmRemoved=["Webhook", "Add"])
        assert n8n.workflows[one]["nodes"] == []

    @pytest.mark.parametrize("kind", ["n8n-nodes-base.code", "n8n-nodes-base.noOp"])
    def test_emptied_parameters_have_to_be_named(self, ask: Ask, n8n: N8n, kind: str) -> None:
        one = made(n8n)
        emptied = code("Add", "") | {"type": kind, "parameters": {}}
        error = ask.error("update_workflow", id=one, nodes=[{"name": "Webhook"}, emptied])
        assert error.message == "Nothing was changed: this update would empty the parameters of 'Add'"
        ask("update_workflow", id=one, nodes=[{"name": "Webhook"}, emptied], confirmRemoved=["Add"])
        assert sent(n8n)["nodes"][1]["parameters"] == {}

    def test_removed_parameters_and_connections_are_reported(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        nodes = [{"name": "Webhook", "parameters": {"path": "there"}}, {"name": "Add"}]
        data = ask("update_workflow", id=one, nodes=nodes, connections={})
        assert data["warnings"] == [
            "Node 'Webhook': removed parameters: httpMethod, responseMode, options.",
            "No longer connected: 'Webhook' → 'Add'.",
        ]

    def test_connections_follow_a_node_that_is_renamed(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][1]["parameters"]["jsCode"] = "return $('Webhook').all();"
        data = ask("update_workflow", id=one, nodes=[{"id": "w", "name": "Hook"}, {"id": "c-Add", "name": "Sum"}])
        assert sent(n8n)["connections"] == {"Hook": to("Sum")}
        assert sent(n8n)["nodes"][1]["parameters"]["jsCode"] == "return $('Hook').all();"
        assert "warnings" not in data

    def test_a_new_node_has_to_be_whole(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        error = ask.error("update_workflow", id=one, nodes=[*BOTH, {"name": "Ad", "parameters": {"jsCode": "1"}}])
        assert error.message == (
            "nodes.2: 'Ad' is not a node of this workflow; a new one also needs type, typeVersion and position"
        )
        assert "'Webhook', 'Add'" in error.next_step
        error = ask.error("update_workflow", id=one, nodes=[BOTH[0], {"name": "Add", "type": "n8n-nodes-base.set"}])
        assert error.message == "nodes.1: 'Add' changes its type and also needs typeVersion and parameters"


class TestTheKeyOfTheConnection:
    def test_in_a_workflow_is_hidden_and_not_replaced_by_the_mask(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.workflows[one]["nodes"][1]["parameters"]["headers"] = {"X-N8N-API-KEY": KEY}
        before = json.loads(json.dumps(n8n.workflows[one]))
        assert KEY not in json.dumps(ask("get_workflow", id=one, raw=True))
        error = ask.error("update_workflow", id=one, name="renamed")
        assert (error.code, "contains the API key of this connection" in error.message) == ("CONFLICT", True)
        assert n8n.workflows[one] == before


class TestTheStateBefore:
    def test_is_kept_and_can_be_put_back(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        data = ask("update_workflow", id=one, name="wiped", nodes=[], confirmRemoved=["Webhook", "Add"])
        handle = data["previousState"]["handle"]
        assert data["_guidance"]["example"] == f"update_workflow(id: '{one}', restore: '{handle}')"
        page = engine.call_sync(
            "read_result", {"id": handle, "pointer": "/workflowBefore/nodes"}, ask.caller, door="code"
        )
        assert page.answer.value["items"] == before["nodes"]
        again = ask("update_workflow", id=one, restore=handle)
        now = n8n.workflows[one]
        assert {key: now[key] for key in KEPT} == {key: before[key] for key in KEPT}
        # What was put away by that is kept as well.
        ask("update_workflow", id=one, restore=again["previousState"]["handle"])
        assert n8n.workflows[one]["name"] == "wiped"

    def test_is_kept_for_a_day(self, ask: Ask, n8n: N8n) -> None:
        expires_at = datetime.fromisoformat(
            ask("update_workflow", id=made(n8n), name="renamed")["previousState"]["expiresAt"]
        )
        assert timedelta(hours=23, minutes=59) < expires_at - datetime.now(UTC) <= timedelta(hours=24)

    def test_of_a_deleted_workflow_can_be_read_and_made_again(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        data = ask("delete_workflow", id=one)
        handle = data["previousState"]["handle"]
        assert data["_guidance"]["example"] == f"read_result(id: '{handle}', pointer: '/workflowBefore')"
        page = engine.call_sync("read_result", {"id": handle, "pointer": "/workflowBefore"}, ask.caller, door="code")
        parts = {key: page.answer.value["items"][key] for key in ("name", "nodes", "connections", "settings")}
        again = ask("create_workflow", **parts)
        now = n8n.workflows[again["id"]]
        assert (now["nodes"], now["connections"]) == (before["nodes"], before["connections"])
        assert now["settings"].items() >= before["settings"].items()

    @pytest.mark.parametrize("line", ["2"])
    def test_a_workflow_that_cannot_be_read_is_deleted_and_not_kept(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.unreadable = True
        assert ask("delete_workflow", id=one)["warnings"] == [
            "The previous state was not saved: n8n does not let this connection read it."
        ]
        assert n8n.workflows == {}

    def test_is_shown_to_the_operator_who_approves_its_restore(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        handle = ask("update_workflow", id=one, name="renamed")["previousState"]["handle"]
        governance.set_ask("update_workflow", True, actor=governance.trusted("test"))
        told = ask.error("update_workflow", id=one, restore=handle)
        shown = disclosure.of_approval(Approval.objects.get(pk=told.context["approvalId"]))
        assert shown is not None
        assert shown.arguments["restore"] == handle
        assert shown.stored_results[handle]["workflowBefore"]["nodes"] == n8n.workflows[one]["nodes"]
        governance.approve_call(told.context["approvalId"], actor=governance.trusted("user:olivia"))
        ask("update_workflow", id=one, restore=handle)
        assert n8n.workflows[one]["name"] != "renamed"

    def test_of_another_workflow_is_refused(self, ask: Ask, n8n: N8n) -> None:
        one, other = made(n8n), made(n8n)
        handle = ask("update_workflow", id=one, name="renamed")["previousState"]["handle"]
        assert "is not a previous state" in ask.error("update_workflow", id=other, restore=handle).message
        assert ask.error("update_workflow", id=other, restore="0" * 32).code == "ANSWER_NOT_FOUND"
        error = ask.error("update_workflow", id=one, restore=handle, name="x")
        assert error.message.startswith("restore replaces the whole workflow")

    def test_an_unsaved_state_is_reported(self, ask: Ask, n8n: N8n, settings: LazySettings) -> None:
        settings.TOOLHUB_ANSWERS_BYTES = 0
        data = ask("update_workflow", id=made(n8n), name="renamed")
        assert "previousState" not in data
        assert data["warnings"] == ["The previous state was not saved: this hub keeps no answers."]

    def test_is_reported_if_n8n_gives_no_answer(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.between = lambda: n8n.fail(-1)
        error = ask.error("update_workflow", id=one, name="renamed")
        assert re.search(
            r"update_workflow\(id: '\w+', restore: .\w{32}.\) restores the previous state", error.next_step
        )

    def test_is_that_before_the_first_attempt(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))

        n8n.lost_answers = 1
        options = Options(retries=1, retry_delay_ms=100)
        arguments = {"id": one, "name": "wiped", "nodes": [], "confirmRemoved": ["Webhook", "Add"]}
        ask.record("update_workflow")
        answer = engine.call_sync("update_workflow", arguments, ask.caller, door="code", options=options).answer
        assert n8n.asked().count(f"PUT /workflows/{one}") == 2
        assert n8n.workflows[one]["name"] == "wiped"
        ask("update_workflow", id=one, restore=answer.value["data"]["previousState"]["handle"])
        assert n8n.workflows[one]["nodes"] == before["nodes"]

    def test_is_that_of_others_where_they_changed_it_between_two_attempts(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)

        class Refused(list[int]):
            def pop(self, *_: Any) -> int:
                n8n.workflows[one]["name"] = "by others"
                return super().pop()

        n8n.failing_puts = Refused([503])
        options = Options(retries=1, retry_delay_ms=100)
        arguments = {"id": one, "nodes": BOTH[:1], "confirmRemoved": ["Add"]}
        ask.record("update_workflow")
        answer = engine.call_sync("update_workflow", arguments, ask.caller, door="code", options=options).answer
        ask("update_workflow", id=one, restore=answer.value["data"]["previousState"]["handle"])
        assert n8n.workflows[one]["name"] == "by others"


class TestVersions:
    @pytest.mark.parametrize("line", ["2"])
    def test_are_listed_newest_first_and_can_be_restored(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        before = json.loads(json.dumps(n8n.workflows[one]))
        ask("update_workflow", id=one, name="renamed", nodes=BOTH[:1], confirmRemoved=["Add"])
        data = ask("list_workflow_versions", id=one)
        assert [each["versionId"] for each in data["versions"]] == [
            n8n.workflows[one]["versionId"],
            before["versionId"],
        ]
        assert data["versions"][0].keys() == {"versionId", "createdAt", "authors"}
        assert data["_guidance"]["example"] == f"update_workflow(id: '{one}', restore: '{before['versionId']}')"
        ask("update_workflow", id=one, restore=before["versionId"])
        now = n8n.workflows[one]
        assert (now["nodes"], now["connections"]) == (before["nodes"], before["connections"])
        assert now["name"] == "renamed", "versions have no names"

    def test_one_that_n8n_does_not_have_is_not_restored(self, ask: Ask, n8n: N8n) -> None:
        one, unknown = made(n8n), "75958426-9376-4eac-b0ae-4d01ea188cdb"
        error = ask.error("update_workflow", id=one, restore=unknown)
        assert (error.code, error.message) == ("NOT_FOUND", f"Version '{unknown}' not found")

    @pytest.mark.parametrize("line", ["1"])
    def test_of_n8n_1_can_be_restored_but_not_listed(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        version = n8n.workflows[one]["versionId"]
        error = ask.error("list_workflow_versions", id=one)
        assert error.message == (
            "Failed to list versions: this n8n is too old to list the versions of a workflow over its API"
        )
        ask("update_workflow", id=one, connections={})
        ask("update_workflow", id=one, restore=version)
        assert n8n.workflows[one]["connections"] == {"Webhook": to("Add")}


class TestSwitching:
    def test_on_and_off(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        assert ask("activate_workflow", id=one)["active"] is True
        data = ask("deactivate_workflow", id=one, raw=True)
        assert (data["active"], data["nodeCount"]) == (False, 2)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("2", "Workflow cannot be activated because it has no trigger node."),
            ("1", "has no node to start the workflow"),
        ],
    )
    def test_why_not_in_the_words_of_n8n(self, ask: Ask, n8n: N8n, words: str) -> None:
        one = n8n.add({"name": "x", "nodes": [MANUAL], "connections": {}, "settings": {}})
        error = ask.error("activate_workflow", id=one)
        assert error.message.startswith("Failed to activate workflow: ")
        assert words in error.message
        assert error.context["statusCode"] == 400

    @pytest.mark.parametrize(("line", "words", "status"), [("2", "conflict", 409), ("1", "already taken", 400)])
    def test_a_path_that_is_taken(self, ask: Ask, n8n: N8n, words: str, status: int) -> None:
        one, other = made(n8n), made(n8n)
        ask("activate_workflow", id=one)
        error = ask.error("activate_workflow", id=other)
        assert words in error.message
        assert error.context["statusCode"] == status


class TestDeleting:
    def test_it_is_gone(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        assert ask("delete_workflow", id=one)["id"] == one
        assert n8n.workflows == {}

    @pytest.mark.parametrize("line", ["2"])
    def test_n8n_2_deletes_none_that_is_active_and_takes_a_moment(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        ask("activate_workflow", id=one)
        error = ask.error("delete_workflow", id=one)
        assert error.message == "Failed to delete workflow"
        assert "deactivate_workflow" in error.next_step
        ask("deactivate_workflow", id=one)
        assert ask("delete_workflow", id=one)["id"] == one
        assert n8n.asked().count(f"DELETE /workflows/{one}") == 3

    def test_a_failure_of_n8n_is_looked_into(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.failing_deletes = [(500, False), (409, False)]
        assert ask("delete_workflow", id=one)["id"] == one
        assert n8n.asked().count(f"DELETE /workflows/{one}") == 3
        # It failed, was still there to be seen, and was gone when it was asked again.
        late = made(n8n)
        n8n.failing_deletes = [(500, False), (404, True)]
        assert ask("delete_workflow", id=late)["id"] == late
        other = made(n8n)
        n8n.failing_deletes = [(500, True)]
        assert ask("delete_workflow", id=other)["id"] == other
        assert n8n.asked().count(f"DELETE /workflows/{other}") == 1

    def test_all_problems_are_reported_together(self, ask: Ask, n8n: N8n) -> None:
        one = made(n8n)
        n8n.failing_deletes = [(403, False)]
        assert ask.error("delete_workflow", id=one).context["statusCode"] == 403
        ask("activate_workflow", id=one)
        n8n.failing_deletes = [(500, False)]
        assert ask.error("delete_workflow", id=one).context["statusCode"] == 500
        assert n8n.asked().count(f"DELETE /workflows/{one}") == 2


class TestExecutions:
    def test_again(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("error_code")
        data = ask("retry_execution", id=one, loadWorkflow=True)
        assert (data["id"], data["status"], data["retryOf"]) == ("6", "error", one)
        assert sent(n8n) == {"loadWorkflow": True}
        assert data["_guidance"]["example"] == "explain_execution(id: '6')"
        assert "runData" not in ask.text

    def test_one_that_succeeded_is_not_run_again(self, ask: Ask, n8n: N8n) -> None:
        error = ask.error("retry_execution", id=n8n.hold("chain"))
        assert error.message == "Failed to retry execution: The execution succeeded, so it cannot be retried."

    @pytest.mark.parametrize("status", ["new", "running", "waiting"])
    def test_one_that_has_not_ended_is_not_run_a_second_time(self, ask: Ask, n8n: N8n, status: str) -> None:
        one = n8n.hold("error_code")
        n8n.executions[one]["status"] = status
        error = ask.error("retry_execution", id=one)
        assert error.message == f"Execution '{one}' cannot be retried: it has not ended yet (status: {status})"
        assert (error.code, error.retryable) == ("CONFLICT", False)
        assert n8n.asked() == [f"GET /executions/{one}"]

    @pytest.mark.parametrize("line", ["2"])
    def test_stopping(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("running")
        data = ask("stop_execution", id=one)
        assert (data["id"], data["status"]) == (one, "canceled")
        assert ask.error("stop_execution", id=one).message.startswith(
            "Failed to stop execution: Only running or waiting executions can be stopped"
        )

    @pytest.mark.parametrize("line", ["1"])
    def test_n8n_1_cannot_stop_and_says_so(self, ask: Ask, n8n: N8n) -> None:
        error = ask.error("stop_execution", id=n8n.hold("waiting"))
        assert error.message == "Failed to stop execution: this n8n is too old to stop executions over its API"
        assert error.code == "API_ERROR"
