"""One tool at present: its definition, operators' decisions about it, and why it cannot be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from tools_app.base import conf
from tools_app.models import ToolRecord
from tools_app.models.tools import MAX_TIMEOUT_MS, PolicyColumns
from tools_app.sdk import accounts
from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.hints import Hints
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.names import folded
from tools_app.sdk.outside import Origin
from tools_app.sdk.policies import Rate
from tools_app.sdk.reach import Detail, Reach
from tools_app.sdk.schemas import Schema
from tools_app.sdk.spec import Kind, ToolSpec

READER: Final = "read_result"
# The tools with which agents search for and call tools that are not listed.
FINDERS: Final = frozenset({"search_tools", "describe_tool", "call_tool", "call_writing_tool", "call_many"})
# Calls several tools at once. In a direct list only if a toolset names it: most clients can do so by themselves.
MANY: Final = "call_many"
ORIGINS: Final = ("operator", "source", "tool", "pack", "settings")
# Who decides over callers: they may lower these limits, but not raise them.
_OPERATORS: Final = frozenset({"operator", "source"})


@dataclass(frozen=True)
class Entry:
    """One tool, prompt or resource, as it is right now."""

    spec: ToolSpec
    name: str
    # The name of its source, and the kind of source as callers see it.
    source_name: str
    source: str
    # Its source and epoch, in digests of approvals, cached answers and idempotency keys. Empty for code in its first
    # epoch, so that digests from before an upgrade hold.
    identity: tuple[str, int] | tuple[()]
    pack: str
    tags: tuple[str, ...]
    enabled: bool
    registered_at: datetime
    updated_at: datetime
    policy: Policy
    hints: Hints
    refusal: Refusal | None
    # The accounts at its upstream: all, or those of the caller.
    accounts: tuple[Account, ...] = ()
    # True if every call needs an operator's approval.
    ask: bool = False
    # The row of the definition.
    definition_pk: int | None = None
    # The name and description in the caller's toolset, if they differ.
    alias: str = ""
    own_words: str = ""
    # How much of it that toolset shows; empty: as the hub's setting says.
    own_detail: str = ""
    # True if its source has a newer version that no operator has approved, or has begun a new epoch and is not
    # described yet: it is listed, but does not run.
    is_held: bool = False
    # The source, if it is outside.
    origin: Origin | None = None

    @property
    def is_outside(self) -> bool:
        """Whether its source is outside, so that toolsets must select it."""
        return self.origin is not None

    @property
    def source_epoch(self) -> int:
        """The epoch of a source outside; 0 for others."""
        return self.origin.epoch if self.origin is not None else 0

    @property
    def shown_name(self) -> str:
        """The name for the caller. The tool can be called by this name and its own, and is recorded under its own."""
        return self.alias or self.name

    @property
    def title(self) -> str:
        return self.spec.title

    @property
    def description(self) -> str:
        return self.own_words or self.spec.shown_description

    @property
    def detail(self) -> Detail:
        return Detail(self.own_detail or conf.value("TOOLHUB_LIST_DETAIL"))

    @property
    def version(self) -> str:
        return self.spec.version

    @property
    def category(self) -> str:
        return self.spec.category

    @property
    def folded_name(self) -> str:
        return folded(self.name) if self.spec.kind is Kind.TOOL else self.spec.folded_name

    @property
    def callable(self) -> bool:
        return self.refusal is None

    @property
    def is_finder(self) -> bool:
        return self.name in FINDERS and self.pack == "finding"

    @property
    def forwards(self) -> bool:
        return self.spec.forwards

    def beyond(self, reach: Reach) -> str:
        """The right that a caller lacks to use it: `write`, `destroy` or none.

        A tool that calls others is as powerful as they are; they are checked when it is called.
        """
        lacks = reach.lacks(self.hints)
        return "" if lacks == "destroy" and self.forwards else lacks

    @property
    def definition_hash(self) -> str:
        return self.spec.hash

    @property
    def connection_kind(self) -> ConnectionKind | None:
        """The kind of account that it uses: as its pack declares, or that of its source, if it is outside."""
        return self.spec.connection or (ConnectionKind.outside(self.source_name) if self.origin is not None else None)

    @property
    def input_schema(self) -> Schema:
        """The schema for callers: the tool's own, plus the choice of an account if the caller has several."""
        kind = self.connection_kind
        if kind is None:
            return self.spec.input_schema
        return accounts.with_choice(self.spec.input_schema, kind, self.accounts, writes=self.hints.writes)

    @property
    def connection_parameter(self) -> str:
        """The parameter that names the account of a call; empty if its arguments have none."""
        if self.origin is None:
            # Also with one account: the caller may have had several.
            return accounts.PARAMETER
        return accounts.parameter_of(self.spec.input_schema) if len(self.accounts) > 1 else ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The accounts that its schema offers; empty without a choice."""
        if len(self.accounts) < 2:
            return ()
        writes = self.hints.writes
        return tuple(account.name for account in self.accounts if not account.obstacle(writes=writes))

    def completion(self, argument: str) -> Entry:
        """The function that completes an argument of this prompt or resource."""
        spec = self.spec.completion(argument)
        return replace(self, spec=spec, name=spec.name)


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a tool's calls, and the origin of each: operator, source, tool, pack or settings."""

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate: Rate | None
    cache_seconds: int
    answer_tokens: int
    origins: Mapping[str, str]

    def decided(self, part: str) -> bool:
        """True if an operator set this part: callers may lower it, but not raise it."""
        return self.origins[part] in _OPERATORS

    def for_caller(self, timeout_ms: int | None, retries: int | None, retry_delay_ms: int | None) -> Policy:
        """The policy with a caller's options. Parts that no operator set may also be raised above the default."""
        if timeout_ms is None and retries is None and retry_delay_ms is None:
            return self
        return replace(
            self,
            timeout_ms=self._for_option("timeout_ms", timeout_ms, min),
            retries=self._for_option("retries", retries, min),
            retry_delay_ms=self._for_option("retry_delay_ms", retry_delay_ms, max),
        )

    def _for_option(self, part: str, option: int | None, stricter: Callable[[int, int], int]) -> int:
        default: int = getattr(self, part)
        if option is None:
            return default
        return stricter(option, default) if self.decided(part) else option

    def limit_of_time(self, timeout_ms: int) -> str:
        """What limits the duration of a call; empty if the caller could raise it."""
        if self.decided("timeout_ms") and timeout_ms >= self.timeout_ms:
            return "an operator"
        return "this hub" if timeout_ms >= MAX_TIMEOUT_MS else ""

    def as_dict(self) -> dict[str, Any]:
        rate = self.rate
        return {
            "timeoutMs": self.timeout_ms,
            "retries": self.retries,
            "retryDelayMs": self.retry_delay_ms,
            "rateLimit": {"max": rate.most, "timeWindow": round(rate.seconds * 1000)} if rate else None,
            "cacheSeconds": self.cache_seconds,
            "answerTokens": self.answer_tokens,
            "origins": {_POLICY_NAMES[part]: origin for part, origin in self.origins.items()},
        }


