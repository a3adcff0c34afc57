"""What one run of a source in isolation shows, before it is switched on: facts, without a judgement.

The connections are its own, and a server with a command gets a process, a home and a temporary directory of its own:
sessions and children of callers are not touched, and nothing of it is left.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from tools_app.base import conf, database
from tools_app.catalog import connections
from tools_app.models import Source
from tools_app.sdk import child_environment
from tools_app.sdk.accounts import Credentials
from tools_app.sdk.errors import ToolError, shortened
from tools_app.sdk.outside import Listing, Origin
from tools_app.text import hygiene, redaction
from tools_app.upstream.children.errors import CannotStart
from tools_app.upstream.children.isolated import Ended, Isolated
from tools_app.upstream.http import HttpTransport
from tools_app.upstream.lines import LineTransport
from tools_app.upstream.links import Link, opened, unwrapped
from tools_app.upstream.listing import listed
from tools_app.upstream.wire import Broken, Transport, masking

# For the first start, which may download a program; and for everything after it.
START_SECONDS: Final = 180.0
REST_SECONDS: Final = 60.0
# Of the rest: for the second start, for the one without secrets, and for a call.
AGAIN_SECONDS: Final = 20.0
BARE_SECONDS: Final = 10.0
CALL_SECONDS: Final = 5.0
MOST_CALLED: Final = 3
MOST_LINES: Final = 10
MOST_CHARACTERS: Final = 300
MOST_COUNTED: Final = 100_000
MOST_ENTRIES: Final = 20_000
MOST_DEPTH: Final = 4
UNKNOWN_ARGUMENT: Final = "toolhub_unknown_argument"
# Where programs keep their files, below the home of the run.
_HOMES: Final = {
    "HOME": "",
    "TMPDIR": "tmp",
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_RUNTIME_DIR": "run",
}
# By JSON Schema type: a value of another type, which no server should convert.
_WRONG: Final[Mapping[str, Any]] = {
    "string": {"wrong": "type"},
    "number": {"wrong": "type"},
    "integer": {"wrong": "type"},
    "boolean": {"wrong": "type"},
    "array": {"wrong": "type"},
    "object": ["wrong type"],
}


@dataclass(slots=True)
class Run:
    """One connection from its start to its end."""

    # The protocol version; empty: there was no session.
    version: str = ""
    # Until the session began.
    seconds: float = 0.0
    problem: str = ""
    # Lines of standard output that are no messages: their number, and the first of them.
    stray: int = 0
    strays: list[str] = field(default_factory=list)
    # The last lines of standard error.
    errors: list[str] = field(default_factory=list)
    ended: Ended | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call with wrong arguments, and whether it was refused."""

    tool: str
    sent: str
    is_refused: bool | None


@dataclass(slots=True)
class Evidence:
    """What was seen. None: it was not tried."""

    source: str
    is_process: bool
    # The first connection asks for the earlier era, the second one for the modern era.
    first: Run
    second: Run | None = None
    # Without the secrets of the connection.
    bare: Run | None = None
    listing: Listing | None = None
    calls: list[Call] | None = None
    # Names of the variables that it had, and those of them that are of its connection.
    variables: Sequence[str] = ()
    own_variables: Sequence[str] = ()
    # Files in the home of the run, and changes in other directories that were compared.
    written: Sequence[str] = ()
    changed: Sequence[str] = ()
    compared: Sequence[str] = ()
    # The home of the user of the hub, and directories that the command names.
    user_home: str = ""
    given: Sequence[str] = ()
    is_compared_completely: bool = True


def examined(origin: Origin, *, calls_read_only: bool) -> Evidence:
    """Run a source in isolation. Blocks, for up to `START_SECONDS` and `REST_SECONDS`.

    `calls_read_only`: also call tools that say they only read, with wrong arguments.

    Raises:
        ToolError: its connection cannot be used.
    """
    return asyncio.run(_examined(origin, calls_read_only=calls_read_only))


