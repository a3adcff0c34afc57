"""What a connection must not give away: the values that it proves itself with."""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from tools_app.sdk.errors import ConfigurationError
from tools_app.text import redaction

_SHORTEST: Final = 4  # what is shorter stands in every text
# In answers, which people work with: a shorter secret would mask ordinary words, and be guessed by what is missing.
_SHORTEST_IN_ANSWERS: Final = 8
_MASK: Final = redaction.MASK.encode()
_URL_SAFE: Final = str.maketrans("+/", "-_")
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
        plain = {form for _, value in self.headers for form in _plain(value) if len(form) >= _SHORTEST}
        forms = sorted({form for secret in plain for form in _forms(secret)}, key=len, reverse=True)
        found = "|".join(map(re.escape, forms))
        self._forms: Final = re.compile(found, re.IGNORECASE) if found else None
        # Digits alone may be a number, whose place in JSON no mask can take.
        self._in_answers: Final = tuple(
            form.encode()
            for form in forms
            if len(form) >= _SHORTEST_IN_ANSWERS and not (form.isdigit() and form in plain)
        )

    def masked_in(self, text: str) -> str:
        """The text without these secrets."""
        return text if self._forms is None else self._forms.sub(redaction.MASK, text)

    def hidden_in(self, text: str) -> str:
        """The text without these secrets, and without whatever else looks like one."""
        return redaction.redacted_text(self.masked_in(text))

    def masked_body(self, body: bytes) -> bytes:
        """An answer of the upstream without these secrets. Quick where it has none, as nearly every answer."""
        for form in self._in_answers:
            if form in body:
                body = body.replace(form, _MASK)
        return body

    def __repr__(self) -> str:
        return f"<Secrets {', '.join(name for name, _ in self.headers)}>"


def _plain(value: str) -> set[str]:
    """A header's value, and the secret in it: without its scheme, and the password of Basic."""
    plain = {value}
    scheme, _, rest = value.partition(" ")
    if rest:
        plain.add(rest)
        if scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                plain.add(base64.b64decode(rest, validate=True).decode().partition(":")[2])
    return plain


def _forms(secret: str) -> set[str]:
    """How a secret may come back: as it is, and the way that addresses, HTML, base64, hex and JSON write it."""
    quoted = quote(secret, safe="")
    forms = {
        secret,
        quoted,
        quote(secret),
        re.sub("%..", lambda escape: escape[0].lower(), quoted),
        html.escape(secret),
    }
    if len(secret) >= _SHORTEST_IN_ANSWERS:
        encoded = secret.encode()
        forms |= {encoded.hex(), encoded.hex().upper()}
        for before in range(3):
            standard = _in_base64(encoded, before)
            forms |= {standard, standard.translate(_URL_SAFE), quote(standard, safe="")}
    return forms | {written for form in forms for written in _in_json(form)}


def _in_json(text: str) -> set[str]:
    """As Python, PHP, Go and .NET write it: most escape more than they have to."""
    escaped = json.dumps(text)[1:-1]
    written = {escaped, escaped.replace("/", r"\/")}
    for characters in ("<>&", "<>&+'\"`"):
        for number in (r"\u{:04x}", r"\u{:04X}"):
            written.add("".join(number.format(ord(c)) if c in characters else json.dumps(c)[1:-1] for c in text))
    return written


def _in_base64(secret: bytes, before: int) -> str:
    """What base64 makes of a secret that so many bytes stand before: the characters that depend on it alone."""
    text = base64.b64encode(bytes(before) + secret).decode()
    return text[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]
