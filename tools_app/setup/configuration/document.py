"""The form of a configuration file. Every field is declared here once; others are refused.

Lists without an order are sorted, so that two files which say the same are equal. Nothing is a secret: values that are,
are references to variables and files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tools_app.base import references
from tools_app.models.keys import default_scopes
from tools_app.models.managed import ManagedRecord
from tools_app.sdk.reach import ENVIRONMENT

Kind = ManagedRecord.Kind
VERSION: Final = 1
MOST_NAME: Final = 200
MOST_TEXT: Final = 8_000
# A scheme of Authorization can precede references. Other text can be a secret, and is refused.
_REFERENCE: Final = re.compile(r"(?:(?:Bearer|Basic|Token|Bot|Key|ApiKey|OAuth) )?(?:\$\{[^}]*\})+", re.IGNORECASE)


def _sorted(names: list[str]) -> list[str]:
    return sorted(set(names))


def _restricting(names: list[str]) -> list[str]:
    if not names:
        raise ValueError("name at least one toolset, or leave it out: that is all tools of the hub")
    return names


def is_reference(text: str) -> bool:
    """Whether a value has nothing that could be a secret."""
    return _REFERENCE.fullmatch(text) is not None


def _reference(text: str) -> str:
    try:
        references.found_in([text])
    except ValueError as error:
        raise ValueError(str(error)) from None
    if not is_reference(text):
        raise ValueError(
            "a secret must not be in the file: write a reference such as ${TOOLHUB_SECRET_ACME} or ${file:acme}, and "
            "set that variable, or put that file into TOOLHUB_SECRETS_DIR"
        )
    return text


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("expected a time such as 2027-01-31T00:00:00+00:00") from None
    if moment.tzinfo is None:
        raise ValueError("a time needs its offset from UTC, such as 2027-01-31T00:00:00+00:00")
    return moment.astimezone(UTC).isoformat()


Text = Annotated[str, Field(max_length=MOST_TEXT)]
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Names = Annotated[list[Name], AfterValidator(_sorted)]
Reference = Annotated[Text, AfterValidator(_reference)]
Moment = Annotated[Text, AfterValidator(_moment)]
Scalar = str | bool | int | float


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @property
    def data(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        return self.model_dump(mode="json")


class User(Part):
    role: Literal["viewer", "operator", "admin", "superuser"]


class Limits(Part):
    """The limits of calls of a tool or a source. Null: inherited."""

    timeout_ms: int | None = None
    retries: int | None = None
    retry_delay_ms: int | None = None
    rate_calls: int | None = None
    rate_seconds: int | None = None
    cache_seconds: int | None = None
    answer_tokens: int | None = None


class ApiDocument(Part):
    """Where the OpenAPI document of a source is, and which of its operations are tools; without `select`, all."""

    address: Text = ""
    select: Names | None = None


class Source(Limits):
    """A source outside has a `kind`; without one it is Python code of the hub, of which only the switches are decided
    here."""

    kind: Literal["mcp_http", "mcp_stdio", "openapi"] | None = None
    location: Text = ""
    # In order.
    command: list[Text] = []
    start: Literal["on_demand", "always"] = "on_demand"
    internal: bool = False
    per_session: bool = False
    declares: Names = []
    failure_pattern: Text = ""
    pin_defaults: bool = True
    connection: Text = ""
    document: ApiDocument | None = None
    enabled: bool = True
    trust: Literal["", "auto", "hold_changes", "hold_all"] = ""


class Connection(Part):
    source: Name
    form: Text = ""
    url: Text = ""
    read_only: bool = False
    allow_http: bool = False
    timeout_ms: int | None = None
    enabled: bool = True
    options: dict[Name, Scalar] = {}
    # Of a pack one reference, otherwise one for each value. Nothing: a person signs in.
    secret: Reference | dict[Name, Reference] = {}


class Override(Part):
    name: Text = ""
    description: Text = ""


class Budgeted(Part):
    """How much may be used. Null: no limit."""

    calls_a_day: int | None = None
    tokens_a_day: int | None = None
    calls_a_month: int | None = None
    tokens_a_month: int | None = None


class Toolset(Budgeted):
    description: Text = ""
    packs: Names = []
    categories: Names = []
    tags: Names = []
    names: Names = []
    read_only: bool = False
    mode: Text = ""
    detail: Text = ""
    overrides: dict[Name, Override] = {}


class Tool(Limits):
    # Null: as it starts, which is off for tools outside, and for those whose author says so.
    enabled: bool | None = None
    ask: bool = False
    # Of tools outside: what a call does. Null: not known.
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    # Without those that its author declares.
    tags: Names = []


class Rate(Part):
    calls: int
    seconds: int


class Key(Budgeted):
    """The rights of a key, never the key itself."""

    scopes: Names = sorted(default_scopes())
    # Null: all tools.
    toolsets: Annotated[Names, AfterValidator(_restricting)] | None = None
    connections: Names = [ENVIRONMENT]
    may_write: bool = True
    may_destroy: bool = True
    asks: Literal["", "writes", "destroys"] = ""
    rate: Rate | None = None
    addresses: Names = []
    expires_at: Moment | None = None
    owner: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _destroys_only_if_it_writes(cls, values: Any) -> Any:
        is_limited = isinstance(values, Mapping) and values.get("may_write") is False
        return {**values, "may_destroy": False} if is_limited else values


class AlertRule(Part):
    enabled: bool = True
    owner: Text = ""
    channel: Literal["webhook", "mail"] = "webhook"
    internal: bool = False
    recipients: Names = []
    events: Names = []
    severity: Literal["error", "warning", "info"] = "info"
    tools: Names = []
    sources: Names = []
    callers: Names = []
    error_rate: int = 5
    per_minute: int = 10
    payloads: bool = False
    template: Text = ""
    # Of a webhook.
    url: Reference | None = None
    secret: Reference | None = None


class Document(Part):
    """A whole file: for each kind its records, by name."""

    version: Literal[1]
    users: dict[Name, User] = {}
    sources: dict[Name, Source] = {}
    connections: dict[Name, Connection] = {}
    toolsets: dict[Name, Toolset] = {}
    tools: dict[Name, Tool] = {}
    keys: dict[Name, Key] = {}
    alert_rules: dict[Name, AlertRule] = {}

    # The sections, in the order in which they are applied.
    SECTIONS: ClassVar[Mapping[Kind, str]] = {
        Kind.USER: "users",
        Kind.SOURCE: "sources",
        Kind.CONNECTION: "connections",
        Kind.TOOLSET: "toolsets",
        Kind.TOOL: "tools",
        Kind.KEY: "keys",
        Kind.ALERT_RULE: "alert_rules",
    }
    PARTS: ClassVar[Mapping[Kind, type[Part]]] = {
        Kind.USER: User,
        Kind.SOURCE: Source,
        Kind.CONNECTION: Connection,
        Kind.TOOLSET: Toolset,
        Kind.TOOL: Tool,
        Kind.KEY: Key,
        Kind.ALERT_RULE: AlertRule,
    }

    def records(self, kind: Kind) -> dict[str, Part]:
        records: dict[str, Part] = getattr(self, self.SECTIONS[kind])
        return records
