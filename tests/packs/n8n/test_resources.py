"""What else an n8n has, and executions by time and by the name of their workflow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n


def held(n8n: N8n, name: str, workflow: str, started: str) -> str:
    one = n8n.hold(name)
    n8n.executions[one] |= {"workflowId": workflow, "startedAt": started}
    return one


def named(n8n: N8n, name: str) -> str:
    return n8n.add({"name": name, "nodes": [], "connections": {}, "settings": {}})


class TestResources:
    def test_credentials_have_names_and_types_and_nothing_else(self, ask: Ask, n8n: N8n) -> None:
        n8n.credentials = [{"id": "c1", "name": "basic", "type": "httpBasicAuth", "shared": "owner@example.test"}]
        if n8n.line == "1":
            error = ask.error("list_n8n_resources", kind="credentials")
            assert error.message == "Failed to list credentials: this n8n is too old to list them over its API"
            return
        data = ask("list_n8n_resources", kind="credentials")
        assert data["resources"] == [{"id": "c1", "name": "basic", "type": "httpBasicAuth"}]
        assert "owner@example.test" not in ask.text

    def test_tags_are_listed_by_both_lines(self, ask: Ask, n8n: N8n) -> None:
        n8n.tags = [{"id": "t1", "name": "sales"}]
        assert ask("list_n8n_resources", kind="tags")["resources"] == n8n.tags

    @pytest.mark.parametrize("kind", ["variables", "projects"])
    def test_what_the_license_leaves_out_is_said(self, ask: Ask, kind: str) -> None:
        error = ask.error("list_n8n_resources", kind=kind)
        assert error.message == f"Failed to list {kind}: the license of this n8n does not include them"
        assert (error.code, error.context["statusCode"]) == ("API_ERROR", 403)

    def test_data_tables_have_columns(self, ask: Ask, n8n: N8n) -> None:
        n8n.data.add("rows", a="number")
        if n8n.line == "1":
            assert "too old" in ask.error("list_n8n_resources", kind="dataTables").message
            return
        data = ask("list_n8n_resources", kind="dataTables")
        assert data["resources"] == [{"id": "0" * 16, "name": "rows", "projectId": "p1", "columns": {"a": "number"}}]

    def test_folders_of_a_project_are_paged(self, ask: Ask, n8n: N8n) -> None:
        if n8n.line == "1":
            assert "too old" in ask.error("list_n8n_resources", kind="folders", projectId="p1").message
            return
        assert "license" in ask.error("list_n8n_resources", kind="folders", projectId="p1").message
        n8n.folders = {"p1": [{"id": f"f{number}", "name": "n", "workflowCount": 2} for number in range(3)]}
        first = ask("list_n8n_resources", kind="folders", projectId="p1", limit=2)
        second = ask("list_n8n_resources", kind="folders", projectId="p1", limit=2, cursor=first["nextCursor"])
        assert [each["id"] for each in first["resources"] + second["resources"]] == ["f0", "f1", "f2"]
        assert second["nextCursor"] is None
        assert ask.error("list_n8n_resources", kind="folders", projectId="p2").code == "NOT_FOUND"
        assert "projectId is required" in ask.error("list_n8n_resources", kind="folders").message
        assert "cursor" in ask.error("list_n8n_resources", kind="folders", projectId="p1", cursor="x").message


class TestExecutionsOfAWorkflow:
    def test_have_its_name(self, ask: Ask, n8n: N8n) -> None:
        one = named(n8n, "Orders")
        held(n8n, "chain", one, "2026-11-18T10:00:00.000Z")
        held(n8n, "error_code", "gone", "2026-11-18T11:00:00.000Z")
        entries = ask("list_executions")["executions"]
        assert [each.get("workflowName") for each in entries] == [None, "Orders"]
        before = len(n8n.requests)
        ask("list_executions")
        # The name is remembered, and what cannot be read is asked for again.
        assert n8n.asked()[before:] == ["GET /executions?limit=20", "GET /workflows/gone"]

    def test_are_found_by_its_name(self, ask: Ask, n8n: N8n) -> None:
        orders, more = named(n8n, "Orders"), named(n8n, "Orders of old")
        first = held(n8n, "chain", orders, "2026-11-18T10:00:00.000Z")
        second = held(n8n, "error_code", more, "2026-11-18T11:00:00.000Z")
        for name, found in (("Orders", first), ("of old", second)):
            assert [each["id"] for each in ask("list_executions", workflowName=name)["executions"]] == [found]
        error = ask.error("list_executions", workflowName="order")
        assert error.message == "workflowName: 2 workflows have 'order' in their name"
        assert f"{orders} ('Orders')" in error.next_step
        error = ask.error("list_executions", workflowName="Nobody")
        assert (error.code, error.message) == ("NOT_FOUND", "Workflow 'Nobody' not found")


class TestExecutionsOfATime:
    @pytest.fixture
    def ids(self, n8n: N8n) -> dict[str, str]:
        """By the hour in which they started."""
        names = ("chain", "pinned", "error_code", "canceled")
        numbers = sorted(int(n8n.hold(name)) for name in names)
        hours = dict(zip(("09", "10", "11", "12"), map(str, numbers), strict=True))
        for hour, one in hours.items():
            n8n.executions[one] |= {"workflowId": "wf", "startedAt": f"2026-11-18T{hour}:00:00.000Z"}
        return hours

    @pytest.mark.parametrize(
        ("times", "hours"),
        [
            ({"since": "2026-11-18T11:00:00Z"}, ["12", "11"]),
            ({"until": "2026-11-18T11:00:00Z"}, ["10", "09"]),
            ({"since": "2026-11-18T12:00:00+02:00", "until": "2026-11-18T11:30:00"}, ["11", "10"]),
            ({"since": "2027-01-01T00:00:00Z"}, []),
        ],
    )
    def test_are_those_between(self, ask: Ask, ids: dict[str, str], times: dict[str, Any], hours: list[str]) -> None:
        found = []
        cursor: str | None = ""
        while cursor is not None:
            page = ask("list_executions", limit=1, cursor=cursor, **times)
            found += [each["id"] for each in page["executions"]]
            cursor = page["nextCursor"]
        assert found == [ids[hour] for hour in hours]

    def test_nothing_older_is_asked_for(self, ask: Ask, n8n: N8n, ids: dict[str, str]) -> None:
        assert ask("list_executions", since="2026-11-18T12:00:00Z", limit=2)["nextCursor"] is None
        assert len([asked for asked in n8n.asked() if asked.startswith("GET /executions")]) == 1

    def test_failures_too(self, ask: Ask, n8n: N8n, ids: dict[str, str]) -> None:
        n8n.executions[ids["12"]]["status"] = "error"
        n8n.executions[ids["09"]]["status"] = "error"
        found = ask("list_executions", status="error", since="2026-11-18T11:30:00Z")["executions"]
        assert [each["id"] for each in found] == [ids["12"]]


class TestDeletingAnExecution:
    def test_it_is_gone(self, ask: Ask, n8n: N8n) -> None:
        one = n8n.hold("chain")
        assert ask("delete_execution", id=one)["id"] == one
        assert n8n.executions == {}
        assert ask.error("delete_execution", id=one).message == f"Execution '{one}' not found"

    @pytest.mark.parametrize("status", ["new", "running"])
    def test_one_that_goes_on_is_not_deleted(self, ask: Ask, n8n: N8n, status: str) -> None:
        one = n8n.hold("chain")
        n8n.executions[one]["status"] = status
        error = ask.error("delete_execution", id=one)
        assert error.message == f"Execution '{one}' cannot be deleted: it has not ended yet (status: {status})"
        assert error.code == "CONFLICT"
        assert n8n.executions.keys() == {one}
