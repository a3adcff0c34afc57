"""Parsing of environment variables, by the same rules for the hub's settings and the variables of packs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_WHOLE_NUMBER: Final = re.compile("-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"0", "false", "no", "off"})


class UnreadableError(ValueError):
    """The value of a variable is not valid; the message begins with the variable's name.

    `brief` is safe to show to callers: it contains neither the value nor a path.
    """

    def __init__(self, message: str, brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message

    @classmethod
    def because(cls, name: str, error: ValueError, value: str) -> UnreadableError:
        return cls(f"{name}: {error}, found {value[:60]!r}", f"{name}: {error}")


def text(variables: Mapping[str, str], name: str) -> str:
    """`NAME`, or the content of the file that `NAME_FILE` names; empty if neither is set.

    Raises:
        UnreadableError: both are set, or the file has no text or cannot be read.
    """
    value = variables.get(name, "").strip()
    file = variables.get(f"{name}_FILE", "").strip()
    if not file:
        return value
    if value:
        raise UnreadableError(f"{name}: set it or {name}_FILE, not both")
    try:
        content = Path(file).read_text(encoding="utf-8").strip()
        fault = "" if content else f"{file} is empty"
    except OSError as error:
        fault = f"cannot read {file} ({error.strerror})"
    except UnicodeDecodeError:
        fault = f"{file} is not UTF-8 text"
    if fault:
        raise UnreadableError(f"{name}_FILE: {fault}", f"{name}_FILE: the file has no text or cannot be read")
    return content


def flag(text: str) -> bool:
    """Raises: ValueError, with the accepted values. So do the functions below."""
    word = text.lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError("expected true or false")


def whole_number(text: str, low: int, high: int) -> int:
    if _WHOLE_NUMBER.fullmatch(text) and low <= int(text) <= high:
        return int(text)
    raise ValueError(f"expected a whole number from {low} to {high}")


def seconds(text: str, low: float, high: float) -> float:
    if _NUMBER.fullmatch(text) and low <= float(text) <= high:
        return float(text)
    raise ValueError(f"expected seconds from {low} to {high}")


def number(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    raise ValueError("expected a number")
