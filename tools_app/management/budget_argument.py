"""Budgets as options of commands: `--budget calls/day=1000 --budget tokens/month=2000000`."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from typing import Any, Final

from tools_app.sdk.budgets import MOST, Budget, Limit

_LIMIT: Final = re.compile(r"(calls|tokens)/(day|month)=([1-9][0-9]{0,12})")


def add(parser: argparse._ActionsContainer, *, words: str = "default: none") -> None:
    parser.add_argument(
        "--budget",
        action="append",
        type=limit,
        metavar="LIMIT=NUMBER",
        help=f"a limit of its budget, like calls/day=1000 or tokens/month=2000000; repeatable; {words}",
    )


def limit(text: str) -> tuple[str, int]:
    match = _LIMIT.fullmatch(text)
    if match is None or int(match[3]) > MOST:
        raise ArgumentTypeError("must be like calls/day=1000, with calls or tokens, day or month")
    return f"{match[1]}_a_{match[2]}", int(match[3])


def budget(limits: Iterable[tuple[str, int]] | None) -> Budget | None:
    return Budget(**dict(limits)) if limits else None


def as_json(limits: Iterable[Limit]) -> list[dict[str, Any]]:
    return [
        {
            "unit": limit.unit,
            "period": limit.period,
            "limit": limit.most,
            "used": limit.used,
            "percent": limit.percent,
            "resetsAt": limit.resets_at.isoformat(),
        }
        for limit in limits
    ]


def in_words(limits: Iterable[Limit]) -> str:
    """In a table: what is used of each."""
    shown = (f"{limit.unit}/{limit.period} {limit.used}/{limit.most} ({limit.percent}%)" for limit in limits)
    return ", ".join(shown) or "-"
