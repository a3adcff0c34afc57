"""One tool as it is right now: what it is, what operators decided about it, and why it cannot be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from tools_app.base import conf
from tools_app.models import ToolRecord
from tools_app.models.tools import MAX_TIMEOUT_MS
from tools_app.sdk import accounts
from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.names import folded
from tools_app.sdk.pack import Pack
from tools_app.sdk.policies import Rate
from tools_app.sdk.reach import Reach
from tools_app.sdk.schemas import Schema
from tools_app.sdk.tool import Hints, Tool

READER: Final = "read_result"
# With these, agents find and call tools that their list does not show.
FINDERS: Final = frozenset({"search_tools", "describe_tool", "call_tool", "call_writing_tool"})
ORIGINS: Final = ("operator", "tool", "pack", "settings")


@dataclass(frozen=True)
class Entry:
    """One tool, as it is right now."""

    name: str
    title: str
    description: str
    version: str
    category: str
    tags: tuple[str, ...]
    author: str
    source: str
    pack: str
    enabled: bool
    registered_at: datetime
    updated_at: datetime
    policy: Policy
    tool: Tool | None
    refusal: Refusal | None
    # The accounts at its upstream: all of them, or the caller's.
    accounts: tuple[Account, ...] = ()
    # Whether an operator has to approve every call.
    ask: bool = False
    # What the caller's toolset calls it, where that is something else.
    alias: str = ""
    # Its definition on record, where this process has not loaded it.
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown_name(self) -> str:
        """What the caller knows it by. It is called by this name and by its own, and journaled under its own."""
        return self.alias or self.name

    @property
    def folded_name(self) -> str:
        return folded(self.name)

    @property
    def callable(self) -> bool:
        return self.refusal is None

    @property
    def is_finder(self) -> bool:
        return self.name in FINDERS and self.pack == "finding"

    @property
    def forwards(self) -> bool:
        return self.tool is not None and self.tool.forwards

    def beyond(self, reach: Reach) -> str:
        """What a caller lacks to use it: `write`, `destroy` or nothing.

        One that calls others does as much as these do, and they are looked at when it is called.
        """
        lacks = reach.lacks(self.hints)
        return "" if lacks == "destroy" and self.forwards else lacks

    @property
    def definition_hash(self) -> str:
        return self.tool.fingerprint if self.tool else ""

    @property
    def hints(self) -> Hints:
        return self.tool.hints if self.tool else Hints()

    @property
    def connection_kind(self) -> ConnectionKind | None:
        return self.tool.connection_kind if self.tool else None

    @property
    def input_schema(self) -> Schema:
        """What callers send. It is the tool's own, but where they have several accounts they say which to use."""
        if self.tool is None:
            return dict(self.body.get("inputSchema") or {})
        kind = self.tool.connection_kind
        if kind is None:
            return self.tool.input_schema
        return accounts.with_choice(self.tool.input_schema, kind, self.accounts, writes=self.tool.hints.writes)

    @property
    def output_schema(self) -> Schema | None:
        return self.tool.output_schema if self.tool else self.body.get("outputSchema")

    @property
    def annotations(self) -> dict[str, bool] | None:
        """What calling it does to the world; None where nothing is known of it."""
        return self.tool.hints.as_dict() if self.tool else self.body.get("annotations")

    @property
    def examples(self) -> list[dict[str, Any]]:
        return [example.as_dict() for example in self.tool.examples] if self.tool else self.body.get("examples", [])

    @property
    def aliases(self) -> list[str]:
        return list(self.tool.aliases) if self.tool else self.body.get("aliases", [])

    @property
    def dependencies(self) -> list[str]:
        """The tools that it needs, in its author's words."""
        return list(self.tool.dependencies) if self.tool else self.body.get("dependencies", [])

    @property
    def needs(self) -> tuple[Dependency, ...]:
        return self.tool.needs if self.tool else tuple(map(Dependency.read, self.dependencies))

    @property
    def choices(self) -> tuple[str, ...]:
        """The accounts that its schema offers; none where there is no choice."""
        if len(self.accounts) < 2:
            return ()
        writes = self.hints.writes
        return tuple(account.name for account in self.accounts if not account.obstacle(writes=writes))


@dataclass(frozen=True, slots=True)
class Policy:
    """How a tool is called, and who decided each part of it: operator, tool, pack or settings."""

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate: Rate | None
    cache_seconds: int
    answer_tokens: int
    origins: Mapping[str, str]

    def decided(self, part: str) -> bool:
        """Whether an operator decided it: callers may ask for less, and never for more."""
        return self.origins[part] == "operator"

    def for_caller(self, timeout_ms: int | None, retries: int | None, retry_delay_ms: int | None) -> Policy:
        """With what a caller asked for. Where no operator has decided, it may also be more than the default."""
        return replace(
            self,
            timeout_ms=self._asked("timeout_ms", timeout_ms, min),
            retries=self._asked("retries", retries, min),
            retry_delay_ms=self._asked("retry_delay_ms", retry_delay_ms, max),
        )

    def _asked(self, part: str, asked: int | None, bounded: Callable[[int, int], int]) -> int:
        decided: int = getattr(self, part)
        if asked is None:
            return decided
        return bounded(asked, decided) if self.decided(part) else asked

    def limit_of_time(self, timeout_ms: int) -> str:
        """Who says that a call may not take longer than that; empty where the caller could ask for more."""
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


def effective_policy(record: ToolRecord, tool: Tool | None) -> Policy:
    """What an operator decided for the tool, else what its author, its pack or the settings say."""
    pack = tool.pack if tool else None
    chains: dict[str, tuple[Any, ...]] = {
        "timeout_ms": (record.timeout_ms, _ms(tool), _ms(pack), conf.value("TOOLHUB_TIMEOUT_MS")),
        "retries": (record.retries, tool and tool.retries, pack and pack.retries, conf.value("TOOLHUB_RETRIES")),
        "retry_delay_ms": (record.retry_delay_ms, None, None, conf.value("TOOLHUB_RETRY_DELAY_MS")),
        "rate": (_own_rate(record), tool and tool.rate, pack and pack.rate, _default_rate()),
        # What writes is never answered from memory, whoever decided so before it wrote.
        "cache_seconds": (
            (None, None, None, 0)
            if tool is None or tool.hints.writes
            else (record.cache_seconds, tool.cache_seconds, None, 0)
        ),
        "answer_tokens": _lowered(
            (record.answer_tokens, tool.answer_tokens if tool else None, None), conf.value("TOOLHUB_ANSWER_TOKENS")
        ),
    }
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for part, chain in chains.items():
        found = [(value, origin) for value, origin in zip(chain, ORIGINS, strict=True) if value is not None]
        values[part], origins[part] = found[0] if found else (None, ORIGINS[-1])
    return Policy(**values, origins=origins)


def _lowered(decided: tuple[int | None, ...], most: int) -> tuple[int | None, ...]:
    """As far as these stay below what the settings say: an agent's context does not grow with anybody's wishes."""
    return (*(value if value is not None and value < most else None for value in decided), most)


def _ms(what: Tool | Pack | None) -> int | None:
    return round(what.timeout * 1000) if what is not None and what.timeout is not None else None


def _own_rate(record: ToolRecord) -> Rate | None:
    if record.rate_calls is None or record.rate_seconds is None:
        return None
    return Rate(record.rate_calls, record.rate_seconds)


def _default_rate() -> Rate | None:
    calls = conf.value("TOOLHUB_RATE_CALLS")
    return Rate(calls, conf.value("TOOLHUB_RATE_SECONDS")) if calls else None
