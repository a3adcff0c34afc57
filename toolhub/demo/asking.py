"""What the demo's callers ask: arguments that the tools take, so that a call of the past can be made again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from random import Random
from typing import Any, Final

WORKFLOWS: Final = ("Order confirmation", "Nightly stock sync", "Voucher reminder", "Late orders to Slack")
SUBJECTS: Final = (
    "Invoice shows the wrong VAT", "Parcel came back twice", "Voucher does not apply at the checkout",
    "Address cannot be changed after ordering", "Price of TS-1042 differs from the catalogue",
)  # fmt: skip
ISSUES: Final = (142, 141, 4, 1)
_QUESTIONS: Final = ("customs declaration switzerland 2026", "dhl strike", "gs1 check digit", "reverse charge vat eu")
_PAGES: Final = ("https://www.example.org/returns", "https://docs.example.org/carriers/limits")
_ZONES: Final = ("Europe/Berlin", "Asia/Tokyo", "UTC")

Ask = Callable[[Random], dict[str, Any]]


def _sku(chance: Random) -> str:
    return f"TS-{chance.randint(1001, 1090)}"


def _order(chance: Random) -> str:
    return f"O-{chance.randint(1900, 2060)}"


def _customer(chance: Random) -> str:
    return f"C-{chance.randint(300, 420)}"


# How long a tool takes in milliseconds, how often it is called, and with what.
TEMPERS: Final[dict[str, tuple[int, int, Ask]]] = {
    "calculate": (2, 4, lambda chance: {"operation": "multiply", "a": chance.randint(1, 40), "b": 1.19}),
    "get_current_time": (1, 3, lambda chance: {"timezone": chance.choice(_ZONES)}),
    "echo": (1, 1, lambda chance: {"message": "Are you there?"}),
    "web_search": (900, 9, lambda chance: {"query": chance.choice(_QUESTIONS)}),
    "read_page": (1_300, 5, lambda chance: {"url": chance.choice(_PAGES)}),
    "list_issues": (140, 20, lambda chance: {"status_id": "open", "limit": chance.choice((10, 25))}),
    "get_issue": (90, 14, lambda chance: {"id": chance.choice(sorted(ISSUES))}),
    "create_issue": (260, 5, lambda chance: {"project_id": "shop", "subject": chance.choice(SUBJECTS)}),
    "update_issue": (240, 4, lambda chance: {"id": chance.choice((141, 142)), "status_id": "Resolved"}),
    "list_workflows": (110, 8, lambda chance: {"active": True}),
    "get_workflow": (160, 6, lambda chance: {"id": f"wf000{chance.randint(1, len(WORKFLOWS))}"}),
    "list_executions": (420, 10, lambda chance: {"status": chance.choice(("error", "success")), "limit": 20}),
    "get_execution": (2_100, 8, lambda chance: {"id": f"{chance.randint(1, 9)}"}),
    "stock_level": (18, 16, lambda chance: {"sku": _sku(chance), "warehouse": chance.choice(("north", "south"))}),
    "find_articles": (45, 12, lambda chance: {"words": chance.choice(("kettle", "blue lamp", "oak shelf"))}),
    "get_order": (30, 18, lambda chance: {"number": _order(chance)}),
    "list_late_orders": (380, 3, lambda chance: {"since": date(2026, 5, chance.randint(1, 28)).isoformat()}),
    "customer_summary": (75, 9, lambda chance: {"customer": _customer(chance)}),
    "reserve_article": (
        60, 5, lambda chance: {"sku": _sku(chance), "quantity": chance.randint(1, 4), "order": _order(chance)}
    ),
    "send_voucher": (70, 2, lambda chance: {"customer": _customer(chance), "euros": chance.choice((5, 10, 20))}),
    "sales_report": (6_200, 2, lambda chance: {"month": f"2026-0{chance.randint(1, 9)}"}),
    "cancel_order": (80, 1, lambda chance: {"number": _order(chance), "reason": "ordered twice"}),
}  # fmt: skip
