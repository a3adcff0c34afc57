"""Pictures of tools, for lists that people look at: small, checked, and carried along.

A picture that stands beside a tool's file becomes a `data:` address: whoever shows it fetches nothing from anywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# It is in the list of tools that every agent gets, once for each tool that has it.
MOST_BYTES: Final = 8 * 1024
MOST_PIXELS: Final = 1024

_HTTPS: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:/[!-~]{0,2000})?")
_DATA: Final = re.compile(r"data:(image/(?:png|svg\+xml));base64,([A-Za-z0-9+/=]*)")
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_SVG: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^\[>]*>\s*)?(?:<!--.*?-->\s*)*<svg[\s/>]", re.DOTALL
)
# What makes a document of a picture: scripts, entities, and what is fetched from elsewhere.
_ACTIVE: Final = re.compile(
    rb"""<script | <foreignobject | <!entity | javascript: | @import | \son\w+\s*=
       | (?: (?:href|src)\s*=\s*['"]? | url\( ) \s* ['"]? (?:https?:)? //""",
    re.IGNORECASE | re.VERBOSE,
)


class IconError(ValueError):
    """This is no picture that can be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class Icon:
    src: str
    mime_type: str = ""
    size: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As MCP lists it."""
        shown: dict[str, Any] = {"src": self.src}
        if self.mime_type:
            shown |= {"mimeType": self.mime_type, "sizes": [self.size]}
        return shown

    @property
    def inline(self) -> bool:
        return self.src.startswith("data:")

    @property
    def identity(self) -> str:
        """The same for the same picture, and short enough to be compared by people."""
        return f"{self.mime_type} {hashlib.sha256(self.src.encode()).hexdigest()}" if self.inline else self.src


def icon(declared: str | Path, folder: Path) -> Icon:
    """What an author declared: an `https:` or `data:` address, or a file as seen from the folder.

    Raises:
        IconError
    """
    text = str(declared)
    if text.startswith("data:"):
        found = _DATA.fullmatch(text)
        if found is None:
            raise IconError("a data: address must be image/png or image/svg+xml, in base64")
        try:
            content = base64.b64decode(found[2], validate=True)
        except binascii.Error as error:
            raise IconError(f"it is not base64 ({error})") from error
        made = _of(content)
        if made.mime_type != found[1]:
            raise IconError(f"it says that it is {found[1]}, and is {made.mime_type}")
        return made
    if "://" in text:
        if not _HTTPS.fullmatch(text):
            raise IconError("an address must begin with https:// and name a host")
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
        if found := _ACTIVE.search(content):
            raise IconError(f"it is more than a picture: {found[0].decode(errors='replace').strip()!r}")
        return _inlined(content, "image/svg+xml", "any")
    raise IconError("it is neither PNG nor SVG")


def _inlined(content: bytes, mime_type: str, size: str) -> Icon:
    return Icon(f"data:{mime_type};base64,{base64.b64encode(content).decode()}", mime_type, size)
