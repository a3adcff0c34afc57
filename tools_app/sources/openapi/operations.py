"""One operation of a document as a tool: parameters and body as one schema of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.sdk.errors import shortened
from tools_app.sdk.operation import Body, Operation, Parameter, Scheme
from tools_app.sdk.schemas import Schema
from tools_app.sources.openapi import bodies, texts
from tools_app.sources.openapi.document import Found
from tools_app.sources.openapi.references import UnresolvedError, resolved
from tools_app.sources.openapi.schemas import Conversion
from tools_app.text.budget import size_of, tokens_of, written

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Bytes of an output schema that is recorded. Larger ones are not listed, and would make a definition too large.
MOST_OUTPUT: Final = 8 * 1024
# Bytes of a path with its method: it identifies the tool, and the database indexes it.
MOST_KEY: Final = 2_000
_MOST_PARAMETERS: Final = 300
_MOST_PROBLEMS: Final = 20
_MOST_DESCRIPTION: Final = 700
_MOST_SUMMARY: Final = 200
# Characters about one parameter, and about each of many.
_MOST_PARAMETER: Final = 300
_MOST_OF_MANY: Final = 100
_MANY: Final = 20
_MOST_TITLE: Final = 100
_MOST_ID: Final = 300
_STYLES: Final = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
_UNSUPPORTED_STYLES: Final = ("matrix", "label")
# Set by the request itself, or secrets, which are for connections.
_OWN_HEADERS: Final = frozenset(
    (
        *("accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "te"),
        *("content-type", "cookie", "expect", "host", "keep-alive", "proxy-authorization", "trailer", "upgrade"),
        "transfer-encoding",
    )
)
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SUCCESS: Final = re.compile(r"2[0-9][0-9]|2XX", re.IGNORECASE)
_DEFAULT: Final = "default"
# Bytes of all schemas of its answers together.
_MOST_ANSWERS: Final = 32 * 1024
_WORDS: Final = re.compile(r"[^A-Za-z0-9]+")
_LOWER_UPPER: Final = re.compile(r"([a-z0-9])([A-Z])")
_UPPER_WORD: Final = re.compile(r"([A-Z]+)([A-Z][a-z])")


class UnsupportedError(ValueError):
    """An operation cannot be a tool; the message says why."""


@dataclass(frozen=True)
class Context:
    """What all operations of a document have in common."""

    root: dict[str, Any]
    version: str
    schemes: Mapping[str, Scheme]
    # Whether what is declared for answers is wanted.
    answers: bool = False


@dataclass
class Reading:
    """One operation while it is read."""

    context: Context
    path: str
    method: str
    item: Mapping[str, Any]
    operation: Mapping[str, Any]
    # Whether only the upper levels of its schemas have descriptions.
    short: bool = False
    # Whether its schemas are not listed in full.
    is_cut: bool = False
    problems: dict[str, None] = field(default_factory=dict)
    # Schema of a parameter → what is said beside it.
    described: list[tuple[Schema, Mapping[str, Any]]] = field(default_factory=list)
    properties: dict[str, Schema] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    # Media type of an answer, by identity → its schema, and whether that is the whole.
    outputs: dict[int, tuple[Schema | None, bool]] = field(default_factory=dict)

    def found(self) -> Found:
        """The operation as a tool.

        Raises:
            UnsupportedError: it cannot be one.
        """
        path = self._path()
        schemas = Conversion(self.context.root, version=self.context.version, short=self.short)
        security = self._security()
        content, about = self._content()
        parameters = tuple(self._parameters(path, security, schemas, has_body=content is not None))
        body = self._body(content, about, schemas) if content is not None else None
        accepts, success, output = self._answers()
        schemas.finish()
        self.is_cut = schemas.is_cut
        most = _MOST_PARAMETER if len(self.described) <= _MANY else _MOST_OF_MANY
        for target, beside in self.described:
            _describe(target, beside, most)
        self.problems |= schemas.problems
        self._note_the_rest()
        operation = Operation(self.method, path, parameters, body, security, accepts, success)
        schema: Schema = {"type": "object", "properties": self.properties}
        schema |= {"required": self.required} if self.required else {}
        schema |= {"additionalProperties": False}
        schema |= {"$defs": schemas.definitions} if schemas.definitions else {}
        return self._made(operation, schema, output)

    def _made(self, operation: Operation, schema: Schema, output: Schema | None) -> Found:
        key = f"{self.method} {self.path}"
        summary = texts.text(self.operation.get("summary"), _MOST_SUMMARY, line=True)
        description = texts.text(self.operation.get("description"), _MOST_DESCRIPTION) or summary or key
        if self.operation.get("deprecated") is True:
            description = f"Deprecated. {description}"
            self.problems["The document says that it is deprecated."] = None
        title = summary if summary != description and len(summary) <= _MOST_TITLE else ""
        claims = _claims(self.method)
        tool: dict[str, Any] = {"name": self._name(), **({"title": title} if title else {})}
        tool |= {"description": description, "inputSchema": schema, "annotations": claims}
        tokens = tokens_of(size_of(tool))
        if output is not None:
            tool["outputSchema"] = output
        tool |= {"_key": key, "_operation": operation.as_dict()}
        tags = self.operation.get("tags")
        tag = tags[0] if isinstance(tags, list) and tags else ""
        return Found(
            key=key,
            method=self.method,
            path=self.path,
            tag=texts.text(tag, _MOST_TITLE, line=True),
            summary=summary or texts.text(self.operation.get("description"), _MOST_SUMMARY, line=True),
            definition=written(tool),
            tokens=tokens,
            claims=claims,
            problems=tuple(self.problems)[:_MOST_PROBLEMS],
            answers=written(self._declared_answers()) if self.context.answers else "",
        )

    def _name(self) -> str:
        """From the operationId, else from method and path. The prefix of the source comes before it."""
        for source in (self.operation.get("operationId"), f"{self.method.lower()} {self.path}"):
            text = source[:_MOST_ID] if isinstance(source, str) else ""
            words = _UPPER_WORD.sub(r"\1_\2", _LOWER_UPPER.sub(r"\1_\2", text))
            if slug := _WORDS.sub("_", words).strip("_").lower():
                return slug
        return self.method.lower()

    # ---- where it is

    def _path(self) -> str:
        """The path as it is sent."""
        if not self.path.startswith("/"):
            raise UnsupportedError("its path does not begin with /")
        if self.method == "TRACE":
            raise UnsupportedError("TRACE answers with the request, and so with its credentials")
        path, mark, fragment = self.path.partition("#")
        if mark:
            self.problems[f"Its path has #{shortened(fragment, 60)}, which is never sent."] = None
        if "?" in path:
            raise UnsupportedError("its path has a query (?), which belongs into parameters")
        if any(character.isspace() or not character.isprintable() for character in path):
            raise UnsupportedError("its path has blanks, or characters that are not printable")
        return path

    def _security(self) -> tuple[tuple[Scheme, ...], ...]:
        named = self.operation.get("security", self.context.root.get("security"))
        alternatives = []
        for alternative in named[:20] if isinstance(named, list) else ():
            names = [name for name in alternative if isinstance(name, str)] if isinstance(alternative, dict) else []
            for name in names:
                if name not in self.context.schemes:
                    self.problems[f"It needs the security scheme {shortened(name)}, which is not declared."] = None
            alternatives.append(tuple(self.context.schemes.get(name, ("", shortened(name), "")) for name in names[:10]))
        return tuple(alternatives)

    # ---- parameters

    def _parameters(
        self, path: str, security: tuple[tuple[Scheme, ...], ...], schemas: Conversion, *, has_body: bool
    ) -> Iterator[Parameter]:
        declared = self._declared()
        variables = list(dict.fromkeys(_VARIABLE.findall(path)))
        for name in variables:
            if ("path", name) not in declared:
                declared["path", name] = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                self.problems[f"Its path has {{{shortened(name, 60)}}}, which is not declared: it is a text."] = None
        credentials = {(place, name.lower()) for one in security for kind, name, place in one if kind == "apiKey"}
        order = {"path": 0, "query": 1, "header": 2}
        for (place, name), parameter in sorted(declared.items(), key=lambda one: order.get(one[0][0], 3)):
            if place == "path" and name not in variables:
                self.problems[f"The parameter {shortened(name, 60)} is not in its path."] = None
            elif (place, name.lower()) in credentials or (place == "header" and name.lower() in _OWN_HEADERS):
                continue
            elif self._is_possible(place, name, parameter):
                yield self._parameter(place, name, parameter, schemas, has_body=has_body)

    def _declared(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The parameters of path and operation, by place and name."""
        declared: dict[tuple[str, str], Mapping[str, Any]] = {}
        for owner in (self.item, self.operation):
            parameters = owner.get("parameters")
            for entry in parameters if isinstance(parameters, list) else ():
                try:
                    parameter = resolved(self.context.root, entry)
                except UnresolvedError as error:
                    raise UnsupportedError(f"a parameter cannot be read: {error}") from None
                if not isinstance(parameter, dict):
                    raise UnsupportedError("a parameter is not an object")
                place, name = parameter.get("in"), parameter.get("name")
                if not isinstance(place, str) or not isinstance(name, str) or not name:
                    raise UnsupportedError("a parameter has no name or no place (in)")
                declared[place, name] = parameter
                if len(declared) > _MOST_PARAMETERS:
                    raise UnsupportedError(f"it has more than {_MOST_PARAMETERS} parameters")
        return declared

    def _is_possible(self, place: str, name: str, parameter: Mapping[str, Any]) -> bool:
        """Whether a parameter can be sent. One that is optional is left out if it cannot.

        Raises:
            UnsupportedError: it is required.
        """
        reason = _obstacle(place, name, parameter)
        if reason and (parameter.get("required") is True or place == "path"):
            raise UnsupportedError(f"the parameter {shortened(name, 60)} {reason}")
        if reason:
            self.problems[f"The optional parameter {shortened(name, 60)} is left out: it {reason}."] = None
        return not reason

    def _parameter(
        self, place: str, name: str, parameter: Mapping[str, Any], schemas: Conversion, *, has_body: bool
    ) -> Parameter:
        argument = self._argument(name, place, has_body=has_body)
        content = parameter.get("content")
        media_type, schema = "", parameter.get("schema")
        if isinstance(content, dict) and content:
            media_type, media = next(iter(content.items()))
            schema = media.get("schema") if isinstance(media, dict) else None
            media_type = str(media_type) if bodies.is_json(str(media_type)) else ""
        if schema is None and not media_type:
            # In a document that was converted, the type can be beside the name.
            schema = parameter if isinstance(parameter.get("type"), str) else {"type": "string"}
        self._refuse_missing(schema, f"the parameter {shortened(name, 60)}")
        self.properties[argument] = target = schemas.add(schema)
        self.described.append((target, parameter))
        if place == "path" or parameter.get("required") is True:
            self.required.append(argument)
        styles = _STYLES[place]
        style = parameter.get("style")
        style = style if style in styles else styles[0]
        explode = parameter.get("explode")
        return Parameter(
            argument=argument,
            name=name,
            place=place,
            style=style,
            explode=explode if isinstance(explode, bool) else style == "form",
            allow_reserved=place == "query" and parameter.get("allowReserved") is True,
            allow_empty=place == "query" and parameter.get("allowEmptyValue") is True,
            media_type=texts.text(media_type, _MOST_TITLE, line=True),
        )

    def _argument(self, name: str, place: str, *, has_body: bool) -> str:
        """The property of a parameter: its name, if every client accepts it and nothing else has it."""
        base = name if _ACCEPTED.fullmatch(name) else _OTHERS.sub("_", name).strip("_")[:50] or "parameter"
        argument, number = base, 1
        while argument in self.properties or (argument == "body" and has_body):
            argument = f"{base[:50]}_{place}" if number == 1 else f"{base[:50]}_{place}_{number}"
            number += 1
        if base != name:
            self.problems[f"The parameter {shortened(name, 60)} is called {argument}, as clients refuse its name."] = (
                None
            )
        return argument

    def _refuse_missing(self, schema: object, what: str) -> None:
        try:
            resolved(self.context.root, schema)
        except UnresolvedError as error:
            raise UnsupportedError(f"{what} cannot be read: {error}") from None

    # ---- bodies

    def _content(self) -> tuple[bodies.Content | None, Mapping[str, Any]]:
        """The media type of the body that is sent, and the declaration of the body."""
        if self.operation.get("requestBody") is None:
            return None, {}
        try:
            about = resolved(self.context.root, self.operation["requestBody"])
        except UnresolvedError as error:
            raise UnsupportedError(f"its body cannot be read: {error}") from None
        if not isinstance(about, dict):
            raise UnsupportedError("its body is not an object")
        content = bodies.chosen(about.get("content"))
        if multiparts := shortened(", ".join(bodies.other_multiparts(about.get("content"))), 150):
            if content is None and about.get("required") is True:
                raise UnsupportedError(f"its body is {multiparts}; of multipart, only form-data is supported")
            self.problems[f"Its body is not sent as {multiparts}: of multipart, only form-data is supported."] = None
        if content is None and about.get("required") is True:
            raise UnsupportedError("its body is required and has no media type")
        if content is not None and content.others:
            others = shortened(", ".join(content.others), 150)
            self.problems[f"Its body is sent as {content.media_type}; the service also accepts {others}."] = None
        return content, about

    def _body(self, content: bodies.Content, about: Mapping[str, Any], schemas: Conversion) -> Body:
        self._refuse_missing(content.schema, "its body")
        target, parts = bodies.listed(content, self.context.root, schemas)
        self.properties["body"] = target
        self.described.append((target, {"description": about.get("description")}))
        is_required = about.get("required") is True
        if is_required:
            self.required.append("body")
        return Body("body", content.media_type, content.encoding, is_required, parts)

    # ---- answers

    def _answers(self) -> tuple[tuple[str, ...], tuple[str, ...], Schema | None]:
        """Media types and status codes of success, and the schema of the answer if it is small."""
        declared = self._responses()
        codes = sorted(code for code in declared if code != _DEFAULT) or list(declared)
        accepts: dict[str, None] = {}
        output: Schema | None = None
        for code in codes:
            for media_type, media in self._media(declared[code]).items():
                if len(accepts) < _MOST_PROBLEMS and texts.is_header(media_type):
                    accepts[media_type.strip()] = None
                if output is None and bodies.is_json(media_type):
                    output, is_whole = self._output(media)
                    output = output if is_whole else None
        return tuple(accepts), tuple(codes), output

    def _responses(self) -> dict[str, Any]:
        """The declared responses that are no errors, by status: `200`, `2XX`, `default`."""
        responses = self.operation.get("responses")
        return {
            code if code == _DEFAULT else code.upper(): response
            for code, response in (responses.items() if isinstance(responses, dict) else ())
            if isinstance(code, str) and (code == _DEFAULT or _SUCCESS.fullmatch(code))
        }

    def _media(self, response: object) -> dict[str, Any]:
        """The media types of a response; none if it cannot be read."""
        try:
            about = resolved(self.context.root, response)
        except UnresolvedError:
            return {}
        content = about.get("content") if isinstance(about, dict) else None
        return {name: content[name] for name in content if isinstance(name, str)} if isinstance(content, dict) else {}

    def _output(self, media: object) -> tuple[Schema | None, bool]:
        """The schema of an answer, and whether it is the whole."""
        schema = media.get("schema") if isinstance(media, dict) else None
        if not isinstance(schema, dict):
            return None, False
        if id(media) not in self.outputs:
            schemas = Conversion(self.context.root, version=self.context.version, answers=True, budget=MOST_OUTPUT)
            target = schemas.add(schema)
            schemas.finish()
            if schemas.definitions:
                target = {**target, "$defs": schemas.definitions}
            self.outputs[id(media)] = target, not schemas.is_cut and size_of(target) <= MOST_OUTPUT
        return self.outputs[id(media)]

    def _declared_answers(self) -> dict[str, Any]:
        """By status: its schema, and whether nothing but JSON is declared. What would be too large has no schema."""
        answers: dict[str, Any] = {}
        characters = 0
        for code, response in self._responses().items():
            content = self._media(response)
            about: dict[str, Any] = {}
            answers[code] = about
            if content and all(map(bodies.names_json, content)):
                about["json"] = True
            schema, _ = self._output(next((content[name] for name in content if bodies.is_json(name)), None))
            characters += size_of(schema) if schema else 0
            if schema and characters <= _MOST_ANSWERS:
                about["schema"] = schema
        return answers

    # ---- what an operator has to know

    def _note_the_rest(self) -> None:
        usual = self.context.root.get("servers")
        for owner in (self.operation, self.item):
            servers = owner.get("servers")
            if isinstance(servers, list) and servers and servers != usual and isinstance(servers[0], dict):
                address = shortened(str(servers[0].get("url")))
                note = (
                    f"The document names another server for it ({address}); it is called at the address of the source."
                )
                self.problems[note] = None
                break
        if self.operation.get("callbacks"):
            self.problems["It has callbacks, which this hub does not receive."] = None


