"""Connect an MCP client of whoever runs this to the hub."""

from __future__ import annotations

import getpass
import json
import re
from argparse import ArgumentTypeError
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandParser

from tools_app import governance
from tools_app.base import conf, secrets
from tools_app.management import handshake, launch
from tools_app.management.clients import CLIENTS, DECIDED, Client, Entry, Machine
from tools_app.management.config_file import ConfigFile, Unfit
from tools_app.management.hub_command import (
    REFUSED,
    HubCommand,
    Stop,
    add_connection_option,
    add_mode_option,
    through,
)
from tools_app.models import ApiKey
from tools_app.setup import installation
from tools_app.text import redaction

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HERE: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Plan:
    """What is to be connected to what. Without a file it is printed."""

    client: Client
    file: ConfigFile | None
    name: str
    url: str | None
    toolsets: list[str]
    read_only: bool
    mode: str
    connections: list[str] | None

    def entry(self, key: str) -> Entry:
        """What the client is told."""
        if self.url is not None:
            entry = self.client.over_http(self.url, key)
        else:
            chosen = [word for toolset in self.toolsets for word in ("--toolset", toolset)]
            chosen += [word for connection in self.connections or () for word in ("--connection", connection)]
            chosen += ["--mode", self.mode] if self.mode else []
            command = launch.command(["runmcp", *chosen, *(["--read-only"] if self.read_only else [])])
            entry = self.client.over_stdio(command, launch.environment())
        if "${" in json.dumps(entry):
            raise Stop("a path or variable of this hub has '${' in it, where clients would put in something else")
        return entry


class Command(HubCommand):
    help = (
        "Connect an MCP client to this hub: see that it works, and write it into the client's configuration. "
        "Over stdio the client starts the hub itself; with --http it goes to one that runs, with a key of its own."
    )
    needs_ready = False  # To look at what would be written needs no database.

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("client", choices=sorted(CLIENTS), help="generic: print what most other clients take")
        add("--http", action="store_true", help="over HTTP, with a key that is made for it")
        add("--url", type=_address, help="the hub's address, where it is not the one of HOST and PORT; means --http")
        add("--name", type=_name, default="toolhub", help="what the client calls the hub; without it, %(default)s")
        add(
            "--toolset",
            action="append",
            dest="toolsets",
            default=[],
            metavar="NAME",
            help="only these tools; repeatable",
        )
        add("--read-only", action="store_true", help="only tools that say they change nothing")
        add_mode_option(parser)
        add_connection_option(parser)
        place = parser.add_mutually_exclusive_group()
        place.add_argument("--user", action="store_true", help="for everything the user does there; the default")
        place.add_argument("--project", type=Path, metavar="DIR", help="for the project in this directory")
        place.add_argument("--file", type=Path, metavar="PATH", help="in this file")
        add("--print", action="store_true", dest="prints", help="show what would be written, and do nothing else")
        add("--show-key", action="store_true", help="where it is printed: make the key, and print what is secret")
        add("--no-check", action="store_true", help="do not see whether it works")
        add("--force", action="store_true", help="replace or remove an entry of that name even if it is not this hub's")
        add("--remove", action="store_true", help="take the entry out again, and revoke its key")

    def handle(self, *args: Any, client: str, **options: Any) -> None:
        plan = _plan(CLIENTS[client], **options)
        checks = not options["no_check"]
        try:
            if options["remove"]:
                self._remove(plan, force=options["force"])
            elif options["prints"] or plan.file is None:
                self._print(plan, shows_key=options["show_key"], checks=checks and not options["prints"])
            elif options["show_key"]:
                raise Stop("--show-key is for what is printed: add --print", REFUSED)
            else:
                self._connect(plan, plan.file, force=options["force"], checks=checks)
        except Unfit as error:
            raise Stop(f"{error}. --print shows what to put there") from error

    def _connect(self, plan: Plan, file: ConfigFile, *, force: bool, checks: bool) -> None:
        installation.require_ready(self.tell)
        earlier = _found(plan, file, force=force)
        with ExitStack() as undo:
            entry = plan.entry(_new_key(plan, undo, checks=checks) if plan.url else "")
            if _is_ours(earlier):
                entry = {name: value for name, value in earlier.items() if name not in DECIDED} | entry
            proof = _proof(entry) if checks else ""
            kept = file.put(plan.name, entry, private=redaction.redacted(entry) != entry)
            undo.pop_all()
        way = f"over HTTP, at {plan.url}," if plan.url else "over stdio"
        say = self.stdout.write
        say(f"{plan.client.title} is connected to this hub {way} as {plan.name!r} in {file.path}.")
        if proof:
            say(f"  {proof}")
        if kept:
            say(f"  The file as it was: {file.backup}")
        for line in _warnings(plan, entry):
            say(f"  {line}")
        self._end_key(earlier, f"connect {plan.client.name}")
        say(f"  {plan.client.next_step}")

    def _print(self, plan: Plan, *, shows_key: bool, checks: bool) -> None:
        with ExitStack() as undo:
            if shows_key:
                installation.require_ready(self.tell)
            entry = plan.entry(_new_key(plan, undo, checks=checks) if plan.url and shows_key else "…")
            proof = _proof(entry) if checks and (shows_key or not plan.url) else ""
            undo.pop_all()
        shown = entry if shows_key else redaction.redacted(entry)
        self.stdout.write(json.dumps({plan.client.member: {plan.name: shown}}, indent=2, ensure_ascii=False))
        if proof:
            self.tell(proof)
        if shown != entry:
            self.tell(
                f"{redaction.MASK} stands for what is secret. --show-key prints it, and makes the key if one is needed."
            )

    def _remove(self, plan: Plan, *, force: bool) -> None:
        if plan.file is None:
            raise Stop("--file must say where to remove it from", REFUSED)
        installation.require_ready(self.tell)
        entry = _found(plan, plan.file, force=force)
        if entry is None:
            raise Stop(f"there is no {plan.name!r} in {plan.file.path}")
        plan.file.remove(plan.name)
        self.stdout.write(f"{plan.name!r} is out of {plan.file.path}.")
        self.stdout.write(f"  The file as it was: {plan.file.backup}")
        self._end_key(entry, f"connect {plan.client.name} --remove")

    def _end_key(self, entry: Any, reason: str) -> None:
        """Revoke the key of an entry that is not there any more."""
        if (key := _key_in(entry)) is not None and governance.revoke_key(key, actor=_actor(), reason=reason):
            self.stdout.write(f"  The key that stood there, {key.name}, is revoked.")


