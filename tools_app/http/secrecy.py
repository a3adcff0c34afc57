"""What a connection must not give away: the values that it proves itself with."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from tools_app import redaction
from tools_app.errors import ConfigurationError

_SHORTEST: Final = 4  # what is shorter stands in every text
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Secrets:
    """Headers that only the upstream may see. Shows nothing of them, and hides them in texts."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            # Here and in our words: what checks it later would repeat it in its message.
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ConfigurationError(
                    "The key of this connection holds characters that no header can carry",
                    next_step="Set it again, without line breaks and spaces around it.",
                )
        self.headers: Final = tuple((name.lower(), value) for name, value in headers.items())
        forms = {form for _, value in self.headers for form in _forms(value) if len(form) >= _SHORTEST}
        found = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        self._forms: Final = re.compile(found, re.IGNORECASE) if found else None

    def masked_in(self, text: str) -> str:
        """The text without these secrets."""
        return text if self._forms is None else self._forms.sub(redaction.MASK, text)

    def hidden_in(self, text: str) -> str:
        """The text without these secrets, and without whatever else looks like one."""
        return redaction.redacted_text(self.masked_in(text))

    def __repr__(self) -> str:
        return f"<Secrets {', '.join(name for name, _ in self.headers)}>"


def _forms(value: str) -> set[str]:
    """How a secret may come back: as it is, without its scheme, and the way that addresses and JSON write it."""
    plain = {value}
    scheme, _, rest = value.partition(" ")
    if rest:
        plain.add(rest)
        if scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                plain.add(base64.b64decode(rest, validate=True).decode().partition(":")[2])
    return plain | {quote(form, safe="") for form in plain} | {json.dumps(form)[1:-1] for form in plain}
