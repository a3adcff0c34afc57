"""The MCP clients that `toolhub connect` knows: where each keeps its servers, and how it writes one down."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Entry = dict[str, Any]

# What an entry says of the server. All else in it is between the client and its user, as whether it is switched on.
DECIDED: Final = frozenset({"type", "command", "args", "env", "url", "headers"})


@dataclass(frozen=True)
class Machine:
    """What decides where a user's files are."""

    platform: str
    home: Path
    variables: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        return cls(sys.platform, Path.home(), os.environ)

    @property
    def applications(self) -> Path:
        """Where programs keep what belongs to their user."""
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
        # Installed as a package, it sees a folder of its own in the place of the usual one.
        for package in sorted((local / "Packages").glob("Claude_*")):
            return package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
    return machine.applications / "Claude" / "claude_desktop_config.json"


def _cursor(machine: Machine) -> Path:
    return machine.home / ".cursor" / "mcp.json"


def _vscode(machine: Machine) -> Path:
    return machine.applications / "Code" / "User" / "mcp.json"


@dataclass(frozen=True)
class Client:
    """`member` is the object in its file that holds the servers; `typed`, whether each says of which kind it is."""

    name: str
    title: str
    user_file: Callable[[Machine], Path] | None = None
    project_file: str = ""
    member: str = "mcpServers"
    typed: bool = True
    http: bool = True
    next_step: str = ""

    def over_stdio(self, command: Sequence[str], variables: Mapping[str, str]) -> Entry:
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": list(command[1:]), "env": dict(variables)}

    def over_http(self, url: str, key: str) -> Entry:
        return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {key}"}}


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            _claude_code,
            ".mcp.json",
            next_step="Start Claude Code anew; /mcp there shows the server. One of a project it asks you to approve.",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            _claude_desktop,
            typed=False,
            http=False,
            next_step="Quit Claude Desktop and start it again; closing its window is not enough.",
        ),
        Client(
            "cursor",
            "Cursor",
            _cursor,
            ".cursor/mcp.json",
            next_step="In Cursor's settings, under MCP, see that the server is switched on.",
        ),
        Client(
            "vscode",
            "VS Code",
            _vscode,
            ".vscode/mcp.json",
            member="servers",
            next_step="In VS Code, `MCP: List Servers` starts the server and asks whether you trust it.",
        ),
        Client("generic", "An MCP client"),
    )
}
