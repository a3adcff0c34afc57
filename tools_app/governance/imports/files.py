"""Reads the configuration of MCP clients and `server.json` of the MCP registry into entries of one shape."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.governance.imports.values import Question
from tools_app.sdk.errors import shortened
from tools_app.text import commented_json, json_text
from tools_app.text.json_text import JsonError

MOST_BYTES: Final = 1024 * 1024
MOST_SERVERS: Final = 200
MOST_INPUTS: Final = 200
_TABLE: Final = re.compile(r"^[ \t]*\[mcp_servers", re.MULTILINE)
# Python's parser of TOML takes quadratic time for the parts of a dotted key.
MOST_DOTS: Final = 500
# Other names for the same in files of some clients.
_SPELLINGS: Final = {"serverUrl": "url", "httpUrl": "url", "http_headers": "headers"}


class ImportFileError(ValueError):
    """The file cannot be read as any of the formats; the message says why, without quoting it."""


@dataclass(frozen=True)
class ImportFile:
    """`member` is where clients have their servers; empty for `server.json`, whose only entry is the whole file."""

    member: str
    entries: Mapping[str, dict[str, Any]] = field(repr=False)
    questions: Mapping[str, Question] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def is_registry(self) -> bool:
        return not self.member


def read(data: bytes) -> ImportFile:
    """The servers that a file describes.

    Raises:
        ImportFileError
    """
    if len(data) > MOST_BYTES:
        raise ImportFileError(f"it has more than {MOST_BYTES // 1024:,} KiB")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ImportFileError("it is not UTF-8 text") from None
    if not text.strip():
        raise ImportFileError("it is empty")
    try:
        value = _json(text) if text.lstrip()[0] in "{/[" and not _is_toml(text) else _toml(text)
    except RecursionError:
        raise ImportFileError("it is nested too deep") from None
    return _file(value)


def _is_toml(text: str) -> bool:
    """A file of Codex may begin with a table, which looks like a list of JSON."""
    return text.lstrip()[0] == "[" and _TABLE.search(text) is not None


def _json(text: str) -> Any:
    try:
        return json_text.parsed(commented_json.plain(commented_json.tokens(text)).encode())
    except (JsonError, UnicodeEncodeError) as error:
        raise ImportFileError(f"it is not JSON: {error}") from None


def _toml(text: str) -> Any:
    if any(line.count(".") > MOST_DOTS for line in text.splitlines()):
        raise ImportFileError("one of its lines has too many dots")
    try:
        # Through JSON, for the same limits.
        return json_text.parsed(json.dumps(tomllib.loads(text), default=str).encode())
    except tomllib.TOMLDecodeError:
        raise ImportFileError("it is neither JSON nor TOML") from None
    except (JsonError, UnicodeEncodeError, ValueError) as error:
        raise ImportFileError(f"it cannot be used: {error}") from None


def _file(value: Any) -> ImportFile:
    if not isinstance(value, dict):
        raise ImportFileError("it is not an object")
    if isinstance(value.get("server"), dict) and "packages" not in value:  # as the registry answers
        value = value["server"]
    if isinstance(value.get("name"), str) and isinstance(value.get("packages", value.get("remotes")), list):
        return ImportFile("", {value["name"]: value})
    if isinstance(value.get("mcp"), dict) and "servers" in value["mcp"]:  # settings.json of VS Code
        value = value["mcp"]
    for member in ("mcpServers", "servers", "mcp_servers"):
        if isinstance(value.get(member), dict):
            return _of_client(member, value[member], value)
    if value and all(isinstance(entry, dict) for entry in value.values()) and any(map(_is_server, value.values())):
        return _of_client("servers", value, {})
    raise ImportFileError("it has no servers: expected mcpServers, servers, mcp_servers, or server.json of a registry")


def _of_client(member: str, servers: Mapping[str, Any], whole: Mapping[str, Any]) -> ImportFile:
    if len(servers) > MOST_SERVERS:
        raise ImportFileError(f"it has more than {MOST_SERVERS} servers")
    entries = {name: _entry(body) if isinstance(body, dict) else {} for name, body in servers.items()}
    notices = []
    projects = whole.get("projects")
    of_projects = sum(
        isinstance(project, dict) and bool(project.get("mcpServers"))
        for project in (projects.values() if isinstance(projects, dict) else ())
    )
    if of_projects:
        notices.append(f"servers of single projects in it are not read; number of projects with servers: {of_projects}")
    return ImportFile(member, entries, _questions(whole.get("inputs")), tuple(notices))


def _is_server(entry: dict[str, Any]) -> bool:
    return bool({"command", "url", "serverUrl", "httpUrl"} & entry.keys())


def _entry(body: dict[str, Any]) -> dict[str, Any]:
    """An entry with the names and placeholders that Claude Code uses."""
    entry = {_SPELLINGS.get(key, key): value for key, value in body.items()}
    headers = dict(entry["headers"]) if isinstance(entry.get("headers"), dict) else {}
    # Codex names the variables of the shell.
    if isinstance(name := entry.pop("bearer_token_env_var", None), str):
        headers["Authorization"] = f"Bearer ${{{name}}}"
    if isinstance(token := entry.pop("bearer_token", None), str):
        headers["Authorization"] = f"Bearer {token}"
    if isinstance(by_header := entry.pop("env_http_headers", None), dict):
        headers |= {header: f"${{{name}}}" for header, name in by_header.items()}
    if headers:
        entry["headers"] = headers
    if isinstance(names := entry.pop("env_vars", None), list):
        variables = entry["env"] if isinstance(entry.get("env"), dict) else {}
        entry["env"] = {**{name: f"${{{name}}}" for name in names if isinstance(name, str)}, **variables}
    return entry


def _questions(inputs: Any) -> dict[str, Question]:
    """What VS Code would ask its user."""
    questions = {}
    for item in inputs[:MOST_INPUTS] if isinstance(inputs, list) else ():
        if not isinstance(item, dict) or not isinstance(name := item.get("id"), str):
            continue
        if item.get("type") not in ("promptString", "pickString"):
            continue  # A command of the editor: only its user knows the result.
        default = item.get("default")
        options = item.get("options") if item["type"] == "pickString" else None
        questions[name] = Question(
            name,
            shortened(str(item.get("description") or ""), 200),
            is_secret=item.get("password") is True,
            default=default if isinstance(default, str) and default else None,
            choices=tuple(option for option in options or () if isinstance(option, str))
            if isinstance(options, list)
            else (),
        )
    return questions
