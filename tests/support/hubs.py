"""A hub to be mistreated: its own home, database and upstream, and clients that keep what they were told."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support import stores
from tests.support.processes import Home, Server, key_in
from tests.support.recorder import Recorder
from tests.support.stores import Store

TRIALS: Final = Path(__file__).with_name("trials")


@dataclass(frozen=True)
class Answer:
    """What came back of one call; `http` is 0 where nothing did."""

    tool: str
    n: int
    http: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def code(self) -> str:
        """Empty where the call succeeded."""
        return str(self.body.get("code", "")) if self.http else "NO_ANSWER"

    @property
    def call_id(self) -> str:
        return str(self.body.get("callId", ""))


class Client:
    """One caller's kept connection to a server."""

    def __init__(self, port: int, key: str, patience: float = 30.0, idempotency_key: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
        self._headers = {"Content-Type": "application/json", "X-API-Key": key}
        if idempotency_key:
            self._headers["Idempotency-Key"] = idempotency_key

    def call(self, tool: str, n: int, **parameters: Any) -> Answer:
        """Call a tool. Nothing is sent twice: what is not answered stays so."""
        body = json.dumps({"name": tool, "parameters": {"n": n, **parameters}})
        begun = time.monotonic()
        try:
            self._connection.request("POST", "/v1/tools/call", body, self._headers)
            response = self._connection.getresponse()
            received = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return Answer(tool, n, seconds=time.monotonic() - begun)
        return Answer(tool, n, response.status, _envelope(received), time.monotonic() - begun)

    def health(self) -> tuple[int, dict[str, Any]]:
        self._connection.request("GET", "/health")
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()


def _envelope(body: bytes) -> dict[str, Any]:
    try:
        envelope: dict[str, Any] = json.loads(body)
    except ValueError:
        return {"code": "NOT_JSON", "error": body.decode(errors="replace")}
    return envelope


@dataclass
class TrialHub:
    home: Home
    store: Store
    recorder: Recorder
    key: str
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def serving(self, **extra: str) -> contextlib.AbstractContextManager[Server]:
        return self.home.serving(**extra)

    @contextlib.contextmanager
    def client(self, server: Server, patience: float = 30.0, idempotency_key: str = "") -> Iterator[Client]:
        made = Client(server.port, self.key, patience, idempotency_key)
        try:
            yield made
        finally:
            made.close()

    def call(self, server: Server, tool: str, **parameters: Any) -> Answer:
        with self.client(server) as client:
            return client.call(tool, next(self.numbers), **parameters)

    def call_together(self, server: Server, tools: Sequence[str], **parameters: Any) -> list[Answer]:
        """All of these at once."""
        with ThreadPoolExecutor(len(tools)) as pool:
            return list(pool.map(lambda tool: self.call(server, tool, **parameters), tools))

    def health(self, server: Server) -> tuple[int, dict[str, Any]]:
        with self.client(server) as client:
            return client.health()


@contextlib.contextmanager
def prepared(folder: Path, store: Store) -> Iterator[TrialHub]:
    """A hub on an empty database: set up, one tool switched off, a key at hand."""
    with Recorder() as recorder:
        home = Home(folder / "home", environment(store, recorder))
        with home.serving():
            pass  # The first start makes an administrator.
        made = home.run("addkey", "trials")
        assert made.returncode == 0, made.stderr
        store.query("UPDATE tools_app_toolrecord SET enabled = NOT enabled WHERE name = 'echo'")
        yield TrialHub(home, store, recorder, key_in(made.stdout))


@contextlib.contextmanager
def copied(template: TrialHub, folder: Path) -> Iterator[TrialHub]:
    """The same with a home, a database and an upstream of its own."""
    path = folder / "home"
    shutil.copytree(template.home.path, path)
    with Recorder() as recorder, stores.copied(template.store, path) as store:
        yield TrialHub(Home(path, environment(store, recorder)), store, recorder, template.key)


def environment(store: Store, recorder: Recorder) -> dict[str, str]:
    return {
        **store.environment,
        "TOOLHUB_TOOLS_DIR": str(TRIALS),
        "TRIALS_UPSTREAM": str(recorder.port),
        "TOOLHUB_RATE_CALLS": "0",
    }
