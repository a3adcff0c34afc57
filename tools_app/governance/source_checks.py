"""What an operator enters for a source outside: its name, address or command, and what it may be."""

from __future__ import annotations

import ipaddress
import re
import shlex
import socket
from collections.abc import Iterable, Sequence
from typing import Final

from django.conf import settings
from django.core.exceptions import ValidationError as DjangoValidationError

from tools_app.catalog.entry import FINDERS, READER
from tools_app.http import addresses, public
from tools_app.models import Connection, Source, ToolRecord
from tools_app.models.sources import PREFIX
from tools_app.sdk import patterns
from tools_app.sdk.errors import ConflictError, Problem, ValidationError, shortened
from tools_app.text.redaction import redacted_text

MOST_WORDS: Final = 100
MOST_COMMAND: Final = 32_000
MOST_LOCATION: Final = 2_000
MOST_PATTERN: Final = 500
CAPABILITIES: Final = ("elicitation", "sampling", "roots")
# Names that mean something else where sources, packs and servers are named.
_RESERVED: Final = frozenset(
    {
        *Source.Kind.values,
        *("environment", "hub", "mcp", "openapi", "outside", "source", "system", "tool", "toolhub"),
        *("calls", "tools"),  # in URIs of the hub's own resources
        "preview",  # in URLs of the REST API
    }
)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "cmd", "powershell", "pwsh"})
_ROOTS: Final = frozenset({"sudo", "doas", "su", "pkexec"})
# Options of package runners that take the next word.
_TAKING: Final = frozenset({"-p", "--package", "--from", "--with", "--python", "--index-url", "--registry", "-c"})
_NPM_PINNED: Final = re.compile(r"(?:@[^/@]+/)?[^/@]+@\d.*")
_PYPI_PINNED: Final = re.compile(r"[^=@]+(?:==|@)\d.*")


def check_name(name: str, *, connection: str = "") -> None:
    """Whether a new source outside may have this name, with which the names of its tools begin.

    Raises:
        ValidationError: it is invalid.
        ConflictError: it is taken, or was used before.
    """
    try:
        PREFIX(name)
    except DjangoValidationError as error:
        raise _wrong("name", f"A name has {error.messages[0].rstrip('.')}") from error
    if name in _RESERVED:
        raise _wrong("name", f"The name {name} is reserved")
    own = {*FINDERS, READER, *ToolRecord.objects.filter(source_kind=Source.Kind.SHIPPED).values_list("name", flat=True)}
    if any(re.split("[_-]", tool, maxsplit=1)[0] == name for tool in own):
        raise _wrong("name", f"The names of tools that come with the hub begin with {name}")
    row = Source.objects.filter(name=name).first() or Source.objects.filter(prefix=name).first()
    if row is not None:
        state = "exists already" if row.removed_at is None else "was removed; names are not used again"
        raise ConflictError(f"A source named {name} {state}", next_step="Choose another name.")
    used = (
        ToolRecord.everything.filter(pack=name).exists()
        or Connection.objects.filter(pack=name).exclude(name=connection).exists()
    )
    if used:
        raise ConflictError(
            f"The name {name} was used by other tools, or has connections of its own",
            next_step="Choose another name.",
        )