_POLICY_NAMES: Final = {
    "timeout_ms": "timeoutMs",
    "retries": "retries",
    "retry_delay_ms": "retryDelayMs",
    "rate": "rateLimit",
    "cache_seconds": "cacheSeconds",
    "answer_tokens": "answerTokens",
}


class PolicyDefaults:
    """The limits in the settings."""

    def __init__(self) -> None:
        self.timeout_ms = conf.value("TOOLHUB_TIMEOUT_MS")
        self.retries = conf.value("TOOLHUB_RETRIES")
        self.retry_delay_ms = conf.value("TOOLHUB_RETRY_DELAY_MS")
        self.answer_tokens = conf.value("TOOLHUB_ANSWER_TOKENS")
        calls = conf.value("TOOLHUB_RATE_CALLS")
        self.rate = Rate(calls, conf.value("TOOLHUB_RATE_SECONDS")) if calls else None


_UNDECIDED: Final = ToolRecord()


def effective_hints(record: ToolRecord, spec: ToolSpec) -> Hints:
    """The hints that apply: operators can correct what the source claims."""
    claimed = spec.hints
    decided = record.hint_read_only, record.hint_destructive, record.hint_idempotent, record.hint_open_world
    if decided == (None, None, None, None):
        return claimed
    read_only, destructive, idempotent, open_world = decided
    return Hints(
        claimed.read_only if read_only is None else read_only,
        claimed.destructive if destructive is None else destructive,
        claimed.idempotent if idempotent is None else idempotent,
        claimed.open_world if open_world is None else open_world,
    )


def effective_policy(
    record: ToolRecord, spec: ToolSpec, source: PolicyColumns | None = None, defaults: PolicyDefaults | None = None
) -> Policy:
    """The policy set by an operator for the tool or its source, or else by the tool, its pack or the settings."""
    own, pack = spec.policy, spec.pack_policy
    origin, default = source or _UNDECIDED, defaults or PolicyDefaults()
    chains: dict[str, tuple[Any, ...]] = {
        "timeout_ms": (record.timeout_ms, origin.timeout_ms, own.timeout_ms, pack.timeout_ms, default.timeout_ms),
        "retries": (record.retries, origin.retries, own.retries, pack.retries, default.retries),
        "retry_delay_ms": (record.retry_delay_ms, origin.retry_delay_ms, None, None, default.retry_delay_ms),
        "rate": (_rate(record), _rate(origin), own.rate, pack.rate, default.rate),
        # Answers of tools that write are never cached, even if that was set before the tool wrote.
        "cache_seconds": (
            (None, None, None, None, 0)
            if effective_hints(record, spec).writes
            else (record.cache_seconds, origin.cache_seconds, own.cache_seconds, None, 0)
        ),
        "answer_tokens": _lowered(
            (record.answer_tokens, origin.answer_tokens, own.answer_tokens, None), default.answer_tokens
        ),
    }
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for part, chain in chains.items():
        for value, decided_by in zip(chain, ORIGINS, strict=True):
            if value is not None:
                values[part], origins[part] = value, decided_by
                break
        else:
            values[part], origins[part] = None, ORIGINS[-1]
    return Policy(**values, origins=origins)


def _lowered(decided: tuple[int | None, ...], most: int) -> tuple[int | None, ...]:
    """Only values below the hub's setting count: nothing may exceed the budget of an agent's context."""
    return (*(value if value is not None and value < most else None for value in decided), most)


def _rate(columns: PolicyColumns) -> Rate | None:
    if columns.rate_calls is None or columns.rate_seconds is None:
        return None
    return Rate(columns.rate_calls, columns.rate_seconds)
