"""What a call needs of rooms that it does not know."""

from __future__ import annotations

import pytest

from tools_app.base.ports import Port


def test_asks_for_the_implementation_at_each_use() -> None:
    numbers = iter(range(10))
    port: Port[int] = Port("numbers")
    port.connect(lambda: next(numbers))
    assert (port(), port()) == (0, 1)


def test_says_what_is_missing_before_django_is_set_up() -> None:
    port: Port[int] = Port("numbers")
    with pytest.raises(RuntimeError, match="numbers is not connected: is tools_app in INSTALLED_APPS"):
        port()
