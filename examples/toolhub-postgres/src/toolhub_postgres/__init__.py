"""PostgreSQL for agents: read-only SQL with limits, and what they need to know of tables.

    tools       the four tools
    address     POSTGRES_URL, and where it may lead
    session     one read-only transaction, on a connection of its own
    statement   what is refused before it reaches the database
    values      rows as JSON, within limits
    role        what the database role may do beyond reading
    failures    the server's errors as errors of the hub

The border is the database role. Everything here is a second line behind it (README.md, "What is read-only").
"""

from __future__ import annotations

from toolhub import Pack

URL = "POSTGRES_URL"

pack = Pack(
    "postgres",
    version="1.0.0",
    title="PostgreSQL",
    description="Read-only SQL on one PostgreSQL database.",
    requires=[URL],
    # What is in a database was written by anyone.
    untrusted=True,
    timeout=30,
)
