"""A service made from a document: it takes a request apart as the document says, and complains about anything else.

Written from the specification alone: it shares nothing with the code that makes the requests.
"""

from __future__ import annotations

import base64
import email
import email.policy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from jsonschema_rs import Draft202012Validator

from tests.support.faultd import Seen

Json = dict[str, Any]
# What every client sends.
USUAL = {"host", "user-agent", "accept", "accept-encoding", "content-length", "content-type"}


class Complaint(AssertionError):
    """The document does not allow this request."""


@dataclass(frozen=True)
class Strict:
    document: Mapping[str, Any]
    # Of the base URL.
    path: str

    def arguments(self, seen: Seen) -> tuple[str, dict[tuple[str, str], Any]]:
        """The operation of a request, and its values by place and name. Values outside of JSON are texts."""
        path, _, query = seen.target.partition("?")
        template, variables = self._template(path.removeprefix(self.path), seen.method.lower())
        operation = self.document["paths"][template][seen.method.lower()]
        declared = {(one["in"], one["name"]): one for one in operation.get("parameters", ())}
        values: dict[tuple[str, str], Any] = {}
        for (place, name), parameter in declared.items():
            if place == "path":
                values[place, name] = _simple(parameter, variables[name], decode=True)
            elif place == "header" and name.lower() in seen.headers:
                values[place, name] = _simple(parameter, seen.headers[name.lower()], decode=False)
        values |= {("query", name): value for name, value in _query(declared, query).items()}
        unknown = set(seen.headers) - USUAL - {name.lower() for place, name in declared if place == "header"}
        if unknown:
            raise Complaint(f"unknown headers: {unknown}")
        for key, parameter in declared.items():
            if (
                parameter.get("required")
                and key not in values
                and _kind(parameter["schema"]) not in ("array", "object")
            ):
                raise Complaint(f"{key} is missing")
        if "requestBody" in operation:
            values |= _body(operation["requestBody"], seen)
        elif seen.body or "content-type" in seen.headers:
            raise Complaint("a body that is not declared")
        return operation["operationId"], values

    def _template(self, path: str, method: str) -> tuple[str, dict[str, str]]:
        for template, item in self.document["paths"].items():
            names = re.findall(r"\{(.+?)\}", template)
            pattern = re.sub(r"\\\{.+?\\\}", "([^/?#]+)", re.escape(template))
            if method in item and (match := re.fullmatch(pattern, path)):
                return template, dict(zip(names, match.groups(), strict=True))
        raise Complaint(f"no operation {method} {path}")

    def check(self, operation_id: str, arguments: Mapping[tuple[str, str], Any]) -> None:
        """Whether the document allows these values, before they become a request."""
        for item in self.document["paths"].values():
            for operation in item.values():
                if operation["operationId"] == operation_id:
                    self._check(operation, arguments)

    def _check(self, operation: Mapping[str, Any], arguments: Mapping[tuple[str, str], Any]) -> None:
        schemas = {(one["in"], one["name"]): _schema(one) for one in operation.get("parameters", ())}
        if "requestBody" in operation:
            ((kind, media),) = operation["requestBody"]["content"].items()
            if "json" in kind:
                schemas["body", ""] = media["schema"]
        for key, value in arguments.items():
            if key in schemas:
                whole = {**schemas[key], "components": self.document["components"]}
                Draft202012Validator(whole).validate(value)
            elif key[0] != "body":
                raise Complaint(f"{key} is not declared")


