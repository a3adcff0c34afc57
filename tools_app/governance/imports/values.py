"""Placeholders in the configuration of clients: `${VAR}`, `${env:VAR}`, `${VAR:-default}`, `${input:id}`.

Their values come from the person who imports the file, and never from the variables of this hub.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tools_app.base.setting_table import SETTINGS
from tools_app.sdk.errors import shortened
from tools_app.text.redaction import is_secret, redacted_text

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]{0,2000})\}")
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,127})(?::-(.*))?", re.DOTALL)
_INPUT: Final = re.compile(r"input:([^}]{1,128})")
_FIXED: Final = {"/": "/", "pathSeparator": "/"}


class RefusalError(ValueError):
    """Why a server is not imported, and what to do. Contains no value."""


@dataclass(frozen=True)
class Question:
    """A value that the file leaves to the person who imports it."""

    name: str
    description: str = ""
    is_secret: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resolved:
    """A text with its placeholders replaced. `is_secret`: it must not be seen in a command or URL."""

    text: str = field(repr=False)
    is_secret: bool = False
    is_complete: bool = True
    # Not by the file.
    is_given: bool = False


@dataclass
class Resolver:
    """Replaces the placeholders of one server, and collects what is missing.

    `given`: what was entered for this import. `environment`: the variables of the importing shell, if there is one.
    """

    given: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    questions: Mapping[str, Question]
    missing: dict[str, Question] = field(default_factory=dict)
    asked: dict[str, Question] = field(default_factory=dict)
    # Variables of the shell whose values are used.
    from_shell: set[str] = field(default_factory=set)

    def resolved(self, text: str, *, name: str = "") -> Resolved:
        """`name` is that of the variable or header whose value the text is.

        Raises:
            RefusalError
        """
        states: list[Resolved] = []

        def replaced(match: re.Match[str]) -> str:
            states.append(self._value(match[1]))
            return states[-1].text

        result = _PLACEHOLDER.sub(replaced, text)
        # In a connection `${` begins a reference to a secret of the hub. The person who imports may enter one,
        # the file may not contain one, nor be completed to one.
        if result.count("${") != sum(state.text.count("${") for state in states if state.is_given):
            raise RefusalError("it contains `${` that is no placeholder")
        return Resolved(
            result,
            is_secret=(bool(name) and is_secret(name))
            or redacted_text(result) != result
            or any(state.is_secret for state in states),
            is_complete=all(state.is_complete for state in states),
        )

    def answer(self, question: Question) -> Resolved:
        """The value of a question, or its default."""
        self.asked[question.name] = question
        entered = self.given.get(question.name)
        value = entered or question.default
        if value and question.choices and value not in question.choices:
            choices = ", ".join(shortened(choice, 40) for choice in question.choices[:20])
            raise RefusalError(f"{shortened(question.name)} must be one of {choices}")
        if not value and question.default is None:
            self.missing[question.name] = question
            return Resolved("", question.is_secret, is_complete=False)
        return Resolved(value or "", question.is_secret, is_given=bool(entered))

    def _value(self, words: str) -> Resolved:
        if words in _FIXED:
            return Resolved(_FIXED[words])
        if match := _INPUT.fullmatch(words):
            return self.answer(self.questions.get(match[1]) or Question(match[1], is_secret=True))
        match = _VARIABLE.fullmatch(words)
        if match is None:
            raise RefusalError(f"the hub cannot replace ${{{shortened(words, 60)}}}: write its value in its place")
        name, default = match[1], match[2]
        if name == "userHome":
            name = "HOME"
        if is_of_the_hub(name):
            raise RefusalError(f"it refers to ${{{name}}}, a variable of this hub, which is not sent to servers")
        if name not in self.given and (value := self.environment.get(name)):
            self.from_shell.add(name)
            return Resolved(value, is_secret(name), is_given=True)
        return self.answer(Question(name, is_secret=is_secret(name), default=default))


def is_of_the_hub(name: str) -> bool:
    """Whether a variable may hold a secret of the hub itself."""
    upper = name.upper()
    return upper.startswith(("TOOLHUB_", "DJANGO_")) or (
        upper in SETTINGS and (is_secret(upper) or upper.endswith("_URL") or upper == "SECRET_KEY")
    )
