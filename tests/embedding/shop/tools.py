"""Tools of the project's own."""

from __future__ import annotations

from typing import Annotated

from django.db import transaction

from tests.embedding.shop.models import Customer, Order
from toolhub import Hints, tool


@tool(category="shop", tags=["orders"], hints=Hints(read_only=True, open_world=False))
def count_orders(customer: Annotated[str, "Whose"]) -> dict[str, int]:
    """Count the orders of a customer."""
    return {"orders": Order.objects.filter(customer__email=customer).count()}


@tool(category="shop", tags=["orders"], hints=Hints(destructive=False, open_world=False))
@transaction.atomic
def place_order(customer: Annotated[str, "Whose"], total: Annotated[int, "How much"]) -> dict[str, int]:
    """Place an order."""
    order = Order.objects.create(customer=Customer.objects.get(email=customer), total=total)
    if total < 0:
        raise ValueError("the order was made already")
    return {"order": order.pk}
