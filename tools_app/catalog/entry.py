"""One tool at present: its definition, operators' decisions about it, and why it cannot be called."""

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
# The tools with which agents search for and call tools that are not listed.
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
    # The accounts at its upstream: all, or those of the caller.
    accounts: tuple[Account, ...] = ()
    # True if every call needs an operator's approval.
    ask: bool = False
    # The name in the caller's toolset, if it differs.
    alias: str = ""
    # The stored definition, if this process has not loaded the tool.
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown_name(self) -> str:
        """The name for the caller. The tool can be called by this name and its own, and is recorded under its own."""
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
        """The right that a caller lacks to use it: `write`, `destroy` or none.

        A tool that calls others is as powerful as they are; they are checked when it is called.
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
        """The schema for callers: the tool's own, plus the choice of an account if the caller has several."""
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
        """The hints (read-only, destructive…); None if unknown."""
        return self.tool.hints.as_dict() if self.tool else self.body.get("annotations")

    @property
    def examples(self) -> list[dict[str, Any]]:
        return [example.as_dict() for example in self.tool.examples] if self.tool else self.body.get("examples", [])

    @property
    def aliases(self) -> list[str]:
        return list(self.tool.aliases) if self.tool else self.body.get("aliases", [])

    @property
    def dependencies(self) -> list[str]:
        """The tools that it depends on, as its author wrote them."""
        return list(self.tool.dependencies) if self.tool else self.body.get("dependencies", [])

    @property
    def needs(self) -> tuple[Dependency, ...]:
        return self.tool.needs if self.tool else tuple(map(Dependency.read, self.dependencies))

    @property
    def choices(self) -> tuple[str, ...]:
        """The accounts that its schema offers; empty without a choice."""
        if len(self.accounts) < 2:
            return ()
        writes = self.hints.writes
        return tuple(account.name for account in self.accounts if not account.obstacle(writes=writes))


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a tool's calls, and the origin of each: operator, tool, pack or settings."""

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate: Rate | None
    cache_seconds: int
    answer_tokens: int
    origins: Mapping[str, str]

    def decided(self, part: str) -> bool:
        """True if an operator set this part: callers may lower it, but not raise it."""
        return self.origins[part] == "operator"

    def for_caller(self, timeout_ms: int | None, retries: int | None, retry_delay_ms: int | None) -> Policy:
        """The policy with a caller's options. Parts that no operator set may also be raised above the default."""
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


def effective_policy(record: ToolRecord, tool: Tool | None) -> Policy:
    """The policy set by an operator, or else by the tool, its pack or the settings."""
    pack = tool.pack if tool else None
    chains: dict[str, tuple[Any, ...]] = {
        "timeout_ms": (record.timeout_ms, _ms(tool), _ms(pack), conf.value("TOOLHUB_TIMEOUT_MS")),
        "retries": (record.retries, tool and tool.retries, pack and pack.retries, conf.value("TOOLHUB_RETRIES")),
        "retry_delay_ms": (record.retry_delay_ms, None, None, conf.value("TOOLHUB_RETRY_DELAY_MS")),
        "rate": (_own_rate(record), tool and tool.rate, pack and pack.rate, _default_rate()),
        # Answers of tools that write are never cached, even if that was set before the tool wrote.
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
        candidates = [(value, origin) for value, origin in zip(chain, ORIGINS, strict=True) if value is not None]
        values[part], origins[part] = candidates[0] if candidates else (None, ORIGINS[-1])
    return Policy(**values, origins=origins)


def _lowered(decided: tuple[int | None, ...], most: int) -> tuple[int | None, ...]:
    """Only values below the hub's setting count: nothing may exceed the budget of an agent's context."""
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
