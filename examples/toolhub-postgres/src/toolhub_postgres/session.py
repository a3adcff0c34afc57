"""One read-only transaction on a connection of its own, which ends with the call.

A connection for each call costs some milliseconds. In return, nothing that a statement leaves in its session (a lock,
a setting, a cursor) can reach the next caller, and a cancelled call leaves nothing to clean up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from toolhub import Context, InvalidArgumentsError
from toolhub_postgres import address, failures, statement, values
from toolhub_postgres.values import Column, Rows

# Kept back, so that the server's own limit is reached first, and the caller gets its message.
RESERVE_SECONDS: Final = 1.0
LOCK_SECONDS: Final = 3.0
IDLE_SECONDS: Final = 15.0

# Local to the transaction. As function calls they can have parameters, and take one round trip.
LIMITS: Final = """
    SELECT pg_catalog.set_config('statement_timeout', $1, true),
           pg_catalog.set_config('lock_timeout', $2, true),
           pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true),
           pg_catalog.set_config('standard_conforming_strings', 'on', true),
           pg_catalog.set_config('datestyle', 'ISO, YMD', true),
           pg_catalog.set_config('bytea_output', 'hex', true)
"""
TYPES: Final = """
    SELECT pg_catalog.format_type(oid, NULL) AS type
    FROM pg_catalog.unnest($1::oid[]) WITH ORDINALITY AS types (oid, number)
    ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class Session:
    """What tools ask within one transaction. Everything is sent with the extended protocol: one statement at a time."""

    connection: psycopg.AsyncConnection[Any]

    async def records(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """The rows of a statement of this pack."""
        cursor = psycopg.AsyncRawCursor(self.connection, row_factory=dict_row)
        # With a parameter it is the extended protocol; our own statements all have one.
        await cursor.execute(sql.encode(), parameters)
        return await cursor.fetchall()

    async def columns(self, sql: str, parameters: Sequence[str]) -> list[Column]:
        """What a statement of an agent returns, without running it.

        As a cursor the server accepts only SELECT, VALUES, TABLE and WITH, and none that write.

        Raises:
            InvalidArgumentsError: it names functions that can change something, or has no columns.
        """
        names = statement.names(sql)
        functions = await self.records(statement.VOLATILE, names.called, names.dotted, list(statement.HARMLESS))
        if functions:
            raise statement.refused([row["proname"] for row in functions])
        async with psycopg.AsyncRawServerCursor(self.connection, "described") as cursor:
            await cursor.execute(sql.encode(), parameters)
            described = list(cursor.description or ())
        if not described:
            raise InvalidArgumentsError("The statement returns no columns")
        types = await self.records(TYPES, [column.type_code for column in described])
        return [
            Column(column.name, column.type_code, row["type"]) for column, row in zip(described, types, strict=True)
        ]

    async def rows(self, sql: str, parameters: Sequence[str], most: int) -> Rows:
        """The first rows of a statement of an agent. The server computes no more of them than are fetched."""
        collected = Rows(await self.columns(sql, parameters), most)
        async with psycopg.AsyncRawServerCursor(self.connection, "rows") as cursor:
            await cursor.execute(values.selection(sql, len(collected.columns)).encode(), parameters)
            while not collected.has_more:
                wanted = collected.wanted
                fetched = await cursor.fetchmany(wanted)
                for row in fetched:
                    collected.take(row)
                if len(fetched) < wanted:
                    break
        return collected

    async def plan(self, sql: str, parameters: Sequence[str], *, analyze: bool) -> list[str]:
        """How the server runs a statement of an agent, line by line."""
        await self.columns(sql, parameters)
        options = "ANALYZE, BUFFERS, " if analyze else ""
        cursor = psycopg.AsyncRawCursor(self.connection)
        # Binary results take the extended protocol, also without parameters. Text is the same in both formats.
        await cursor.execute(f"EXPLAIN ({options}FORMAT TEXT) {sql}".encode(), parameters, binary=True)
        return [line for (line,) in await cursor.fetchall()]


@contextlib.asynccontextmanager
async def session(ctx: Context, operation: str) -> AsyncIterator[Session]:
    """A transaction for one call, within its deadline. When it is left, for whatever reason, the server ends it, too.

    Raises:
        ToolError: the server's or the connection's error, in the hub's words.
    """
    async with within(max(0.1, ctx.remaining() - RESERVE_SECONDS), operation) as opened:
        yield opened


@contextlib.asynccontextmanager
async def within(seconds: float, operation: str) -> AsyncIterator[Session]:
    """The same without a call."""
    ends_at = asyncio.get_running_loop().time() + seconds
    try:
        # The limit of the server is for each statement; this one is for all of them, and for the way there.
        async with asyncio.timeout(seconds + RESERVE_SECONDS / 2):
            connection = await psycopg.AsyncConnection.connect(
                await address.configured().conninfo(), prepare_threshold=None
            )
            try:
                await connection.set_read_only(True)
                opened = Session(connection)
                left = max(0.1, ends_at - asyncio.get_running_loop().time())
                limits = (left, min(left / 2, LOCK_SECONDS), IDLE_SECONDS)
                await opened.records(LIMITS, *(f"{round(limit * 1000)}ms" for limit in limits))
                yield opened
            finally:
                # Without a commit. If a statement is running, psycopg has asked the server to cancel it.
                await connection.close()
    except psycopg.Error as error:
        raise failures.explained(error, operation) from error
    except TimeoutError as error:
        raise failures.cancelled("it took too long", error) from None
