"""Bodies of requests and media types of answers: which one is used, and how its schema is listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.sdk.schemas import Schema
from tools_app.sources.openapi import texts
from tools_app.sources.openapi.references import UnresolvedError, resolved
from tools_app.sources.openapi.schemas import Conversion

# A file in a body. `path` is for callers on the machine of the hub.
FILE: Final[Schema] = {
    "type": "object",
    "description": "A file: base64, or a path below TOOLHUB_FILE_ROOT (local callers only).",
    "properties": {
        "base64": {"type": "string"},
        "path": {"type": "string"},
        "filename": {"type": "string"},
        "mediaType": {"type": "string"},
    },
    "oneOf": [{"required": ["base64"]}, {"required": ["path"]}],
    "additionalProperties": False,
}
# Which one is preferred.
_ENCODINGS: Final = ("json", "form", "multipart", "text", "binary")
_JSON_FIRST: Final = ("application/json", "application/merge-patch+json")
_TEXT: Final = ("xml", "yaml", "csv", "graphql", "javascript", "ndjson", "jsonl", "x-ndjson", "sparql", "sql")
_FORM_DATA: Final = "multipart/form-data"
_WILDCARDS: Final = {
    "json": "application/json",
    "multipart": _FORM_DATA,
    "text": "text/plain",
    "binary": "application/octet-stream",
}
_ENCODED: Final = {"contentType": str, "style": str, "explode": bool, "allowReserved": bool}
_MOST_NAME: Final = 100
_MOST_LEVELS: Final = 10


@dataclass
class Content:
    """The media type of a body that is used, and its schema."""

    media_type: str
    encoding: str
    schema: Any
    encodings: Mapping[str, Any] = field(default_factory=dict)
    # Media types that the service accepts, too.
    others: tuple[str, ...] = ()


def base_of(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    base = base_of(media_type)
    return base in ("application/json", "text/json", "application/*", "*/*") or base.endswith(("+json", "/json"))


def names_json(media_type: str) -> bool:
    """Whether it is JSON and nothing else."""
    return "*" not in media_type and is_json(media_type)


def chosen(content: object) -> Content | None:
    """The media type that is sent, of those that the service accepts. None: there is none."""
    media = content.items() if isinstance(content, dict) else ()
    offers = [_offer(name, about) for name, about in media if _is_type(name) and not _is_other_multipart(name)]
    if not offers:
        return None
    best = min(offers, key=_rank)
    best.others = tuple(offer.media_type for offer in offers if offer is not best)
    return best


def other_multiparts(content: object) -> list[str]:
    """The media types of a body that cannot be sent: their parts have no names, or refer to each other."""
    return (
        [name for name in content if _is_type(name) and _is_other_multipart(name)] if isinstance(content, dict) else []
    )


def _is_other_multipart(media_type: str) -> bool:
    base = base_of(media_type)
    return base.startswith("multipart/") and base not in (_FORM_DATA, "multipart/*")


def _is_type(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _MOST_NAME and "/" in name and name.isprintable() and name.isascii()


def _offer(media_type: str, media: object) -> Content:
    about = media if isinstance(media, dict) else {}
    schema = about.get("schema")
    encoding = _encoding(media_type, schema)
    base = base_of(media_type)
    encodings = about.get("encoding")
    return Content(
        media_type=_WILDCARDS.get(encoding, base) if "*" in base else media_type.strip(),
        encoding=encoding,
        schema=schema,
        encodings=encodings if isinstance(encodings, dict) else {},
    )


def _encoding(media_type: str, schema: object) -> str:
    base = base_of(media_type)
    if base == "application/x-www-form-urlencoded":
        return "form"
    if base.startswith("multipart/"):  # Others are no offers.
        return "multipart"
    is_file = isinstance(schema, dict) and _is_binary(schema)
    if is_json(base):
        return "binary" if is_file else "json"
    kind, _, name = base.partition("/")
    if kind == "text" or name in _TEXT or name.endswith(("+xml", "+yaml")):
        return "text"
    is_structured = isinstance(schema, dict) and (schema.get("type") in ("object", "array") or "$ref" in schema)
    return "json" if kind == "application" and is_structured and not is_file else "binary"


def _rank(content: Content) -> tuple[int, int]:
    base = base_of(content.media_type)
    return _ENCODINGS.index(content.encoding), _JSON_FIRST.index(base) if base in _JSON_FIRST else len(_JSON_FIRST)


def listed(content: Content, root: dict[str, Any], schemas: Conversion) -> tuple[Schema, dict[str, dict[str, Any]]]:
    """The schema of the body as a parameter, and how its parts are encoded."""
    match content.encoding:
        case "binary":
            return dict(FILE), {}
        case "text":
            is_text = isinstance(content.schema, dict) and content.schema.get("type") == "string"
            return schemas.add(content.schema) if is_text else {"type": "string"}, {}
        case "json":
            return schemas.add(content.schema), {}
    parts = {name: one for name, about in content.encodings.items() if isinstance(name, str) and (one := _part(about))}
    shape = _shape(content.schema, root, _MOST_LEVELS)
    files = _files(shape, root, content.encodings) if content.encoding == "multipart" else {}
    if not files:
        return schemas.add(content.schema), parts
    properties = {name: part for name, part in shape["properties"].items() if name not in files}
    # Files are described here: in the document they are texts.
    body = schemas.add({**shape, "properties": properties}, extra=files)
    return body, {**parts, **{name: {**parts.get(name, {}), "file": True} for name in files}}


def _part(about: object) -> dict[str, Any]:
    if not isinstance(about, dict):
        return {}
    return {
        name: about[name]
        for name, kind in _ENCODED.items()
        if isinstance(about.get(name), kind) and len(str(about[name])) <= _MOST_NAME
    }


def _shape(schema: object, root: dict[str, Any], levels: int) -> dict[str, Any]:
    """The properties of an object, with those of what it refers to and of all that apply to it together."""
    try:
        own = resolved(root, schema)
    except UnresolvedError:
        return {"properties": {}}
    if not isinstance(own, dict) or levels == 0:
        return {"properties": {}}
    branches = own.get("allOf")
    shapes = [_shape(branch, root, levels - 1) for branch in (branches[:50] if isinstance(branches, list) else ())]
    properties = own.get("properties")
    merged = {name: part for shape in shapes for name, part in shape["properties"].items()}
    required = [name for shape in shapes for name in shape.get("required", ())]
    named = own.get("required")
    return {
        **{name: value for name, value in own.items() if name != "allOf"},
        "properties": {**merged, **(properties if isinstance(properties, dict) else {})},
        "required": [*required, *(named if isinstance(named, list) else ())],
    }


def _files(shape: Mapping[str, Any], root: dict[str, Any], encodings: Mapping[str, Any]) -> dict[str, Schema]:
    """The properties that are files, or lists of files."""
    files: dict[str, Schema] = {}
    for name, part in shape["properties"].items():
        try:
            own = resolved(root, part)
            items = resolved(root, own.get("items")) if isinstance(own, dict) and own.get("type") == "array" else None
        except UnresolvedError:
            continue
        about = encodings.get(name)
        content_type = about.get("contentType") if isinstance(about, dict) else ""
        if isinstance(items, dict) and _is_binary(items, content_type):
            files[name] = {"type": "array", "items": dict(FILE)}
        elif isinstance(own, dict) and _is_binary(own, content_type):
            files[name] = _described(own)
    return files


def _is_binary(schema: Mapping[str, Any], content_type: object = "") -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "file" in kinds or schema.get("format") == "binary":
        return True
    if "contentMediaType" in schema and "contentEncoding" not in schema:
        return not is_json(str(schema["contentMediaType"])) and not str(schema["contentMediaType"]).startswith("text/")
    named = base_of(str(content_type or ""))
    is_open = kind is None or "string" in kinds
    return is_open and (named == "application/octet-stream" or named.startswith(("image/", "audio/", "video/")))


def _described(schema: Mapping[str, Any]) -> Schema:
    about = texts.text(schema.get("description"), 200, line=True)
    return {**FILE, "description": f"{about} {FILE['description']}".strip()}
