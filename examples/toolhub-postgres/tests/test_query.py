"""What agents get from `query` and `explain`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest
from conftest import Database, wait_until

from toolhub import ApiError, InvalidArgumentsError, TimeoutError, ToolError, UpstreamValidationError, testing
from toolhub_postgres.session import within
from toolhub_postgres.tools import explain, query

ENDLESS = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT count(*) FROM r"


def rows(sql: str, *parameters: str, **others: Any) -> list[list[Any]]:
    answer = testing.call(query, sql=sql, parameters=list(parameters), **others)
    found: list[list[Any]] = answer["rows"]
    return found


@pytest.mark.usefixtures("reader")
class TestRows:
    def test_have_the_columns_and_types_of_the_statement(self) -> None:
        answer = testing.call(query, sql="SELECT id, name, born, name FROM shop.customers ORDER BY id;")
        assert answer == {
            "columns": [
                {"name": "id", "type": "bigint"},
                {"name": "name", "type": "text"},
                {"name": "born", "type": "date"},
                {"name": "name", "type": "text"},
            ],
            "rows": [[1, "Ada", "1815-12-10", "Ada"], [2, "Grace", None, "Grace"]],
        }

    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("true", True),
            ("NULL", None),
            ("9007199254740993", "9007199254740993"),
            ("12.50", "12.50"),
            ("1.5::float8", 1.5),
            ("'NaN'::float8", "NaN"),
            ("'-Infinity'::float4", "-Infinity"),
            ("'{\"a\": [1, null]}'::jsonb", {"a": [1, None]}),
            ("'1e999'::json", "1e999"),
            ("ARRAY['a', NULL]", "{a,NULL}"),
            ("ROW(1, 'b')", "(1,b)"),
            ("'\\xdeadbeef'::bytea", "\\xdeadbeef"),
            ("timestamptz '2026-01-02 03:04:05Z' AT TIME ZONE 'UTC'", "2026-01-02 03:04:05"),
            ("interval '1 day 2 hours'", "1 day 02:00:00"),
            ("'日本 \U0001f5fc'", "日本 \U0001f5fc"),
            ("'a''b\\c'", "a'b\\c"),
            ("$1::int + 1 -- with a comment", 8),
        ],
    )
    def test_are_json_and_text_where_json_is_not_exact(self, expression: str, value: object) -> None:
        parameters = ["7"] if "$1" in expression else []
        assert rows(f"SELECT {expression}", *parameters) == [[value]]

    def test_deep_json_of_a_database_is_answered(self) -> None:
        for depth in (100, 5_000):
            ((value,),) = rows("SELECT (repeat('[', $1) || repeat(']', $1))::json", str(depth))
            assert json.dumps(value) if depth == 100 else isinstance(value, str)

    @pytest.mark.parametrize(
        "sql",
        [
            "VALUES (1), (2)",
            "TABLE shop.customers",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "(SELECT 1) UNION SELECT 2",
            "SELECT shop.doubled(21), now(), random(), pg_total_relation_size('shop.orders'), gen_random_uuid()",
            "SELECT n FROM shop.numbers TABLESAMPLE SYSTEM (1)",
            'SELECT "a ""b""" FROM shop."Mixed Case"',
            "SELECT 1 /* a (b) */ -- c",
        ],
    )
    def test_come_from_every_statement_that_only_reads(self, sql: str) -> None:
        assert testing.call(query, sql=sql)["columns"]

    def test_keep_their_order(self) -> None:
        assert rows("SELECT n FROM shop.numbers ORDER BY -n", max_rows=3) == [[20000], [19999], [19998]]

    def test_are_limited_and_say_so(self) -> None:
        answer = testing.call(query, sql="SELECT n FROM shop.numbers", max_rows=1000)
        assert (len(answer["rows"]), answer["hasMore"]) == (1000, True)
        assert "hasMore" not in testing.call(query, sql="SELECT n FROM shop.numbers WHERE n <= 1000", max_rows=1000)

    def test_of_a_result_without_end_cost_only_what_is_read(self) -> None:
        sql = "SELECT a.n, b.n FROM shop.numbers a, shop.numbers b, shop.numbers c"
        assert len(rows(sql, max_rows=10)) == 10

    def test_values_are_parameters_and_never_part_of_the_statement(self) -> None:
        assert rows("SELECT $1", "'; DROP TABLE shop.orders; --") == [["'; DROP TABLE shop.orders; --"]]
        assert rows("SELECT name FROM shop.customers WHERE id = $1 AND NOT vip = $2", "2", "true") == [["Grace"]]
        assert rows("SELECT id FROM shop.customers WHERE id = ANY ($1) ORDER BY id", "{1,2}") == [[1], [2]]
        assert rows("SELECT '100%', '%s', $1::text", "%(x)s") == [["100%", "%s", "%(x)s"]]

    def test_numbers_are_accepted_as_parameters(self) -> None:
        assert testing.call(query, sql="SELECT $1::int", parameters=[7])["rows"] == [[7]]


