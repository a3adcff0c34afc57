"""A hub with a pack that needs an account at an upstream, and that upstream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.desk import Desk
from tests.support.packs.desk import pack
from tests.support.tools import Hub
from tools_app import engine, governance
from tools_app.sdk.context import Caller
from tools_app.sdk.reach import ENVIRONMENT, Reach

Ask = Callable[..., Any]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Desk() as upstream:
        yield upstream


@pytest.fixture
def notes(hub: Hub) -> Hub:
    """The hub, with the tools of the pack."""
    hub.add(*pack.tools)
    return hub


@pytest.fixture
def from_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub was started with an account."""
    monkeypatch.setenv("DESK_URL", desk.url)
    monkeypatch.setenv("DESK_KEY", "key-of-env-1")


@pytest.fixture
def ann_and_bob(notes: Hub, desk: Desk) -> None:
    """Two accounts that operators have set up."""
    for name in ("ann", "bob"):
        governance.create_connection(
            name, "desk", url=desk.url, secret=f"key-of-{name}-1", actor=governance.trusted("test")
        )


def caller(*connections: str, everything: bool = False) -> Caller:
    """A caller whose key is limited to these connections."""
    reach = Reach(connections=None if everything else frozenset(connections or {ENVIRONMENT}))
    return Caller("key", "key:7", "caller", frozenset({"tools:list", "tools:read", "tools:execute"}), reach)


def called(name: str, arguments: dict[str, Any] | None = None, *, by: Caller, **options: Any) -> Any:
    """What a call answers."""
    return engine.call_sync(name, arguments, by, door="code", options=engine.Options(**options)).answer.value