def _schema(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    if "content" in parameter:
        ((_, media),) = parameter["content"].items()
        found: Mapping[str, Any] = media["schema"]
        return found
    schema: Mapping[str, Any] = parameter["schema"]
    return schema


def _kind(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type"))


def _simple(parameter: Mapping[str, Any], text: str, *, decode: bool) -> Any:
    if "content" in parameter:
        return json.loads(unquote(text, errors="strict") if decode else text)
    parts = [text] if _kind(parameter["schema"]) not in ("array", "object") else text.split(",")
    return _assembled(parameter, parts, decode=decode)


def _assembled(parameter: Mapping[str, Any], parts: list[str], *, decode: bool = True) -> Any:
    """The value of the parts between delimiters."""

    def plain(text: str) -> str:
        return unquote(text, errors="strict") if decode else text

    match _kind(parameter["schema"]):
        case "array":
            return [plain(part) for part in parts]
        case "object" if parameter.get("explode"):
            pairs = [part.split("=") for part in parts]
            return {plain(name): plain(value) for name, value in pairs}
        case "object":
            if len(parts) % 2:
                raise Complaint(f"an odd number of parts for {parameter['name']}")
            return {plain(parts[n]): plain(parts[n + 1]) for n in range(0, len(parts), 2)}
    return plain(parts[0])


# ---- query


def _query(declared: Mapping[tuple[str, str], Any], query: str) -> dict[str, Any]:
    if not re.fullmatch(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*", query):
        raise Complaint("the query has characters that no URL can have")
    parameters = {name: one for (place, name), one in declared.items() if place == "query"}
    values: dict[str, Any] = {}
    for name, text in (pair.partition("=")[::2] for pair in query.split("&") if pair):
        owner = _owner(parameters, unquote(name, errors="strict"))
        _take(parameters[owner], values, unquote(name), text)
    return values


def _owner(parameters: Mapping[str, Any], name: str) -> str:
    for owner, parameter in parameters.items():
        is_spread = parameter.get("style", "form") == "form" and parameter.get("explode", True)
        schema = parameter.get("schema", {})
        if is_spread and _kind(schema) == "object":
            if name in schema["properties"]:
                return owner
        elif name == owner or (parameter.get("style") == "deepObject" and name.startswith(f"{owner}[")):
            return owner
    raise Complaint(f"the query has {name!r}, which is not declared")


def _take(parameter: Mapping[str, Any], values: dict[str, Any], name: str, text: str) -> None:
    owner, style = parameter["name"], parameter.get("style", "form")
    explode = parameter.get("explode", style == "form")
    kind = _kind(parameter.get("schema", {}))
    if "content" in parameter:
        values[owner] = json.loads(unquote(text, errors="strict"))
    elif style == "deepObject":
        _put(values.setdefault(owner, {}), re.findall(r"\[(.*?)\]", name), unquote(text, errors="strict"))
    elif kind == "array" and explode:
        values.setdefault(owner, []).append(unquote(text, errors="strict"))
    elif kind == "object" and explode:
        values.setdefault(owner, {})[name] = unquote(text, errors="strict")
    elif owner in values:
        raise Complaint(f"{owner} is there twice")
    else:
        delimiter = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
        parts = text.split(delimiter) if kind in ("array", "object") else [text]
        values[owner] = _assembled({**parameter, "explode": False}, parts)


def _put(target: Json, steps: list[str], text: str) -> None:
    *way, last = steps
    for step in way:
        target = target.setdefault(step, {})
    if last in target:
        raise Complaint(f"{steps} is there twice")
    target[last] = text


# ---- bodies


def _body(declared: Mapping[str, Any], seen: Seen) -> dict[tuple[str, str], Any]:
    ((kind, media),) = declared["content"].items()
    if "content-type" not in seen.headers:
        if declared.get("required") or seen.body:
            raise Complaint("no media type")
        return {}
    sent = seen.headers["content-type"]
    if sent.partition("; boundary=")[0] != kind:
        raise Complaint(f"{sent} instead of {kind}")
    if "json" in kind:
        return {("body", ""): json.loads(seen.body)}
    if kind.startswith("text/"):
        return {("body", ""): seen.body.decode()}
    if kind == "application/x-www-form-urlencoded":
        pairs = parse_qsl(seen.body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(seen.body))
        return {("body", ""): _fields(media["schema"], pairs)}
    if kind == "multipart/form-data":
        return {("body", ""): _fields(media["schema"], list(_parts(sent, seen.body)))}
    return {("body", ""): {"base64": base64.b64encode(seen.body).decode()}}


def _fields(schema: Mapping[str, Any], pairs: list[tuple[str, Any]]) -> Json:
    fields: Json = {}
    for name, value in pairs:
        if name not in schema["properties"]:
            raise Complaint(f"the form has {name!r}, which is not declared")
        part = schema["properties"][name]
        if _kind(part) == "array":
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise Complaint(f"the field {name} is there twice")
        else:
            fields[name] = json.loads(value) if _kind(part) == "object" and isinstance(value, str) else value
    return fields


def _parts(kind: str, content: bytes) -> Iterator[tuple[str, Any]]:
    if content == f"--{kind.partition('boundary=')[2]}--\r\n".encode():
        return  # a form without fields, as browsers send it
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    message = email.message_from_bytes(head + content, policy=email.policy.HTTP)
    if not content.rstrip(b"\r\n").endswith(b"--") or message.defects:
        raise Complaint(f"not multipart: {message.defects}")
    payload: Any = message.get_payload()
    for part in payload if isinstance(payload, list) else ():
        disposition: Any = part["content-disposition"]
        data: Any = part.get_payload(decode=True)
        if disposition.params.get("filename") is not None:
            yield disposition.params["name"], {"base64": base64.b64encode(data).decode()}
        else:
            yield disposition.params["name"], data.decode()
