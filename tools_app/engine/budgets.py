"""Budgets of keys and toolsets: a call is refused if one that it counts for is spent.

What is used is read from the database, where the commit of each call adds to it. So all processes agree, and a budget
is exceeded at most by the calls that are in flight when it is reached.
"""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from tools_app.base import database
from tools_app.catalog.entry import MANY, Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.engine.running import RunningCall
from tools_app.journal import budgets
from tools_app.journal.writer import PATIENCE
from tools_app.sdk.budgets import Budget
from tools_app.sdk.context import Caller
from tools_app.sdk.hub_errors import BudgetSpentError, StorageBusyError


def of_caller(caller: Caller, snapshot: Snapshot, entry: Entry | None = None) -> dict[str, Budget]:
    """The budgets that calls of this caller count for, by subject: that of its key, and those of its toolsets.

    With an entry, of the toolsets only those that have the tool. What comes with every toolset, such as the tool that
    reads large answers, counts for all of them.
    """
    found = {caller.id: caller.budget} if caller.budget is not None else {}
    if caller.reach.toolsets is None:
        return found
    choices = {name: snapshot.toolsets[name] for name in caller.reach.toolsets if name in snapshot.toolsets}
    holding = [name for name, choice in choices.items() if entry is not None and choice.holds(entry)] or choices
    return found | {f"toolset:{name}": budget for name in holding if (budget := choices[name].budget) is not None}


async def admit(running: RunningCall, entry: Entry, snapshot: Snapshot, *, is_replay: bool) -> None:
    """Note the budgets that a call counts for, and refuse it if one is spent, unless it only repeats an answer.

    Raises:
        BudgetSpentError: one of them is spent.
        StorageBusyError: what is used of them cannot be read.
    """
    # The calls that `call_many` makes count, each for itself; completions are not recorded.
    if (entry.is_finder and entry.name == MANY) or running.notes.quiet:
        return
    caller = running.caller
    found = of_caller(caller, snapshot, entry)
    if not found:
        return
    now = timezone.now()
    try:
        limits = await database.run_within(PATIENCE, budgets.limits, found, now)
    except (TimeoutError, DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error
    spent = [(limit, subject) for subject, each in limits.items() for limit in each if limit.is_spent]
    if spent and not is_replay:
        # A caller that waits for the first of several would be refused again.
        limit, subject = max(spent, key=lambda one: one[0].resets_at)
        raise BudgetSpentError.of(in_words(subject, caller), limit, now)
    running.notes.counts_for = tuple(found)


def in_words(subject: str, caller: Caller) -> str:
    return "your key" if subject == caller.id else f"the toolset {subject.partition(':')[2]}"
