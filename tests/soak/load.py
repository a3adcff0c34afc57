"""Clients of every channel, which call steadily and keep what they were told."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.support.agents import Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.hubs import Answer, TrialHub
from tests.support.processes import Server
from tests.support.tools import eventually

# Of one client, between two calls; on average half of it.
PAUSE_SECONDS: Final = 0.2
# The longest that a hub is away, and that a lease of a killed process lasts.
PATIENCE: Final = 120.0
PLAIN: Final = ("read", "write", "write_in_thread")
OUTSIDE: Final = ("wiki_write", "files_write")


@dataclass
class Load:
    """Everything that was called. `server` changes with each restart; there is none in between."""

    trial: TrialHub
    # A key that also reaches the sources outside.
    outside_key: str = ""
    answers: list[Answer] = field(default_factory=list)
    server: Server | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    # The number of the agent that is connected over stdio.
    agents: int = 0
    _agent_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def clients(self, *works: Callable[[random.Random], None]) -> Iterator[None]:
        """One thread for each of these, until the end of the block."""
        threads = [threading.Thread(target=self._run, args=(work, number)) for number, work in enumerate(works)]
        self.stopped.clear()
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert self.failures == []
        assert not any(thread.is_alive() for thread in threads)

    def rest(self, chance: random.Random) -> None:
        """Calls of REST that are sent once."""
        for server in self._turns(chance):
            with self.trial.client(server) as client:
                while self.server is server and self._pause(chance):
                    self.answers.append(client.call(chance.choice(PLAIN), next(self.trial.numbers)))

    def repeating(self, chance: random.Random) -> None:
        """Writes with an idempotency key, sent until the answer is final."""
        for _ in self._turns(chance):
            n = next(self.trial.numbers)
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                if (server := self.server) is None:
                    self.stopped.wait(0.05)
                    continue
                with self.trial.client(server, idempotency_key=f"soak-{n}") as client:
                    told = client.call("write", n)
                if told.http and not told.body.get("retryable"):
                    self.answers.append(told)
                    break
                time.sleep(min(1, float(told.body.get("retryAfter") or 0.1)))
            else:
                raise AssertionError(f"{n}: no final answer within {PATIENCE:.0f} s")

    def mcp(self, chance: random.Random) -> None:
        self._over_http(self.trial.key, PLAIN, chance)

    def outside(self, chance: random.Random) -> None:
        """Calls that the hub passes on to other servers."""
        self._over_http(self.outside_key, OUTSIDE, chance)

    def _over_http(self, key: str, tools: Sequence[str], chance: random.Random) -> None:
        for server in self._turns(chance):
            with HttpAgent(server.url, key) as agent:
                while self.server is server and self._pause(chance):
                    tool, n = chance.choice(tools), next(self.trial.numbers)
                    arguments = {"text": str(n)} if tool in OUTSIDE else {"n": n}
                    try:
                        response = agent.send(agent.message("tools/call", {"name": tool, "arguments": arguments}))
                    except httpx.TransportError:
                        self.answers.append(Answer(tool, n))
                        break
                    if response.status_code == 200:
                        self.answers.append(_told(tool, n, answer(response)))
                    else:
                        self.answers.append(Answer(tool, n, response.status_code, {"code": "REFUSED"}))

    def stdio(self, chance: random.Random) -> None:
        """Calls over stdin and stdout: a process of its own, which stays when the server goes."""
        while not self.stopped.is_set():
            with Agent(self.trial.home) as agent:
                agent.connect()
                number = self.agents = next(self._agent_numbers)
                while self.agents == number and self._pause(chance):
                    tool, n = chance.choice(PLAIN), next(self.trial.numbers)
                    self.answers.append(_told(tool, n, agent.answer(agent.ask_tool(tool, n=n))))
                    agent.seen.clear()
                    agent.raw.clear()
                assert agent.leave()[0] == 0

    def answers_of(self, tool: str) -> list[Answer]:
        return [answer for answer in self.answers if answer.tool == tool and answer.http and not answer.code]

    def renew_agent(self) -> None:
        """Have the agent start its hub again."""
        before, self.agents = self.agents, 0
        assert eventually(lambda: self.agents > before, PATIENCE)

    def _run(self, work: Callable[[random.Random], None], number: int) -> None:
        try:
            work(random.Random(number))
        except BaseException as error:
            self.failures.append(error)
            raise

    def _turns(self, chance: random.Random) -> Iterator[Server]:
        """The server that runs, again and again."""
        while self._pause(chance):
            if (server := self.server) is not None:
                yield server

    def _pause(self, chance: random.Random) -> bool:
        return not self.stopped.wait(chance.uniform(0, PAUSE_SECONDS))


def _told(tool: str, n: int, message: dict[str, Any]) -> Answer:
    assert "result" in message, message
    meta = message["result"]["_meta"]
    return Answer(tool, n, 200, {"callId": meta["toolhub/callId"], **meta.get("toolhub/error", {})})
