"""A den for each test."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.children.support import OPENED, Den, until
from tools_app.base import hub


@pytest.fixture
def den(bare_den: Den) -> Den:
    """A home whose supervisor does not wait long for the next hub."""
    bare_den.start()
    return bare_den


@pytest.fixture
async def streams_closed(bare_den: Den, anyio_backend: str) -> AsyncIterator[None]:
    yield
    while OPENED:
        writer = OPENED.pop().writer
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.fixture
def bare_den(settings: Any) -> Iterator[Den]:
    """A home without a supervisor. After the test the hub ends, and with it everything that it has started."""
    # Paths of sockets are short, those of pytest are not.
    home = Path(tempfile.mkdtemp(prefix="th-"))
    settings.TOOLHUB_HOME = home
    den = Den(home)
    try:
        yield den
        den.note()
        hub.current().close()
        for pid in den.supervisors()[1:2]:  # it would wait for the next hub for some seconds
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not den.processes(), 20)
        assert den.errors() == ""
    finally:
        for pid in den.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)
