"""Accounts at upstreams, as tools use them: an address and a secret, under a name. Pure: nobody is asked anything.

A pack says which kind of account its tools need. Which there are, `connections` knows; which of them a caller may
use is part of its `Reach`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from tools_app.errors import AuthorizationError, Problem, Refusal, ToolError, shortened
from tools_app.reach import ENVIRONMENT
from tools_app.schemas import Schema

if TYPE_CHECKING:
    from tools_app.http import ApiClient

# The argument by which a caller chooses, where there is more than one.
PARAMETER: Final = "connection"
MOST_URL: Final = 500
MOST_SECRET: Final = 4_000
ASK: Final = "Ask an administrator of this hub: the connections are in the admin."

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What a header may carry. Anything else in a secret is a slip of the hand, and would break the request.
SENDABLE: Final = "^[!-~]([ -~]*[!-~])?$"
_SENDABLE: Final = re.compile(SENDABLE)


class ClientOptions(TypedDict, total=False):
    """What an account may say about its client."""

    timeout: float
    allow_http: bool
    read_only: bool


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """What the tools of a pack need to reach their upstream, and how they use it.

    Every request carries the secret in `header`, behind `prefix`. `path` is where the interface begins, below the
    address that people know; an address that has it already is right, too. `suffix` ends every path. `probe` is what
    the hub asks for (GET, answered with JSON) to find out whether address and secret are right. `explain` may turn a
    refusal of the upstream into an error that knows it better.
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
        return self.url_variable, self.secret_variable, self.allow_http_variable, self.read_only_variable

    @property
    def allow_http_variable(self) -> str:
        return f"{self._stem}_ALLOW_HTTP"

    @property
    def read_only_variable(self) -> str:
        return f"{self._stem}_READ_ONLY"

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
    # Why nothing can be sent through it, whatever it would be.
    fault: str = ""

    @property
    def upstream(self) -> str:
        """Calls of one account share its limits, and its rest when it fails."""
        return self.pack if self.name == ENVIRONMENT else f"{self.pack}:{self.name}"

    @property
    def mark(self) -> str:
        """Differs when what is reached through it may be something else."""
        seen = [self.pack, self.name, self.base]
        return hashlib.sha256("\n".join(seen).encode() + b"\n" + (self.sealed or self.secret.encode())).hexdigest()

    def obstacle(self, *, writes: bool) -> str:
        """Why a tool cannot use it; empty when it can."""
        if not self.enabled:
            return f"the connection {self.name} is switched off"
        if self.fault:
            return f"the connection {self.name} cannot be used: {self.fault}"
        if writes and self.read_only:
            return f"the connection {self.name} is read-only"
        return ""


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
    return Refusal("; ".join(obstacles), ASK)


def not_configured(kind: ConnectionKind, missing: Sequence[str]) -> Refusal:
    """Nobody has set up an account of this kind."""
    named = " and ".join(missing)
    return Refusal(
        f"not configured: {', '.join(missing)}",
        f"Ask an operator to set {named}, or to add a connection to {kind.title} in the admin.",
        unused={kind.url_variable, kind.secret_variable} <= set(missing),
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
