"""The arguments of a pending call, as shown to the operators who approve it: complete, with only secrets masked.

What is approved is what runs, so nothing is truncated. A secret is masked only where the mask can hide nothing else: it
must be a single token, without white space and separators of commands or addresses. It is shown by its length and a
hash, so that two secrets can be told apart. What looks like a secret but is no such token is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.base import secrets
from tools_app.engine import approvals
from tools_app.models import Approval, StandingApproval
from tools_app.sdk.errors import ValidationError
from tools_app.text import redaction
from tools_app.text.redaction import MASK, is_secret

_TOKEN: Final = re.compile(r"[A-Za-z0-9][\w.+/=~@!#%^*,?-]*", re.ASCII)
# The authentication scheme before the secret in a header.
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|digest)\s+", re.IGNORECASE)
_QUOTATION: Final = re.compile(r"""(b?\\*["'])(.*?)(\\*["'])""", re.DOTALL)
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
# “Bearer” followed by a short word is prose: tokens are longer.
FEWEST_OF_SCHEME: Final = 16
# Deeply nested lists in indented JSON are mostly blanks.
MOST_INDENTED: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disclosure:
    arguments: Any
    """The complete arguments, with secrets masked."""
    masked_count: int
    """The number of masked parts."""
    stored_results: Mapping[str, Any] = field(default_factory=dict)
    """The stored results that the arguments name, by handle, with secrets masked."""

    @property
    def text(self) -> str:
        """The arguments, formatted for people, and after them the stored results."""
        # JSON has no line breaks within texts: no argument can look like the heading of a stored result.
        results = (f"{handle}:\n{_json(value)}" for handle, value in self.stored_results.items())
        return "\n\n".join([_json(self.arguments), *results])


def of(arguments: Any, stored_results: Mapping[str, Any] | None = None) -> Disclosure:
    copy = _MaskingCopy()
    masked_arguments = copy.of(arguments)
    masked_results = {handle: copy.of(value) for handle, value in (stored_results or {}).items()}
    return Disclosure(masked_arguments, copy.masked, masked_results)


def of_approval(approval: Approval) -> Disclosure | None:
    """The subject of an approval; None if it cannot be read or not be shown completely."""
    arguments = approval.call_arguments()
    if arguments is None:
        return None
    try:
        return of(arguments, approvals.kept_values(arguments, approval.tool_name, approval.caller_id))
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The arguments that a standing approval covers, with secrets masked."""

    same: Mapping[str, Any] = field(default_factory=dict)
    """Arguments with one value."""
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments with `enum`, or `minimum` and `maximum`."""
    free: Sequence[str] = ()
    """Arguments that can have any value, or be missing."""
    masked_count: int = 0


def of_standing(standing: StandingApproval) -> Coverage | None:
    """What it covers; None if it cannot be read."""
    schema = standing.schema()
    if schema is None:
        return None
    copy, properties = _MaskingCopy(), schema["properties"]
    same = copy.of({name: part["const"] for name, part in properties.items() if "const" in part})
    limits = {name: part for name, part in properties.items() if part and "const" not in part}
    return Coverage(
        same=same,
        limits={
            # The values of an argument with a secret's name are secrets, too.
            name: {"enum": [copy.of({name: value})[name] for value in part["enum"]]}
            if "enum" in part
            else {bound: value for bound, value in part.items() if bound != "type"}
            for name, part in limits.items()
        },
        free=sorted(name for name, part in properties.items() if not part),
        masked_count=copy.masked,
    )


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MOST_INDENTED else json.dumps(value, ensure_ascii=False)


class _MaskingCopy:
    """Copies JSON in one pass and counts what it masks."""

    def __init__(self) -> None:
        self.masked = 0

    def of(self, value: Any) -> Any:
        match value:
            case str():
                return redaction.replaced(value, self._replacement)
            case dict():
                return self._mapping(value)
            case [str() as name, str() as secret] if is_secret(name):  # a header, as a pair
                return [name, self._value(secret)]
            case list():
                return [self.of(item) for item in value]
        return value

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Keys are shown unmasked: two that became equal would hide one of their values."""
        name = redaction.name_of_value(value)
        return {
            key: self._value(item) if is_secret(key) or (key == "value" and is_secret(name)) else self.of(item)
            for key, item in value.items()
        }

    def _value(self, item: Any) -> Any:
        """The value of a secret's name. Lists and objects are no secrets: they may contain anything."""
        if isinstance(item, str) and item:
            scheme = scheme_match[0] if (scheme_match := _SCHEME.match(item)) else ""
            mask = self._mask(item[len(scheme) :])
            return self.of(item) if mask is None else f"{scheme}{mask}"
        return self.of(item)

    def _replacement(self, match: re.Match[str], masked: str) -> str | None:
        """The replacement for text that looks like a secret; None: show the text itself."""
        before, _, after = masked.partition(MASK)
        secret = match[0]
        if not secret.startswith(before) or not secret.endswith(after):
            return None
        secret = secret[len(before) : len(secret) - len(after)]
        if secret.startswith("-----BEGIN "):
            return _KEY_LINE.sub(lambda line: self._mask(line[0]) or line[0], secret)
        if before == "://":
            user, colon, password = secret.partition(":")
            before, secret = (f"{before}{user}{colon}", password) if colon else (before, secret)
        elif quotation := _QUOTATION.fullmatch(secret):
            before, secret, after = before + quotation[1], quotation[2], quotation[3] + after
        bare = secret.lstrip()
        before += secret[: len(secret) - len(bare)]
        if scheme := _SCHEME.match(bare):
            before, bare = before + scheme[0], bare[scheme.end() :]
        if _SCHEME.fullmatch(before) and len(bare) < FEWEST_OF_SCHEME:
            return None
        mask = self._mask(bare)
        return None if mask is None else f"{before}{mask}{after}"

    def _mask(self, secret: str) -> str | None:
        if not _TOKEN.fullmatch(secret):
            return None
        self.masked += 1
        return f"{MASK}({len(secret)} characters, {secrets.fingerprint(secret)})"
