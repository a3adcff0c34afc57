"""A document from its bytes to its operations, as records: those of large documents come from another process."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from tools_app.sdk.errors import shortened
from tools_app.sources.openapi import process, texts
from tools_app.sources.openapi.document import Document, DocumentError, Found, Server
from tools_app.sources.openapi.loading import MOST_BYTES, SMALLER, loaded
from tools_app.sources.openapi.operations import METHODS, MOST_KEY, Context, Reading, UnsupportedError
from tools_app.sources.openapi.references import UnresolvedError, resolved

# Larger ones are read in a process of their own: the parser blocks all threads, and some are made to take long.
SMALL: Final = 64 * 1024
MOST_OPERATIONS: Final = 25_000
# Characters of all definitions together.
MOST_CHARACTERS: Final = 128 * 1024 * 1024
_MOST_SERVERS: Final = 50
_MOST_SCHEMES: Final = 50
_MOST_TEXT: Final = 1_000
_MOST_TITLE: Final = 200
_VERSION: Final = re.compile(r"3\.[0-9]{1,3}(?:\.[0-9]{1,5})?(?:-[\w.]{1,20})?")
_TYPE: Final = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")

Record = dict[str, Any]


def read(
    text: bytes, *, media_type: str = "", selected: Collection[str] | None = None, answers: bool = False
) -> Document:
    """What a document describes. `selected`: the keys of the operations whose definitions are made; None: all.
    `answers`: also what is declared for their answers.

    It can take 30 seconds, and is for threads.

    Raises:
        DocumentError: nothing of it can be read.
    """
    if len(text) > MOST_BYTES:
        raise DocumentError(f"The document is larger than {MOST_BYTES // 1024**2} MiB", SMALLER)
    # An anchor of YAML begins with &: with aliases, a small document has many values.
    if len(text) <= SMALL and b"&" not in text:
        return _assembled(records(text, media_type, selected, answers))
    return _assembled(process.records(text, media_type, selected, answers))


def records(text: bytes, media_type: str, selected: Collection[str] | None, answers: bool) -> Iterator[Record]:
    """The same as JSON objects: the document first, then its operations one by one.

    Raises:
        DocumentError: nothing of it can be read.
    """
    root = loaded(text, media_type)
    version = _version(root)
    schemes = _schemes(root)
    yield {"document": _about(root, version, schemes)}
    named = {name: (one["kind"], one["name"], one["place"]) for name, one in schemes.items()}
    context = Context(root, version, named, answers)
    chosen = None if selected is None else frozenset(selected)
    number = characters = 0
    for path, method, item, operation in _operations(root):
        key = f"{method.upper()} {path}" if method else path
        number += 1
        if number > MOST_OPERATIONS:
            yield {"note": f"Only its first {MOST_OPERATIONS:,} operations are read."}
            return
        if method and chosen is not None and key not in chosen:
            continue
        try:
            found = _found(context, key, path, method, item, operation)
            characters += len(found.definition) + len(found.answers)
            if characters > MOST_CHARACTERS:
                raise UnsupportedError("the definitions before it are too large together; select fewer operations")
        except UnsupportedError as error:
            yield {"unsupported": [shortened(key, MOST_KEY), str(error)]}
        else:
            yield {"found": {name: getattr(found, name) for name in _FIELDS}}


_FIELDS: Final = ("key", "method", "path", "tag", "summary", "definition", "tokens", "claims", "problems", "answers")


def _assembled(parts: Iterable[Record]) -> Document:
    about: Record = {}
    operations: list[Found] = []
    unsupported: list[tuple[str, str]] = []
    notes: list[str] = []
    for part in parts:
        if (found := part.get("found")) is not None:
            operations.append(Found(**{**found, "problems": tuple(found["problems"])}))
        elif (refused := part.get("unsupported")) is not None:
            unsupported.append((refused[0], refused[1]))
        elif (note := part.get("note")) is not None:
            notes.append(note)
        else:
            about = part["document"]
    return Document(
        **{
            **about,
            "servers": tuple(Server(**server) for server in about["servers"]),
            "notes": (*about["notes"], *notes),
            "operations": tuple(operations),
            "unsupported": tuple(unsupported),
        }
    )


def _found(context: Context, key: str, path: str, method: str, item: Any, operation: Any) -> Found:
    if not method:
        raise UnsupportedError(str(item))
    if len(key.encode(errors="surrogatepass")) > MOST_KEY or texts.UNSTORABLE.search(key):
        raise UnsupportedError("its path is too long, or cannot be stored")
    if not isinstance(operation, dict):
        raise UnsupportedError("it is not an object")
    try:
        reading = Reading(context, path, method.upper(), item, operation)
        found = reading.found()
        # Structure is worth more than what is said about its lower levels.
        return Reading(context, path, method.upper(), item, operation, short=True).found() if reading.is_cut else found
    except UnsupportedError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        # A form that the rules here do not expect must not cost the other operations.
        raise UnsupportedError(f"it cannot be read ({type(error).__name__})") from None


def _operations(root: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Path, method, path item and operation. Without a method: a path that cannot be read, and the reason."""
    paths = root.get("paths")
    for path, entry in paths.items() if isinstance(paths, dict) else ():
        if path.startswith("x-"):
            continue
        try:
            item = _item(root, entry)
        except UnresolvedError as error:
            yield path, "", f"its path cannot be read: {error}", None
            continue
        if not isinstance(item, dict):
            yield path, "", "its path is not an object", None
            continue
        for method in METHODS:
            if method in item:
                yield path, method, item, item[method]


