"""Answers that are larger than a call's budget: kept whole, and replaced by their outline."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from tools_app import answers as parts
from tools_app.answers import Document, PageRequest
from tools_app.base import conf, database
from tools_app.catalog import catalog
from tools_app.catalog.entry import READER
from tools_app.engine import shelf
from tools_app.engine.answers import Answer
from tools_app.journal.writer import PATIENCE
from tools_app.models import StoredAnswer
from tools_app.sdk import heavy
from tools_app.sdk.context import Caller, Kept, NotKeptError
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.hub_errors import AnswerNotFoundError, StorageBusyError
from tools_app.sdk.tool import Tool
from tools_app.text.budget import written

log = logging.getLogger("tools_app.calls")

# An answer that is read goes on being read: for so long the last one is held ready.
_HELD_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Fitting:
    """What becomes of an answer that is larger than its call may have."""

    tool: Tool
    caller: Caller
    call_id: str
    tokens: int
    # So long it is kept; 0 where nothing is.
    seconds: float
    # Whether the caller could read on.
    readable: bool

    async def fitted(self, answer: Answer) -> Answer:
        """Its outline; the answer itself, where only its pictures and sounds are large."""
        if answer.content is not None and len(answer.text.encode()) <= parts.bytes_of(self.tokens):
            return answer  # Pictures and sounds are not read as text.
        document, content, is_text = await heavy.aside(_prepared, self.tool, answer)
        about = document, len(content), self.tokens
        try:
            kept = await self._kept(content, is_text=is_text)
        except NotKeptError as error:
            log.info("[%s] Answer of %d bytes outlined, and not kept: %s", self.tool.name, len(content), error)
            made = await heavy.aside(parts.outline_alone, *about, str(error))
        else:
            log.info("[%s] Answer of %d bytes outlined, and kept", self.tool.name, len(content))
            made = await heavy.aside(parts.outline, *about, handle=kept.pk, expires_at=kept.expires_at)
        return _replaced(self.tool, answer, made)

    async def _kept(self, content: bytes, *, is_text: bool) -> StoredAnswer:
        if self.seconds and not self.readable:
            raise NotKeptError(f"{READER} cannot be called here")
        return await _put_on_shelf(
            content,
            is_text=is_text,
            caller=self.caller,
            tool=self.tool.name,
            call_id=self.call_id,
            seconds=self.seconds,
        )


async def _put_on_shelf(
    content: bytes, *, is_text: bool, caller: Caller, tool: str, call_id: str, seconds: float
) -> StoredAnswer:
    """Raises: NotKeptError."""
    if not seconds:
        raise NotKeptError("this hub keeps no answers")
    try:
        async with asyncio.timeout(PATIENCE):
            return await database.run(
                shelf.keep, content, is_text=is_text, caller=caller, tool=tool, call_id=call_id, seconds=seconds
            )
    except TimeoutError as error:
        raise NotKeptError("the hub's database does not answer") from error


class Shelf:
    """The kept answers, as they are read. Used on one event loop."""

    def __init__(self) -> None:
        # Whoever reads a page soon reads the next: opening an answer takes longer than reading in it.
        self._held: tuple[str, Document] | None = None
        self._letting_go: asyncio.TimerHandle | None = None

    async def page(
        self, caller: Caller, handle: str, request: PageRequest, most_bytes: int
    ) -> tuple[dict[str, Any], bool]:
        """A page, and whether it may hold what outsiders wrote.

        Raises:
            AnswerNotFoundError, InvalidArgumentsError, StorageBusyError
        """
        document, passes_on = await self.document(caller, handle)
        try:
            page = await heavy.aside(parts.page, document, request, handle=handle, most_bytes=most_bytes)
        except parts.PageError as error:
            raise InvalidArgumentsError(problems=[Problem(f"/{error.field}", str(error))]) from error
        return page, passes_on

    async def document(self, caller: Caller, handle: str) -> tuple[Document, bool]:
        """All of one, and whether it may hold what outsiders wrote.

        Raises:
            AnswerNotFoundError, StorageBusyError
        """
        held = self._held
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await database.run(shelf.found, handle, caller, with_content=not held or held[0] != handle)
        except TimeoutError as error:
            raise StorageBusyError(detail=error) from error
        entry = (await catalog.fresh()).seen_by(caller).find(answer.tool_name)
        if entry is None or entry.tool is None or not entry.callable:
            # Whoever may not call the tool any more has nothing left of it.
            raise AnswerNotFoundError.of(handle)
        passes_on = entry.tool.passes_on
        if held is not None and held[0] == handle:
            return held[1], passes_on
        document = await heavy.aside(_opened, answer)
        self._hold(handle, document)
        return document, passes_on

    def _hold(self, handle: str, document: Document) -> None:
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._held = handle, document
        self._letting_go = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._let_go)

    def _let_go(self) -> None:
        self._held = None


@dataclass(slots=True)
class Reading:
    """What is kept for one caller: read in pages that fit one call, and added to by its tool."""

    shelf: Shelf
    caller: Caller
    most_bytes: int
    tool: str
    call_id: str
    # Whether what was read of them may hold what outsiders wrote.
    untrusted: bool = False

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        page, passes_on = await self.shelf.page(self.caller, handle, request, self.most_bytes)
        self.untrusted = self.untrusted or passes_on
        return page

    async def value(self, handle: str) -> Any:
        document, passes_on = await self.shelf.document(self.caller, handle)
        self.untrusted = self.untrusted or passes_on
        return document.value

    async def keep(self, value: Any) -> Kept:
        answer = await _put_on_shelf(
            # ASCII, since a text may hold half of a character.
            await asyncio.to_thread(lambda: json.dumps(value).encode()),
            is_text=False,
            caller=self.caller,
            tool=self.tool,
            call_id=self.call_id,
            seconds=conf.value("TOOLHUB_ANSWER_SECONDS"),
        )
        return Kept(answer.pk, answer.expires_at)


def _prepared(tool: Tool, answer: Answer) -> tuple[Document, bytes, bool]:
    """What is to be outlined, what is to be kept of it, and whether that is a text."""
    if answer.content is not None:
        data: Any = answer.text
    else:
        data = answer.value["data"] if tool.done else answer.value
    is_json = data is answer.value and tool.text_form is None
    text = answer.text if is_json or isinstance(data, str) else written(data)
    return parts.beginning_of(data), (data if isinstance(data, str) else text).encode(), isinstance(data, str)


def _opened(answer: StoredAnswer) -> Document:
    return parts.opened(shelf.content_of(answer), text=answer.is_text)


def _replaced(tool: Tool, answer: Answer, made: dict[str, Any]) -> Answer:
    """The answer with its outline in the place of its data."""
    if answer.content is None:
        value = {**answer.value, "data": made} if tool.done else made
        text = written(value)
        size = len(text.encode())
        return Answer(value, text, made, size, untrusted=answer.untrusted, left_out=answer.left_out)
    text = written(made)
    shown = [{"type": "text", "text": text}, *filter(_is_media, answer.content)]
    size = len(written(shown).encode())
    return Answer(shown, text, None, size, shown, untrusted=answer.untrusted, left_out=answer.left_out)


def _is_media(piece: dict[str, Any]) -> bool:
    return "data" in piece or "blob" in piece.get("resource", ())
