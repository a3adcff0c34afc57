"""Parsing of environment variables, by the same rules for the hub's settings and the variables of packs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")

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
        quote = error.quote if isinstance(error, InvalidError) else value
        brief = f"{name}: {error}"
        return cls(brief if quote is None else f"{brief}, found {quote[:60]!r}", brief)


class InvalidError(ValueError):
    """A value that its type does not accept. `quote`: what errors repeat of it; None if it can contain a password."""

    def __init__(self, message: str, quote: str | None) -> None:
        super().__init__(message)
        self.quote = quote


@dataclass(frozen=True, slots=True)
class Type(Generic[T]):
    """The values that a variable accepts. `parse` raises ValueError for any other.

    `expected` completes the sentence “expected …”; `bounds` is its short form for numbers.
    """

    expected: str
    parse: Callable[[str], T]
    is_quoted: bool = True
    bounds: str = ""

    def __call__(self, text: str) -> T:
        """Raises: InvalidError."""
        try:
            return self.parse(text)
        except InvalidError:
            raise
        except ValueError:
            raise InvalidError(f"expected {self.expected}", text if self.is_quoted else None) from None

    def that(self, fits: Callable[[T], bool], expected: str) -> Type[T]:
        """This type, limited to the values that fit."""

        def parse(text: str) -> T:
            value = self(text)
            if not fits(value):
                raise InvalidError(f"expected {expected}", text if self.is_quoted else None)
            return value

        return Type(expected, parse, self.is_quoted, self.bounds)


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


def read(variables: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    """The parsed value of a variable, or the default if it is not set.

    Raises:
        UnreadableError: the variable or its file cannot be read, or its value is not valid.
    """
    content = text(variables, name)
    try:
        return parse(content) if content else default
    except ValueError as error:
        raise UnreadableError.because(name, error, content) from error


def _flag(text: str) -> bool:
    word = text.lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError(text)


def _number(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    raise ValueError(text)


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:  # ~NAME of an unknown user
        raise ValueError(text) from error


LINE: Final = Type("text", str)
FLAG: Final = Type("true or false", _flag)
NUMBER: Final = Type("a number", _number)
PATH: Final = Type("a path", _path)


def whole_number(low: int, high: int) -> Type[int]:
    def parse(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        raise ValueError(text)

    return Type(f"a whole number from {low} to {high}", parse, bounds=f"{low}–{high}")


def seconds(low: float, high: float) -> Type[float]:
    def parse(text: str) -> float:
        if low <= _number(text) <= high:
            return _number(text)
        raise ValueError(text)

    return Type(f"seconds from {low} to {high}", parse, bounds=f"{low}–{high}")


def choice(*choices: str) -> Type[str]:
    """One of some words, in any case."""

    def parse(text: str) -> str:
        if text.lower() in choices:
            return text.lower()
        raise InvalidError(f"expected one of {', '.join(choices)}", text.lower())

    return Type(f"one of {', '.join(choices)}", parse)


def line(fits: Callable[[str], bool], expected: str, *, is_quoted: bool = True) -> Type[str]:
    return Type("text", str, is_quoted).that(fits, expected)


def names(fits: Callable[[str], bool] = bool, expected: str = "names, separated by commas") -> Type[list[str]]:
    """A list, separated by commas. An error quotes the first item that does not fit."""

    def parse(text: str) -> list[str]:
        items = [item.strip() for item in text.split(",") if item.strip()]
        for item in items:
            if not fits(item):
                raise InvalidError(f"expected {expected}", item)
        return items

    return Type(expected, parse)
