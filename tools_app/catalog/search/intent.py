"""Whether a query wants something read or changed, and which of these a tool does, by its name.

Only for English, which says so with its first word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

# A shorter query may be about a thing, and want nothing done to it: `open issues`.
_LEAST_WORDS: Final = 5

_READS: Final = frozenset(
    """
    browse check compare count describe display explain export extract fetch find get inspect list lookup look monitor
    observe query read retrieve search see show summarize view
    """.split()  # noqa: SIM905 – as a list it would be twenty lines of quotes
)
_ASKS: Final = frozenset(
    """
    are can could did do does had has have how is may might shall should was were what when where which who whom whose
    why will
    """.split()  # noqa: SIM905
)
_CHANGES: Final = frozenset(
    """
    accept add append apply archive assign attach batch cancel change cleanup clear click close connect convert copy
    create customize decline delete detach disable disconnect dismiss drag drop edit enable execute fill fix format
    forward generate give import insert install link make manage mark merge modify move new open patch pin post press
    protect put remove rename replace reply restore resume retry rollout run save scale send set share start stop
    take tell transition turn type undo uninstall unpin unprotect update upgrade upload write
    """.split()  # noqa: SIM905
)
_OF_A_NAME: Final = 5


def wants_reading(query: str, words: Sequence[str]) -> bool | None:
    """True if a query asks for something, False if it wants something done, None if it does not say."""
    if not words or not words[0].isascii():
        return None
    asks = words[0] in _READS | _ASKS or (words[0] in ("give", "tell") and words[1:2] == ["me"])
    if asks or query.rstrip().endswith("?"):
        return True
    return False if words[0] in _CHANGES or len(words) >= _LEAST_WORDS else None


def is_reading(name: Iterable[str]) -> bool | None:
    """True if these words of a tool's name say that it reads, False if it changes something."""
    for word in list(name)[:_OF_A_NAME]:
        if word in _READS:
            return True
        if word in _CHANGES:
            return False
    return None
