"""Text from the web, as it may stand in our Markdown: on one line, with nothing hidden, and building nothing."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

from tools_app.sdk.errors import shortened
from tools_app.text import hygiene

MOST_URL: Final = 2_000
_BUILDING: Final = re.compile(r"[\\`*\[\]<>|#]")
# What builds something at the beginning of a line only: lists, rules, emphasis of the whole line.
_BEGINNING: Final = re.compile(r"[-+_=~]|[0-9]+(?=[.)](?:\s|$))")
_NOT_IN_ADDRESSES: Final = frozenset(' "<>`{}|\\^[]*')


def plain(text: str, limit: int = 1_000) -> str:
    """On one line, without what a person would not see. A word from outside may still look like Markdown."""
    return shortened(" ".join(hygiene.cleaned(text).split()), limit)


def escaped(text: str, limit: int = 1_000) -> str:
    """The same, fit to stand on a line of its own: it shows as it is."""
    shown = _BUILDING.sub(r"\\\g<0>", plain(text, limit))
    if found := _BEGINNING.match(shown):
        # A number is no list without its dot; of all else the first character is enough.
        at = found.end() if found[0].isdigit() else 0
        shown = f"{shown[:at]}\\{shown[at:]}"
    return shown


def address(url: str) -> str:
    """A web address that can be followed and stays one word of Markdown; empty where it is none."""
    url = hygiene.cleaned(url).strip()
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return ""
    shown = "".join(each if each.isprintable() and each not in _NOT_IN_ADDRESSES else quote(each) for each in url)
    return shown if len(shown) <= MOST_URL else ""


def in_brackets(url: str) -> str:
    """An address as the target of a link in Markdown."""
    return url.replace("(", "%28").replace(")", "%29")
