"""Accounts at upstreams, as tools use them: an address and a secret under a name. Pure: no input or output.

A pack declares the kind of account that its tools need. `catalog.connections` has the accounts; which of them a
caller may use is part of its `Reach`.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Protocol

from tools_app.sdk import variables
from tools_app.sdk.checker import missing, mistyped
from tools_app.sdk.errors import AuthorizationError, Problem, ToolError, shortened
from tools_app.sdk.hub_errors import Refusal, UpstreamSignInError
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.schemas import Schema

# The argument with which a caller selects an account if there are several.
PARAMETER: Final = "connection"
MOST_URL: Final = 500
MOST_SECRET: Final = 4_000
MOST_OPTION: Final = 500
# Headers, parameters or variables of one connection.
MOST_NAMES: Final = 20
# The option of a connection with which every caller signs in on its own.
PER_USER: Final = "per_user"
ASK: Final = "Ask an administrator of this hub: the connections are in the admin."

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# The characters of a header value. Any other character in a secret is a mistake and would break the request.
SENDABLE: Final = "^[!-~]([ -~]*[!-~])?$"
_SENDABLE: Final = re.compile(SENDABLE)
_OPTION: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


OptionValue = bool | str | int | float


@dataclass(frozen=True, slots=True)
class ConnectionOption:
    """A setting of each connection of a kind. The type of the default is the type of the values.

    Options must not hold secrets: everyone who may view a connection sees them, and the audit trail records them.
    """

    name: str
    help: str
    default: OptionValue = False

    def __post_init__(self) -> None:
        if not _OPTION.fullmatch(self.name) or not self.help:
            raise ValueError("a connection option needs a name like user_administration and a help text")

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    def taken(self, value: object) -> OptionValue:
        """The validated value.

        Raises:
            ValueError: the value is not valid; the message says what is.
        """
        if isinstance(self.default, bool):
            if isinstance(value, bool):
                return value
            raise ValueError("expected true or false")
        if isinstance(self.default, str):
            if isinstance(value, str) and len(value) <= MOST_OPTION and (value.isprintable() or not value):
                return value.strip()
            raise ValueError(f"expected one line of text, at most {MOST_OPTION} characters")
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            if isinstance(self.default, float):
                return float(value)
            if value == int(value):
                return int(value)
        raise ValueError("expected a whole number" if isinstance(self.default, int) else "expected a number")

    def read(self, text: str) -> OptionValue:
        """The value of an environment variable, by the rules for all variables.

        Raises:
            ValueError: the value is not valid; the message says what is.
        """
        if isinstance(self.default, bool):
            # The value can also list the connections for which the option is on; only this one is configured here.
            names = {name.strip().lower() for name in text.split(",")}
            return ENVIRONMENT in names or variables.FLAG(text)
        if isinstance(self.default, str):
            return self.taken(text)
        return self.taken(variables.NUMBER(text))


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """What the tools of a pack need to reach their upstream, and how they use it.

    Every request carries the secret in `header`, after `prefix`. `path` is the base path of the API, appended to the
    address unless the address has it already. `suffix` ends every path. `probe` is the path that the hub requests
    (GET, JSON response) to check address and secret. `explain` can turn an error response of the upstream into a more
    specific error. `options` are further settings of each connection.

    That of a source outside the hub is `optional`: it has no variables, each connection has the form of its secret, and
    without any connection the source is called without credentials.
    """

    title: str
    url_variable: str = ""
    secret_variable: str = ""
    header: str = ""
    prefix: str = ""
    path: str = ""
    probe: str = "/"
    suffix: str = ""
    explain: Callable[[Any], ToolError | None] | None = None
    options: tuple[ConnectionOption, ...] = ()
    optional: bool = False

    @classmethod
    def outside(cls, source_name: str) -> ConnectionKind:
        """The kind for the tools of a source outside the hub."""
        return cls(source_name, optional=True)

    def __post_init__(self) -> None:
        if not self.title or not (self.optional or _TOKEN.fullmatch(self.header)):
            raise ValueError("a connection kind needs a title and the name of a header")
        if not self.optional and not (self.url_variable and self.secret_variable):
            raise ValueError("a connection kind needs the names of two variables: of the address and the secret")
        if self.path and (not self.path.startswith("/") or self.path.endswith("/")):
            raise ValueError("the path of a connection kind begins with a slash and ends without one")
        if not self.probe.startswith("/"):
            raise ValueError("the probe of a connection kind begins with a slash")

    def as_dict(self) -> dict[str, Any]:
        """The kind as data, without `explain`, which is code."""
        values = {
            **{part.name: getattr(self, part.name) for part in fields(self) if part.name not in ("explain", "options")},
            "options": [[option.name, option.help, option.default] for option in self.options],
        }
        return {name: value for name, value in values.items() if value}

    @staticmethod
    def read(data: Mapping[str, Any]) -> ConnectionKind:
        return _kind_of(json.dumps(data))

    @property
    def variables(self) -> tuple[str, ...]:
        if self.optional:
            return ()
        option_variables = (self.option_variable(option) for option in self.options)
        common = self.allow_http_variable, self.read_only_variable, self.timeout_variable
        return self.url_variable, self.secret_variable, *common, *option_variables

    def option_variable(self, option: ConnectionOption) -> str:
        return f"{self._stem}_{option.name.upper()}"

    def settled(self, decided: Mapping[str, object]) -> tuple[tuple[str, OptionValue], ...]:
        """Every option with its value: the configured one if it is still valid, else the default."""
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


@functools.lru_cache(maxsize=256)
def _kind_of(data: str) -> ConnectionKind:
    """One object for all tools of a pack."""
    values = json.loads(data)
    options = tuple(ConnectionOption(*option) for option in values.pop("options", ()))
    return ConnectionKind(**values, options=options)


class References(Protocol):
    """Secrets that are kept outside the database, and that a connection refers to."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def fault(self) -> str:
        """Which of them have no value now; empty if all have one."""
        ...

    @property
    def state(self) -> object:
        """Its `repr` changes with their values. A secret."""
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is sent with each request, or given to a child process. The repr has no values."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All values: what answers and logs must not repeat."""
        return (*self.headers.values(), *self.query.values(), *self.environment.values())

    def __repr__(self) -> str:
        names = ", ".join((*self.headers, *self.query, *self.environment))
        return f"<Credentials {names or 'none'}>"


