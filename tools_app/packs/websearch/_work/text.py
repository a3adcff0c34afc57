"""Text from the web, made safe for our Markdown: on one line, without hidden characters and without markup."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

from tools_app.sdk.errors import shortened
from tools_app.text import hygiene

MOST_URL: Final = 2_000
_BUILDING: Final = re.compile(r"[\\`*\[\]<>|#]")
# Markup only at the beginning of a line: lists, rules, emphasis of the whole line.
_BEGINNING: Final = re.compile(r"[-+_=~]|[0-9]+(?=[.)](?:\s|$))")
_NOT_IN_ADDRESSES: Final = frozenset(' "<>`{}|\\^[]*')


def plain(text: str, limit: int = 1_000) -> str:
    """On one line, without invisible characters. It may still contain Markdown."""
    return shortened(" ".join(hygiene.cleaned(text).split()), limit)


def escaped(text: str, limit: int = 1_000) -> str:
    """The same, escaped so that Markdown shows it as it is, also on a line of its own."""
    result = _BUILDING.sub(r"\\\g<0>", plain(text, limit))
    if match := _BEGINNING.match(result):
        # For numbered lists escape the dot; for all else escape the first character.
        at = match.end() if match[0].isdigit() else 0
        result = f"{result[:at]}\\{result[at:]}"
    return result


def address(url: str) -> str:
    """A web URL as one word of Markdown; empty if it is invalid."""
    url = hygiene.cleaned(url).strip()
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return ""
    result = "".join(each if each.isprintable() and each not in _NOT_IN_ADDRESSES else quote(each) for each in url)
    return result if len(result) <= MOST_URL else ""


def in_brackets(url: str) -> str:
    """A URL as the target of a Markdown link."""
    return url.replace("(", "%28").replace(")", "%29")