def _item(root: Mapping[str, Any], entry: Any) -> Any:
    """A path item, with what is beside its reference."""
    target = resolved(dict(root) if not isinstance(root, dict) else root, entry)
    if target is entry or not isinstance(target, dict):
        return target
    return {**target, **{name: value for name, value in entry.items() if name != "$ref"}}


# ---- the document itself


def _version(root: Mapping[str, Any]) -> str:
    named = root.get("openapi")
    version = str(named) if isinstance(named, str | float) else ""
    if _VERSION.fullmatch(version):
        return version
    if "swagger" in root or version.startswith("2"):
        raise DocumentError(
            f"The document is Swagger {shortened(str(root.get('swagger', version)), 20)}; OpenAPI 3.0 or 3.1 is needed",
            "Convert it: with the npm package swagger2openapi, or in the Swagger Editor (Edit, Convert to OpenAPI 3).",
        )
    for name, what in (
        ("asyncapi", "an AsyncAPI document"),
        ("arazzo", "an Arazzo document"),
        ("item", "a collection"),
    ):
        if name in root:
            raise DocumentError(f"It is {what}, and no OpenAPI document", "Import the OpenAPI document of the service.")
    raise DocumentError(
        "The document does not say which version of OpenAPI it has", "Its first line is `openapi: 3.1.0`, or `3.0.3`."
    )


def _about(root: dict[str, Any], version: str, schemes: Mapping[str, Record]) -> Record:
    info = root.get("info")
    info = info if isinstance(info, dict) else {}
    servers = root.get("servers")
    notes = []
    if isinstance(webhooks := root.get("webhooks"), dict) and webhooks:
        notes.append(f"The document has {len(webhooks):,} webhooks, which this hub does not receive.")
    if not isinstance(root.get("paths"), dict):
        notes.append("The document has no paths, and so no operations.")
    if not version.startswith(("3.0", "3.1")):
        notes.append(f"The document is OpenAPI {version}: what is new since 3.1 is ignored.")
    return {
        "openapi": version,
        "title": texts.text(info.get("title"), _MOST_TITLE, line=True),
        "version": texts.text(str(info.get("version", "")), _MOST_TITLE, line=True),
        "description": texts.text(info.get("description"), _MOST_TEXT),
        "servers": [
            asdict(_server(server))
            for server in (servers[:_MOST_SERVERS] if isinstance(servers, list) else ())
            if isinstance(server, dict) and isinstance(server.get("url"), str)
        ],
        "security_schemes": schemes,
        "notes": notes,
    }


def _server(server: Mapping[str, Any]) -> Server:
    variables = server.get("variables")
    return Server(
        url=texts.text(server["url"], _MOST_TEXT, line=True),
        variables={
            texts.text(name, _MOST_TITLE, line=True): {
                "default": texts.text(str(about.get("default", "")), _MOST_TITLE, line=True),
                "choices": [
                    texts.text(str(choice), _MOST_TITLE, line=True)
                    for choice in (about["enum"][:100] if isinstance(about.get("enum"), list) else ())
                ],
                "description": texts.text(about.get("description"), _MOST_TEXT),
            }
            for name, about in list(variables.items() if isinstance(variables, dict) else ())[:_MOST_SERVERS]
            if isinstance(about, dict)
        },
        description=texts.text(server.get("description"), _MOST_TITLE, line=True),
    )


def _schemes(root: dict[str, Any]) -> dict[str, Record]:
    components = root.get("components")
    declared = components.get("securitySchemes") if isinstance(components, dict) else None
    schemes = {}
    for name, entry in list(declared.items() if isinstance(declared, dict) else ())[:_MOST_SCHEMES]:
        try:
            scheme = resolved(root, entry)
        except UnresolvedError:
            continue
        if isinstance(scheme, dict) and scheme.get("type") in _TYPE:
            schemes[name] = _scheme(scheme)
    return schemes


def _scheme(scheme: Mapping[str, Any]) -> Record:
    kind = scheme["type"]
    wire, place = "", ""
    if kind == "apiKey":
        wire, place = texts.text(scheme.get("name"), _MOST_TITLE), texts.text(scheme.get("in"), 20)
    elif kind == "http":
        wire = texts.text(scheme.get("scheme"), 40).lower()
    flows = scheme.get("flows")
    return {
        "kind": kind,
        "name": wire,
        "place": place,
        "description": texts.text(scheme.get("description"), _MOST_TITLE, line=True),
        "address": texts.text(scheme.get("openIdConnectUrl"), _MOST_TEXT, line=True),
        "flows": {
            flow: {
                **{
                    key: texts.text(about.get(key), _MOST_TEXT, line=True)
                    for key in ("authorizationUrl", "tokenUrl", "refreshUrl")
                    if isinstance(about.get(key), str)
                },
                "scopes": [str(scope)[:_MOST_TITLE] for scope in list(about.get("scopes") or ())[:200]],
            }
            for flow, about in (flows.items() if isinstance(flows, dict) else ())
            if isinstance(about, dict) and flow in _FLOWS
        },
    }


_FLOWS: Final = ("implicit", "password", "clientCredentials", "authorizationCode", "deviceAuthorization")
