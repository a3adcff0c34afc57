"""The entry of this hub in a client's configuration: what it is made of, and a test of it."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass
from typing import Final

from tools_app.management import handshake, launch
from tools_app.management.config_file import ConfigFile
from tools_app.management.hub_command import Abort
from tools_app.setup.clients import Entry, McpClient

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class ConnectPlan:
    """What to connect, and how. Without a file the entry is printed."""

    client: McpClient
    file: ConfigFile | None
    name: str
    url: str | None
    toolsets: list[str]
    read_only: bool
    mode: str
    connections: list[str] | None

    def entry(self, key: str) -> Entry:
        """The entry in the client's configuration."""
        if self.url is not None:
            entry = self.client.over_http(self.url, key)
        else:
            flags = [word for toolset in self.toolsets for word in ("--toolset", toolset)]
            flags += [word for connection in self.connections or () for word in ("--connection", connection)]
            flags += ["--mode", self.mode] if self.mode else []
            command = launch.command(["runmcp", *flags, *(["--read-only"] if self.read_only else [])])
            entry = self.client.over_stdio(command, launch.environment())
        if "${" in json.dumps(entry):
            raise Abort("a path or variable of this hub contains '${', which clients would replace")
        return entry


def proof_of(entry: Entry) -> str:
    """Connect as the client would. Raises: CheckFailed."""
    proof = handshake.check_entry(entry)
    tools = {0: "no tools (run `toolhub doctor`)", 1: "1 tool"}.get(proof.tools, f"{proof.tools} tools")
    return f"Connection tested: the agent sees {tools}, after {proof.seconds:.1f} s."


def entry_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ArgumentTypeError("must be letters, digits, - and _, at most 64")
    return text
