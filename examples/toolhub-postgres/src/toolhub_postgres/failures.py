"""Errors of the server as errors of the hub: SQLSTATE decides the class, the message is the server's own."""

from __future__ import annotations

from typing import Final

import psycopg

from toolhub import (
    ApiError,
    TimeoutError,
    ToolError,
    UpstreamUnavailableError,
    UpstreamValidationError,
)

MOST_MESSAGE: Final = 1_000
ASK: Final = (
    "Try again later. If that does not help, an operator should look into the error log, and check POSTGRES_URL."
)
FORMS: Final = "One SELECT, VALUES, TABLE or WITH statement is accepted."
NAMES: Final = "list_tables and describe_table say which names there are."
SYNTAX_ERROR: Final = "42601"
# What the protocol calls another number of parameters than there are $1, $2, …
OTHER_PARAMETERS: Final = "08P01"
# Classes of SQLSTATE (its first two characters) of a server that is going down, or has too much to do.
OF_LOAD: Final = frozenset({"08", "53", "57"})
# Those of a broken server.
OF_DAMAGE: Final = frozenset({"58", "XX"})


def explained(error: psycopg.Error, operation: str) -> ToolError:
    """What the caller gets for an error of the server or of the connection to it.

    Only a server that cannot be reached or is broken counts for the circuit breaker: five wrong statements of one agent
    must not close the database to all others.
    """
    state = error.sqlstate or ""
    if state == "57014":
        return cancelled(_message(error), error)
    if state == "55P03" or state[:2] == "40":
        return _busy(_message(error), operation, error)
    if state in ("42501", "25006"):
        return ApiError(
            _message(error),
            403,
            context={"operation": operation},
            detail=error,
            next_step="The hub reads this database, with the permissions of its role.",
        )
    if not state:
        # The message is libpq's own, which names address and user: for the error log.
        message = "The database cannot be reached, or refuses the sign-in of the hub"
        return UpstreamUnavailableError(message, detail=error, next_step=ASK)
    if state[:2] in OF_LOAD and state != OTHER_PARAMETERS:
        return UpstreamUnavailableError(_message(error), detail=error, next_step=ASK)
    if state[:2] in OF_DAMAGE:
        return ApiError(_message(error), 500, context={"operation": operation}, detail=error)
    return UpstreamValidationError(
        _message(error),
        context={"field": "sql"},
        detail=error,
        next_step=f"Correct the statement. {FORMS if state == SYNTAX_ERROR else NAMES}",
    )


def cancelled(reason: str, detail: object = None) -> ToolError:
    """A limit of time was reached. This says nothing about the health of the database, and a retry takes as long."""
    error = TimeoutError(
        f"The statement was cancelled: {reason}",
        detail=detail,
        next_step="Read less: filter by indexed columns (describe_table), and look at the plan with explain.",
    )
    error.blames_upstream = error.retryable = False
    return error


def _busy(message: str, operation: str, detail: object) -> ToolError:
    error = ApiError(message, 409, context={"operation": operation}, detail=detail, next_step="Call again in a moment.")
    error.retryable = True
    return error


def _message(error: psycopg.Error) -> str:
    diagnosis = error.diag
    parts = [diagnosis.message_primary or "The database refused the statement", diagnosis.message_detail]
    if diagnosis.message_hint:
        parts.append(f"Hint: {diagnosis.message_hint}")
    return ". ".join(part.rstrip(".") for part in parts if part)[:MOST_MESSAGE]
