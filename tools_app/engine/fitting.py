"""Answers larger than the budget of their call: stored in full, and replaced by an outline."""

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
from tools_app.catalog.entry import READER, Entry
from tools_app.engine import shelf
from tools_app.engine.answers import Answer
from tools_app.journal.writer import PATIENCE
from tools_app.models import StoredAnswer
from tools_app.sdk import heavy
from tools_app.sdk.context import Caller, Kept, NotKeptError
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.hub_errors import AnswerNotFoundError, StorageBusyError
from tools_app.sdk.spec import ToolSpec
from tools_app.text.budget import written

log = logging.getLogger("tools_app.calls")

# Pages are usually read one after the other: the last document stays in memory for this long.
_HELD_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Fitting:
    """How an answer that exceeds the budget of its call is replaced."""

    entry: Entry
    caller: Caller
    call_id: str
    tokens: int
    # How long the answer is stored; 0: not at all.
    seconds: float
    # True if the caller can read the stored answer.
    readable: bool

    async def fitted(self, answer: Answer) -> Answer:
        """Its outline; the answer itself if only its images and audio are large."""
        if answer.content is not None and len(answer.text.encode()) <= parts.bytes_of(self.tokens):
            return answer  # Images and audio are not read as text.
        document, content, is_text = await heavy.aside(_prepared, self.entry.spec, answer)
        about = document, len(content), self.tokens
        try:
            row = await self._store(content, is_text=is_text)
        except NotKeptError as error:
            log.info("[%s] Answer of %d bytes outlined, not stored: %s", self.entry.name, len(content), error)
            outline = await heavy.aside(parts.outline_alone, *about, str(error))
        else:
            log.info("[%s] Answer of %d bytes outlined and stored", self.entry.name, len(content))
            outline = await heavy.aside(parts.outline, *about, handle=row.pk, expires_at=row.expires_at)
        return _replaced(self.entry.spec, answer, outline)

    async def _store(self, content: bytes, *, is_text: bool) -> StoredAnswer:
        if self.seconds and not self.readable:
            raise NotKeptError(f"{READER} cannot be called here")
        return await _put_on_shelf(
            content,
            is_text=is_text,
            caller=self.caller,
            tool=self.entry.name,
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
    """Reads stored answers. Used on one event loop."""

    def __init__(self) -> None:
        # The last document: a caller usually reads page after page, and parsing takes longer than reading a page.
        self._last: tuple[str, Document] | None = None
        self._eviction: asyncio.TimerHandle | None = None

    async def page(
        self, caller: Caller, handle: str, request: PageRequest, most_bytes: int
    ) -> tuple[dict[str, Any], bool]:
        """A page, and whether it may contain text from outside the hub.

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
        """A whole answer, and whether it may contain text from outside the hub.

        Raises:
            AnswerNotFoundError, StorageBusyError
        """
        last = self._last
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await database.run(shelf.find, handle, caller, with_content=not last or last[0] != handle)
        except TimeoutError as error:
            raise StorageBusyError(detail=error) from error
        entry = (await catalog.fresh()).seen_by(caller).find(answer.tool_name)
        if entry is None or not entry.callable:
            # A caller that may not call the tool any more cannot read its answers either.
            raise AnswerNotFoundError.of(handle)
        passes_on = entry.spec.passes_on
        if last is not None and last[0] == handle:
            return last[1], passes_on
        document = await heavy.aside(_open, answer)
        self._hold(handle, document)
        return document, passes_on

    def _hold(self, handle: str, document: Document) -> None:
        if self._eviction is not None:
            self._eviction.cancel()
        self._last = handle, document
        self._eviction = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._drop)

    def _drop(self) -> None:
        self._last = None


@dataclass(slots=True)
class Reading:
    """The stored answers of one caller: read in pages that fit one call; its tool can add more."""

    shelf: Shelf
    caller: Caller
    most_bytes: int
    tool: str
    call_id: str
    # True if a page that was read contains untrusted content.
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
            # ASCII, since text may contain unpaired surrogates.
            await asyncio.to_thread(lambda: json.dumps(value).encode()),
            is_text=False,
            caller=self.caller,
            tool=self.tool,
            call_id=self.call_id,
            seconds=conf.value("TOOLHUB_ANSWER_SECONDS"),
        )
        return Kept(answer.pk, answer.expires_at)


def _prepared(spec: ToolSpec, answer: Answer) -> tuple[Document, bytes, bool]:
    """The document to outline, the content to store, and whether that is text."""
    if answer.content is not None:
        data: Any = answer.text
    else:
        data = answer.value["data"] if spec.done else answer.value
    is_json = data is answer.value and not spec.formats_text
    text = answer.text if is_json or isinstance(data, str) else written(data)
    return parts.beginning_of(data), (data if isinstance(data, str) else text).encode(), isinstance(data, str)


def _open(answer: StoredAnswer) -> Document:
    return parts.opened(shelf.content_of(answer), text=answer.is_text)


def _replaced(spec: ToolSpec, answer: Answer, outline: dict[str, Any]) -> Answer:
    """The answer with its data replaced by the outline."""
    if answer.content is None:
        value = {**answer.value, "data": outline} if spec.done else outline
        text = written(value)
        size = len(text.encode())
        return Answer(value, text, outline, size, untrusted=answer.untrusted, left_out=answer.left_out)
    text = written(outline)
    pieces = [{"type": "text", "text": text}, *filter(_is_media, answer.content)]
    size = len(written(pieces).encode())
    return Answer(pieces, text, None, size, pieces, untrusted=answer.untrusted, left_out=answer.left_out)


def _is_media(piece: dict[str, Any]) -> bool:
    return "data" in piece or "blob" in piece.get("resource", ())
