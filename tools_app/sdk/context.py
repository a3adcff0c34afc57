"""The caller of a tool, and the context: what a running tool can read and use."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tools_app.sdk.accounts import Account, OptionValue
from tools_app.sdk.budgets import Budget
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import ConfigurationError, ToolNotFoundError
from tools_app.sdk.hub_errors import AnswerNotFoundError
from tools_app.sdk.policies import Rate
from tools_app.sdk.questions import LEVELS, NO_CLIENT, Client, Elicit, Question, Reply, Sample, Sampled
from tools_app.sdk.reach import EVERYWHERE, Reach

if TYPE_CHECKING:
    from tools_app.answers import PageRequest
    from tools_app.http import ApiClient


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal of a call: a key, a user in the admin, or the local process. Made by `access`."""

    kind: str
    id: str
    name: str
    scopes: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE
    # The limit for all tools together; a tool's own limit applies in addition.
    rate: Rate | None = None
    # Which calls need an approval, in addition to those of tools that always do: `writes`, `destroys` or none.
    asks: str = ""
    # The addresses and networks from which its key can be used. Empty: any.
    addresses: tuple[str, ...] = ()
    # Who issued its token; empty if it has none.
    issuer: str = ""
    budget: Budget | None = None

    @property
    def identity(self) -> str:
        """As whom it signs in to upstreams where each caller does: stays the same, and is never another's. Empty: the
        hub does not know."""
        match self.kind:
            case "key" | "user" | "local":
                return self.id if self.id.partition(":")[2] else ""
            case "token":
                # A subject is another person at another issuer.
                digest = hashlib.sha256(self.issuer.encode()).hexdigest()
                return f"{self.id}@{digest[:16]}" if self.issuer else ""
        raise ValueError(f"a caller of an unknown kind: {self.kind}")

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin:*" in self.scopes

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class NotKeptError(Exception):
    """The hub did not store a value; the message gives callers the reason."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The handle of a stored value, and when it expires."""

    handle: str
    expires_at: datetime


class Answers(Protocol):
    """Values stored for the caller for a limited time: answers over the token budget, and what tools store."""

    # Whether a page that was read contains untrusted content.
    untrusted: bool

    async def keep(self, value: Any, *, hours: float = 0) -> Kept:
        """Store a JSON value under this tool's name, for `value` and the tool `read_result`.

        For at least `hours`; an answer is stored for one.

        Raises:
            NotKeptError: storing answers is disabled, or not possible now.
        """
        ...

    async def value(self, handle: str) -> Any:
        """The whole stored value.

        Raises:
            AnswerNotFoundError: this caller has no stored value with that handle.
        """
        ...

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        """A part of a stored value, within the token budget of this call.

        Raises:
            AnswerNotFoundError: this caller has no stored value with that handle.
            InvalidArgumentsError: there is no such part.
        """
        ...


class _NothingKept:
    """For tools that run outside a hub: nothing is stored."""

    untrusted = False

    async def keep(self, value: Any, *, hours: float = 0) -> Kept:
        raise NotKeptError("there is no hub to store it")

    async def value(self, handle: str) -> Any:
        raise AnswerNotFoundError.of(handle)

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        raise AnswerNotFoundError.of(handle)


NOTHING_KEPT: Final[Answers] = _NothingKept()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search for tools."""

    query: str
    category: str = ""
    tags: tuple[str, ...] = ()
    limit: int = 10
    offset: int = 0
    # The name of a source: only its tools.
    source: str = ""


# Returns what each call ended with, in order: its answer or its error.
CallEach = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Awaitable[list[dict[str, Any]]]]


class Tools(Protocol):
    """The tools that exist for the caller."""

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        """The matching tools, the best match first."""
        ...

    async def described(self, name: str) -> dict[str, Any]:
        """The details of one tool.

        Raises:
            ToolNotFoundError: no tool has that name.
        """
        ...


class _NoTools:
    """For tools that run outside a hub: there are no other tools."""

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        return {"tools": [], "total": 0, "hasMore": False}

    async def described(self, name: str) -> dict[str, Any]:
        raise ToolNotFoundError.named(name)


NO_TOOLS: Final[Tools] = _NoTools()


@dataclass(frozen=True, slots=True)
class Context:
    """What a running tool can read and use."""

    call_id: str
    tool: str
    caller: Caller
    deadline: Deadline
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    client: Client = NO_CLIENT
    answers: Answers = NOTHING_KEPT
    tools: Tools = NO_TOOLS
    # Calls tools that only read, each by name and arguments: only for the hub's own tool that does so.
    call_each: CallEach | None = None
    # The name of the upstream account that this call uses, and its client.
    connection: str = ""
    upstream: ApiClient | None = None
    # All options that the connection kind declares, with their values for this connection.
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    # The account itself, for the runners of sources outside.
    account: Account | None = None
    # The directory that contains the files this caller may read. None: it may not read files.
    files: Path | None = None
    # The same directory, for files that operators name in options: for all callers.
    file_root: Path | None = None
    # Told by `note_sent`: what the journal says of the request to the upstream.
    on_sent: Callable[[str, str], None] | None = None
    # The facts from `note`.
    noted: dict[str, bool | float | str] = field(default_factory=dict)

    @property
    def http(self) -> ApiClient:
        """The client for the upstream, for tools of a pack with `connection`."""
        if self.upstream is None:
            raise ConfigurationError(
                f"{self.tool} has no connection that it could use",
                next_step="Its pack must declare one; prompts and resources need a caller with exactly one connection.",
            )
        return self.upstream

    def remaining(self) -> float:
        """Seconds until the deadline of this call."""
        return self.deadline.remaining()

    def note(self, **facts: bool | float | str) -> None:
        """Add facts to the log line `Tool completed`: `ctx.note(results=5)`. Do not pass arguments of the call."""
        self.noted.update(facts)

    def note_sent(self, sent: str, session: str = "") -> None:
        """Record whether the upstream got the request (`no`, `maybe` or `yes`), and over which session."""
        if self.on_sent is not None:
            self.on_sent(sent, session)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Send progress to the client, if it asked for progress. Works in blocking tools, too."""
        self.client.progress(done, total, message)

    def tell(self, message: str, level: str = "info", **data: Any) -> None:
        """Send a log message to the client; `log` is for operators. Works in blocking tools, too."""
        if level not in LEVELS:
            raise ValueError(f"the level {level!r} must be one of {', '.join(LEVELS)}")
        self.client.tell(level, message, data)

    def can_ask(self, kind: type[Question]) -> bool:
        """Whether the client supports questions of this kind: `Elicit`, `Sample`, `Roots`."""
        return self.client.can(kind.capability)

    async def ask(self, **questions: Question) -> Mapping[str, Any]:
        """Ask the client several questions at once. The deadline is paused until it answers.

        Some clients answer by repeating the call, which restarts the tool: ask before you change anything.

        Raises:
            InputRequiredError: the client does not support this, or did not answer.
        """
        with self.deadline.standing_still():
            return await self.client.ask(questions)

    async def elicit(self, message: str, form: Any) -> Reply:
        """Ask the user of the agent. `form` is a flat pydantic model or schema; see `Elicit`."""
        reply: Reply = (await self.ask(answer=Elicit(message, form)))["answer"]
        return reply

    async def sample(self, prompt: str, *, max_tokens: int = 1000, system: str = "") -> Sampled:
        """Ask the client's model."""
        sampled: Sampled = (await self.ask(sample=Sample(prompt, max_tokens=max_tokens, system=system)))["sample"]
        return sampled
