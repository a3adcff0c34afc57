"""A Redis of a test's own, on a socket in a directory of its own, to be killed, frozen and started again."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("redis-server")


class RedisServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "socket"
        self._process: subprocess.Popen[bytes] | None = None
        # As long as it takes on a busy machine: tests of patience have an address of their own.
        self.url = f"unix://{self._socket}?socket_timeout=20&socket_connect_timeout=20"
        self.impatient_url = f"unix://{self._socket}"

    def start(self) -> None:
        assert PROGRAM is not None
        self._socket.unlink(missing_ok=True)
        options = ("--port", "0", "--unixsocket", str(self._socket), "--save", "", "--dir", str(self._folder))
        self._process = subprocess.Popen([PROGRAM, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted by the system and never answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def connected(self) -> Any:
        import redis

        return redis.Redis(unix_socket_path=str(self._socket))

    def content(self) -> dict[bytes, bytes]:
        """Every key, and what is stored there."""
        with contextlib.closing(self.connected()) as client:
            return {key: client.dump(key) for key in client.scan_iter()}

    def _answers(self) -> bool:
        import redis

        with contextlib.suppress(redis.RedisError), contextlib.closing(self.connected()) as client:
            return bool(client.ping())
        return False


@contextlib.contextmanager
def running() -> Iterator[RedisServer]:
    if PROGRAM is None:
        pytest.skip("redis-server is not installed")
    # The path of a socket has at most 108 characters.
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
