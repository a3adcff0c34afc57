"""Who calls a tool, and what the tool may know and use of the call that it serves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tools_app.sdk.accounts import OptionValue
from tools_app.sdk.deadline import Deadline
from tools_app.sdk.errors import AnswerNotFoundError, ConfigurationError, ToolNotFoundError
from tools_app.sdk.policies import Rate
from tools_app.sdk.questions import LEVELS, NOBODY, Client, Elicit, Question, Reply, Sample, Sampled
from tools_app.sdk.reach import EVERYWHERE, Reach

if TYPE_CHECKING:
    from tools_app.answers import PageRequest
    from tools_app.http import ApiClient


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key, a person in the admin, or the local process. Made by `access`, never by a tool."""

    kind: str
    id: str
    name: str
    scopes: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE
    # Over all tools together; what a tool's own limit allows comes on top.
    rate: Rate | None = None
    # Whose calls an operator has to approve, beside those of tools that always ask: of those that `writes`, `destroys`.
    asks: str = ""

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin:*" in self.scopes

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class NotKeptError(Exception):
    """The hub did not keep a value; the message says why, to the caller."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the hub keeps a value for its caller, and until when."""

    handle: str
    expires_at: datetime


class Answers(Protocol):
    """What the hub keeps for the caller for a while: answers that were too large to be sent, and what tools keep."""

    # Whether what was read of them may hold what outsiders wrote.
    untrusted: bool

    async def keep(self, value: Any) -> Kept:
        """Keep a JSON value under this tool's name, where `value` and `read_result` find it.

        Raises:
            NotKeptError: this hub keeps nothing, or cannot now.
        """
        ...

    async def value(self, handle: str) -> Any:
        """All of what is kept under that handle.

        Raises:
            AnswerNotFoundError: nothing is kept under that handle for this caller.
        """
        ...

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        """Part of one, within the budget of this call.

        Raises:
            AnswerNotFoundError: nothing is kept under that handle for this caller.
            InvalidArgumentsError: there is no such part.
        """
        ...


class _NothingKept:
    """Where nothing is kept: outside a hub."""

    untrusted = False

    async def keep(self, value: Any) -> Kept:
        raise NotKeptError("there is no hub to keep it")

    async def value(self, handle: str) -> Any:
        raise AnswerNotFoundError.of(handle)

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        raise AnswerNotFoundError.of(handle)


NOTHING_KEPT: Final[Answers] = _NothingKept()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kind of tool somebody looks for."""

    query: str
    category: str = ""
    tags: tuple[str, ...] = ()
    limit: int = 5
    offset: int = 0


class Tools(Protocol):
    """The tools that exist for the caller."""

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        """Those that have to do with what is wanted, the best first."""
        ...

    async def described(self, name: str) -> dict[str, Any]:
        """All about one.

        Raises:
            ToolNotFoundError: there is none of that name.
        """
        ...


class _NoTools:
    """Where there are no others: outside a hub."""

    async def found(self, wanted: Wanted) -> dict[str, Any]:
        return {"tools": [], "total": 0, "hasMore": False}

    async def described(self, name: str) -> dict[str, Any]:
        raise ToolNotFoundError.named(name)


NO_TOOLS: Final[Tools] = _NoTools()


@dataclass(frozen=True, slots=True)
class Context:
    """What a running tool may know and use of the call it serves."""

    call_id: str
    tool: str
    caller: Caller
    deadline: Deadline
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    client: Client = NOBODY
    answers: Answers = NOTHING_KEPT
    tools: Tools = NO_TOOLS
    # The name of the account at the upstream that this call uses, and what speaks to it.
    connection: str = ""
    upstream: ApiClient | None = None
    # What was decided for that connection, by the names of the options that its kind declares; all of them.
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    # The directory below which files may be read for this caller. None: no file may be.
    files: Path | None = None
    # What `note` has noted.
    noted: dict[str, bool | float | str] = field(default_factory=dict)

    @property
    def http(self) -> ApiClient:
        """The way to the upstream, for tools of a pack that says which connection it needs."""
        if self.upstream is None:
            raise ConfigurationError(
                f"{self.tool} has no connection that it could use",
                next_step="Its pack must declare one; what is no tool needs a caller who may use exactly one.",
            )
        return self.upstream

    def remaining(self) -> float:
        """Seconds until the deadline of this call."""
        return self.deadline.remaining()

    def note(self, **facts: bool | float | str) -> None:
        """Add facts to the line `Tool completed` of the log: `ctx.note(results=5)`. No arguments."""
        self.noted.update(facts)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far this is, if it wants to know. Also from a tool that blocks."""
        self.client.progress(done, total, message)

    def tell(self, message: str, level: str = "info", **data: Any) -> None:
        """Tell the client something on the way; `log` is for operators. Also from a tool that blocks."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}")
        self.client.tell(level, message, data)

    def can_ask(self, kind: type[Question]) -> bool:
        """Whether the client answers questions of this kind: `Elicit`, `Sample`, `Roots`."""
        return self.client.can(kind.capability)

    async def ask(self, **questions: Question) -> Mapping[str, Any]:
        """Ask the client several things at once. The deadline stands still until it has answered.

        Where clients answer by calling again, the tool begins anew: ask before anything is changed.

        Raises:
            InputRequiredError: the client cannot be asked, or gives no answer.
        """
        with self.deadline.standing_still():
            return await self.client.ask(questions)

    async def elicit(self, message: str, form: Any) -> Reply:
        """Ask the person behind the agent. `form` is a flat pydantic model or schema; more about it at `Elicit`."""
        reply: Reply = (await self.ask(answer=Elicit(message, form)))["answer"]
        return reply

    async def sample(self, prompt: str, *, max_tokens: int = 1000, system: str = "") -> Sampled:
        """Ask the model of the client."""
        sampled: Sampled = (await self.ask(sample=Sample(prompt, max_tokens=max_tokens, system=system)))["sample"]
        return sampled