@pytest.mark.usefixtures("reader")
class TestSizes:
    def test_a_huge_value_is_cut_on_the_server(self) -> None:
        answer = testing.call(query, sql="SELECT 1 AS id, repeat('ä', 5000000) AS body")
        ((number, body),) = answer["rows"]
        assert (number, len(body), body[-1], answer["cutColumns"]) == (1, 10_001, "…", ["body"])

    def test_a_value_of_the_most_characters_is_whole(self) -> None:
        answer = testing.call(query, sql="SELECT repeat('x', 10000)")
        assert (len(answer["rows"][0][0]), "cutColumns" in answer) == (10_000, False)

    def test_many_large_rows_are_an_answer_of_limited_size(self) -> None:
        answer = testing.call(query, sql="SELECT repeat('x', 9000) FROM shop.numbers", max_rows=1000)
        assert answer["hasMore"]
        assert 900_000 < len(json.dumps(answer)) < 1_100_000

    def test_rows_of_many_columns_have_shorter_values(self) -> None:
        columns = ", ".join(f"repeat('x', 5000) AS c{number}" for number in range(500))
        (row,) = rows(f"SELECT {columns}")
        assert {len(value) for value in row} == {2_001}

    def test_the_widest_row_is_read(self) -> None:
        (row,) = rows(f"SELECT {', '.join(map(str, range(1600)))}")
        assert row == list(range(1600))


@pytest.mark.usefixtures("reader")
class TestRefusals:
    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("SELEC 1", 'syntax error at or near "SELEC"'),
            ("SELECT nothing FROM shop.orders", 'column "nothing" does not exist'),
            ("SELECT * FROM nowhere", 'relation "nowhere" does not exist'),
            ("SELECT 1 / 0", "division by zero"),
            ("SELECT $1::int", "bind message supplies 0 parameters"),
            ("SELECT 'x'::int", 'invalid input syntax for type integer: "x"'),
            ("SELECT repeat(repeat('x', 1000000), 2000)", "requested length too large"),
        ],
    )
    def test_say_what_the_server_says(self, sql: str, message: str) -> None:
        with pytest.raises(UpstreamValidationError, match=message) as refused:
            rows(sql)
        assert not refused.value.blames_upstream
        assert refused.value.context == {"field": "sql"}

    def test_name_what_the_role_may_not_read(self) -> None:
        with pytest.raises(ApiError, match="permission denied for table salaries") as refused:
            rows("SELECT * FROM shop.salaries")
        assert refused.value.context["statusCode"] == 403
        assert not refused.value.blames_upstream

    @pytest.mark.parametrize("sql", ["", " ; ", "SELECT '\0'", "SELECT '\ud800'", "SELECT FROM shop.orders"])
    def test_of_what_cannot_be_sent(self, sql: str) -> None:
        with pytest.raises(InvalidArgumentsError):
            rows(sql)

    def test_of_parameters_that_cannot_be_sent(self) -> None:
        with pytest.raises(InvalidArgumentsError, match=r"parameters\[1\] must not contain NUL"):
            rows("SELECT $1, $2", "a", "b\0c")

    def test_a_long_literal_is_read_and_a_longer_one_refused(self) -> None:
        assert len(rows(f"SELECT '{'x' * 9_000}'")[0][0]) == 9_000
        assert query.input_schema["properties"]["sql"]["maxLength"] == 20_000


