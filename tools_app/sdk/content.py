"""Content that a tool can return beside data: images, audio, files and links.

A tool returns one of these, or a list of them and of texts. MCP clients get them unchanged; where only text can be
shown, a short description takes their place.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}(?:; ?[\w.-]{1,64}=[\w.-]{1,64}){0,4}", re.ASCII)
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[!-~]{1,2000}")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an answer that is not plain text."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        # With a return annotation that names content, the tool has no output schema.
        raise TypeError(f"{cls.__name__} is content and has no schema")

    def wire(self) -> dict[str, Any]:
        """The wire form, the same for MCP and REST."""
        raise NotImplementedError

    def in_words(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Media(Part):
    data: bytes
    mime_type: str

    def __post_init__(self) -> None:
        kind = type(self).__name__.lower()
        if not self.data:
            raise ValueError(f"an {kind} without data")
        if not MEDIA_TYPE.fullmatch(self.mime_type) or not self.mime_type.startswith(f"{kind}/"):
            raise ValueError(f"{self.mime_type!r} is not a media type for an {kind}")

    def wire(self) -> dict[str, Any]:
        kind = type(self).__name__.lower()
        return {"type": kind, "data": _base64(self.data), "mimeType": self.mime_type}

    def in_words(self) -> str:
        return f"[{self.mime_type}, {len(self.data):,} bytes]"


@dataclass(frozen=True, slots=True)
class Image(_Media):
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    mime_type: str = "audio/wav"


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Part):
    """A file inside the answer: text or bytes."""

    uri: str
    content: str | bytes
    mime_type: str = ""

    def __post_init__(self) -> None:
        check_uri(self.uri)
        check_media_type(self.mime_type)

    def wire(self) -> dict[str, Any]:
        return {"type": "resource", "resource": contents(self.uri, self.content, self.mime_type)}

    def in_words(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return f"[{self.uri}, {self.mime_type or 'bytes'}, {len(self.content):,} bytes]"


@dataclass(frozen=True, slots=True)
class ResourceLink(Part):
    """A link to a resource."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)
        check_media_type(self.mime_type)
        if not self.name:
            raise ValueError("a link without a name")

    def wire(self) -> dict[str, Any]:
        optional = {"title": self.title, "description": self.description, "mimeType": self.mime_type}
        wire: dict[str, Any] = {"type": "resource_link", "uri": self.uri, "name": self.name}
        wire.update((key, value) for key, value in optional.items() if value)
        if self.size is not None:
            wire["size"] = self.size
        return wire

    def in_words(self) -> str:
        return f"[{self.title or self.name}: {self.uri}]"


@dataclass(frozen=True, slots=True)
class Block(Part):
    """A content block that another MCP server has sent, in wire form. Made by the hub alone."""

    block: Mapping[str, Any]

    def wire(self) -> dict[str, Any]:
        return dict(self.block)

    def in_words(self) -> str:
        block = self.block
        match block["type"]:
            case "text":
                return str(block["text"])
            case "resource_link":
                return f"[{block.get('title') or block['name']}: {block['uri']}]"
            case "resource":
                resource = block["resource"]
                return str(resource.get("text") or f"[{resource['uri']}, {resource.get('mimeType') or 'bytes'}]")
        return f"[{block['mimeType']}, {len(block['data']) * 3 // 4:,} bytes]"


def contents(uri: str, content: str | bytes, mime_type: str = "") -> dict[str, Any]:
    """The contents of a resource in wire form."""
    wire: dict[str, Any] = {"uri": uri, "mimeType": mime_type} if mime_type else {"uri": uri}
    return wire | ({"text": content} if isinstance(content, str) else {"blob": _base64(content)})


def parts_in(returned: object) -> Sequence[str | Part] | None:
    """The parts of what a tool returned; None if it is plain data.

    Raises:
        TypeError: a list mixes content and data.
    """
    if isinstance(returned, Part):
        return (returned,)
    if not isinstance(returned, list | tuple) or not any(isinstance(piece, Part) for piece in returned):
        return None
    for piece in returned:
        if not isinstance(piece, str | Part):
            raise TypeError(f"{type(piece).__name__} in a list of texts and content")
    return returned


def wire_of(piece: str | Part) -> dict[str, Any]:
    return {"type": "text", "text": piece} if isinstance(piece, str) else piece.wire()


def check_uri(uri: str) -> None:
    if not URI.fullmatch(uri):
        raise ValueError(f"{uri[:100]!r} is not a URI")


def check_media_type(mime_type: str) -> None:
    if mime_type and not MEDIA_TYPE.fullmatch(mime_type):
        raise ValueError(f"{mime_type[:100]!r} is not a media type")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
