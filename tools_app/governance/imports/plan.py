"""What each server of an imported file becomes, or why it does not. Nothing is stored."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_plus

from tools_app.catalog import forms
from tools_app.governance import source_checks
from tools_app.governance.imports import registry
from tools_app.governance.imports.files import ImportFile
from tools_app.governance.imports.own import is_own_entry
from tools_app.governance.imports.values import Question, RefusalError, Resolver
from tools_app.models import Connection, Source
from tools_app.sdk.accounts import MOST_SECRET
from tools_app.sdk.child_environment import refusal_of
from tools_app.sdk.errors import ToolError, ValidationError, shortened
from tools_app.text.redaction import is_secret

Form = Connection.Form
_LONGEST: Final = 16
_NOISE: Final = frozenset({"mcp", "server", "servers"})
_SERVERS: Final = frozenset({"type", "command", "args", "env", "url", "headers"})
_STDIO: Final = frozenset({"stdio", "local"})
_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_SHELL_SYNTAX: Final = re.compile(r"[|;&<>`\n]|\$\(")
_SECRET_PARAMETERS: Final = frozenset({"key", "sig", "auth", "code", "token"})
_REMOTE_BRIDGE: Final = re.compile(r"mcp-remote(?:@[\w.-]+)?")
# Members of an entry that a client follows and the hub does not; the operator should know.
_NOT_TAKEN: Final = {
    "cwd": "the hub starts programs in a directory of its own (cwd): use absolute paths",
    "envFile": "envFile is not read: add its variables to the connection of the source",
    "headersHelper": "headersHelper is not run: add the headers as a connection",
    "oauth": "the settings for signing in (oauth) are not imported",
    "auth": "the settings for signing in (auth) are not imported",
    "sandbox": "the sandbox of the client does not apply: the program runs as the user of the hub",
    "sandboxEnabled": "the sandbox of the client does not apply: the program runs as the user of the hub",
}
# Decisions of a client's user, which the hub's operators make anew, and settings of the client itself.
_IGNORED: Final = frozenset(
    {"disabled", "enabled", "autoApprove", "alwaysAllow", "trust", "timeout", "dev", "gallery", "version"}
    | {"description", "name", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "required"}
    | {"enabled_tools", "disabled_tools", "includeTools", "excludeTools", "disabledTools", "tools", "scopes", "icon"}
)


class Outcome(StrEnum):
    """What happens to a server at the import."""

    ADDED = "added"
    EXISTS = "exists"
    OWN = "own"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"


@dataclass(frozen=True)
class PlannedSource:
    """`entry` is the name in the file. `values` are those of the connection, which is made if there are any."""

    entry: str
    outcome: Outcome
    name: str = ""
    kind: str = ""
    location: str = ""
    command: tuple[str, ...] = ()
    internal: bool = False
    form: str = ""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Those of the values that look like secrets. All are stored as such.
    secret_names: tuple[str, ...] = ()
    asked: tuple[Question, ...] = ()
    missing: tuple[Question, ...] = ()
    from_shell: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    # Why it is not imported.
    reason: str = ""

    @property
    def value_names(self) -> list[str]:
        return sorted(self.values)


def plan(
    file: ImportFile,
    *,
    given: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    internal: bool = False,
    only: Collection[str] = (),
) -> list[PlannedSource]:
    """What becomes of each server of the file, in its order.

    `given`: values by the name of their question. `environment`: variables of the importing shell. `names`: the source
    that an entry becomes, where the hub is not to choose. `internal`: private addresses and plain http are permitted.
    """
    planner = _Planner(file.questions, given or {}, environment or {}, names or {}, internal=internal)
    return [
        planner.planned(entry, body, is_registry=file.is_registry)
        for entry, body in file.entries.items()
        if not only or entry in only
    ]


class _NameError(RefusalError):
    """The chosen name cannot be used; another one can."""


@dataclass
class _Draft:
    """A server, as far as it is understood."""

    kind: str = ""
    location: str = ""
    command: list[str] = field(default_factory=list)
    form: str = ""
    values: dict[str, str] = field(default_factory=dict)
    secret_names: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    is_own: bool = False


class _Planner:
    def __init__(
        self,
        questions: Mapping[str, Question],
        given: Mapping[str, str],
        environment: Mapping[str, str],
        names: Mapping[str, str],
        *,
        internal: bool,
    ) -> None:
        self.questions, self.given, self.environment, self.internal = questions, given, environment, internal
        self.chosen_names = names
        rows = Source.objects.filter(kind__in=(Source.Kind.MCP_HTTP, Source.Kind.MCP_STDIO), removed_at=None)
        # Sources that no entry of this file was found to be yet.
        self.existing = list(rows.order_by("pk"))
        self.taken: set[str] = set()

    def planned(self, entry: str, body: dict[str, Any], *, is_registry: bool) -> PlannedSource:
        resolver = Resolver(self.given, self.environment, self.questions)
        draft = _Draft()
        result = PlannedSource(entry, Outcome.REFUSED)
        try:
            if is_own_entry(body):
                return replace(result, outcome=Outcome.OWN, reason="it is this hub")
            if is_registry:
                made = registry.entry_of(body)
                body, resolver.questions = made.entry, made.questions
                draft.warnings += made.notes
            elif not body:
                raise RefusalError("it is not an object with a command or URL")
            _Reader(draft, resolver, internal=self.internal).read(body)
            if draft.is_own:
                return replace(result, outcome=Outcome.OWN, reason="it is this hub")
            result = _with(result, draft, resolver, internal=self.internal)
            if (existing := self._existing(entry, draft)) is not None:
                words = f"source {existing.name} has the same origin"
                return replace(result, outcome=Outcome.EXISTS, name=existing.name, missing=(), reason=words)
            if resolver.missing:
                names = ", ".join(shortened(name) for name in resolver.missing)
                result = replace(result, outcome=Outcome.INCOMPLETE, reason=f"values are missing: {names}")
                return replace(result, name=self._name(entry))
            _check(draft)
            return replace(result, outcome=Outcome.ADDED, name=self._name(entry))
        except _NameError as error:
            return replace(result, outcome=Outcome.INCOMPLETE, name=self.chosen_names[entry], reason=str(error))
        except RefusalError as error:
            return replace(_with(result, draft, resolver, internal=self.internal), reason=str(error))
        except ToolError as error:
            return replace(_with(result, draft, resolver, internal=self.internal), reason=_sentences(error))

    def _existing(self, entry: str, draft: _Draft) -> Source | None:
        """The source that this entry was imported as, or that was added by hand."""
        same = [
            source
            for source in self.existing
            if source.kind == draft.kind and (source.location, source.command) == (draft.location, draft.command)
        ]
        # Two entries may differ in their secrets only: the one with the same name first.
        same.sort(key=lambda source: source.name.rstrip("0123456789") != _base_name(entry).rstrip("0123456789"))
        if not same:
            return None
        self.existing.remove(same[0])
        return same[0]

    def _name(self, entry: str) -> str:
        """A valid name that no source has or had.

        Raises:
            _NameError: the chosen one is not.
        """
        if chosen := self.chosen_names.get(entry):
            if chosen in self.taken:
                raise _NameError(f"the name {shortened(chosen)} is given to another server")
            try:
                source_checks.check_name(chosen)
            except ToolError as error:
                raise _NameError(_sentences(error)) from None
            self.taken.add(chosen)
            return chosen
        base = _base_name(entry)
        for number in range(1, 1_000):
            end = str(number) if number > 1 else ""
            name = base[: _LONGEST - len(end)] + end
            if name in self.taken:
                continue
            try:
                source_checks.check_name(name)
            except ToolError:
                continue
            self.taken.add(name)
            return name
        raise RefusalError("no name is free for it: choose one")


def _base_name(entry: str) -> str:
    """The words of a name that say what the server is about, without separators."""
    words = re.findall("[a-z0-9]+", entry.rpartition("/")[2].lower())
    words = [word for word in words if word not in _NOISE] or words
    name = "".join(words).lstrip("0123456789")[:_LONGEST]
    return name if len(name) > 1 else "server"


def _with(result: PlannedSource, draft: _Draft, resolver: Resolver, *, internal: bool) -> PlannedSource:
    return replace(
        result,
        kind=draft.kind,
        location=draft.location,
        command=tuple(draft.command),
        internal=internal and draft.kind == Source.Kind.MCP_HTTP,
        form=draft.form if draft.values else "",
        values=draft.values,
        secret_names=tuple(sorted(draft.secret_names)),
        asked=tuple(resolver.asked.values()),
        missing=tuple(resolver.missing.values()),
        from_shell=tuple(sorted(resolver.from_shell)),
        warnings=tuple(draft.warnings),
    )


def _check(draft: _Draft) -> None:
    """What `governance` would refuse about the connection. Raises: RefusalError."""
    if not draft.values:
        return
    form = Form(draft.form)
    if (fault := forms.fault_of_names(form, draft.values)) is not None:
        name, words = fault
        raise RefusalError(f"{shortened(name)}: {words}" if name else words)
    for name, value in draft.values.items():
        if len(value) > MOST_SECRET:
            raise RefusalError(f"{shortened(name)} has more than {MOST_SECRET:,} characters")
        if words := forms.fault_of_value(form, name, value):
            raise RefusalError(words)


class _Reader:
    """Reads one entry into a draft. Raises: RefusalError, ValidationError."""

    def __init__(self, draft: _Draft, resolver: Resolver, *, internal: bool) -> None:
        self.draft, self.resolver, self.internal = draft, resolver, internal

    def read(self, body: Mapping[str, Any]) -> None:
        self._note_members(body)
        kind, url, command = body.get("type"), body.get("url"), body.get("command")
        if kind == "sse":
            raise RefusalError("it speaks HTTP+SSE of 2024, which the hub does not: use its streamable HTTP address")
        if kind is not None and kind not in _STDIO | _HTTP:
            raise RefusalError(f"its type {shortened(str(kind), 40)} is not known")
        if isinstance(command, str) and command.strip() and (not url or kind in _STDIO):
            self._read_command(command, body.get("args"), body.get("env"))
        elif isinstance(url, str) and url.strip():
            self._read_address(url, body.get("headers"))
        else:
            raise RefusalError("it has neither a command nor a URL")

    def _note_members(self, body: Mapping[str, Any]) -> None:
        self.draft.warnings += [words for member, words in _NOT_TAKEN.items() if body.get(member)]
        unknown = sorted(body.keys() - _SERVERS - _NOT_TAKEN.keys() - _IGNORED)
        if unknown:
            shown = ", ".join(shortened(name, 40) for name in unknown[:10]) + (" …" if len(unknown) > 10 else "")
            self.draft.warnings.append(f"not known, and not imported: {shown}")

    # ------------------------------------------------------------------------------------------------ commands

    def _read_command(self, command: str, arguments: Any, variables: Any) -> None:
        if not isinstance(arguments, list | None):
            raise RefusalError("its args are not a list")
        words = _words(command, [_plain(word, "args") for word in arguments or ()])
        if (bridge := _bridged(words)) is not None:
            self.draft.warnings.append("the hub connects to the URL itself, without mcp-remote")
            # Its headers may name variables of the process.
            own = {name: _plain(value, "env") for name, value in _mapping(variables, "env").items()}
            headers = {name: _filled_in(value, own) for name, value in bridge[1].items()}
            self._read_address(bridge[0], headers)
            return
        self.draft.kind = Source.Kind.MCP_STDIO
        resolved = []
        for word in words:
            value = self.resolver.resolved(word)
            if value.is_secret and "${" in word:
                raise RefusalError(
                    "a placeholder in its command is a secret, and every user of the machine can read arguments: give "
                    "it as a variable of the program (env)"
                )
            resolved.append(value.text)
        self.draft.command = resolved if self.resolver.missing else source_checks.clean_command(resolved)
        self.draft.warnings += source_checks.command_warnings(resolved)
        _refuse_shells(resolved)
        self._read_variables(variables)

    def _read_variables(self, variables: Any) -> None:
        self.draft.form = Form.ENVIRONMENT
        for name, value in _mapping(variables, "env").items():
            if fault := refusal_of(name):
                raise RefusalError(f"its variable {shortened(name)}: {fault}")
            self._take(name, _plain(value, "env"))

    # ------------------------------------------------------------------------------------------------ addresses

    def _read_address(self, url: str, headers: Any) -> None:
        self.draft.kind = Source.Kind.MCP_HTTP
        place, parameters = self._split(url.strip())
        resolved = self.resolver.resolved(place)
        if resolved.is_secret and "${" in place:
            raise RefusalError("a placeholder in its URL is a secret: give it as a header")
        if resolved.is_complete:
            if source_checks.is_own_address(resolved.text):
                self.draft.is_own = True
                return
            self.draft.location = source_checks.clean_location(resolved.text, internal=self.internal)
        else:
            self.draft.location = resolved.text
        self._read_headers(headers)
        if parameters and self.draft.values:
            raise RefusalError("it has secrets both in its URL and in headers, and a connection has one form")
        for name, value in parameters.items():
            self.draft.form = Form.QUERY
            self._take(name, value)

    def _split(self, url: str) -> tuple[str, dict[str, str]]:
        """The URL without those parameters that are secrets, and these."""
        place, mark, query = url.partition("?")
        kept, secrets = [], {}
        for part in query.split("&") if mark else ():
            name, _, value = (unquote_plus(text) for text in part.partition("="))
            if is_secret(name) or name.lower() in _SECRET_PARAMETERS or self._is_secret(value):
                secrets[name] = value
            else:
                kept.append(part)
        return place + (f"?{'&'.join(kept)}" if kept else ""), secrets

    def _is_secret(self, text: str) -> bool:
        """Whether a text is one; its placeholders are not asked for yet."""
        return (
            Resolver(self.resolver.given, self.resolver.environment, self.resolver.questions).resolved(text).is_secret
        )

    def _read_headers(self, headers: Any) -> None:
        texts = {name: _plain(value, "headers") for name, value in _mapping(headers, "headers").items()}
        for name in list(texts):
            if forms.is_own_header(name):
                del texts[name]
                self.draft.warnings.append(f"the hub sets the header {shortened(name)} itself")
        self.draft.form = Form.HEADER
        if [name.lower() for name in texts] == ["authorization"]:
            (text,) = texts.values()
            scheme, _, rest = text.strip().partition(" ")
            if scheme.lower() == "bearer" and rest.strip():
                self.draft.form = Form.BEARER
                self._take(forms.TOKEN, rest.strip())
                return
            if scheme.lower() == "basic" and (pair := _basic(rest)) is not None:
                self.draft.form = Form.BASIC
                self._take(forms.USER, pair[0])
                self._take(forms.PASSWORD, pair[1])
                return
        for name, text in texts.items():
            self._take(name, text)

    def _take(self, name: str, text: str) -> None:
        try:
            value = self.resolver.resolved(text, name=name)
        except RefusalError as error:
            raise RefusalError(f"{shortened(name)}: {error}") from None
        if value.is_secret or self.draft.form in (Form.BEARER, Form.BASIC, Form.QUERY):
            self.draft.secret_names.add(name)
        if value.is_complete and not value.text:
            self.draft.secret_names.discard(name)
            self.draft.warnings.append(f"{shortened(name)} is empty, and left out")
            return
        self.draft.values[name] = value.text


def _words(command: str, arguments: list[str]) -> list[str]:
    words = [command.strip(), *arguments]
    if not arguments and " " in words[0] and not re.search(r"[/\\]", words[0].partition(" ")[0]):
        try:
            words = shlex.split(words[0])
        except ValueError:
            raise RefusalError("a quotation mark in its command is not closed") from None
    # Clients on Windows start npx and the like with a shell.
    if [word.lower() for word in words[:2]] in (["cmd", "/c"], ["cmd.exe", "/c"]) and len(words) > 2:
        words = words[2:]
    return words


def _refuse_shells(words: Sequence[str]) -> None:
    """What a file says is not run by a shell. An operator who wants that adds the source by hand."""
    is_shell = source_checks.starts_shell(words)
    if is_shell or _SHELL_SYNTAX.search(words[0]):
        raise RefusalError(
            "it runs a line of a shell: name the program itself, or add it with `toolhub source add` if you trust it"
        )


def _bridged(words: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """URL and headers of `npx mcp-remote URL --header "Name: value"`."""
    rest = [word for word in words if word not in ("-y", "--yes")]
    if len(rest) < 3 or rest[0] not in ("npx", "bunx", "pnpx") or not _REMOTE_BRIDGE.fullmatch(rest[1]):
        return None
    url, headers, options = rest[2], {}, iter(rest[3:])
    for word in options:
        if word == "--header":
            name, colon, value = next(options, "").partition(":")
            if not colon:
                raise RefusalError("a header of mcp-remote is not built as Name: value")
            headers[name.strip()] = value.strip()
        elif word == "--transport":
            if next(options, "") == "sse-only":
                raise RefusalError("it speaks HTTP+SSE of 2024, which the hub does not")
        elif word not in ("--allow-http", "--debug", "--silent") and not word.isdigit():
            raise RefusalError(f"the hub does not know the option {shortened(word, 40)} of mcp-remote")
    return url, headers


def _filled_in(text: str, variables: Mapping[str, str]) -> str:
    """A header of mcp-remote, whose placeholders are variables of its process first."""
    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda match: variables.get(match[1], match[0]), text)


def _basic(text: str) -> tuple[str, str] | None:
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon and user and password else None


def _mapping(value: Any, part: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusalError(f"its {part} are not an object")
    return value


def _plain(value: Any, part: str) -> str:
    """Texts, and what clients turn into texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise RefusalError(f"its {part} contain something else than texts")
    return value


def _sentences(error: ToolError) -> str:
    """What is wrong, and what to do."""
    problems = error.problems if isinstance(error, ValidationError) else ()
    message = "; ".join(problem.message for problem in problems) or error.message
    return " ".join(filter(None, (message.rstrip(".") + ".", error.next_step)))
