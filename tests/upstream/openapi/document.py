"""A document with every style, type and body that operations can have."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

NUMBER: Json = {"type": "number"}
WHOLE: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
ANY: Json = {"type": "string", "maxLength": 20}
# Mostly what separates something.
TEXT: Json = {"type": "string", "pattern": "^[a0&=#,+%|;:/? \"'é\\[\\]-]{0,6}$"}
PLAIN: Json = {"type": "string", "pattern": "^[a-z0-9]{1,5}$"}
LINE: Json = {"type": "string", "pattern": "^[!-~]{1,10}$"}
SEGMENT: Json = {"type": "string", "pattern": "^[a2eEfF /%.?#~,=;]{1,8}$"}
NULLABLE: Json = {"type": ["string", "null"], "maxLength": 20}
CHOICE: Json = {"enum": ["a b", "c&d", "é", 0, False, None]}


def many(items: Json) -> Json:
    return {"type": "array", "items": items, "maxItems": 4}


def named(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def parameter(name: str, place: str, schema: Json, **others: Any) -> Json:
    return {"name": name, "in": place, "schema": schema, **({"required": True} if place == "path" else {}), **others}


def query(name: str, schema: Json, style: str = "form", *, explode: bool = True, **others: Any) -> Json:
    return parameter(name, "query", schema, style=style, explode=explode, **others)


def with_body(media_type: str, schema: Json, **others: Any) -> Json:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema, **others}}}}


FILE: Json = {"type": "string", "format": "binary"}
TREE: Json = {
    "type": "object",
    "properties": {
        "name": NULLABLE,
        "size": {"oneOf": [WHOLE, {"type": "null"}]},
        "children": {"type": "array", "maxItems": 2, "items": {"$ref": "#/components/schemas/Tree"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}

_PATHS: Json = {
    "/scalars": {
        "get": {
            "operationId": "scalars",
            "parameters": [
                query("number", NUMBER),
                query("whole", WHOLE, explode=False),
                query("flag", FLAG),
                query("text", TEXT),
                query("any", ANY),
                query("null", NULLABLE),
                query("choice", CHOICE),
                query("empty", TEXT, allowEmptyValue=True),
                query("reserved", TEXT, allowReserved=True),
                query("odd [name]&=", TEXT),
            ],
        }
    },
    "/lists": {
        "get": {
            "operationId": "lists",
            "parameters": [
                query("commas", many(TEXT), explode=False),
                query("spaces", many(PLAIN), "spaceDelimited", explode=False),
                query("pipes", many(PLAIN), "pipeDelimited", explode=False),
                query("repeated", many(NULLABLE)),
                query("spread", many(WHOLE), "spaceDelimited"),
                query("both", many(TEXT), explode=False, allowReserved=True),
            ],
        }
    },
    "/objects": {
        "get": {
            "operationId": "objects",
            "parameters": [
                query("pairs", named(a=TEXT, b=FLAG), explode=False),
                query("spread", named(c=TEXT, d=NUMBER)),
                query("deep", named(e=TEXT, f=WHOLE, g=named(h=NULLABLE)), "deepObject"),
                query("spaces", named(i=PLAIN, j=WHOLE), "spaceDelimited", explode=False),
                {
                    "name": "where",
                    "in": "query",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}},
                },
            ],
        }
    },
    "/a/{text}/b/{whole}.json": {
        "get": {
            "operationId": "path_scalars",
            "parameters": [parameter("text", "path", SEGMENT), parameter("whole", "path", WHOLE)],
        }
    },
    "/lists/{list}/{object}/{spread}": {
        "delete": {
            "operationId": "path_parts",
            "parameters": [
                parameter("list", "path", {**many(SEGMENT), "minItems": 1}),
                parameter("object", "path", {**named(a=SEGMENT, b=FLAG), "minProperties": 1}),
                parameter("spread", "path", {**named(a=SEGMENT, b=WHOLE), "minProperties": 1}, explode=True),
            ],
        }
    },
    "/headers": {
        "get": {
            "operationId": "headers",
            "parameters": [
                parameter("X-Text", "header", LINE),
                parameter("X-Whole", "header", WHOLE),
                parameter("X-List", "header", many(PLAIN)),
                parameter("X-Object", "header", named(a=PLAIN, b=FLAG)),
                parameter("X-Spread", "header", named(a=PLAIN, b=FLAG), explode=True),
            ],
        }
    },
    "/json": {"post": {"operationId": "json", **with_body("application/json", {"$ref": "#/components/schemas/Tree"})}},
    "/patch/{id}": {
        "patch": {
            "operationId": "patch",
            "parameters": [parameter("id", "path", WHOLE), query("id", WHOLE), query("body", TEXT)],
            **with_body("application/merge-patch+json", {}),
        }
    },
    "/form": {
        "post": {
            "operationId": "form",
            **with_body(
                "application/x-www-form-urlencoded",
                named(text=TEXT, whole=WHOLE, flag=FLAG, null=NULLABLE, list=many(TEXT), object=named(a=TEXT, b=FLAG)),
            ),
        }
    },
    "/multipart": {
        "post": {
            "operationId": "multipart",
            **with_body(
                "multipart/form-data",
                named(text=TEXT, whole=WHOLE, list=many(TEXT), object=named(a=TEXT), file=FILE, files=many(FILE)),
            ),
        }
    },
    "/text": {"put": {"operationId": "text", **with_body("text/plain", {"type": "string"})}},
    "/file": {"put": {"operationId": "file", **with_body("image/png", FILE)}},
}

DOCUMENT: Json = {
    "openapi": "3.1.0",
    "info": {"title": "Everything", "version": "1"},
    "components": {"schemas": {"Tree": TREE}},
    "paths": {
        path: {method: {**operation, "responses": {"204": {"description": ""}}} for method, operation in item.items()}
        for path, item in _PATHS.items()
    },
}
