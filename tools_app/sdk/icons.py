"""Icons of tools: an `https:` address, or a small PNG or SVG as a `data:` address."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

# An icon is sent to every agent with the list of tools, once for each tool that has it.
MAX_BYTES: Final = 8 * 1024
MAX_PIXELS: Final = 1024

_HTTPS: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:/[!-~]{0,2000})?")
_DATA: Final = re.compile(r"data:(image/(?:png|svg\+xml));base64,([A-Za-z0-9+/=]*)")
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_SVG: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^\[>]*>\s*)?(?:<!--.*?-->\s*)*<svg[\s/>]", re.DOTALL
)
# Active content in SVG: scripts, entities, and external references.
_ACTIVE: Final = re.compile(
    rb"""<script | <foreignobject | <!entity | javascript: | @import | \son\w+\s*=
       | (?: (?:href|src)\s*=\s*['"]? | url\( ) \s* ['"]? (?:https?:)? //""",
    re.IGNORECASE | re.VERBOSE,
)


class IconError(ValueError):
    """This is no icon that can be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class Icon:
    src: str
    mime_type: str = ""
    size: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The icon in MCP's format."""
        inline = {"mimeType": self.mime_type, "sizes": [self.size]} if self.inline else {}
        return {"src": self.src, **inline}

    @property
    def inline(self) -> bool:
        return self.src.startswith("data:")

    @property
    def identity(self) -> str:
        """Equal for equal icons, and short enough for people to compare."""
        return f"{self.mime_type} {hashlib.sha256(self.src.encode()).hexdigest()}" if self.inline else self.src


def icon(declared: str) -> Icon:
    """Check what an author declared.

    Raises:
        IconError
    """
    if not declared.startswith("data:"):
        if not _HTTPS.fullmatch(declared):
            raise IconError("it must be a data: address, or an address that begins with https:// and names a host")
        return Icon(declared)
    match = _DATA.fullmatch(declared)
    if match is None:
        raise IconError("a data: address must be image/png or image/svg+xml, in base64")
    try:
        content = base64.b64decode(match[2], validate=True)
    except binascii.Error as error:
        raise IconError(f"it is not base64 ({error})") from error
    mime_type, size = _type_and_size(content)
    if mime_type != match[1]:
        raise IconError(f"its declared type is {match[1]}, but its content is {mime_type}")
    return Icon(declared, mime_type, size)


def _type_and_size(content: bytes) -> tuple[str, str]:
    if len(content) > MAX_BYTES:
        raise IconError(f"it is larger than {MAX_BYTES} bytes")
    if content.startswith(_PNG) and content[12:16] == b"IHDR" and len(content) >= 24:
        width, height = (int.from_bytes(content[place : place + 4]) for place in (16, 20))
        if not (1 <= width <= MAX_PIXELS and 1 <= height <= MAX_PIXELS):
            raise IconError(f"it is {width} by {height} pixels; at most {MAX_PIXELS} each way")
        return "image/png", f"{width}x{height}"
    if _SVG.match(content):
        if active := _ACTIVE.search(content):
            raise IconError(f"it has active content: {active[0].decode(errors='replace').strip()!r}")
        return "image/svg+xml", "any"
    raise IconError("it is neither PNG nor SVG")