@dataclass(frozen=True)
class Account:
    """A connection, as calls use it. `sealed` is the encrypted secret of a row; `secret` is from the environment."""

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
    # As pairs, so that accounts are hashable and compare by all fields.
    options: tuple[tuple[str, OptionValue], ...] = ()
    # How the secret is sent, and the names of its values. Empty: as the kind says.
    form: str = ""
    names: tuple[str, ...] = ()
    references: References | None = None
    # Of a source outside: the epoch for which this is its account.
    epoch: int = 0
    # The caller whose sign-in is used; empty: that of all callers.
    user: str = ""
    # Why it cannot be used until it is changed, for example an invalid address.
    defect: str = ""
    # The message for callers if an operator has stopped it.
    stopped: str = ""

    @property
    def upstream(self) -> str:
        """The name for limits and the circuit breaker, which all calls of the account share."""
        return self.pack if self.name == ENVIRONMENT else f"{self.pack}:{self.name}"

    @property
    def mark(self) -> str:
        """A digest that changes when the account can reach other data: another address, secret or option."""
        parts = [self.pack, self.name, self.base, repr(self.options), self.form, *self.names]
        parts += [self.user] if self.user else []
        if self.references is not None:
            parts += [*self.references.names, repr(self.references.state)]
        return hashlib.sha256("\n".join(parts).encode() + b"\n" + (self.sealed or self.secret.encode())).hexdigest()

    @property
    def is_per_user(self) -> bool:
        return dict(self.options).get(PER_USER) is True

    def of_caller(self, identity: str) -> Account:
        """The account as this caller uses it: with a sign-in of its own, where the connection says so.

        Raises:
            UpstreamSignInError: the hub does not know who the caller is.
        """
        if not self.is_per_user:
            return self
        if not identity:
            raise UpstreamSignInError.without_identity(self.upstream)
        return replace(self, user=identity)

    @property
    def fault(self) -> str:
        """Why it cannot be used at this moment; empty if it can."""
        return self.defect or (self.references.fault if self.references is not None else "")

    def obstacle(self, *, writes: bool) -> str:
        """Why a tool cannot use it; empty if it can. Without its references, which can change at any time."""
        if self.stopped:
            return self.stopped
        if not self.enabled:
            return f"the connection {self.name} is disabled"
        if self.defect:
            return f"the connection {self.name} cannot be used: {self.defect}"
        if writes and self.read_only:
            return f"the connection {self.name} is read-only"
        return ""

    def obstacle_now(self, *, writes: bool) -> str:
        """The same for a call, with its references."""
        if obstacle := self.obstacle(writes=writes):
            return obstacle
        return f"the connection {self.name} cannot be used: {self.fault}" if self.fault else ""


