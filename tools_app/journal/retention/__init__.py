"""Deletes records: those older than the settings allow, and those of callers who are to be forgotten."""

from __future__ import annotations

from tools_app.journal.retention.clock import CURE, Leap, believe, leap
from tools_app.journal.retention.days import add_up
from tools_app.journal.retention.forgetting import (
    Forgotten,
    forget,
    identified,
    names_of,
    remembered,
    sign_ins_of,
    traces,
)
from tools_app.journal.retention.keeper import Keeper
from tools_app.journal.retention.pruning import Pruned, prunable, prune

__all__ = [
    "CURE",
    "Forgotten",
    "Keeper",
    "Leap",
    "Pruned",
    "add_up",
    "believe",
    "forget",
    "identified",
    "leap",
    "names_of",
    "prunable",
    "prune",
    "remembered",
    "sign_ins_of",
    "traces",
]
