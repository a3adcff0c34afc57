"""A call as other programs make it, to be copied: quoted so that whatever the arguments hold stays data."""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools_app.sdk.accounts import PARAMETER

KEY: Final = "TOOLHUB_KEY"
_STATELESS: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Copy:
    id: str
    title: str
    text: str


def copies(name: str, arguments: Mapping[str, Any], address: str) -> list[Copy]:
    """The call through every other door; `address` is where REST takes calls."""
    return [
        Copy("copy-curl", "curl", curl(name, arguments, address)),
        Copy("copy-python", "Python", python(name, arguments, address)),
        Copy("copy-mcp", "MCP", mcp(name, arguments)),
        Copy("copy-command", "toolhub", command(name, arguments)),
    ]


def curl(name: str, arguments: Mapping[str, Any], address: str) -> str:
    body = json.dumps({"name": name, "parameters": arguments})
    return " ".join(
        (
            f"curl -sS {shlex.quote(address)}",
            f'-H "Authorization: Bearer ${KEY}"',
            "-H 'Content-Type: application/json'",
            f"--data-raw {shlex.quote(body)}",
        )
    )


def python(name: str, arguments: Mapping[str, Any], address: str) -> str:
    body = pprint.pformat({"name": name, "parameters": dict(arguments)}, width=100, sort_dicts=False)
    lines = body.replace("\n", "\n    ")
    return (
        "import os\n\n"
        "import httpx\n\n"
        "response = httpx.post(\n"
        f"    {address!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[{KEY!r}]}}"}},\n'
        f"    json={lines},\n"
        "    timeout=120,\n"
        ")\n"
        "print(response.json())\n"
    )


def mcp(name: str, arguments: Mapping[str, Any]) -> str:
    """The request as it goes over the wire. It says who it is itself, so it needs no handshake before it."""
    params = {"name": name, "arguments": arguments, "_meta": _STATELESS}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, indent=2, ensure_ascii=False
    )


def command(name: str, arguments: Mapping[str, Any]) -> str:
    line = ["toolhub", "calltool", name, json.dumps(arguments)]
    if isinstance(connection := arguments.get(PARAMETER), str):
        # At a shell one names the connections that a call may use.
        line.append(f"--connection={connection}")
    return shlex.join(line)
