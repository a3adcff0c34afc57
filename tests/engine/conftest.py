"""Tools that tests of the engine share."""

from __future__ import annotations

import pytest

from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.sdk.hints import Hints


@pytest.fixture
def asking(hub: Hub) -> Programmable:
    """A tool that writes, and of which every call is asked for."""
    made = Programmable("asking", hints=Hints(read_only=False, idempotent=False))
    hub.add(made.tool)
    governance.set_ask("asking", True, actor=governance.trusted("test"))
    return made
