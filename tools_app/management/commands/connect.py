"""Connect an MCP client of the current user to the hub."""

from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.access import access
from tools_app.catalog import catalog, listed
from tools_app.governance.imports import is_own_entry, key_of
from tools_app.management import handshake
from tools_app.management.config_file import ConfigFile, ConfigFileError
from tools_app.management.connect_plan import ConnectPlan, entry_name, proof_of
from tools_app.management.hub_command import (
    REFUSED,
    Abort,
    HubCommand,
    add_connection_option,
    add_mode_option,
    through,
)
from tools_app.models import ApiKey
from tools_app.sdk.reach import Reach
from tools_app.setup import installation
from tools_app.setup.clients import CLIENTS, LOOPBACK, SERVER_MEMBERS, Entry, Machine, McpClient
from tools_app.text import redaction


class Command(HubCommand):
    help = (
        "Connect an MCP client to this hub: test the connection, and add the hub to the client's configuration. "
        "Over stdio the client starts the hub itself; with --http it uses a running hub and its own API key."
    )
    needs_ready = False  # --print needs no database.

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("client", choices=sorted(CLIENTS), help="generic: print the configuration for other clients")
        add("--http", action="store_true", help="over HTTP, with a new API key for this client")
        add("--url", type=_address, help="the hub's address, default: from HOST and PORT; implies --http")
        add("--name", type=entry_name, default="toolhub", help="name of the entry; default: %(default)s")
        add(
            "--toolset",
            action="append",
            dest="toolsets",
            default=[],
            metavar="NAME",
            help="limit the agent to this toolset; repeatable",
        )
        add("--read-only", action="store_true", help="only read-only tools")
        add_mode_option(parser)
        add_connection_option(parser)
        place = parser.add_mutually_exclusive_group()
        place.add_argument("--user", action="store_true", help="in the user's configuration; the default")
        place.add_argument("--project", type=Path, metavar="DIR", help="in the configuration of this project")
        place.add_argument("--file", type=Path, metavar="PATH", help="in this file")
        add("--print", action="store_true", dest="prints", help="print the entry, change nothing")
        add("--show-key", action="store_true", help="with --print: create the key and show secrets")
        add("--no-check", action="store_true", help="skip the test of the connection")
        add("--force", action="store_true", help="replace or remove an entry of that name that is not this hub's")
        add("--remove", action="store_true", help="remove the entry and revoke its key")

    def handle(self, *args: Any, client: str, **options: Any) -> None:
        plan = _plan(CLIENTS[client], **options)
        checks = not options["no_check"]
        try:
            if options["remove"]:
                self._remove(plan, force=options["force"])
            elif options["prints"] or plan.file is None:
                self._print(plan, shows_key=options["show_key"], checks=checks and not options["prints"])
            elif options["show_key"]:
                raise Abort("--show-key requires --print", REFUSED)
            else:
                self._connect(plan, plan.file, force=options["force"], checks=checks)
        except ConfigFileError as error:
            raise Abort(f"{error}. --print shows the entry to add") from error

    def _connect(self, plan: ConnectPlan, file: ConfigFile, *, force: bool, checks: bool) -> None:
        installation.require_ready(self.tell)
        earlier = _existing_entry(plan, file, force=force)
        with ExitStack() as undo:
            entry = plan.entry(_new_key(plan, undo, checks=checks) if plan.url else "")
            if is_own_entry(earlier):
                entry = {name: value for name, value in earlier.items() if name not in SERVER_MEMBERS} | entry
            proof = proof_of(entry) if checks else ""
            has_backup = file.put(plan.name, entry, private=redaction.redacted(entry) != entry)
            undo.pop_all()
        way = f"over HTTP, at {plan.url}," if plan.url else "over stdio"
        say = self.stdout.write
        say(f"{plan.client.title} is connected to this hub {way} as {plan.name!r} in {file.path}.")
        if proof:
            say(f"  {proof}")
        if has_backup:
            say(f"  Backup of the file: {file.backup}")
        for line in _warnings(plan, entry):
            say(f"  {line}")
        self._end_key(earlier, f"connect {plan.client.name}")
        say(f"  {plan.client.next_step}")

    def _print(self, plan: ConnectPlan, *, shows_key: bool, checks: bool) -> None:
        with ExitStack() as undo:
            if shows_key or plan.client.is_api:
                installation.require_ready(self.tell)
            tools = _listed_tools(plan) if plan.client.is_api else []
            entry = plan.entry(_new_key(plan, undo, checks=checks) if plan.url and shows_key else "…")
            proof = proof_of(entry) if checks and (shows_key or not plan.url) else ""
            undo.pop_all()
        printed_entry = entry if shows_key else redaction.redacted(entry)
        self.stdout.write(plan.client.shown(plan.name, printed_entry, tools))
        if plan.client.is_api:
            self.tell("Send this with anthropic-beta: mcp-client-2025-11-20. List the few tools that are used most:")
            self.tell("set their defer_loading to false.")
        if proof:
            self.tell(proof)
        if printed_entry != entry:
            self.tell(f"{redaction.MASK} replaces secrets. --show-key prints them, and creates the key if needed.")

    def _remove(self, plan: ConnectPlan, *, force: bool) -> None:
        if plan.file is None:
            raise Abort("--remove requires --file for this client", REFUSED)
        installation.require_ready(self.tell)
        entry = _existing_entry(plan, plan.file, force=force)
        if entry is None:
            raise Abort(f"there is no {plan.name!r} in {plan.file.path}")
        plan.file.remove(plan.name)
        self.stdout.write(f"Removed {plan.name!r} from {plan.file.path}.")
        self.stdout.write(f"  Backup of the file: {plan.file.backup}")
        self._end_key(entry, f"connect {plan.client.name} --remove")

    def _end_key(self, entry: Any, reason: str) -> None:
        """Revoke the key of an entry that was removed or replaced."""
        if (key := key_of(entry)) is not None and governance.revoke_key(
            key, actor=governance.of_command(), reason=reason
        ):
            self.stdout.write(f"  The previous key, {key.name}, is revoked.")


