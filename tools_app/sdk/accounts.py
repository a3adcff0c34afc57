"""Accounts at upstreams, as tools use them: an address and a secret, under a name. Pure: nobody is asked anything.

A pack says which kind of account its tools need. Which there are, `connections` knows; which of them a caller may
use is part of its `Reach`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from tools_app.sdk import variables
from tools_app.sdk.errors import AuthorizationError, Problem, ToolError, shortened
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.schemas import Schema

if TYPE_CHECKING:
    from tools_app.http import ApiClient

# The argument by which a caller chooses, where there is more than one.
PARAMETER: Final = "connection"
MOST_URL: Final = 500
MOST_SECRET: Final = 4_000
MOST_OPTION: Final = 500
ASK: Final = "Ask an administrator of this hub: the connections are in the admin."

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What a header may carry. Anything else in a secret is a slip of the hand, and would break the request.
SENDABLE: Final = "^[!-~]([ -~]*[!-~])?$"
_SENDABLE: Final = re.compile(SENDABLE)
_OPTION: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


OptionValue = bool | str | int | float


@dataclass(frozen=True, slots=True)
class ConnectionOption:
    """Something that is decided for each connection of a kind. Its default says what type its values have.

    Options are no place for secrets: whoever may see a connection sees them, and so does the audit trail.
    """

    name: str
    help: str
    default: OptionValue = False

    def __post_init__(self) -> None:
        if not _OPTION.fullmatch(self.name) or not self.help:
            raise ValueError("an option of a connection needs a name like user_administration, and a help text")

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    def taken(self, value: object) -> OptionValue:
        """A value that somebody gave it.

        Raises:
            ValueError: it is none that the option can have; the message says which it can.
        """
        if isinstance(self.default, bool):
            if isinstance(value, bool):
                return value
            raise ValueError("expected true or false")
        if isinstance(self.default, str):
            if isinstance(value, str) and len(value) <= MOST_OPTION and (value.isprintable() or not value):
                return value.strip()
            raise ValueError(f"expected a line of text, of at most {MOST_OPTION} characters")
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            if isinstance(self.default, float):
                return float(value)
            if value == int(value):
                return int(value)
        raise ValueError("expected a whole number" if isinstance(self.default, int) else "expected a number")

    def read(self, text: str) -> OptionValue:
        """What an environment variable says, by the rules of all variables.

        Raises:
            ValueError
        """
        if isinstance(self.default, bool):
            # It may name the connections for which it is on; this is the one that an environment can speak for.
            names = {name.strip().lower() for name in text.split(",")}
            return ENVIRONMENT in names or variables.flag(text)
        if isinstance(self.default, str):
            return self.taken(text)
        return self.taken(variables.number(text))


class ClientOptions(TypedDict, total=False):
    """What an account may say about its client."""

    timeout: float
    allow_http: bool
    read_only: bool
    link_local: bool


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """What the tools of a pack need to reach their upstream, and how they use it.

    Every request carries the secret in `header`, behind `prefix`. `path` is where the interface begins, below the
    address that people know; an address that has it already is right, too. `suffix` ends every path. `probe` is what
    the hub asks for (GET, answered with JSON) to find out whether address and secret are right. `explain` may turn a
    refusal of the upstream into an error that knows it better. `options` are what else is decided for each connection.
    """

    title: str
    url_variable: str
    secret_variable: str
    header: str
    prefix: str = ""
    path: str = ""
    probe: str = "/"
    suffix: str = ""
    explain: Callable[[Any], ToolError | None] | None = None
    options: tuple[ConnectionOption, ...] = ()

    def __post_init__(self) -> None:
        if not self.title or not _TOKEN.fullmatch(self.header):
            raise ValueError("a kind of connection needs a title, and the name of a header")
        if self.path and (not self.path.startswith("/") or self.path.endswith("/")):
            raise ValueError("the path of a kind of connection begins with a slash and ends without one")
        if not self.probe.startswith("/"):
            raise ValueError("the probe of a kind of connection begins with a slash")

    def client(self, address: str, secret: str, *, name: str = "", **options: Unpack[ClientOptions]) -> ApiClient:
        """What speaks to an upstream of this kind, and gives the secret to nobody else.

        Raises:
            ConfigurationError: the address or the secret cannot be used.
        """
        # What few packs need, the start of a process should not pay for.
        from tools_app.http import ApiClient

        return ApiClient(
            address,
            name=name or self.title,
            below=self.path,
            suffix=self.suffix,
            secrets={self.header: f"{self.prefix}{secret}"},
            explain=self.explain,
            **options,
        )

    @property
    def variables(self) -> tuple[str, ...]:
        own = (self.option_variable(option) for option in self.options)
        switches = self.allow_http_variable, self.read_only_variable, self.timeout_variable
        return self.url_variable, self.secret_variable, *switches, *own

    def option_variable(self, option: ConnectionOption) -> str:
        return f"{self._stem}_{option.name.upper()}"

    def settled(self, decided: Mapping[str, object]) -> tuple[tuple[str, OptionValue], ...]:
        """Every option with its value: what was decided, where that still fits, else its default."""
        return tuple((option.name, _or_default(option, decided)) for option in self.options)

    @property
    def allow_http_variable(self) -> str:
        return f"{self._stem}_ALLOW_HTTP"

    @property
    def read_only_variable(self) -> str:
        return f"{self._stem}_READ_ONLY"

    @property
    def timeout_variable(self) -> str:
        return f"{self._stem}_TIMEOUT_MS"

    @property
    def _stem(self) -> str:
        return self.url_variable.rpartition("_")[0] or self.url_variable


@dataclass(frozen=True)
class Account:
    """A connection, as calls use it. `sealed` is the secret as it is stored; that of the environment is `secret`."""

    name: str
    pack: str
    kind: ConnectionKind
    base: str
    sealed: bytes = field(default=b"", repr=False)
    secret: str = field(default="", repr=False)
    read_only: bool = False
    allow_http: bool = False
    timeout_ms: int | None = None
    enabled: bool = True
    # As pairs, so that accounts can be told apart by all they are.
    options: tuple[tuple[str, OptionValue], ...] = ()
    # Why nothing can be sent through it, whatever it would be.
    fault: str = ""
    # How callers are told that an operator has stopped it.
    stopped: str = ""

    @property
    def upstream(self) -> str:
        """Calls of one account share its limits, and its rest when it fails."""
        return self.pack if self.name == ENVIRONMENT else f"{self.pack}:{self.name}"

    @property
    def mark(self) -> str:
        """Differs when what is reached through it may be something else."""
        seen = [self.pack, self.name, self.base, repr(self.options)]
        return hashlib.sha256("\n".join(seen).encode() + b"\n" + (self.sealed or self.secret.encode())).hexdigest()

    def obstacle(self, *, writes: bool) -> str:
        """Why a tool cannot use it; empty when it can."""
        if self.stopped:
            return self.stopped
        if not self.enabled:
            return f"the connection {self.name} is switched off"
        if self.fault:
            return f"the connection {self.name} cannot be used: {self.fault}"
        if writes and self.read_only:
            return f"the connection {self.name} is read-only"
        return ""


def _or_default(option: ConnectionOption, decided: Mapping[str, object]) -> OptionValue:
    try:
        return option.taken(decided.get(option.name, option.default))
    except ValueError:
        return option.default


def chosen(mine: Sequence[Account], named: object) -> Account | None:
    """The account that a call uses: the one it names, or the only one there is. None: it has to name one.

    Raises:
        AuthorizationError: it names one that is not the caller's; whether there is such a one is not told.
    """
    if isinstance(named, str):
        found = next((account for account in mine if account.name == named), None)
        if found is None:
            raise AuthorizationError(
                f"Permission denied: you may not use a connection {shortened(named)!r}",
                next_step=f"Yours are: {', '.join(account.name for account in mine) or 'none'}.",
            )
        return found
    return mine[0] if named is None and len(mine) == 1 else None


def not_chosen(named: object) -> Problem:
    """What is wrong with a call that names no account."""
    if named is None:
        return Problem(f"/{PARAMETER}", f"Required parameter missing: {PARAMETER}", "the name of a connection")
    return Problem(f"/{PARAMETER}", f"Invalid type for parameter {PARAMETER}: expected string", "string")


def refusal(kind: ConnectionKind, mine: Sequence[Account], *, writes: bool) -> Refusal | None:
    """Why a tool has no account that it can use, of those that are the caller's; None when there is one."""
    obstacles = [account.obstacle(writes=writes) for account in mine]
    if not mine:
        return Refusal(
            f"you may use no connection to {kind.title}",
            "Ask an administrator of this hub for access to one: a key, `runmcp` and `calltool` name theirs "
            "(--connection).",
        )
    if not all(obstacles):
        return None
    stopped = all(account.stopped for account in mine)
    return Refusal("; ".join(obstacles), ASK, stopped=stopped, cure="Look at the connections in the admin.")