def clean_location(location: str, *, internal: bool, part: str = "location", is_base: bool = False) -> str:
    """The URL of a source, or of its document. `is_base`: paths are appended to it.

    Raises:
        ValidationError: without the URL, which may contain a password.
    """
    location = location.strip()
    if not 1 <= len(location) <= MOST_LOCATION:
        raise _wrong(part, f"The URL must have 1 to {MOST_LOCATION:,} characters")
    parts = addresses.split(location)
    if isinstance(parts, str):
        raise _wrong(part, f"The URL {parts}")
    scheme, host, port, path, rest = parts
    if "#" in rest or (rest and is_base):
        what = "a fragment (`#…`)" if "#" in rest else "a query (`?…`), since paths are appended to it"
        raise _wrong(part, f"The URL must not have {what}")
    if redacted_text(location) != location:
        raise _wrong(part, "The URL contains a secret", "Leave it out, and store it as a connection.")
    if public.names_the_machine(host):
        raise _wrong(part, "The address is that of a metadata service or of this machine's own network")
    if _is_own(host, port, path, is_base=is_base):
        raise _wrong(part, "The address is that of this hub: its tools would contain themselves")
    if not internal and scheme != "https":
        raise _wrong(part, "The URL must begin with https://", _PERMIT)
    if not internal and not may_be_public(host):
        raise _wrong(part, "The address is not public", _PERMIT)
    return location


_PERMIT: Final = "Permit an internal address for this source, if it is one of your own."


def clean_command(command: Iterable[str]) -> list[str]:
    """Program and arguments of a child process.

    Raises:
        ValidationError
    """
    if isinstance(command, str):
        raise _wrong("command", "The command must be a list of words, not a line")
    words = list(command)
    if not words or len(words) > MOST_WORDS or not all(isinstance(word, str) for word in words):
        raise _wrong("command", f"The command must be a list of 1 to {MOST_WORDS} words")
    if not words[0].strip():
        raise _wrong("command", "The first word must name a program")
    if any("\0" in word for word in words):
        raise _wrong("command", "A word must not contain a NUL character")
    if any(not _is_text(word) for word in words):
        raise _wrong("command", "A word has characters that cannot be written as UTF-8")
    if sum(map(len, words)) > MOST_COMMAND:
        raise _wrong("command", f"The command must have at most {MOST_COMMAND:,} characters")
    line = " ".join(words)
    if redacted_text(line) != line or any(redacted_text(word) != word for word in words):
        raise _wrong(
            "command",
            "The command contains a secret, which every user of this machine can read",
            "Leave it out, and store it as a connection of this source: as an environment variable.",
        )
    return words


def command_warnings(command: Sequence[str]) -> list[str]:
    """What an operator should know about a command that is permitted."""
    warnings: list[str] = []
    words = list(command)
    program = _program(words)
    if program in _ROOTS:
        warnings.append(f"{program}: the server would run with other rights than the hub.")
        words = words[1:]
        program = _program(words)
    if program == "env":
        words = [word for word in words[1:] if "=" not in word]
        program = _program(words)
    if starts_shell(words):
        warnings.append(f"{program}: a shell interprets the rest; name the program itself, with its arguments.")
    if program in ("npx", "bunx", "pnpx"):
        warnings += _of_npx(program, words[1:])
    if program in ("uvx", "pipx") or words[:2] == ["uv", "tool"] or words[:2] == ["uv", "x"]:
        warnings += _of_uvx(program, words[1:])
    if program in ("docker", "podman") and "run" in words:
        missing = [option for option, spellings in _DOCKER.items() if not _has(words, spellings)]
        if missing:
            warnings.append(
                f"{program} run: add {' '.join(missing)}, or the container "
                f"{'gets no input' if '-i' in missing else 'is left behind after it exits'}."
            )
    return warnings


def starts_shell(command: Sequence[str]) -> bool:
    """Whether a shell interprets a part of the command."""
    words = list(command)
    # Programs that start another one, after options of their own.
    others = words if _program(words) in (*_ROOTS, "env") else words[:1]
    starts = [place for place, word in enumerate(others) if _program([word]) in _SHELLS]
    return bool(starts) and any(word.startswith(_LINES) for word in words[starts[0] + 1 :])


# Options of shells that take a line, in the spellings of all.
_LINES: Final = ("-c", "-lc", "-ic", "/c", "/C", "-Command", "-EncodedCommand")
_DOCKER: Final = {"--rm": ("--rm",), "-i": ("-i", "--interactive", "-it", "-ti")}