# ---- options


def _plan(client: McpClient, **options: Any) -> ConnectPlan:
    url = options["url"] or (_own_address() if options["http"] else None)
    if url and not client.http:
        raise Abort(f"{client.title} supports only stdio: omit --http and --url", REFUSED)
    if client.is_api and not (url or "").startswith("https://"):
        raise Abort(f"{client.title} connects to the hub itself: give its public address, --url https://…", REFUSED)
    if url and options["mode"]:
        advice = "over HTTP, set the mode of a toolset in the admin, or TOOLHUB_LIST_MODE for all"
        raise Abort(f"--mode works over stdio only; {advice}", REFUSED)
    path: Path | None = options["file"]
    if (project := options["project"]) is not None:
        if not client.project_file:
            raise Abort(f"{client.title} has no project configuration: omit --project", REFUSED)
        if not project.is_dir():
            raise Abort(f"there is no directory {project}", REFUSED)
        path = project / client.project_file
    elif path is None and client.user_file is not None:
        path = client.user_file(Machine.this())
    if client.is_api and path is not None:
        raise Abort(f"{client.title} has no configuration file: omit --file", REFUSED)
    file = ConfigFile.of(client, path) if path is not None else None
    options_of_agent = options["toolsets"], options["read_only"], options["mode"], options["connections"]
    return ConnectPlan(client, file, options["name"], url, *options_of_agent)


def _listed_tools(plan: ConnectPlan) -> list[str]:
    """The tools that a key with these limits is listed."""
    toolsets = frozenset(plan.toolsets) if plan.toolsets else None
    # As a key has them: without toolsets, none of sources outside.
    connections = through(plan.connections)
    reach = Reach(toolsets, writes=not plan.read_only, connections=connections, outside=bool(plan.toolsets))
    view = catalog.current().seen_by(access.caller_of_process(reach))
    return [entry.shown_name for entry in listed.listed(view)]


def _own_address() -> str:
    host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 – a client cannot connect to it
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}/mcp"


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        fits = fits and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        fits = False
    if not fits:
        raise ArgumentTypeError("must be like https://hub.example.org/mcp")
    return f"{text.rstrip('/')}/mcp" if parts.path in ("", "/") else text


# ---- the existing entry and the new one


def _existing_entry(plan: ConnectPlan, file: ConfigFile, *, force: bool) -> Any:
    """The entry with that name, or None."""
    entry = file.entries().get(plan.name)
    if entry is not None and not force and not is_own_entry(entry):
        raise Abort(f"{plan.name!r} in {file.path} is not this hub's. Choose another --name, or use --force", REFUSED)
    return entry


def _new_key(plan: ConnectPlan, undo: ExitStack, *, checks: bool) -> str:
    """Create an API key for this client; it is revoked if connecting fails."""
    if checks and plan.url:
        handshake.check_hub(plan.url)
    name, number = plan.client.name, 1
    existing_names = set(ApiKey.objects.filter(name__startswith=name).values_list("name", flat=True))
    while name in existing_names:
        number += 1
        name = f"{plan.client.name}-{number}"
    key, secret = governance.create_key(
        name,
        actor=governance.of_command(),
        toolsets=plan.toolsets,
        connections=through(plan.connections),
        may_write=not plan.read_only,
    )
    undo.callback(governance.revoke_key, key, actor=governance.of_command(), reason="connecting failed")
    return secret


def _warnings(plan: ConnectPlan, entry: Entry) -> list[str]:
    warnings = []
    if variables := sorted(entry.get("env", {}).keys() - {"TOOLHUB_HOME", "PYTHONPATH"}):
        warnings.append(f"The entry has these variables with their current values: {', '.join(variables)}.")
    if plan.url:
        warnings.append("The file contains the new API key: keep it out of version control.")
        parts = urlsplit(plan.url)
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            warnings.append("The key is sent unencrypted: put a proxy with HTTPS in front of the hub.")
    return warnings
