"""A call as code for other programs, with all arguments quoted as data."""

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


def copies(name: str, arguments: Mapping[str, Any], address: str, parameter: str = PARAMETER) -> list[Copy]:
    """The same call through every other channel; `address` is the REST endpoint, `parameter` names the connection."""
    return [
        Copy("copy-curl", "curl", curl(name, arguments, address)),
        Copy("copy-python", "Python", python(name, arguments, address)),
        Copy("copy-mcp", "MCP", mcp(name, arguments)),
        Copy("copy-command", "toolhub", command(name, arguments, parameter)),
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
    """The request on the wire. It carries its own client metadata, so it needs no handshake."""
    params = {"name": name, "arguments": arguments, "_meta": _STATELESS}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, indent=2, ensure_ascii=False
    )


def command(name: str, arguments: Mapping[str, Any], parameter: str = PARAMETER) -> str:
    line = ["toolhub", "calltool", name, json.dumps(arguments)]
    if isinstance(connection := arguments.get(parameter), str):
        # In the shell, the connection must also be allowed for the call.
        line.append(f"--connection={connection}")
    return shlex.join(line)
