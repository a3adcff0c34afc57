"""Redmine as tests use it, real or not: calls of tools, and checks of their answers by the document."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from toolhub import testing
from tools_app.packs.redmine import (
    attachments,
    copies,
    issues,
    lists,
    members,
    notes,
    pack,
    planning,
    projects,
    prompts,
    relations,
    search,
    sums,
    time_entries,
    users,
    watchers,
    wiki,
)
from tools_app.packs.redmine.xml import DECLARATION, document
from tools_app.sdk.errors import ToolError
from tools_app.text import hygiene

# A pack has the tools of its modules, once these are imported.
MODULES = (
    *(
        attachments,
        copies,
        issues,
        lists,
        members,
        notes,
        planning,
        projects,
        prompts,
        relations,
        search,
        sums,
        time_entries,
    ),
    *(users, watchers, wiki),
)
TOOLS = {tool.name: tool for tool in pack.tools}


@dataclass
class Office:
    """`keys` are those of `admin`, `manager`, `dev` and `limited`."""

    url: str
    keys: Mapping[str, str]

    @contextmanager
    def as_(self, login: str) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REDMINE_HOST", self.url)
            patch.setenv("REDMINE_API_KEY", self.keys.get(login, "0" * 40))
            yield

    def call(self, login: str, name: str, /, **arguments: Any) -> Any:
        """What a tool answers, which fits its output schema, and is XML that a strict parser reads."""
        with self.as_(login):
            data = testing.call(TOOLS[name], **arguments)
        assert parsed(data).tag == next(iter(data))
        told = os.fsencode(str(data))
        assert not [key for key in self.keys.values() if key.encode() in told]
        return data

    def refusal(self, login: str, name: str, /, **arguments: Any) -> ToolError:
        """Why a tool does not do it."""
        with self.as_(login), pytest.raises(ToolError) as caught:
            testing.call(TOOLS[name], **arguments)
        return caught.value


def parsed(data: Any) -> Element:
    """The text that agents read, as a tree."""
    text = document(hygiene.cleaned_json(data))
    assert text.startswith(DECLARATION)
    return read(text)


def assert_is_a_tool_response(wire: dict[str, Any]) -> None:
    """The assertion of the user's document."""
    assert isinstance(wire["isError"], bool)
    assert wire["content"]
    for item in wire["content"]:
        assert item["type"] in ("text", "image", "resource")
        assert item["type"] != "text" or isinstance(item["text"], str)


def read(text: str) -> Element:
    """The standard parser is strict, and reads only our own output here."""
    return fromstring(text.encode())  # noqa: S314
