"""Bodies of requests: JSON, forms, multipart, text and files."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from tools_app.sdk import content, files
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError, shortened
from tools_app.sdk.operation import Body, Parameter
from tools_app.upstream.openapi import styles
from tools_app.upstream.openapi.styles import is_json, json_of, refused, text_of

MOST_BYTES: Final = 16 * 1024 * 1024
BYTES: Final = "application/octet-stream"
# For a body whose media type is a range, such as */*.
_OF_RANGES: Final = {"json": "application/json", "text": "text/plain", "binary": BYTES}
_INSTEAD: Final = "Send the content as base64."
_SENDABLE: Final = re.compile(r"[\x20-\x7e]{1,300}")
# As browsers write them into a Content-Disposition.
_QUOTED: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


@dataclass(frozen=True, slots=True)
class Payload:
    content: bytes | None = None
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    name: str
    # As the caller says; empty if it does not.
    media_type: str


async def written(body: Body, value: Any, context: Context) -> Payload:
    """The body with this value.

    Raises:
        ToolError: the value cannot be sent so, or a file cannot be read.
    """
    try:
        payload = await _written(body, value, context)
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError("A text contains an incomplete character (lone surrogate)") from error
    if len(payload.content or b"") > MOST_BYTES:
        raise refused(body.argument, f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
    if not _SENDABLE.fullmatch(payload.media_type):
        raise ConfigurationError(f"The media type {shortened(body.media_type)!r} of the document cannot be sent")
    return payload


async def _written(body: Body, value: Any, context: Context) -> Payload:
    media_type = _OF_RANGES.get(body.encoding, body.media_type) if "*" in body.media_type else body.media_type
    match body.encoding:
        case "json":
            return Payload(json_of(value).encode(), media_type)
        case "text":
            if isinstance(value, dict | list):
                raise refused(body.argument, "expected a text")
            return Payload(text_of(value).encode(), media_type)
        case "form":
            return Payload(_form(body, _fields(body, value)).encode(), media_type)
        case "multipart":
            return await _multipart(body, _fields(body, value), context)
        case "binary":
            file = await _file(body.argument, value, context)
            own = file.media_type if "*" in body.media_type else ""
            return Payload(file.content, own or media_type)
    raise ConfigurationError(f"Bodies of the encoding {shortened(body.encoding)!r} cannot be sent")


def _fields(body: Body, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise refused(body.argument, "expected an object")
    return value


# ---- forms


def _form(body: Body, fields: Mapping[str, Any]) -> str:
    pairs = (pair for name, value in fields.items() for pair in _form_pairs(name, value, body.parts.get(name, {})))
    return "&".join(f"{name}={value}" for name, value in pairs).replace("%20", "+")


def _form_pairs(name: str, value: Any, part: Mapping[str, Any]) -> Iterator[styles.Pair]:
    """A style applies if the document names one; otherwise objects are JSON, and lists are repeated."""
    if any(key in part for key in ("style", "explode", "allowReserved")):
        style = part.get("style") or "form"
        explode = part.get("explode", style == "form")
        yield from styles.query(
            Parameter(name, name, "query", style, explode, allow_reserved=bool(part.get("allowReserved"))), value
        )
    elif is_json(part.get("contentType") or ""):
        yield from styles.query(Parameter(name, name, "query", "form", False, media_type="application/json"), value)
    else:
        # As one text each.
        texts = [text_of(one) for one in value] if isinstance(value, list) else text_of(value)
        yield from styles.query(Parameter(name, name, "query", "form", True), texts)


# ---- multipart


async def _multipart(body: Body, fields: Mapping[str, Any], context: Context) -> Payload:
    boundary = f"toolhub-{secrets.token_hex(16)}"
    pieces: list[bytes] = []
    size = 0
    async for head, data in _parts(body, fields, context):
        size += len(data)
        if size > MOST_BYTES:
            raise refused(body.argument, f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
        pieces += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), data, b"\r\n"]
    media_type = "multipart/form-data" if "*" in body.media_type else body.media_type
    return Payload(b"".join([*pieces, f"--{boundary}--\r\n".encode()]), f"{media_type}; boundary={boundary}")


async def _parts(body: Body, fields: Mapping[str, Any], context: Context) -> AsyncIterator[tuple[str, bytes]]:
    """The headers and the content of each part. Lists are repeated parts."""
    for name, value in fields.items():
        part = body.parts.get(name, {})
        declared = _media_type(part.get("contentType") or "")
        for one in value if isinstance(value, list) else [value]:
            head = f'Content-Disposition: form-data; name="{name.translate(_QUOTED)}"'
            if part.get("file"):
                file = await _file(name, one, context)
                kind = file.media_type or declared or mimetypes.guess_type(file.name)[0] or BYTES
                yield f'{head}; filename="{file.name.translate(_QUOTED)}"\r\nContent-Type: {kind}', file.content
            elif declared or isinstance(one, dict | list):
                kind = declared or "application/json"
                text = json_of(one) if is_json(kind) else text_of(one)
                yield f"{head}\r\nContent-Type: {kind}", text.encode()
            else:
                yield head, text_of(one).encode()


def _media_type(declared: str) -> str:
    """The first of the media types that a part may have; empty if that is a range."""
    first = declared.partition(",")[0].strip()
    return first if content.MEDIA_TYPE.fullmatch(first) and "*" not in first else ""


# ---- files


async def _file(argument: str, value: Any, context: Context) -> _File:
    """A file as callers give it: `base64`, or `path` for those on the hub's own machine."""
    if not isinstance(value, dict) or ("base64" in value) == ("path" in value):
        raise refused(argument, "a file is an object with either base64 or path")
    name, media_type = value.get("filename"), value.get("mediaType") or ""
    if not isinstance(media_type, str) or (media_type and not content.MEDIA_TYPE.fullmatch(media_type)):
        raise refused(argument, "its mediaType is not a media type")
    if "path" in value:
        path = str(value["path"])
        data = await files.read(context, path, MOST_BYTES, _INSTEAD)
        name = name or PurePath(path).name
    else:
        try:
            data = base64.b64decode(str(value["base64"]), validate=True)
        except (binascii.Error, ValueError) as error:
            raise refused(argument, "its base64 is not valid") from error
    if len(data) > MOST_BYTES:
        raise refused(argument, f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
    return _File(data, str(name or argument), media_type)
