"""Icons of tools: an `https:` address, or a small PNG or SVG as a `data:` address."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

# Every agent gets it in the list of tools, once for each tool that has it.
MAX_BYTES: Final = 8 * 1024

_HTTPS: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:/[!-~]{0,2000})?")
_DATA: Final = re.compile(r"data:(image/(?:png|svg\+xml));base64,([A-Za-z0-9+/=]*)")


class IconError(ValueError):
    """This is no icon that can be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class Icon:
    src: str
    mime_type: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As MCP lists it."""
        return {"src": self.src, **({"mimeType": self.mime_type} if self.mime_type else {})}

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
    if len(content) > MAX_BYTES:
        raise IconError(f"it is larger than {MAX_BYTES} bytes")
    return Icon(declared, match[1])
