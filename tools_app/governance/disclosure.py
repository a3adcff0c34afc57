"""What a call would be given, as it is shown to those who approve it: all of it, secrets alone masked.

What is approved is what runs, so nothing is cut. A secret is masked only where the mask can hide nothing else: it has
to be a single token, without white space and without what separates commands or addresses. It is shown by its length
and a hash, so that two of them can be told apart. What looks like a secret and is no such token is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.base import secrets
from tools_app.engine import approvals
from tools_app.models import Approval
from tools_app.sdk.errors import ValidationError
from tools_app.text import redaction
from tools_app.text.redaction import MASK, is_secret

_TOKEN: Final = re.compile(r"[A-Za-z0-9][\w.+/=~@!#%^*,?-]*", re.ASCII)
# What stands before the secret within the value of a header.
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|digest)\s+", re.IGNORECASE)
_QUOTED: Final = re.compile(r"""(b?\\*["'])(.*?)(\\*["'])""", re.DOTALL)
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
# “Bearer” and a word in the middle of a text are no token: those are longer.
FEWEST_OF_SCHEME: Final = 16
# Indented JSON of deep lists is mostly blanks.
MOST_INDENTED: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disclosure:
    arguments: Any
    """Everything that the call would be given, its secrets masked."""
    masked: int
    """How many parts of it are masked."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What the arguments name of the caller's kept answers, by handle; its secrets masked."""

    @property
    def text(self) -> str:
        """The arguments as people read them, and after them the kept answers."""
        # JSON has no line breaks within texts: no argument can look like the heading of a kept answer.
        parts = [_written(self.arguments), *(f"{handle}:\n{_written(value)}" for handle, value in self.kept.items())]
        return "\n\n".join(parts)


def of(arguments: Any, kept: Mapping[str, Any] | None = None) -> Disclosure:
    copy = _Copy()
    shown = copy.of(arguments)
    held = {handle: copy.of(value) for handle, value in (kept or {}).items()}
    return Disclosure(shown, copy.masked, held)


def of_approval(approval: Approval) -> Disclosure | None:
    """What an approval is about; None where that cannot be read, or not all of it be shown."""
    arguments = approval.call_arguments()
    if arguments is None:
        return None
    try:
        return of(arguments, approvals.kept_values(arguments, approval.tool_name, approval.caller_id))
    except ValidationError:
        return None


def _written(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MOST_INDENTED else json.dumps(value, ensure_ascii=False)


class _Copy:
    """One pass over JSON; knows how much of it is masked."""

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
        """Keys are shown as they are: two that became equal would hide one of their values."""
        named = redaction.name_of_value(value)
        return {
            key: self._value(item) if is_secret(key) or (key == "value" and is_secret(named)) else self.of(item)
            for key, item in value.items()
        }

    def _value(self, item: Any) -> Any:
        """What stands under the name of a secret. Lists and objects are no secrets: they may hold anything."""
        if isinstance(item, str) and item:
            scheme = found[0] if (found := _SCHEME.match(item)) else ""
            masked = self._mask(item[len(scheme) :])
            return self.of(item) if masked is None else f"{scheme}{masked}"
        return self.of(item)

    def _replacement(self, found: re.Match[str], masked: str) -> str | None:
        """What is shown for something in a text that looks like a secret; None: the text itself."""
        before, _, after = masked.partition(MASK)
        secret = found[0]
        if not secret.startswith(before) or not secret.endswith(after):
            return None
        secret = secret[len(before) : len(secret) - len(after)]
        if secret.startswith("-----BEGIN "):
            return _KEY_LINE.sub(lambda line: self._mask(line[0]) or line[0], secret)
        if before == "://":
            user, colon, password = secret.partition(":")
            before, secret = (f"{before}{user}{colon}", password) if colon else (before, secret)
        elif quoted := _QUOTED.fullmatch(secret):
            before, secret, after = before + quoted[1], quoted[2], quoted[3] + after
        bare = secret.lstrip()
        before += secret[: len(secret) - len(bare)]
        if scheme := _SCHEME.match(bare):
            before, bare = before + scheme[0], bare[scheme.end() :]
        if _SCHEME.fullmatch(before) and len(bare) < FEWEST_OF_SCHEME:
            return None
        hidden = self._mask(bare)
        return None if hidden is None else f"{before}{hidden}{after}"

    def _mask(self, secret: str) -> str | None:
        if not _TOKEN.fullmatch(secret):
            return None
        self.masked += 1
        return f"{MASK}({len(secret)} characters, {secrets.fingerprint(secret)})"