class TestTime:
    def test_a_statement_without_end_is_cancelled_on_the_server(self, reader: Database) -> None:
        with pytest.raises(TimeoutError, match="The statement was cancelled") as slow:
            asyncio.run(query(testing.context(query, seconds=2), ENDLESS))
        # Slow statements of one agent must not open the circuit breaker for all, and a retry takes as long.
        assert not slow.value.blames_upstream
        assert not slow.value.retryable
        wait_until(lambda: reader.sessions() == 0)

    def test_rows_that_come_slowly_end_at_the_deadline(self, reader: Database) -> None:
        # With so many columns, each row is a fetch of its own, and quick enough for the server's limit.
        slow = "(SELECT count(*) FROM shop.numbers a, shop.numbers b WHERE a.n < 100 AND b.n > o.n)"
        sql = f"SELECT {slow}, {', '.join(['1'] * 200)} FROM shop.numbers o"
        with pytest.raises(TimeoutError, match="The statement was cancelled"):
            asyncio.run(query(testing.context(query, seconds=3), sql, [], 1000))
        wait_until(lambda: reader.sessions() == 0)

    def test_the_limit_of_the_server_is_named(self, reader: Database) -> None:
        async def limited() -> None:
            async with within(20, "test") as session:
                await session.records("SELECT set_config('statement_timeout', $1, true)", "20ms")
                await session.records("SELECT pg_sleep($1)", 60)

        with pytest.raises(
            TimeoutError, match="^The statement was cancelled: canceling statement due to statement time"
        ):
            asyncio.run(limited())

    def test_a_cancelled_call_ends_its_statement_and_session(self, reader: Database) -> None:
        async def cancelled() -> None:
            call = asyncio.create_task(query(testing.context(query), ENDLESS))
            await asyncio.to_thread(
                wait_until, lambda: reader.sessions("state = 'active' AND query LIKE '%FETCH%'") == 1
            )
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        asyncio.run(cancelled())
        wait_until(lambda: reader.sessions() == 0)

    def test_does_not_wait_long_for_a_lock(self, reader: Database) -> None:
        with psycopg.connect(reader.owner_url) as other:
            other.execute("LOCK TABLE shop.orders")
            with pytest.raises(ApiError, match="lock timeout") as refused:
                rows("SELECT * FROM shop.orders")
        assert refused.value.retryable
        assert not refused.value.blames_upstream

    def test_calls_side_by_side_do_not_share_a_session(self, reader: Database) -> None:
        async def both() -> list[Any]:
            calls = (testing.acall(query, sql="SELECT pg_backend_pid()") for _ in range(5))
            return await asyncio.gather(*calls)

        pids = {answer["rows"][0][0] for answer in asyncio.run(both())}
        assert len(pids) == 5
        wait_until(lambda: reader.sessions() == 0)


@pytest.mark.usefixtures("reader")
class TestExplain:
    def test_shows_the_plan_without_running_it(self) -> None:
        plan = testing.call(explain, sql="SELECT * FROM shop.orders WHERE customer_id = $1", parameters=["1"])["plan"]
        assert "Scan" in plan[0]
        assert not any("actual" in line for line in plan)
        assert testing.call(explain, sql=ENDLESS)["plan"]

    def test_runs_it_on_request(self) -> None:
        plan = testing.call(explain, sql="SELECT count(*) FROM shop.numbers", analyze=True)["plan"]
        assert any("actual time" in line for line in plan)

    @pytest.mark.parametrize("analyze", [False, True])
    @pytest.mark.parametrize(
        "sql", ["DELETE FROM shop.orders", "ANALYZE DELETE FROM shop.orders", "(ANALYZE) DELETE FROM shop.orders"]
    )
    def test_takes_nothing_that_writes(self, reader: Database, sql: str, analyze: bool) -> None:
        before = reader.state
        with pytest.raises(ToolError):
            testing.call(explain, sql=sql, analyze=analyze)
        assert reader.state == before
