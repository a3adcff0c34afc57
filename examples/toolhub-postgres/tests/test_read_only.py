"""Nothing changes, whatever an agent sends: with the right role, and with one that the pack should not have."""

from __future__ import annotations

import ast
import asyncio
import tomllib
from pathlib import Path

import psycopg
import pytest
from conftest import Database, wait_until

import toolhub_postgres
from toolhub import InvalidArgumentsError, Tool, ToolError, testing
from toolhub_postgres import statement
from toolhub_postgres.session import within
from toolhub_postgres.tools import explain, query

OTHER_STATEMENTS = [
    "DROP TABLE shop.orders",
    "DELETE FROM shop.orders",
    "INSERT INTO shop.orders (customer_id, total) VALUES (1, 1)",
    "TRUNCATE shop.orders",
    "CREATE TABLE shop.mallory (x int)",
    "CREATE ROLE mallory SUPERUSER",
    "CREATE TEMP TABLE mallory (x int)",
    "SELECT 1 AS x INTO shop.mallory",
    "SELECT 1; DROP TABLE shop.orders",
    "COMMIT; DROP TABLE shop.orders",
    "COMMIT",
    "ROLLBACK",
    "BEGIN READ WRITE",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET ROLE postgres",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION postgres",
    "DO $$ BEGIN DELETE FROM shop.orders; END $$",
    "CALL shop.mallory()",
    "PREPARE mallory AS DELETE FROM shop.orders",
    "EXECUTE mallory",
    "LISTEN mallory",
    "NOTIFY mallory",
    "VACUUM",
    "CHECKPOINT",
    "LOCK TABLE shop.orders",
    "DISCARD ALL",
    "COPY shop.orders TO '/dev/null'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY shop.orders FROM PROGRAM 'true'",
    "COPY (SELECT 1) TO STDOUT",
    "EXPLAIN ANALYZE DELETE FROM shop.orders",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM described",
    "MERGE INTO shop.orders o USING shop.orders n ON false WHEN NOT MATCHED THEN DO NOTHING",
]
WRITING_SELECTS = [
    "WITH gone AS (DELETE FROM shop.orders RETURNING *) SELECT * FROM gone",
    "SELECT * FROM (WITH gone AS (DELETE FROM shop.orders RETURNING *) SELECT * FROM gone) AS x",
    "WITH a AS (SELECT 1), b AS (UPDATE shop.orders SET total = 0 RETURNING 1) SELECT 1 FROM a",
    "SELECT * FROM shop.orders FOR UPDATE",
    "SELECT * FROM shop.orders FOR SHARE",
    "SELECT shop.pretends()",
]
# The statement is written into another one, which has to stay one.
BREAKOUTS = [
    "SELECT 1) AS q (c0); DROP TABLE shop.orders; --",
    "SELECT 1) AS q (c0)) TO PROGRAM 'true'; --",
    "SELECT 1 /*",
    "SELECT 1 --\n) AS q (c0); DROP TABLE shop.orders; --",
    "SELECT '",
    "SELECT $$",
    "/* */ ; DROP TABLE shop.orders",
    "SELECT 1;; DROP TABLE shop.orders;",
    "SELECT E'\\'; DROP TABLE shop.orders; --",
]
FUNCTIONS = [
    "SELECT pg_terminate_backend({victim})",
    "SELECT pg_cancel_backend({victim})",
    "SELECT pg_catalog.pg_terminate_backend({victim})",
    "SELECT PG_Terminate_Backend ({victim})",
    'SELECT "pg_terminate_backend"({victim})',
    'SELECT pg_catalog."pg_terminate_backend" ({victim})',
    "SELECT pg_terminate_backend/* */({victim})",
    "SELECT pg_terminate_backend -- (\n({victim})",
    "SELECT pg_terminate_backend/* /* */ */({victim})",
    'SELECT U&"pg\\005fterminate_backend"({victim})',
    "SELECT u&\"pg!005fterminate_backend\" UESCAPE '!' ({victim})",
    "SELECT 1 WHERE EXISTS (SELECT pg_terminate_backend({victim}))",
    "SELECT query_to_xml('SELECT pg_terminate_backend({victim})', true, true, '')",
    "SELECT ts_stat('SELECT pg_terminate_backend({victim})')",
    "SELECT nextval('shop.counter')",
    "SELECT setval('shop.counter', 99)",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock(1)",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT pg_sleep(1000)",
    "SELECT pg_sleep_for('1 day')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_create(4711)",
    "SELECT lo_from_bytea(4711, 'x')",
    "SELECT lo_export(1, '/dev/null')",
    "SELECT pg_reload_conf()",
    "SELECT pg_notify('mallory', 'x')",
    "SELECT pg_logical_emit_message(false, 'mallory', 'x')",
    'SELECT shop."Deletes"()',
    # Functions of one argument can be called like columns.
    "SELECT (1000.5::float8).pg_sleep",
    "SELECT (1000.5::float8). PG_SLEEP",
    'SELECT (1000.5::float8)."pg_sleep"',
    "SELECT (1000.5::float8)./* */pg_sleep",
    "SELECT (1000.5::float8).pg_sleep.json_agg",
    "SELECT ('1'::bigint).pg_advisory_lock",
    "SELECT ('/etc/passwd'::text).pg_read_file",
    "SELECT ('/etc/passwd'::text).lo_import",
    "SELECT ({victim}).pg_terminate_backend",
    "SELECT (x).pg_terminate_backend FROM (SELECT {victim} AS x) AS y",
]


