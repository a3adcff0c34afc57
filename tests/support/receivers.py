"""A receiver of webhooks, and one of e-mails: real servers, which keep what they get."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver:
    """An HTTP server that answers as a test says."""

    def __init__(self) -> None:
        self.seen: list[Received] = []
        self.status = 200
        self.answer = b"ok"
        self.location = ""
        # While it is cleared, answers wait.
        self.open = threading.Event()
        self.open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.seen.append(Received(self.path, headers, body))
                receiver.open.wait(30)
                try:
                    self.send_response(receiver.status)
                    if receiver.location:
                        self.send_header("location", receiver.location)
                    self.send_header("content-length", str(len(receiver.answer)))
                    self.end_headers()
                    self.wfile.write(receiver.answer)
                except OSError:
                    pass  # It was killed, or has given up.

            do_GET = do_POST  # noqa: N815 – the name that the class looks for

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/T0/B0/x"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


class MailServer:
    """An SMTP server, as much of one as a client needs."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.recipients: list[str] = []
        self.refuses = False
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 test\r\n")
                while line := self.rfile.readline():
                    verb = line.split(b":")[0].split()[0].upper() if line.strip() else b""
                    if verb == b"RCPT":
                        mailbox.recipients.append(line.partition(b":")[2].strip().decode())
                        self.wfile.write(b"550 no such mailbox\r\n" if mailbox.refuses else b"250 ok\r\n")
                    elif verb == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        lines = []
                        while (part := self.rfile.readline()) != b".\r\n":
                            lines.append(part)
                        mailbox.mails.append(b"".join(lines).decode())
                        self.wfile.write(b"250 ok\r\n")
                    elif verb == b"QUIT":
                        self.wfile.write(b"221 bye\r\n")
                        return
                    else:
                        self.wfile.write(b"250 ok\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