async def _examined(origin: Origin, *, calls_read_only: bool) -> Evidence:
    credentials = Credentials()
    if origin.connection:
        account = await database.run(connections.account_of, origin.connection)
        credentials = await database.run(connections.credentials_of, account, origin)
    if origin.kind == Source.Kind.MCP_HTTP:
        return await _Examination(origin, credentials, None).run(calls_read_only=calls_read_only)
    with tempfile.TemporaryDirectory(prefix="toolhub-", ignore_cleanup_errors=True) as directory:
        home = await asyncio.to_thread(_made, Path(directory))
        places, began = await asyncio.to_thread(_places, origin, home), time.time_ns()
        before, is_complete = await asyncio.to_thread(_files, places, home)
        evidence = await _Examination(origin, credentials, home).run(calls_read_only=calls_read_only)
        after, is_complete_too = await asyncio.to_thread(_files, places, home)
        evidence.changed = _changes(before, after, began)
        evidence.compared, evidence.is_compared_completely = list(map(str, places)), is_complete and is_complete_too
        evidence.user_home, evidence.given = await asyncio.to_thread(_named, origin)
        own, _ = await asyncio.to_thread(_files, [home], None)
        evidence.written = sorted(path.removeprefix(f"{home}/") for path in own)
        return evidence


def _made(directory: Path) -> Path:
    """The home of the run."""
    home = directory.resolve()
    for part in _HOMES.values():
        (home / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


class _Examination:
    """The runs of one source, one after the other."""

    def __init__(self, origin: Origin, credentials: Credentials, home: Path | None) -> None:
        self._origin, self._credentials, self._home = origin, credentials, home
        self._mask = masking(credentials)
        self._inherited = child_environment.inherited(os.environ)
        self._evidence = Evidence(origin.name, home is not None, Run())
        self._deadline = 0.0

    async def run(self, *, calls_read_only: bool) -> Evidence:
        evidence, own = self._evidence, self._credentials.environment

        async def look(link: Link) -> None:
            self._deadline = time.monotonic() + REST_SECONDS
            await self._look(link, calls_read_only=calls_read_only)

        if self._home is not None:
            evidence.variables, evidence.own_variables = sorted({*self._inherited, *_HOMES, *own}), sorted(own)
        evidence.first = await self._connect(LATEST_HANDSHAKE_VERSION, START_SECONDS, self._credentials, look)
        self._deadline = self._deadline or time.monotonic() + REST_SECONDS
        if (seconds := self._left(AGAIN_SECONDS)) > 1:
            evidence.second = await self._connect("", seconds, self._credentials, self._look_again)
        if self._home is not None and own and (seconds := self._left(BARE_SECONDS)) > 1:
            evidence.bare = await self._connect(LATEST_HANDSHAKE_VERSION, seconds, Credentials(), _nothing)
        return evidence

    def _left(self, most: float) -> float:
        return min(most, self._deadline - time.monotonic())

    async def _look(self, link: Link, *, calls_read_only: bool) -> None:
        async with asyncio.timeout(max(1.0, self._left(REST_SECONDS))):
            self._evidence.listing = await listed(link)
        if calls_read_only:
            self._evidence.calls = calls = []
            for tool, sent, arguments in _wrong_calls(self._evidence.listing.tools):
                if (seconds := self._left(CALL_SECONDS)) > 0:
                    calls.append(Call(tool, sent, await _is_refused(link, tool, arguments, seconds)))

    async def _look_again(self, link: Link) -> None:
        """A server that speaks the modern era only has no session before."""
        if self._evidence.listing is None:
            async with asyncio.timeout(max(1.0, self._left(REST_SECONDS))):
                self._evidence.listing = await listed(link)

    async def _connect(
        self, era: str, seconds: float, credentials: Credentials, look: Callable[[Link], Awaitable[None]]
    ) -> Run:
        run = Run()
        process: Isolated | None = None
        transport: Transport | None = None

        async def looked(link: Link) -> None:
            await look(link)
            if process is not None:
                await process.look()

        try:
            if self._home is None:
                transport = HttpTransport(self._origin, credentials)
            else:
                process = await self._start(self._home, credentials)
                transport = _Lines(process, self._mask)
            await self._converse(run, transport, era, seconds, looked)
        except (Broken, CannotStart) as error:
            run.problem = self._shown(error.reason)
        except ToolError as error:
            run.problem = self._shown(error.message)
        finally:
            if process is not None:
                await self._end(run, process, transport)
        return run

    async def _converse(
        self, run: Run, transport: Transport, era: str, seconds: float, look: Callable[[Link], Awaitable[None]]
    ) -> None:
        """Raises: Broken."""
        began, declares = time.monotonic(), self._origin.declares
        try:
            async with opened(transport, era=era, seconds=seconds, on_change=_ignore, declares=declares) as link:
                run.version, run.seconds = link.version, time.monotonic() - began
                await look(link)
        except Exception as error:
            match unwrapped(error):
                case Broken() as cause:
                    raise cause from error
                case TimeoutError():
                    raise Broken(f"it did not answer within {REST_SECONDS:g} s") from error
                case MCPError() as cause:
                    raise Broken(f"it refuses: {cause.error.message}") from error
            raise

    async def _start(self, home: Path, credentials: Credentials) -> Isolated:
        places = {name: str(home / part) for name, part in _HOMES.items()}
        environment = {**self._inherited, **credentials.environment, **places}
        inside = [home, *_arguments(self._origin)]
        return await Isolated.start(self._origin.command, environment, home, inside)

    async def _end(self, run: Run, process: Isolated, transport: Transport | None) -> None:
        lines = transport.strays if isinstance(transport, _Lines) else []
        draining = asyncio.create_task(_drained(process.reader, lines))
        try:
            run.ended = await process.ended()
            await asyncio.wait({draining}, timeout=1.0)
        finally:
            await process.close()
            draining.cancel()
            await asyncio.wait({draining})
        run.stray, run.strays = len(lines), [self._shown(line) for line in lines[:MOST_LINES]]
        run.errors = [self._shown(line) for line in list(process.lines)[-MOST_LINES:]]
        if run.ended is not None:
            # Command lines and paths may have the values of the connection.
            texts = {name: [self._shown(one) for one in getattr(run.ended, name)] for name in ("left", "files")}
            run.ended = Ended(**{name: getattr(run.ended, name) for name in Ended.__slots__} | texts)

    def _shown(self, text: str) -> str:
        """Text of a stranger, without secrets, in one short line."""
        masked = text if self._mask is None else self._mask(text.encode(errors="replace")).decode(errors="replace")
        return shortened(hygiene.cleaned(redaction.redacted_text(masked)), MOST_CHARACTERS)


class _Lines(LineTransport):
    """Keeps the lines that are no messages."""

    def __init__(self, process: Isolated, mask: Callable[[bytes], bytes] | None) -> None:
        super().__init__(process.reader, process.writer, mask)
        self.strays: list[str] = []

    async def _take(self, line: bytes) -> None:
        dropped = self.dropped
        await super()._take(line)
        if self.dropped > dropped:
            _keep(self.strays, line)


def _keep(strays: list[str], line: bytes) -> None:
    # Of the others, only their number is shown.
    if len(strays) < MOST_COUNTED:
        strays.append(line[: 4 * MOST_CHARACTERS].decode(errors="replace") if len(strays) < MOST_LINES else "")


async def _drained(reader: asyncio.StreamReader, strays: list[str]) -> None:
    """Read what a server writes at its end, so that it does not wait for that."""
    rest = b""
    while chunk := await reader.read(64 * 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: 4 * MOST_CHARACTERS]
        _keep_all(strays, lines)
    _keep_all(strays, [rest])


def _keep_all(strays: list[str], lines: Sequence[bytes]) -> None:
    for line in lines:
        # What begins like a message is taken for one: nothing reads it any more.
        if line.strip() and not line.lstrip().startswith(b"{"):
            _keep(strays, line)


async def _nothing(link: Link) -> None:
    """Starting was all that was wanted."""


def _ignore() -> None:
    """What is listed now is listed as it is now."""


# ---- calls with wrong arguments


def _wrong_calls(tools: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """For a few tools that say they only read: name, what is wrong, and the arguments."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    readers = [tool for tool in tools if isinstance(tool, Mapping) and _reads(tool)]
    for tool in readers[:MOST_CALLED]:
        schema = tool.get("inputSchema")
        schema = schema if isinstance(schema, Mapping) else {}
        properties = schema.get("properties")
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if isinstance(kind, str) and kind in _WRONG:
                found.append((tool["name"], f"a wrong type of {shortened(name, 50)}", {name: _WRONG[kind]}))
                break
        if not schema.get("required"):
            found.append((tool["name"], "an argument that it does not declare", {UNKNOWN_ARGUMENT: 1}))
    return found


def _reads(tool: Mapping[str, Any]) -> bool:
    annotations = tool.get("annotations")
    return (
        isinstance(tool.get("name"), str)
        and isinstance(annotations, Mapping)
        and annotations.get("readOnlyHint") is True
    )


async def _is_refused(link: Link, tool: str, arguments: Mapping[str, Any], seconds: float) -> bool | None:
    """None: there was no answer. What a result says is not kept."""
    try:
        result = await link.request("tools/call", {"name": tool, "arguments": arguments}, seconds)
    except MCPError:
        return True
    except (Broken, TimeoutError):
        return None
    return result.get("isError") is True


# ---- files


def _arguments(origin: Origin) -> list[Path]:
    """The directories that the command names: the server was given them."""
    paths = [Path(word) for word in origin.command[1:]]
    return [path.resolve() for path in paths if path.is_absolute() and path.is_dir()]


def _named(origin: Origin) -> tuple[str, list[str]]:
    return str(Path.home().resolve()), list(map(str, _arguments(origin)))


def _places(origin: Origin, home: Path) -> list[Path]:
    """Directories whose files are compared before and after the run."""
    user = Path.home().resolve()
    return [place for place in dict.fromkeys([user, *_arguments(origin)]) if place != home and place.is_dir()]


def _files(places: Sequence[Path], but: Path | None) -> tuple[dict[str, tuple[int, int]], bool]:
    """Time and size of the files in these directories, and whether all were seen. Not those of this hub."""
    hub = conf.home()
    skipped = {str(place.resolve()) for place in (but, hub) if place is not None}
    found: dict[str, tuple[int, int]] = {}
    # The upper levels first: not all may be seen.
    pending, is_complete = deque((str(place), 0) for place in places), True
    while pending:
        folder, depth = pending.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            is_complete = False
            continue
        for entry in entries:
            if entry.path in skipped:
                continue
            if len(found) >= MOST_ENTRIES:
                return found, False
            try:
                is_folder, status = entry.is_dir(follow_symlinks=False), entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if not is_folder:
                found[entry.path] = status.st_mtime_ns, status.st_size
            elif depth < MOST_DEPTH:
                pending.append((entry.path, depth + 1))
            else:
                is_complete = False
    return found, is_complete


def _changes(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]], began: int) -> list[str]:
    """Files that were written, made or removed."""
    changed = {
        path
        for path, seen in after.items()
        if before.get(path, seen) != seen or (path not in before and seen[0] >= began)
    }
    # If there were too many, one that is missing may only not have been seen.
    removed = before.keys() - after if max(len(before), len(after)) < MOST_ENTRIES else set()
    return sorted(changed | removed)
