"""Times and numbers of a supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# What a client has not read yet. A client that reads more slowly is dropped, since others must not wait for it.
MOST_UNREAD: Final = 32 * 1024 * 1024
# Of input that a child does not read. Then its clients wait.
MOST_UNWRITTEN: Final = 1024 * 1024
# In one second: messages of a child that answer nothing, and log messages. A long line counts as several.
MOST_NOISE: Final = 2_000
MOST_LOGS: Final = 200
NOISE_BYTES: Final = 16 * 1024
MOST_PARSED: Final = 2 * 1024 * 1024
TAIL_LINES: Final = 200
TAIL_CHARACTERS: Final = 1_000
MOST_CHILDREN: Final = 256
MOST_REQUESTS: Final = 1_000
# Values of a connection's variables that are shorter could be any word.
LEAST_SECRET: Final = 6
# An answer that takes longer does not keep a child from being idle.
LONGEST_CALL: Final = 3_600.0


@dataclass(frozen=True)
class Limits:
    """What tests shorten. In seconds."""

    # Without a request.
    idle: float = 600.0
    # Without any hub. Then all children are stopped, and the supervisor ends.
    linger: float = 3.0
    # First start with download.
    start: float = 300.0
    # For the answer to `server/discover`, which some servers of the earlier protocol ignore.
    discover: float = 10.0
    # At once.
    starts: int = 8
    first_pause: float = 0.5
    longest_pause: float = 60.0
    # A child that has lived so long has not failed at its start.
    steady: float = 30.0
    # How long a caller waits for the next attempt instead of being refused.
    patience: float = 2.0
    tick: float = 1.0
