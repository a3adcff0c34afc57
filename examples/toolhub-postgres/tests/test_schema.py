"""What agents get from `list_tables` and `describe_table`."""

from __future__ import annotations

import pytest

from toolhub import NotFoundError, Tool, testing
from toolhub_postgres.tools import describe_table, explain, list_tables, query

pytestmark = pytest.mark.usefixtures("reader")


@pytest.mark.parametrize("tool", [query, explain, list_tables, describe_table])
def test_each_tool_keeps_what_it_promises(tool: Tool) -> None:
    testing.assert_contract(tool)


class TestListTables:
    def test_lists_what_the_role_can_read(self) -> None:
        tables = testing.call(list_tables)["tables"]
        assert [(table["name"], table["kind"]) for table in tables] == [
            ("Mixed Case", "table"),
            ("customers", "table"),
            ("numbers", "table"),
            ("orders", "table"),
            ("totals", "view"),
        ]
        assert tables[1] == {
            "schema": "shop",
            "name": "customers",
            "kind": "table",
            "estimatedRows": 2,
            "comment": "Who buys",
        }

    @pytest.mark.parametrize(
        ("search", "names"),
        [("ORDER", ["orders"]), ("who b", ["customers"]), ("%", []), ("_", []), ("'; --", [])],
    )
    def test_searches_names_and_comments_for_the_very_text(self, search: str, names: list[str]) -> None:
        assert [table["name"] for table in testing.call(list_tables, search=search)["tables"]] == names

    def test_lists_one_schema_also_of_the_system(self) -> None:
        assert testing.call(list_tables, schema="pg_catalog", search="pg_class")["tables"]
        assert testing.call(list_tables, schema="nowhere") == {"tables": []}

    def test_says_that_there_are_more(self) -> None:
        answer = testing.call(list_tables, limit=2)
        assert (len(answer["tables"]), answer["hasMore"]) == (2, True)


class TestDescribeTable:
    def test_has_columns_keys_indexes_and_comments(self) -> None:
        described = testing.call(describe_table, table="customers", schema="shop")
        assert described == {
            "schema": "shop",
            "table": "customers",
            "kind": "table",
            "estimatedRows": 2,
            "comment": "Who buys",
            "columns": [
                {"name": "id", "type": "bigint", "notNull": True, "generated": "identity"},
                {"name": "name", "type": "text", "notNull": True},
                {"name": "born", "type": "date", "comment": "Day of birth, if told"},
                {"name": "vip", "type": "boolean", "notNull": True, "default": "false"},
            ],
            "constraints": ["PRIMARY KEY (id)"],
            "indexes": ["CREATE UNIQUE INDEX customers_pkey ON shop.customers USING btree (id)"],
        }
        described = testing.call(describe_table, table="orders", schema="shop")
        assert described["constraints"] == [
            "PRIMARY KEY (id)",
            "FOREIGN KEY (customer_id) REFERENCES shop.customers(id)",
            "CHECK ((total >= (0)::numeric))",
        ]
        assert described["columns"][2]["type"] == "numeric(10,2)"

    def test_finds_a_table_without_its_schema(self) -> None:
        assert testing.call(describe_table, table="orders")["schema"] == "shop"
        assert testing.call(describe_table, table="pg_class")["schema"] == "pg_catalog"

    def test_has_the_definition_of_a_view(self) -> None:
        described = testing.call(describe_table, table="totals")
        assert described["kind"] == "view"
        assert "sum(orders.total)" in described["definition"]

    def test_takes_names_as_they_are(self) -> None:
        described = testing.call(describe_table, table="Mixed Case")
        assert described["columns"] == [{"name": 'a "b"', "type": "integer"}]

    @pytest.mark.parametrize("name", ["nowhere", "Orders", "shop.orders; --", "orders'"])
    def test_says_that_there_is_none(self, name: str) -> None:
        with pytest.raises(NotFoundError, match="not found") as missing:
            testing.call(describe_table, table=name)
        assert "list_tables" in missing.value.next_step
