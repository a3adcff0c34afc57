"""What a browser makes of a page: elements with their attributes and text, forms as they would be sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from typing import Any

from django.test import Client

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass(eq=False)
class Element:
    tag: str
    attributes: dict[str, str]
    parents: list[Element] = field(repr=False)
    texts: list[str] = field(repr=False)
    begin: int = 0
    end: int | None = None

    @property
    def text(self) -> str:
        """What stands between its tags; `texts` are those of the whole page."""
        return "".join(f"{text} " for text in self.texts[self.begin : self.end])

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]


@dataclass(eq=False)
class Page(HTMLParser):
    html: str = field(repr=False)
    status: int = 200

    @cached_property
    def elements(self) -> list[Element]:
        """Parsed on first use: many tests read only the status, and parsing takes a third of a request."""
        HTMLParser.__init__(self, convert_charrefs=True)
        self._open: list[Element] = []
        self._texts: list[str] = []
        self._elements: list[Element] = []
        self.feed(self.html)
        return self._elements

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        here = len(self._texts)
        element = Element(tag, {name: value or "" for name, value in attrs}, list(self._open), self._texts, here)
        self._elements.append(element)
        if tag in VOID:
            element.end = here
        else:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].tag == tag:
                for closed in self._open[index:]:
                    closed.end = len(self._texts)
                del self._open[index:]
                return

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Elements of a kind; `class_` asks for one of the classes, other attributes for the whole value."""
        wanted_class = attributes.pop("class_", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and all(element.attributes.get(name.replace("_", "-")) == value for name, value in attributes.items())
            and (wanted_class is None or wanted_class in element.attributes.get("class", "").split())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} of {tag} {attributes}"
        return found[0]

    @property
    def text(self) -> str:
        return " ".join(self.one("body").text.split())

    @property
    def messages(self) -> list[str]:
        return [
            " ".join(element.text.split())
            for element in self.all("li")
            if any("hub-messages" in parent.attributes.get("class", "") for parent in element.parents)
        ]

    @property
    def addresses(self) -> list[str]:
        return [element.attributes.get("href", "") for element in self.all("a")]

    def switch(self, name: str) -> Element:
        return self.one("button", role="switch", aria_label=name)


def page(browser: Client, address: str, **data: Any) -> Page:
    """Open an address, following redirects like a browser."""
    return _page(browser.get(address, data, follow=True))


def sent(browser: Client, address: str, **data: Any) -> Page:
    """Send a form, following redirects like a browser."""
    return _page(browser.post(address, data, follow=True))


def _page(response: Any) -> Page:
    return Page(response.content.decode(), response.status_code)
