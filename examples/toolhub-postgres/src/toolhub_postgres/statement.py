"""What is refused before it reaches the database.

A read-only transaction forbids changes of tables. It does not forbid functions that end sessions, take locks, read
files or raise the time limit (`set_config`). PostgreSQL marks those as volatile, so statements may not name volatile
functions. A function that hides one, behind dynamic SQL or a wrong mark, passes: that is for the role to forbid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolhub import InvalidArgumentsError

MOST_SQL: Final = 20_000
MOST_PARAMETERS: Final = 100
MOST_PARAMETER: Final = 10_000

# Volatile, because they answer something else each time, or look at files on the server's disk for their size only.
HARMLESS: Final = (
    *("clock_timestamp", "gen_random_uuid", "random", "random_normal", "timeofday", "uuidv4", "uuidv7"),
    *("pg_database_size", "pg_indexes_size", "pg_relation_size", "pg_table_size", "pg_tablespace_size"),
    *("pg_total_relation_size", "pg_is_in_recovery", "pg_partition_tree", "pg_partition_ancestors"),
)
# Those with the type `internal` in their arguments cannot be called by SQL (2281), nor can triggers (2279).
VOLATILE: Final = """
    SELECT DISTINCT proname::text
    FROM pg_catalog.pg_proc
    WHERE provolatile = 'v' AND prorettype <> 2279 AND NOT 2281 = ANY (proargtypes)
      AND (proname = ANY ($1::name[])
           OR proname = ANY ($2::name[]) AND pronargs >= 1 AND pronargs - pronargdefaults <= 1)
      AND NOT (proname = ANY ($3::name[]) AND pronamespace = 'pg_catalog'::pg_catalog.regnamespace)
    ORDER BY 1
"""

# A name, and the dot before it.
_NAME: Final = re.compile(r'(\.\s*"?)?([A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)')
# Matched after each name, instead of being a part of it: one pattern for both would need quadratic time.
_OPENS: Final = re.compile(r'"?\s*\(')
_ESCAPED_IDENTIFIER: Final = re.compile(r'[uU]&"')


def checked(sql: str, parameters: Sequence[str]) -> str:
    """The statement without its final semicolon.

    Raises:
        InvalidArgumentsError: it is empty, or has characters that the protocol cannot transport.
    """
    for name, text in (("sql", sql), *((f"parameters[{index}]", text) for index, text in enumerate(parameters))):
        if "\0" in text:
            raise InvalidArgumentsError(f"{name} must not contain NUL characters")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentsError(f"{name} has an incomplete character (lone surrogate)") from None
    if _ESCAPED_IDENTIFIER.search(sql):
        raise InvalidArgumentsError('Escaped identifiers (U&"…") are not accepted: write the name itself')
    statement = sql.strip().removesuffix(";").rstrip()
    if not statement:
        raise InvalidArgumentsError("sql must not be empty")
    return statement


@dataclass(frozen=True, slots=True)
class Names:
    """What a statement could call. Too many rather than too few: no SQL is parsed, so nothing can be hidden in what
    would be taken for a string or a comment."""

    # Before a parenthesis.
    called: list[str]
    # After a dot: `(1.5::float8).pg_sleep` is `pg_sleep(1.5)`.
    dotted: list[str]


def names(sql: str) -> Names:
    # A comment can stand between a name and its parenthesis or dot.
    has_comments = "/*" in sql or "--" in sql
    # A quoted name can have any character in it, and keeps its capitals.
    called, dotted = set(sql.split('"')[1:-1]), set()
    for name in _NAME.finditer(sql):
        spellings = {name[2], name[2].lower()}
        if has_comments or _OPENS.match(sql, name.end()):
            called |= spellings
        elif name[1]:
            dotted |= spellings
    return Names(sorted(called), sorted(dotted))


def refused(functions: Sequence[str]) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"Functions that can change something are not accepted: {', '.join(functions[:10])}",
        next_step="Leave them out. A function of your own that only reads is accepted if it is declared STABLE.",
    )