def _or_default(option: ConnectionOption, decided: Mapping[str, object]) -> OptionValue:
    try:
        return option.taken(decided.get(option.name, option.default))
    except ValueError:
        return option.default


def chosen(mine: Sequence[Account], named: object) -> Account | None:
    """The account that a call uses: the one it names, or the only one. None: the call has to name one.

    Raises:
        AuthorizationError: it names an account that the caller may not use. The message does not tell whether the
            account exists.
    """
    if isinstance(named, str):
        account = next((account for account in mine if account.name == named), None)
        if account is None:
            raise AuthorizationError(
                f"Permission denied: you may not use a connection {shortened(named)!r}",
                next_step=f"Your connections are: {', '.join(account.name for account in mine) or 'none'}.",
            )
        return account
    return mine[0] if named is None and len(mine) == 1 else None


def not_chosen(named: object, parameter: str = PARAMETER) -> Problem:
    """The problem of a call that has to name an account and does not."""
    if named is None:
        return missing([parameter], "the name of a connection")
    return mistyped([parameter], "string")


def refusal(kind: ConnectionKind, mine: Sequence[Account], *, writes: bool) -> Refusal | None:
    """Why a tool cannot use any of the caller's accounts; None if it can use one."""
    obstacles = [account.obstacle(writes=writes) for account in mine]
    if not mine:
        return Refusal(
            f"you may not use any connection to {kind.title}",
            "Ask an administrator of this hub for access to one. A key has a list of connections; `runmcp` and "
            "`calltool` have the option --connection.",
        )
    if not all(obstacles):
        return None
    stopped = all(account.stopped for account in mine)
    return Refusal("; ".join(obstacles), ASK, stopped=stopped, cure="Check the connections in the admin.")


def not_configured(kind: ConnectionKind, missing: Sequence[str]) -> Refusal:
    """The refusal if no account of this kind is configured."""
    variable_names = " and ".join(missing)
    return Refusal(
        f"not configured: {', '.join(missing)}",
        f"Ask an operator to set {variable_names}, or to add a connection to {kind.title} in the admin.",
        unused={kind.url_variable, kind.secret_variable} <= set(missing),
        cure=f"Set {variable_names}, or add a connection to {kind.title} in the admin.",
    )


def with_choice(schema: Schema, kind: ConnectionKind, mine: Sequence[Account], *, writes: bool) -> Schema:
    """The input schema with the parameter `connection`, if the caller has several accounts.

    Accounts that cannot be used now are not in the enum. The parameter stays required even if only one account is
    left, so that no call uses an account that the caller did not select.
    """
    if len(mine) < 2:
        return schema
    names = [account.name for account in mine if not account.obstacle(writes=writes)]
    names = names or [account.name for account in mine]
    part: dict[str, Any] = {
        "type": "string",
        "enum": names,
        "description": f"Which account at {kind.title} to use",
    }
    parameter = parameter_of(schema)
    return {
        **schema,
        "properties": {**schema.get("properties", {}), parameter: part},
        "required": [*schema.get("required", ()), parameter],
    }


def parameter_of(schema: Schema) -> str:
    """The name of the parameter `connection`, which the tool of a source outside may have itself."""
    taken = frozenset(_parameters(schema))
    others = (f"hub_{PARAMETER}{number or ''}" for number in itertools.count())
    return next(name for name in itertools.chain([PARAMETER], others) if name not in taken)


def _parameters(root: Schema) -> Iterator[str]:
    """The properties that a schema gives to the object itself, also through references to its own definitions."""
    waiting: list[object] = [root]
    seen: set[int] = set()
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        for key in ("properties", "required"):
            if isinstance(names := schema.get(key), Mapping | list):
                yield from (name for name in names if isinstance(name, str))
        waiting += [schema.get(key) for key in ("if", "then", "else")]
        for key in ("allOf", "anyOf", "oneOf", "dependentSchemas"):
            parts = schema.get(key)
            waiting += parts.values() if isinstance(parts, Mapping) else parts if isinstance(parts, list) else ()
        if isinstance(reference := schema.get("$ref"), str):
            waiting.append(_definition(root, reference))


def _definition(root: Schema, reference: str) -> object:
    target: object = root if reference.startswith("#") else None
    for step in reference.split("/")[1:]:
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
    return target


def is_sendable(secret: str) -> bool:
    """Whether a secret can be sent in a header."""
    return len(secret) <= MOST_SECRET and _SENDABLE.fullmatch(secret) is not None