def clean_declares(declares: Iterable[str]) -> dict[str, bool]:
    """Raises: ValidationError."""
    names = [declares] if isinstance(declares, str) else list(declares)
    if unknown := [name for name in names if name not in CAPABILITIES]:
        raise _wrong(
            "declares", f"{shortened(str(unknown[0]))!r} is not a capability; valid are {', '.join(CAPABILITIES)}"
        )
    return dict.fromkeys(sorted(set(names)), True)


def clean_pattern(pattern: str) -> dict[str, str]:
    """Raises: ValidationError."""
    if len(pattern) > MOST_PATTERN:
        raise _wrong("failure_pattern", f"The pattern must have at most {MOST_PATTERN} characters")
    if "\0" in pattern:
        raise _wrong("failure_pattern", "The pattern must not contain a NUL character")
    if fault := patterns.fault(pattern):
        raise _wrong("failure_pattern", f"The pattern cannot be used: {fault}")
    return {"pattern": pattern} if pattern else {}


def is_own_address(location: str) -> bool:
    """Whether the URL is known to be this hub's."""
    parts = addresses.split(location)
    return not isinstance(parts, str) and _is_own(*parts[1:4], is_base=False)


def server_of(location: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL."""
    parts = addresses.split(location)
    return None if isinstance(parts, str) else parts[:3]


def shown_command(command: Sequence[str]) -> str:
    """The command as one types it in a shell."""
    return shlex.join(command)


def _program(words: Sequence[str]) -> str:
    return re.split(r"[/\\]", words[0])[-1].removesuffix(".exe") if words else ""


def _of_npx(program: str, words: Sequence[str]) -> list[str]:
    warnings = []
    if program == "npx" and not _has(words, ("-y", "--yes")):
        warnings.append("npx: add -y, or it waits for an answer before it installs the package.")
    package = _package(words, ("-p", "--package"))
    if package and not _NPM_PINNED.fullmatch(package) and not package.startswith((".", "/")):
        warnings.append(f"{program}: {package} has no version; write {package.rpartition('@')[0] or package}@1.2.3.")
    return warnings


def _of_uvx(program: str, words: Sequence[str]) -> list[str]:
    package = _package([word for word in words if word not in ("tool", "run")], ("--from", "--spec"))
    if package and not _PYPI_PINNED.fullmatch(package) and not package.startswith((".", "/")):
        return [f"{program}: {package} has no version; write {re.split('[@=<>~]', package)[0]}@1.2.3."]
    return []


def _package(words: Sequence[str], options: Sequence[str]) -> str:
    """The package that a runner installs: that of an option, or else the first word that is none."""
    is_value = False
    first = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            return value if equals else "".join(words[index + 1 : index + 2])
        if not is_value and not word.startswith("-"):
            first = first or word
        is_value = word in _TAKING
    return first


def _has(words: Sequence[str], options: Sequence[str]) -> bool:
    return any(word in options for word in words)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def may_be_public(host: str) -> bool:
    """False: certainly not. A name is judged where the connection is made."""
    try:
        return public.is_public(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return public.is_public(ipaddress.IPv4Address(socket.inet_aton(host)))
    except (OSError, ValueError):
        pass
    name = host.lower().rstrip(".")
    return "." in name and not name.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa"))


def _is_own(host: str, port: int, path: str, *, is_base: bool) -> bool:
    """Whether the address is known to be this hub's: its MCP endpoint, or the base of its REST API."""
    host = host.lower().rstrip(".")
    paths = ("/mcp/", "/v1/") if is_base else ("/mcp/",)
    if not f"{path}/".startswith(paths) and not (is_base and path.strip("/") == ""):
        return False
    if addresses.is_loopback(host):
        return port == getattr(settings, "PORT", None)
    return host in {name.lower().strip("[]") for name in settings.ALLOWED_HOSTS}


def _wrong(part: str, message: str, next_step: str | None = None) -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)], next_step=next_step)