def _obstacle(place: str, name: str, parameter: Mapping[str, Any]) -> str:
    """Why a parameter cannot be sent; empty if it can."""
    if place == "cookie":
        return "is sent as a cookie, which is not supported"
    if place not in _STYLES:
        return f"is in {shortened(place, 40)}, which OpenAPI 3 does not have"
    if parameter.get("style") in _UNSUPPORTED_STYLES:
        return f"has the style {parameter['style']}, which is not supported"
    if place == "header" and not _HEADER.fullmatch(name):
        return "has a name that no header can have"
    return "has a name that cannot be stored" if texts.UNSTORABLE.search(name) or len(name) > 500 else ""


def _describe(schema: Schema, beside: Mapping[str, Any], most: int) -> None:
    """What is said beside the schema of a parameter applies to the parameter, and so comes first."""
    if description := texts.text(beside.get("description"), most):
        schema["description"] = description
    if beside.get("deprecated") is True:
        schema["deprecated"] = True


def _claims(method: str) -> dict[str, bool]:
    """What a method says of itself. An operator decides: there are searches by POST."""
    reads = method in ("GET", "HEAD")
    return {
        "readOnlyHint": reads,
        "destructiveHint": method == "DELETE",
        "idempotentHint": reads or method in ("PUT", "DELETE"),
        "openWorldHint": True,
    }
