"""JSON whose texts have placeholders, such as `{"text": "{summary}"}`. Nothing else is interpreted.

Values are put into texts of the parsed document, so that no value can change its structure, and once, so that a value
with a placeholder in it stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

_PLACEHOLDER: Final = re.compile(r"\{([a-z_]{1,32})\}")


class TemplateError(ValueError):
    """The template is wrong; the message continues `The template …`."""


def checked(template: str, known: Set[str]) -> None:
    """Raises: TemplateError."""
    unknown: set[str] = set()

    def find(text: str) -> str:
        unknown.update(name for name in _PLACEHOLDER.findall(text) if name not in known)
        return text

    _mapped(_parsed(template), find)
    if unknown:
        names = ", ".join(f"{{{name}}}" for name in sorted(known))
        raise TemplateError(f"has the unknown placeholder {{{min(unknown)}}}; known are {names}")


def filled(template: str, values: Mapping[str, str]) -> Any:
    """The document, with values instead of placeholders.

    Raises:
        TemplateError
    """
    return _mapped(_parsed(template), lambda text: _PLACEHOLDER.sub(lambda match: values.get(match[1], ""), text))


def without_placeholders(template: str) -> str:
    return _PLACEHOLDER.sub("", template)


def _parsed(template: str) -> dict[str, Any]:
    try:
        document = json.loads(template)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise TemplateError("must be a JSON object")
    return document


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A copy with changed texts. Names of fields stay."""
    match value:
        case str():
            return change(value)
        case dict():
            return {name: _mapped(part, change) for name, part in value.items()}
        case list():
            return [_mapped(part, change) for part in value]
    return value
