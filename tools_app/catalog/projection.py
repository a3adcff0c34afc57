"""What MCP clients and the models behind them accept of a tool: limits as data, each with its evidence.

A client that refuses one tool may refuse the whole list, so operators see it before they switch a tool on. A limit
without evidence is not in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Final

# Clients put the name of their entry in front: that of `toolhub connect`.
ENTRY: Final = "toolhub"
RESULT_SIZE: Final = "anthropic/maxResultSizeChars"


class Part(StrEnum):
    """What is limited."""

    # Characters of a name, with what the client puts in front of it.
    NAME = "name"
    # Names of parameters: what is not `_KEY` is refused.
    KEY = "key"
    # Tools of all servers together.
    TOOLS = "tools"
    # Whether `$ref` is refused.
    REFERENCE = "reference"
    # Whether alternatives are refused at the root of the parameters.
    ALTERNATIVES = "alternatives"
    # Tokens of an answer that the model sees whole.
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Limit:
    """`effect` completes a sentence about the client. `as_of` is the date of the evidence."""

    client: str
    part: Part
    value: int
    effect: str
    evidence: str
    as_of: date
    prefix: str = ""


LIMITS: Final = (
    Limit("Claude", Part.NAME, 64, "refuses the tool, or the whole list",
          "anthropics/claude-code#19882, API-200/api200#14", date(2026, 1, 13), f"mcp__{ENTRY}__"),
    Limit("Claude", Part.KEY, 64, "refuses the whole list", "anthropics/claude-code#79418", date(2026, 8, 17)),
    Limit("Claude", Part.ALTERNATIVES, 0, "leaves the tool out, or refuses the whole list",
          "makenotion/notion-mcp-server#341, opentokenz/mcpx#28", date(2026, 9, 21)),
    Limit("Claude Code", Part.ANSWER, 25_000, "stores longer answers in a file", "anthropics/claude-code#42869",
          date(2026, 4, 3)),
    Limit("Cursor", Part.NAME, 59, "leaves the tool out", "ComposioHQ/composio#2788, PostHog/posthog#51483",
          date(2026, 3, 18), ENTRY),
    Limit("Cursor", Part.TOOLS, 80, "warns, and may leave tools out", "Snowflake-Labs/mcp#77", date(2025, 9, 2)),
    Limit("VS Code", Part.TOOLS, 128, "refuses the request", "microsoft/vscode#337428", date(2026, 9, 23)),
    Limit("OpenAI", Part.NAME, 64, "refuses the whole list", "microsoft/foundry-dev-tools#201", date(2025, 5, 9)),
    Limit("OpenAI", Part.TOOLS, 128, "refuses the whole list", "zed-industries/zed#42393", date(2025, 11, 10)),
    Limit("OpenAI", Part.ALTERNATIVES, 0, "refuses the whole list", "imagekit-developer/imagekit-nodejs#150",
          date(2026, 6, 1)),
    Limit("Gemini", Part.REFERENCE, 0, "refuses the list, or does not see the structure of the parameter",
          "google-gemini/gemini-cli#13326, anomalyco/opencode#12295", date(2026, 2, 5)),
    Limit("Gemini", Part.ALTERNATIVES, 0, "refuses the whole list", "DeusData/codebase-memory-mcp#1524",
          date(2026, 8, 10)),
    Limit("Bedrock", Part.NAME, 64, "refuses the whole list", "awslabs/mcp#3181", date(2026, 4, 17)),
    Limit("Bedrock", Part.ALTERNATIVES, 0, "refuses the whole list", "DeusData/codebase-memory-mcp#1524",
          date(2026, 8, 10)),
)  # fmt: skip

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_AT_ROOT: Final = ("allOf", "anyOf", "oneOf")
# `clientInfo.name` of the only client that reads `RESULT_SIZE`, and its own limits of the value, in characters.
_READS_RESULT_SIZE: Final = "claude-code"
_INLINE_CHARACTERS: Final = 50_000
_MOST_CHARACTERS: Final = 500_000
_BYTES_PER_TOKEN: Final = 3


@dataclass(frozen=True, slots=True)
class ClientFinding:
    """What a client does with a tool or a list, and why."""

    client: str
    reason: str
    effect: str

    def __str__(self) -> str:
        return f"{self.client} {self.effect}: {self.reason}"


def findings(name: str, input_schema: Mapping[str, Any] | None = None, client: str = "") -> list[ClientFinding]:
    """What clients do not accept of a tool, as it is listed; of one client only if it is named."""
    schema = input_schema or {}
    return [
        ClientFinding(limit.client, reason, limit.effect)
        for limit in LIMITS
        if (not client or limit.client == client) and (reason := _reason(limit, name, schema))
    ]


def list_findings(tools: int, client: str = "") -> list[ClientFinding]:
    """Which clients do not take a list of this length, even if it is their only one."""
    return [
        ClientFinding(limit.client, f"{tools:,} tools are more than {limit.value}", limit.effect)
        for limit in LIMITS
        if limit.part is Part.TOOLS and tools > limit.value and (not client or limit.client == client)
    ]


def reads_result_size(client: str) -> bool:
    """Whether a client, as it names itself at the handshake, reads how large an answer of a tool may become."""
    return client == _READS_RESULT_SIZE


def result_size(answer_tokens: int) -> int | None:
    """The characters that an answer can have; None if the client shows them all anyway."""
    characters = answer_tokens * _BYTES_PER_TOKEN
    return min(characters, _MOST_CHARACTERS) if characters > _INLINE_CHARACTERS else None


def by_client(found: Iterable[ClientFinding]) -> dict[str, int]:
    """The number of findings of each client."""
    counts: dict[str, int] = {}
    for finding in found:
        counts[finding.client] = counts.get(finding.client, 0) + 1
    return counts


def _reason(limit: Limit, name: str, schema: Mapping[str, Any]) -> str:
    match limit.part:
        case Part.NAME if len(limit.prefix + name) > limit.value:
            added = f" with the {len(limit.prefix)} that it adds" if limit.prefix else ""
            return f"the name has {len(limit.prefix + name)} characters{added}, of at most {limit.value}"
        case Part.KEY if odd := [key for key in schema.get("properties", {}) if not _KEY.fullmatch(key)]:
            return f"{len(odd)} of its parameters have names with other characters than A-Z a-z 0-9 _ . -"
        case Part.ALTERNATIVES if found := [keyword for keyword in _AT_ROOT if keyword in schema]:
            return f"its parameters have {' and '.join(found)} at the top level"
        case Part.REFERENCE if _has_reference(schema):
            return "its parameters refer to definitions ($ref)"
    return ""


def _has_reference(schema: Mapping[str, Any]) -> bool:
    pending: list[Any] = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("$ref"), str):
                return True
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return False
