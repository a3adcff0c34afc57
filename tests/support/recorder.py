"""An upstream that remembers every execution of the tools in `trials/`, and outlives the hub that runs them."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Execution:
    call: str
    tool: str
    n: int

    @property
    def writes(self) -> bool:
        return self.tool.startswith("write")


class Recorder:
    """A server on loopback; each connection reports one execution, and hears that it is on record."""

    def __init__(self) -> None:
        self._seen: list[Execution] = []
        recorder = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                if (line := self.rfile.readline()).endswith(b"\n"):
                    recorder._seen.append(Execution(**json.loads(line)))
                    self.wfile.write(b"done\n")

        class Server(socketserver.ThreadingTCPServer):
            request_queue_size = 256
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A hub that was killed cannot be told."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def seen(self) -> list[Execution]:
        return list(self._seen)

    def of(self, tool: str) -> list[Execution]:
        return [execution for execution in self.seen if execution.tool == tool]

    def repeated(self) -> list[str]:
        """What ran more than once: calls by their id, and orders by their number."""
        seen = self.seen
        calls = Counter(execution.call for execution in seen)
        orders = Counter(f"{execution.tool} {execution.n}" for execution in seen)
        return [name for name, times in (calls + orders).items() if times > 1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
