"""The MCP clients that commands and the admin know: their configuration files, and the format of an entry."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tools_app.catalog.entry import READER
from tools_app.text import toml_text

Entry = dict[str, Any]

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

# The members of an entry that describe the server. Others, such as enabled or disabled, belong to the client and user.
SERVER_MEMBERS: Final = frozenset({"type", "command", "args", "env", "url", "headers", "http_headers"})


@dataclass(frozen=True)
class Machine:
    """What the location of a user's files depends on."""

    platform: str
    home: Path
    variables: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        return cls(sys.platform, Path.home(), os.environ)

    @property
    def applications(self) -> Path:
        """The directory for application data of the user."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.variables.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.variables.get("XDG_CONFIG_HOME") or self.home / ".config")


def _claude_code(machine: Machine) -> Path:
    return Path(machine.variables.get("CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


def _claude_desktop(machine: Machine) -> Path:
    if machine.platform == "win32":
        local = Path(machine.variables.get("LOCALAPPDATA") or machine.home / "AppData" / "Local")
        # Installed as a package, it uses a separate folder.
        for package in sorted((local / "Packages").glob("Claude_*")):
            return package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
    return machine.applications / "Claude" / "claude_desktop_config.json"


def _cursor(machine: Machine) -> Path:
    return machine.home / ".cursor" / "mcp.json"


def _codex(machine: Machine) -> Path:
    return Path(machine.variables.get("CODEX_HOME") or machine.home / ".codex") / "config.toml"


def _vscode(machine: Machine) -> Path:
    return machine.applications / "Code" / "User" / "mcp.json"


@dataclass(frozen=True)
class McpClient:
    """`member` is the object in its file that holds the servers; `has_type`: whether each entry has a `type`.

    `headers` is the member of an entry that holds its headers.
    """

    name: str
    title: str
    user_file: Callable[[Machine], Path] | None = None
    project_file: str = ""
    member: str = "mcpServers"
    has_type: bool = True
    http: bool = True
    headers: str = "headers"
    is_toml: bool = False
    # A program that calls a model's API, which connects to the hub itself: it is given parts of its request.
    is_api: bool = False
    next_step: str = ""

    def shown(self, name: str, entry: Entry, tools: Sequence[str] = ()) -> str:
        """An entry as it is in the file. `tools`: the names of the hub's tools, which an API is told."""
        if self.is_api:
            return json.dumps(_request(name, entry, tools), indent=2, ensure_ascii=False)
        if self.is_toml:
            return toml_text.written((self.member, name), entry)
        return json.dumps({self.member: {name: entry}}, indent=2, ensure_ascii=False)

    def over_stdio(self, command: Sequence[str], variables: Mapping[str, str]) -> Entry:
        kind = {"type": "stdio"} if self.has_type else {}
        return {**kind, "command": command[0], "args": list(command[1:]), "env": dict(variables)}

    def over_http(self, url: str, key: str) -> Entry:
        kind = {"type": "http"} if self.has_type else {}
        return {**kind, "url": url, self.headers: {"Authorization": f"Bearer {key}"}}

    def over_bridge(self, url: str, key: str) -> Entry:
        """For a client that only starts programs: mcp-remote, which others wrote, connects for it.

        The key is in a variable, since other users of the machine can read arguments of programs.
        """
        command = ["npx", "-y", "mcp-remote", url, "--header", "Authorization:${TOOLHUB_AUTHORIZATION}"]
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            command.append("--allow-http")
        return self.over_stdio(command, {"TOOLHUB_AUTHORIZATION": f"Bearer {key}"})


def _request(name: str, entry: Entry, tools: Sequence[str]) -> dict[str, Any]:
    """Parts of a request to the Messages API. Deferred tools are found by its tool search, and cost nothing before.

    Each tool is named, so that a program can list the few that it always needs.
    """
    token = str(entry["headers"]["Authorization"]).removeprefix("Bearer ")
    return {
        "mcp_servers": [{"type": "url", "name": name, "url": entry["url"], "authorization_token": token}],
        "tools": [
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            {
                "type": "mcp_toolset",
                "mcp_server_name": name,
                "default_config": {"defer_loading": True},
                # An answer above the budget names it.
                "configs": {tool: {"defer_loading": tool != READER} for tool in tools},
            },
        ],
    }


CLIENTS: Final = {
    client.name: client
    for client in (
        McpClient(
            "claude-code",
            "Claude Code",
            _claude_code,
            ".mcp.json",
            next_step="Restart Claude Code; /mcp shows the server. It asks you to approve servers of a project.",
        ),
        McpClient(
            "claude-desktop",
            "Claude Desktop",
            _claude_desktop,
            has_type=False,
            http=False,
            next_step="Quit and restart Claude Desktop; closing its window is not enough.",
        ),
        McpClient(
            "cursor",
            "Cursor",
            _cursor,
            ".cursor/mcp.json",
            next_step="In Cursor's settings, under MCP, check that the server is enabled.",
        ),
        McpClient(
            "vscode",
            "VS Code",
            _vscode,
            ".vscode/mcp.json",
            member="servers",
            next_step="In VS Code, run `MCP: List Servers` to start and trust the server.",
        ),
        McpClient(
            "codex",
            "Codex",
            _codex,
            ".codex/config.toml",
            member="mcp_servers",
            has_type=False,
            headers="http_headers",
            is_toml=True,
            next_step="Restart Codex; /mcp shows the server. It reads servers of a project if you trust the project.",
        ),
        McpClient("anthropic-api", "The Anthropic API", is_api=True),
        McpClient("generic", "An MCP client"),
    )
}
