"""What operators are told about an OpenAPI document, and which of its operations they choose. Pure functions."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin

from tools_app.models import Connection
from tools_app.sources.openapi import Document, Found
from tools_app.text import hygiene
from tools_app.text.budget import written

MOST_PATTERNS: Final = 100
MOST_PATTERN: Final = 500
MOST_SERVERS: Final = 20
MOST_NEEDS: Final = 20
MOST_WORDS: Final = 200
TAG: Final = "tag:"

Form = Connection.Form


class SelectionError(ValueError):
    """A selection cannot be used. The message is for operators."""


# ---- operations


def chosen(operations: Iterable[Found], patterns: Collection[str]) -> list[str]:
    """The keys of the operations that the patterns select, in the order of the document.

    A pattern is the key of an operation, or has wildcards for its key, path or name; `tag:NAME` selects by tag.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    operations = list(operations)
    keys = {operation.key for operation in operations}
    globs = [pattern for pattern in dict.fromkeys(patterns) if pattern not in keys]
    if len(globs) > MOST_PATTERNS or any(len(pattern) > MOST_PATTERN for pattern in globs):
        raise SelectionError(f"at most {MOST_PATTERNS} patterns of {MOST_PATTERN} characters are allowed")
    selected = keys.intersection(patterns)
    for pattern in globs:
        matching = {operation.key for operation in operations if _matches(operation, pattern.casefold())}
        if not matching:
            raise SelectionError(f"no operation matches {pattern[:80]!r}")
        selected |= matching
    return [operation.key for operation in operations if operation.key in selected]


def _matches(operation: Found, pattern: str) -> bool:
    if pattern.startswith(TAG):
        return fnmatchcase(operation.tag.casefold(), pattern.removeprefix(TAG))
    texts = operation.key, operation.path, str(operation.tool.get("name", ""))
    return any(fnmatchcase(text.casefold(), pattern) for text in texts)


def access_of(claims: Mapping[str, Any]) -> str:
    """What an operation does, as its method claims: `read`, `write` or `destructive`."""
    if claims.get("readOnlyHint") is True:
        return "read"
    return "write" if claims.get("destructiveHint") is False else "destructive"


# ---- servers


@dataclass(frozen=True, slots=True)
class Servers:
    """The base URLs that a document names."""

    # Absolute where the document, or its address, says so; with the defaults of their variables.
    choices: tuple[str, ...] = ()
    # The base URL if an operator gives none. Empty: it is not certain which one.
    proposal: str = ""


def servers_of(document: Document, address: str = "") -> Servers:
    """`address`: where the document was read, for URLs that are relative to it."""
    choices: list[str] = []
    absolute: list[str] = []
    for server in document.servers[:MOST_SERVERS]:
        url, is_template = server.url, False
        for name, variable in server.variables.items():
            is_template = True
            url = url.replace(f"{{{name}}}", str(variable.get("default", "") if isinstance(variable, Mapping) else ""))
        url = url.strip().rstrip("/")
        if _is_absolute(url):
            absolute += [] if is_template or "{" in url else [url]
        elif address:
            url = _joined(address, url)
        choices.append(hygiene.cleaned(url[:2000]) or "/")
    absolute = list(dict.fromkeys(absolute))
    return Servers(tuple(dict.fromkeys(choices)), absolute[0] if len(absolute) == 1 else "")


def _is_absolute(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _joined(address: str, url: str) -> str:
    try:
        return urljoin(address, url or "/").rstrip("/")
    except ValueError:
        return url


# ---- answers


def packed_answers(document: Document) -> bytes:
    """What is declared for the answers of its operations: one line for each, compressed."""
    lines = (f"{written(operation.key)}\t{operation.answers}" for operation in document.operations)
    return zlib.compress("\n".join(lines).encode())


def declared_answers(packed: bytes, key: str) -> Mapping[str, Any] | None:
    """By status, what is declared for the answers of one operation. None: it is not among them."""
    prefix = f"{written(key)}\t".encode()
    for line in zlib.decompress(packed).split(b"\n"):
        if line.startswith(prefix):
            answers: Mapping[str, Any] = json.loads(line[len(prefix) :])
            return answers
    return None


# ---- credentials


@dataclass(frozen=True, slots=True)
class Need:
    """A security scheme of a document, as the connection that fits it."""

    scheme: str
    # A value of `Connection.Form`; empty: no connection can have it, and `names` says why.
    form: str
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        names = ", ".join(self.names)
        match self.form:
            case Form.HEADER:
                return f"header {names}"
            case Form.QUERY:
                return f"query parameter {names}"
            case Form.BASIC:
                return "user and password"
            case Form.BEARER:
                return "bearer token"
        return f"not supported: {names}"


def needs_of(facts: Mapping[str, Any]) -> list[Need]:
    """The connections that fit a document, of its stored facts."""
    return [Need(need["scheme"], need["form"], tuple(need["names"])) for need in facts.get("needs", ())]


def _need(scheme: str, kind: str, name: str, place: str) -> Need:
    match kind, place:
        case "apiKey", "header":
            return Need(scheme, Form.HEADER, (name,))
        case "apiKey", "query":
            return Need(scheme, Form.QUERY, (name,))
        case "apiKey", _:
            return Need(scheme, "", (f"{place} {name}".strip(),))
        case "http", _ if name.lower() == "basic":
            return Need(scheme, Form.BASIC)
        case "http", _ if name.lower() != "bearer":
            return Need(scheme, Form.HEADER, ("Authorization",))
        case "http" | "oauth2" | "openIdConnect", _:
            return Need(scheme, Form.BEARER)
    return Need(scheme, "", (kind,))


def facts_of(document: Document) -> dict[str, Any]:
    """What is stored of a document, so that pages need not read it."""
    schemes = islice(document.security_schemes.items(), MOST_NEEDS)
    needs = [
        _need(name, *(str(scheme.get(part, "")) for part in ("kind", "name", "place"))) for name, scheme in schemes
    ]
    return {
        "title": _text(document.title),
        "version": _text(document.version),
        "operations": len(document.operations),
        "unsupported": len(document.unsupported),
        "needs": [
            {**asdict(need), "scheme": _text(need.scheme), "names": [_text(name) for name in need.names]}
            for need in needs
        ],
    }


def _text(text: str) -> str:
    return hygiene.cleaned(text[:MOST_WORDS])
