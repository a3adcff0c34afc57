"""The REST reference as an HTML page, rendered from the OpenAPI document without scripts and without other hosts."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse

from tools_app.api import openapi
from tools_app.api.authentication import KeyAuthentication
from tools_app.api.errors import MethodNotAllowedError
from tools_app.api.openapi import Document
from tools_app.sdk.errors import AuthenticationError
from tools_app.sdk.schemas import Schema

METHODS: Final = ("get", "post", "patch", "delete")
_REFERENCE: Final = "#/components/schemas/"
_LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "multipleOf": "a multiple of {}",
    "pattern": "like {}",
}


_authenticate: Final = KeyAuthentication()


async def show_docs(request: HttpRequest) -> HttpResponseBase:
    """The REST reference, for users logged in to the admin; redirects all others to the login page."""
    if request.method != "GET":
        raise MethodNotAllowedError("GET")
    try:
        is_user = (await _authenticate(request)).kind == "user"
    except AuthenticationError:
        is_user = False
    if not is_user:
        return redirect_to_login(request.path, _login())
    response = HttpResponse(page())
    response["Cache-Control"] = "private, no-cache"
    return response


def _login() -> str:
    try:
        return reverse("admin:login")
    except NoReverseMatch as error:
        raise Http404 from error


@functools.cache
def page() -> str:
    document = openapi.document()
    return render_to_string(
        "tools_app/docs.html",
        {"info": document["info"], "groups": _groups(document), "schemas": _schemas(document)},
    )


def _groups(document: Document) -> list[dict[str, Any]]:
    """The operations, by tag."""
    operations = [
        _operation(document, path, method, methods[method])
        for path, methods in document["paths"].items()
        for method in METHODS
        if method in methods
    ]
    return [
        {**tag, "operations": [operation for operation in operations if tag["name"] in operation["tags"]]}
        for tag in document["tags"]
    ]


def _operation(document: Document, path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    responses = [_response(document, status, response) for status, response in operation["responses"].items()]
    return {
        **operation,
        "path": path,
        "method": method.upper(),
        "parameters": [{**parameter, "words": in_words(parameter["schema"])} for parameter in operation["parameters"]],
        "body": body and in_words(body),
        "responses": responses,
    }


def _response(document: Document, status: str, response: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    return {"status": status, "description": response["description"], "schema": schema and in_words(schema)}


def _schemas(document: Document) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": schema.get("description", ""),
            "words": "" if "properties" in schema else in_words(schema),
            "fields": [
                {
                    "name": field,
                    "words": in_words(part),
                    "required": field in schema.get("required", ()),
                    "description": part.get("description", ""),
                }
                for field, part in schema.get("properties", {}).items()
            ],
            "examples": [json.dumps(example, indent=2) for example in schema.get("examples", ())],
        }
        for name, schema in sorted(document["components"]["schemas"].items())
    ]


def in_words(schema: Schema) -> list[dict[str, str]]:
    """A schema as text; pieces that are a schema name become links."""
    if "$ref" in schema:
        return [{"schema": schema["$ref"].removeprefix(_REFERENCE)}]
    for keyword, between in (("anyOf", " or "), ("allOf", " and ")):
        if keyword in schema:
            parts = [in_words(part) for part in schema[keyword]]
            pieces = [piece for part in parts for piece in ({"text": between}, *part)]
            return pieces[1:]
    if schema.get("type") == "array":
        return [{"text": "list of "}, *in_words(schema.get("items", {}))]
    if "enum" in schema:
        return [{"text": ", ".join(map(json.dumps, schema["enum"]))}]
    words = [
        schema.get("type", "anything"),
        *(text.format(schema[key]) for key, text in _LIMITS.items() if key in schema),
    ]
    if "default" in schema:
        words.append(f"default {json.dumps(schema['default'])}")
    return [{"text": ", ".join(words)}]
