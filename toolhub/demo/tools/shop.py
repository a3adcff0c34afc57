"""The tools of a small shop: what an operator's own file in the tools directory looks like."""

from datetime import date
from typing import Annotated, Any, Literal

from toolhub import Example, Hints, Pack

pack = Pack("shop", version="1.4.0")
READS = Hints(read_only=True, open_world=False)
ADDS = Hints(destructive=False, open_world=False)
Sku = Annotated[str, "The number on the label, like TS-1042"]


IN_STOCK = Example("An article in the south", {"sku": "TS-1042", "warehouse": "south"}, {"available": "<integer>"})
FOR_AN_ORDER = Example("Two for an order", {"sku": "TS-1042", "quantity": 2, "order": "O-2041"})


@pack.tool(category="stock", tags=["shop", "read"], hints=READS, examples=[IN_STOCK])
def stock_level(sku: Sku, warehouse: Literal["north", "south"] = "north") -> dict[str, Any]:
    """How many of an article are in stock."""
    return {"sku": sku, "warehouse": warehouse, "available": 17}


@pack.tool(category="stock", tags=["shop", "read"], hints=READS)
def find_articles(
    words: Annotated[str, "Words in the name"], limit: Annotated[int, "Maximum number"] = 10
) -> list[str]:
    """Find articles by their names."""
    return [f"TS-{1000 + number} {words}" for number in range(min(limit, 3))]


@pack.tool(
    category="stock",
    tags=["shop", "write"],
    hints=ADDS,
    examples=[FOR_AN_ORDER],
    dependencies=["stock_level ^1.4", "get_order?"],
)
def reserve_article(sku: Sku, quantity: int, order: str) -> dict[str, Any]:
    """Reserve articles for an order."""
    return {"sku": sku, "reserved": quantity, "order": order}


@pack.tool(category="orders", tags=["shop", "read"], hints=READS)
def get_order(number: Annotated[str, "Like O-2041"]) -> dict[str, Any]:
    """Show an order with its positions and where it is."""
    return {"number": number, "state": "packed", "positions": [{"sku": "TS-1042", "quantity": 2}]}


@pack.tool(category="orders", tags=["shop", "read"], hints=READS)
def list_late_orders(since: date) -> list[dict[str, Any]]:
    """List the orders that should have left and have not."""
    return [{"number": "O-2041", "due": since.isoformat()}]


@pack.tool(category="orders", tags=["shop", "write"], hints=Hints())
def cancel_order(number: Annotated[str, "Like O-2041"], reason: str) -> dict[str, str]:
    """Cancel an order and tell the customer why."""
    return {"number": number, "state": "cancelled", "reason": reason}


@pack.tool(category="customers", tags=["shop", "read"], hints=READS)
def customer_summary(customer: Annotated[str, "Number or address"]) -> dict[str, Any]:
    """What a customer has bought, returned and asked lately."""
    return {"customer": customer, "orders": 12, "returns": 1}


@pack.tool(category="customers", tags=["shop", "write"], hints=ADDS)
def send_voucher(customer: Annotated[str, "Number or address"], euros: Annotated[int, "5 to 50"]) -> dict[str, Any]:
    """Send a customer a voucher."""
    return {"customer": customer, "voucher": f"V-{euros:03}"}


@pack.tool(category="reports", tags=["shop", "read"], hints=READS)
def sales_report(month: Annotated[str, "Like 2026-05"]) -> dict[str, Any]:
    """Turnover, margin and returns of a month, by category."""
    return {"month": month, "turnover": 128_400, "returns": 0.031}
