"""What the tests of the REST door have: keys, a client, and a real server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from django.db.backends.signals import connection_created

from tests.api.rest import Rest
from tests.support.tools import Hub, eventually
from tools_app import governance
from tools_app.management.http_protocol import SERVING

MakeKey = Callable[..., str]


@pytest.fixture
def make_key(hub: Hub) -> MakeKey:
    """Makes a key with the given name and, by default, the scopes that keys usually have."""

    def make(name: str = "alice", **options: Any) -> str:
        return governance.create_key(name, actor=governance.trusted("test"), **options)[1]

    return make


@pytest.fixture
def rest(make_key: MakeKey) -> Iterator[Rest]:
    made = Rest(make_key())
    yield made
    made.close()


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every SQL statement of every connection that is opened from now on."""
    seen: list[str] = []

    def record(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql.strip())
        return execute(sql, *rest)

    def listen(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(record)

    connection_created.connect(listen)
    yield seen
    connection_created.disconnect(listen)


@pytest.fixture
def server(make_key: MakeKey) -> Iterator[httpx.Client]:
    """The hub on a port of this machine, and a client of it that has a key."""
    from toolhub.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, timeout_graceful_shutdown=5, **SERVING)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, name="test-server")
    thread.start()
    assert eventually(lambda: running.started, 10)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(
            base_url=address, headers={"X-API-Key": make_key("server")}, trust_env=False, timeout=30
        ) as client:
            yield client
    finally:
        running.should_exit = True
        thread.join(15)
        listener.close()
