"""Icons of tools: small, validated, and inlined.

An icon file beside the tool becomes a `data:` URL, so that clients do not fetch it from anywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# An icon is sent to every agent with the list of tools, once for each tool that has it.
MOST_BYTES: Final = 8 * 1024
MOST_PIXELS: Final = 1024

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
    """The icon is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class Icon:
    src: str
    mime_type: str = ""
    size: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As in MCP lists."""
        fields: dict[str, Any] = {"src": self.src}
        if self.mime_type:
            fields |= {"mimeType": self.mime_type, "sizes": [self.size]}
        return fields

    @property
    def inline(self) -> bool:
        return self.src.startswith("data:")

    @property
    def identity(self) -> str:
        """Equal for equal icons, and short enough for people to compare."""
        return f"{self.mime_type} {hashlib.sha256(self.src.encode()).hexdigest()}" if self.inline else self.src


def icon(declared: str | Path, folder: Path) -> Icon:
    """The icon from an `https:` or `data:` URL, or from a file relative to the folder.

    Raises:
        IconError: it is not a valid icon, or the file cannot be read.
    """
    text = str(declared)
    if text.startswith("data:"):
        match = _DATA.fullmatch(text)
        if match is None:
            raise IconError("a data: URL must be image/png or image/svg+xml, in base64")
        try:
            content = base64.b64decode(match[2], validate=True)
        except binascii.Error as error:
            raise IconError(f"it is not base64 ({error})") from error
        inline_icon = _of(content)
        if inline_icon.mime_type != match[1]:
            raise IconError(f"its declared type is {match[1]}, but its content is {inline_icon.mime_type}")
        return inline_icon
    if "://" in text:
        if not _HTTPS.fullmatch(text):
            raise IconError("a URL must begin with https:// and name a host")
        return Icon(text)
    try:
        with (folder / declared).open("rb") as file:
            return _of(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise IconError(f"{folder / declared} cannot be read ({error.strerror})") from error


def _of(content: bytes) -> Icon:
    if len(content) > MOST_BYTES:
        raise IconError(f"it is larger than {MOST_BYTES} bytes")
    if content.startswith(_PNG) and content[12:16] == b"IHDR" and len(content) >= 24:
        width, height = (int.from_bytes(content[place : place + 4]) for place in (16, 20))
        if not (1 <= width <= MOST_PIXELS and 1 <= height <= MOST_PIXELS):
            raise IconError(f"it is {width} by {height} pixels; at most {MOST_PIXELS} each way")
        return _inlined(content, "image/png", f"{width}x{height}")
    if _SVG.match(content):
        if active := _ACTIVE.search(content):
            raise IconError(f"it has active content: {active[0].decode(errors='replace').strip()!r}")
        return _inlined(content, "image/svg+xml", "any")
    raise IconError("it is neither PNG nor SVG")


def _inlined(content: bytes, mime_type: str, size: str) -> Icon:
    return Icon(f"data:{mime_type};base64,{base64.b64encode(content).decode()}", mime_type, size)
