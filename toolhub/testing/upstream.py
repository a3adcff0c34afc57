"""An upstream on loopback that returns the answers of a test, and records the requests."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tools_app.sdk.pack import Pack

SECRET: Final = "secret-of-the-fake-upstream"  # noqa: S105 - opens nothing
MOST_BODY: Final = 10 * 1024 * 1024


@dataclass(frozen=True)
class ReceivedRequest:
    """A request; `data` is its body parsed as JSON, or None."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    @property
    def data(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Reply:
    """An answer with another status, headers or a body that is not JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def encoded_body(self) -> bytes:
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


# Data, a reply, a function of the request that returns either, or a list of those: used in turn, the last repeatedly.
Answer = Any


class FakeUpstream:
    """The server. Without an answer it returns 404, and records the request in `unanswered_requests`."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.requests: list[ReceivedRequest] = []
        self.unanswered_requests: list[ReceivedRequest] = []
        self._answers = {
            place: list(answer) if isinstance(answer, list) else [answer] for place, answer in answers.items()
        }
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                fake._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                """A test has `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def seen(self) -> list[ReceivedRequest]:
        warnings.warn("FakeUpstream.seen is deprecated: use requests", DeprecationWarning, stacklevel=2)
        return self.requests

    @property
    def unanswered(self) -> list[ReceivedRequest]:
        warnings.warn(
            "FakeUpstream.unanswered is deprecated: use unanswered_requests", DeprecationWarning, stacklevel=2
        )
        return self.unanswered_requests

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, place: str, *answers: Answer) -> None:
        """Set the answers of a request such as `"GET /a/path"`."""
        with self._lock:
            self._answers[place] = list(answers)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        target = urlsplit(handler.path)
        length = min(int(handler.headers.get("Content-Length") or 0), MOST_BODY)
        request = ReceivedRequest(
            handler.command,
            target.path,
            dict(parse_qsl(target.query, keep_blank_values=True)),
            {name.lower(): value for name, value in handler.headers.items()},
            handler.rfile.read(length),
        )
        reply = self._reply(request)
        body = reply.encoded_body
        handler.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            handler.send_header(name, value)
        if reply.status not in (204, 304):
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
        handler.wfile.flush()

    def _reply(self, request: ReceivedRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            answers = self._answers.get(str(request), [])
            answer = answers.pop(0) if len(answers) > 1 else answers[0] if answers else None
            if not answers:
                self.unanswered_requests.append(request)
                return Reply(404, {"message": f"fake_upstream has no answer for {request}"})
        value: Callable[[ReceivedRequest], Any] | Any = answer(request) if callable(answer) else answer
        return value if isinstance(value, Reply) else Reply(200, value)


@contextlib.contextmanager
def fake_upstream(answers: Mapping[str, Answer], *, pack: Pack | None = None) -> Iterator[FakeUpstream]:
    """Run one for the length of the block. The environment says that it is the upstream of `pack`.

    with fake_upstream({"GET /v1/cities": ["Kyoto"]}, pack=pack) as upstream:
        assert testing.call(list_cities) == ["Kyoto"]
    assert upstream.requests[0].headers["authorization"]
    """
    fake = FakeUpstream(answers)
    kind = pack.connection if pack is not None else None
    set_here = {kind.url_variable: fake.url, kind.secret_variable: SECRET} if kind is not None else {}
    before = {name: os.environ.get(name) for name in set_here}
    fake.start()
    os.environ.update(set_here)
    try:
        yield fake
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        fake.stop()
