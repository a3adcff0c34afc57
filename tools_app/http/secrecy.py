"""The secrets of a connection: header values that must never appear elsewhere, and their masking in texts."""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote

from tools_app.sdk.errors import ConfigurationError
from tools_app.text import redaction

_SHORTEST: Final = 4  # anything shorter occurs in every text
# For response bodies: a shorter secret would mask ordinary words, and the gaps would reveal it.
_SHORTEST_IN_ANSWERS: Final = 8
_SHORTEST_PIECE: Final = 16
_MOST_PIECES: Final = 200
_BETWEEN: Final = re.compile(r"""\\+[nrt"/]|[\s"'{}\[\],:]+""")
# Of a value, so that its forms are few enough.
_MOST_IN_ANSWERS: Final = 4_000
_MASK: Final = redaction.MASK.encode()
_URL_SAFE: Final = str.maketrans("+/", "-_")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Secrets:
    """Headers that only the upstream gets. Its repr hides them, and it masks them in texts."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            # Checked here: a library that checks it later would repeat the value in its error message.
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ConfigurationError(
                    "The key of this connection contains characters that are not allowed in an HTTP header",
                    next_step="Set it again, without line breaks or surrounding spaces.",
                )
        self.headers: Final = tuple((name.lower(), value) for name, value in headers.items())
        plain = {form for _, value in self.headers for form in _plain(value) if len(form) >= _SHORTEST}
        forms = sorted({form for secret in plain for form in _forms(secret)}, key=len, reverse=True)
        pattern = "|".join(map(re.escape, forms))
        self._forms: Final = re.compile(pattern, re.IGNORECASE) if pattern else None
        # Not digits alone: they may be a JSON number, which a mask would make invalid.
        self._in_answers: Final = tuple(
            form.encode()
            for form in forms
            if len(form) >= _SHORTEST_IN_ANSWERS and not (form.isdigit() and form in plain)
        )

    def masked_in(self, text: str) -> str:
        """The text without these secrets."""
        return text if self._forms is None else self._forms.sub(redaction.MASK, text)

    def hidden_in(self, text: str) -> str:
        """The text without these secrets and anything else that looks like one."""
        return redaction.redacted_text(self.masked_in(text))

    def masked_body(self, body: bytes) -> bytes:
        """A response body without these secrets. Fast if it contains none, which is nearly always."""
        for form in self._in_answers:
            if form in body:
                body = body.replace(form, _MASK)
        return body

    def __repr__(self) -> str:
        return f"<Secrets {', '.join(name for name, _ in self.headers)}>"


def mask_of(values: Iterable[str]) -> Callable[[bytes], bytes] | None:
    """What removes these values from a body of JSON, also those that no header can have; None if there are none."""
    values = set(values)
    sendable = {value for value in values if len(value) <= _MOST_IN_ANSWERS and _HEADER_VALUE.fullmatch(value)}
    secrets = Secrets({f"x-{number}": value for number, value in enumerate(sorted(sendable))})
    forms = {piece for value in values - sendable for piece in _pieces(value)}
    for _ in range(2):  # JSON in a text of JSON
        forms |= {escaped for form in forms for escaped in _in_json(form)}
    pieces = [form.encode() for form in forms]
    if not values:
        return None

    def mask(body: bytes) -> bytes:
        body = secrets.masked_body(body)
        for piece in pieces:
            if piece in body:
                body = body.replace(piece, _MASK)
        return body

    return mask


def _pieces(value: str) -> list[str]:
    """The parts of a value in which it is recognised: a key of several lines can be shown in any layout."""
    if len(value.splitlines()) == 1:
        return [value] if len(value) >= _SHORTEST_IN_ANSWERS else []
    # Not what could be a word or the syntax of an answer.
    return [piece for piece in _BETWEEN.split(value) if len(piece) >= _SHORTEST_PIECE][:_MOST_PIECES]


def _plain(value: str) -> set[str]:
    """A header value and the secrets in it: without the scheme, and the password of Basic authentication."""
    plain = {value}
    scheme, _, rest = value.partition(" ")
    if rest:
        plain.add(rest)
        if scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                plain.add(base64.b64decode(rest, validate=True).decode().partition(":")[2])
    return plain


def _forms(secret: str) -> set[str]:
    """All forms in which a secret may be echoed: plain, URL-encoded, HTML, base64, hex and JSON."""
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
    return forms | {escaped for form in forms for escaped in _in_json(form)}


def _in_json(text: str) -> set[str]:
    """The JSON escapes of Python, PHP, Go and .NET: most escape more than necessary."""
    escaped = json.dumps(text)[1:-1]
    variants = {escaped, escaped.replace("/", r"\/")}
    for characters in ("<>&", "<>&+'\"`"):
        for number in (r"\u{:04x}", r"\u{:04X}"):
            variants.add("".join(number.format(ord(c)) if c in characters else json.dumps(c)[1:-1] for c in text))
    return variants


def _in_base64(secret: bytes, before: int) -> str:
    """The base64 of a secret after `before` other bytes: only the characters that depend on the secret alone."""
    text = base64.b64encode(bytes(before) + secret).decode()
    return text[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]