def test_only_statements_that_read_are_taken(reader: Database) -> None:
    _assert_refused(reader, OTHER_STATEMENTS + WRITING_SELECTS + BREAKOUTS)


def test_nor_are_others_with_the_role_of_a_superuser(owner: Database) -> None:
    _assert_refused(owner, OTHER_STATEMENTS + WRITING_SELECTS + BREAKOUTS)


@pytest.mark.parametrize("tool", [query, explain], ids=["query", "explain"])
def test_functions_with_side_effects_are_not_called_even_for_a_superuser(owner: Database, tool: Tool) -> None:
    with psycopg.connect(owner.owner_url, autocommit=True) as victim:
        pid = victim.info.backend_pid
        statements = [text.replace("{victim}", str(pid)) for text in FUNCTIONS]
        _assert_refused(owner, statements, tool, InvalidArgumentsError)
        assert victim.execute("SELECT 1").fetchone() == (1,)
        assert owner.locks() == 0


def test_the_refusal_names_the_functions(reader: Database) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"not accepted: nextval, pg_sleep$") as refused:
        testing.call(query, sql="SELECT pg_sleep(1), nextval('shop.counter'), lower('A')")
    assert "STABLE" in refused.value.next_step


def test_a_column_with_the_name_of_such_a_function_is_no_call(reader: Database) -> None:
    assert testing.call(query, sql="SELECT n AS nextval FROM shop.numbers LIMIT 1")["rows"]
    assert testing.call(query, sql="SELECT x.setval FROM (SELECT 1 AS setval) AS x")["rows"] == [[1]]


def test_no_name_hides_in_what_looks_like_a_string(owner: Database) -> None:
    """Whatever the server takes for strings and comments, every name before a parenthesis is looked at."""
    for sql in (
        "SELECT $a$ ' $a$, pg_sleep(60) --'",
        "SELECT E'\\'', pg_sleep(60) --'",
        "SELECT '/*', pg_sleep(60), '*/'",
        "SELECT '--', pg_sleep(60)",
        'SELECT $$"$$, "pg_sleep"(60), $$"$$',
    ):
        with pytest.raises(InvalidArgumentsError, match="pg_sleep"):
            testing.call(query, sql=sql)
    wait_until(lambda: owner.sessions() == 0)


def test_a_statement_of_any_shape_is_looked_at_in_linear_time() -> None:
    # Quadratic time would be many minutes.
    for shape in ("x", "x1", 'x"', "x ", "x(", "_", "日", "1", '"', ".", ". ", ". x", " "):
        assert len(statement.names(shape * 100_000).called) <= 2
    assert statement.names("SELECT 1pg_sleep(1), $1pg_sleep(1)").called == ["pg_sleep"]


def test_a_function_behind_a_stable_one_still_cannot_write(owner: Database) -> None:
    before = owner.state
    with pytest.raises(ToolError, match="DELETE is not allowed in a non-volatile function"):
        testing.call(query, sql="SELECT shop.pretends()")
    assert owner.state == before


def test_the_transaction_is_read_only_and_ends_with_the_call(owner: Database) -> None:
    answer = testing.call(
        query,
        sql="SELECT current_setting('transaction_read_only'), current_setting('statement_timeout') <> '0',"
        " current_setting('lock_timeout') <> '0', current_setting('idle_in_transaction_session_timeout')",
    )
    assert answer["rows"] == [["on", True, True, "15s"]]
    assert asyncio.run(_said_by_the_server()) == "25006"


async def _said_by_the_server() -> str:
    """The SQLSTATE with which the server itself refuses a function that gets through to it."""
    async with within(10, "test") as session:
        try:
            await session.records("SELECT nextval($1)", "shop.counter")
        except psycopg.Error as error:
            return error.sqlstate or ""
    return "it was not refused"


def test_the_package_uses_nothing_but_what_toolhub_offers() -> None:
    for path in Path(toolhub_postgres.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.split(".")[0] in ("tools_app", "django")], path.name


def test_the_package_does_not_have_pip_look_for_the_hub() -> None:
    """On public indexes the name `toolhub` belongs to others."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("toolhub")]


def _assert_refused(
    database: Database, statements: list[str], tool: Tool = query, kind: type[ToolError] = ToolError
) -> None:
    before = database.state
    accepted, blamed = [], []
    for text in statements:
        try:
            testing.call(tool, sql=text)
        except kind as error:
            # Five such errors would open the circuit breaker for all callers.
            blamed += [(text, error)] if error.blames_upstream else []
        else:
            accepted.append(text)
    assert (accepted, blamed) == ([], [])
    assert database.state == before
