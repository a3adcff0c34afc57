"""Rows of data tables: n8n 2 has them, and n8n 1 says that it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import READER, N8n

OPEN = [{"column": "status", "value": "open"}]


@pytest.fixture
def table(n8n: N8n) -> str:
    one = n8n.data.add("orders", order="number", status="string", paid="boolean")
    for number, status in enumerate(("open", "closed", "open", "lost"), start=1):
        n8n.data.rows[one].append({"order": number, "status": status, "paid": None, "id": number} | TIMES)
    return one


TIMES: dict[str, Any] = {"createdAt": "2026-11-20T12:00:00.000Z", "updatedAt": "2026-11-20T12:00:00.000Z"}


@pytest.mark.parametrize("line", ["1"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_data_table_rows", {}),
        ("insert_data_table_rows", {"rows": [{"a": 1}]}),
        ("update_data_table_rows", {"filter": OPEN, "values": {"a": 1}}),
        ("delete_data_table_rows", {"filter": OPEN}),
    ],
)
def test_n8n_1_is_too_old(ask: Ask, n8n: N8n, tool: str, arguments: dict[str, Any]) -> None:
    error = ask.error(tool, id="x" * 16, **arguments)
    assert "this n8n is too old for them over its API" in error.message


@pytest.mark.parametrize("line", ["2"])
class TestRows:
    @pytest.mark.parametrize(
        ("arguments", "orders"),
        [
            ({}, [1, 2, 3, 4]),
            ({"filter": OPEN, "sort": "order:desc"}, [3, 1]),
            ({"filter": [*OPEN, {"column": "order", "op": "gte", "value": 4}], "match": "any"}, [1, 3, 4]),
            ({"filter": [{"column": "status", "op": "ilike", "value": "%LO%"}]}, [2, 4]),
            ({"filter": [{"column": "paid", "op": "isEmpty"}, {"column": "id", "op": "lt", "value": 2}]}, [1]),
            ({"search": "los"}, [2, 4]),
        ],
    )
    def test_are_those_that_match(self, ask: Ask, table: str, arguments: dict[str, Any], orders: list[int]) -> None:
        assert [row["order"] for row in ask("list_data_table_rows", id=table, **arguments)["rows"]] == orders

    def test_are_paged(self, ask: Ask, table: str) -> None:
        first = ask("list_data_table_rows", id=table, limit=3)
        second = ask("list_data_table_rows", id=table, limit=3, cursor=first["nextCursor"])
        assert [row["id"] for row in first["rows"] + second["rows"]] == [1, 2, 3, 4]
        assert second["nextCursor"] is None

    def test_are_inserted_changed_and_deleted(self, ask: Ask, n8n: N8n, table: str) -> None:
        made = ask("insert_data_table_rows", id=table, rows=[{"order": 5}, {"order": 6, "status": "open"}])
        assert (made["count"], [row["id"] for row in made["rows"]]) == (2, [5, 6])
        changed = ask("update_data_table_rows", id=table, filter=OPEN, values={"status": "done"})
        assert [row["order"] for row in changed["rows"]] == [1, 3, 6]
        ask("update_data_table_rows", id=table, filter=[{"column": "order", "value": 5}], values={"order": None})
        new = {"filter": [{"column": "order", "value": 9}], "values": {"order": 9, "status": "new"}, "upsert": True}
        assert ask("update_data_table_rows", id=table, **new)["rows"][0]["id"] == 7
        assert ask("update_data_table_rows", id=table, **new)["rows"][0]["id"] == 7
        done = [{"column": "status", "value": "done"}]
        assert ask("delete_data_table_rows", id=table, filter=done)["count"] == 3
        assert [row["order"] for row in n8n.data.rows[table]] == [2, 4, None, 9]
        assert ask("delete_data_table_rows", id=table, filter=done) | {"_guidance": 0} == {
            "id": table,
            "count": 0,
            "rows": [],
            "_guidance": 0,
        }

    def test_of_a_change_only_the_first_are_repeated(self, ask: Ask, table: str) -> None:
        made = ask("insert_data_table_rows", id=table, rows=[{"order": number} for number in range(50)])
        assert (made["count"], len(made["rows"])) == (50, 20)
        assert "Only the first 20" in made["_guidance"]["message"]

    def test_nothing_is_changed_without_a_filter(self, ask: Ask, n8n: N8n, table: str) -> None:
        before = len(n8n.requests)
        for tool, more in (("delete_data_table_rows", {}), ("update_data_table_rows", {"values": {"order": 1}})):
            assert ask.error(tool, id=table, filter=[], **more).code == "VALIDATION_ERROR"
        assert len(n8n.requests) == before

    @pytest.mark.parametrize(
        ("condition", "wrong"),
        [
            # As null it would match every row.
            ({"column": "id", "op": "neq"}, "is missing; only isEmpty and isNotEmpty have none"),
            ({"column": "status", "value": ["open"]}, "must be a string, a number, true or false"),
            ({"column": "status", "value": "x" * 501}, "is longer than 500 characters"),
        ],
    )
    def test_conditions_have_a_value(
        self, ask: Ask, n8n: N8n, table: str, condition: dict[str, Any], wrong: str
    ) -> None:
        before = len(n8n.requests)
        error = ask.error("delete_data_table_rows", id=table, filter=[*OPEN, condition])
        assert (error.code, error.message) == ("VALIDATION_ERROR", f"filter/1: value {wrong}")
        assert len(n8n.requests) == before

    def test_refusals_say_which_column(self, ask: Ask, table: str) -> None:
        error = ask.error("list_data_table_rows", id=table, filter=[{"column": "nope", "value": 1}])
        assert error.message.endswith("unknown column name 'nope'")
        error = ask.error("list_data_table_rows", id=table, sort="nope:asc")
        assert error.message == "sort: the table has no column 'nope'"
        assert error.next_step == "Its columns: order, status, paid, id, createdAt, updatedAt."
        error = ask.error("insert_data_table_rows", id=table, rows=[{"order": "x"}])
        assert "'order' expects a number but we got 'x'" in error.message

    @pytest.mark.parametrize("one", ["9" * 16, "orders"])
    def test_of_an_unknown_table_are_not_found(self, ask: Ask, one: str) -> None:
        error = ask.error("list_data_table_rows", id=one)
        assert (error.code, error.message) == ("NOT_FOUND", f"Data table '{one}' not found")

    def test_a_key_that_only_reads_changes_none(
        self, ask: Ask, n8n: N8n, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("N8N_API_KEY", READER)
        assert ask("list_data_table_rows", id=table)["count"] == 4
        assert ask.error("delete_data_table_rows", id=table, filter=OPEN).context["statusCode"] == 403
        assert len(n8n.data.rows[table]) == 4