# ---- what is asked for


def _plan(client: Client, **options: Any) -> Plan:
    url = options["url"] or (_own_address() if options["http"] else None)
    if url and not client.http:
        raise Stop(f"{client.title} takes only servers that it starts itself: leave out --http and --url", REFUSED)
    if url and options["mode"]:
        advice = "over HTTP the mode is decided for a toolset, in the admin, or for all with TOOLHUB_LIST_MODE"
        raise Stop(f"--mode is for agents that start the hub themselves; {advice}", REFUSED)
    path: Path | None = options["file"]
    if (project := options["project"]) is not None:
        if not client.project_file:
            raise Stop(f"{client.title} has no configuration for a project: leave out --project", REFUSED)
        if not project.is_dir():
            raise Stop(f"there is no directory {project}", REFUSED)
        path = project / client.project_file
    elif path is None and client.user_file is not None:
        path = client.user_file(Machine.this())
    file = ConfigFile(path.expanduser().absolute(), client.member) if path is not None else None
    chosen = options["toolsets"], options["read_only"], options["mode"], options["connections"]
    return Plan(client, file, options["name"], url, *chosen)


def _own_address() -> str:
    host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 – no place to go to
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


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ArgumentTypeError("may hold letters, digits, - and _, at most 64")
    return text


# ---- what is there, and what comes of it


def _found(plan: Plan, file: ConfigFile, *, force: bool) -> Any:
    """The entry that has the name already; None where there is none."""
    entry = file.entries().get(plan.name)
    if entry is not None and not force and not _is_ours(entry):
        raise Stop(f"{plan.name!r} in {file.path} is not this hub's. Take another --name, or --force", REFUSED)
    return entry


def _is_ours(entry: Any) -> bool:
    """Whether it leads to this very hub: starts it, or has one of its keys."""
    if not isinstance(entry, dict):
        return False
    arguments, variables = entry.get("args"), entry.get("env")
    if isinstance(arguments, list) and "runmcp" in arguments:
        home = variables.get("TOOLHUB_HOME") if isinstance(variables, dict) else None
        return home is None or home == str(conf.home())
    return _key_in(entry) is not None


def _key_in(entry: Any) -> ApiKey | None:
    headers = entry.get("headers") if isinstance(entry, dict) else None
    for value in headers.values() if isinstance(headers, dict) else ():
        key = str(value).removeprefix("Bearer ")
        if secrets.well_formed(key):
            return ApiKey.objects.once_known_by(secrets.key_hashes(key)).first()
    return None


def _new_key(plan: Plan, undo: ExitStack, *, checks: bool) -> str:
    """A key of its own; it ends again where nothing comes of it."""
    if checks and plan.url:
        handshake.look(plan.url)
    name, number = plan.client.name, 1
    taken = set(ApiKey.objects.filter(name__startswith=name).values_list("name", flat=True))
    while name in taken:
        number += 1
        name = f"{plan.client.name}-{number}"
    key, secret = governance.create_key(
        name,
        actor=_actor(),
        toolsets=plan.toolsets,
        connections=through(plan.connections),
        may_write=not plan.read_only,
    )
    undo.callback(governance.revoke_key, key, actor=_actor(), reason="it did not come to be used")
    return secret


def _proof(entry: Entry) -> str:
    proof = handshake.prove(entry)
    tools = {0: "no tools (`toolhub doctor` may know why)", 1: "1 tool"}.get(proof.tools, f"{proof.tools} tools")
    return f"It works: the agent sees {tools}, {proof.seconds:.1f} s after it began to connect."


def _warnings(plan: Plan, entry: Entry) -> list[str]:
    told = []
    if carried := sorted(entry.get("env", {}).keys() - {"TOOLHUB_HOME", "PYTHONPATH"}):
        told.append(f"It has these variables, as they are set here: {', '.join(carried)}.")
    if plan.url:
        told.append("The file holds the key that was made for it: keep it out of version control.")
        parts = urlsplit(plan.url)
        if parts.scheme == "http" and parts.hostname not in _HERE:
            told.append("Whoever sees what is sent sees the key: let a proxy in front of the hub speak HTTPS.")
    return told


def _actor() -> str:
    return f"command:{getpass.getuser()}"