def not_configured(kind: ConnectionKind, missing: Sequence[str]) -> Refusal:
    """Nobody has set up an account of this kind."""
    named = " and ".join(missing)
    return Refusal(
        f"not configured: {', '.join(missing)}",
        f"Ask an operator to set {named}, or to add a connection to {kind.title} in the admin.",
        unused={kind.url_variable, kind.secret_variable} <= set(missing),
        cure=f"Set {named}, or add a connection to {kind.title} in the admin.",
    )


def with_choice(schema: Schema, kind: ConnectionKind, mine: Sequence[Account], *, writes: bool) -> Schema:
    """What a tool takes, with the choice among the caller's accounts where there is one.

    One that cannot be used now is not offered; the choice stays, so that no call goes where nobody meant it to go.
    """
    if len(mine) < 2:
        return schema
    offered = [account.name for account in mine if not account.obstacle(writes=writes)]
    offered = offered or [account.name for account in mine]
    part: dict[str, Any] = {
        "type": "string",
        "enum": offered,
        "description": f"Which account at {kind.title} to use",
    }
    return {
        **schema,
        "properties": {**schema.get("properties", {}), PARAMETER: part},
        "required": [*schema.get("required", ()), PARAMETER],
    }


def is_sendable(secret: str) -> bool:
    """Whether a secret can stand in a header."""
    return len(secret) <= MOST_SECRET and _SENDABLE.fullmatch(secret) is not None
